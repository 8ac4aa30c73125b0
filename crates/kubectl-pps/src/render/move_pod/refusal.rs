//! Why a Pod cannot be moved.

use crate::Failure;
use crate::decide::command_line::CommandLine;
use crate::decide::move_pod::Refusal;
use crate::render::status::{Line, enable};
use crate::snapshot::WorkloadKey;

pub fn refusal(refusal: Refusal, commands: &CommandLine) -> Failure {
    match refusal {
        Refusal::Unread(unread) => Failure::Unread(unread),
        Refusal::UnreadablePps { pps, why } => {
            Failure::Refused(format!("PersistentPodState {pps} cannot be read: {why}"))
        }
        Refusal::NoPod { namespace, pod } => Failure::Usage(format!(
            "there is no Pod {pod} in namespace {namespace}, and it has no recorded state"
        )),
        Refusal::NoController { pod } => {
            Failure::Refused(format!("Pod {pod} has no controller to create it again"))
        }
        Refusal::NoWorkload { pod, workload } => {
            let WorkloadKey { kind, name, .. } = &*workload;
            Failure::Refused(format!(
                "create {kind} {name} first: nothing else would create Pod {pod} again"
            ))
        }
        Refusal::NotGoverned {
            pod,
            workload,
            waits,
        } => {
            let WorkloadKey {
                namespace,
                kind,
                name,
                ..
            } = &*workload;
            let delete = commands.kubectl_in(&format!("delete pod {pod}"), namespace);
            Failure::Refused(if waits {
                format!(
                    "Pod {pod} waits for the state that was injected when it was created, and no \
                     PersistentPodState names {kind} {name} any more: {delete} has it created \
                     again without that"
                )
            } else {
                format!(
                    "no PersistentPodState names {kind} {name}: nothing pins Pod {pod}, and the \
                     scheduler chooses whenever it is created again"
                )
            })
        }
        Refusal::NotEnabled { namespace } => {
            let Line { text, command } = enable(&namespace, commands);
            Failure::Refused(format!("{text}: {command}"))
        }
        Refusal::NotWanted {
            pod,
            workload,
            replicas,
            is_terminating,
        } => {
            let why = if is_terminating {
                "being deleted".into()
            } else {
                format!("replicas: {replicas}")
            };
            let WorkloadKey { kind, name, .. } = &*workload;
            Failure::Refused(format!(
                "{kind} {name} ({why}) does not want Pod {pod}, and would not create it again"
            ))
        }
        Refusal::AmbiguousKey { word, keys } => Failure::Usage(format!(
            "{word} may mean each of {}: name one",
            keys.join(", ")
        )),
        Refusal::UnknownKey { word, keys } => Failure::Usage(format!(
            "no PersistentPodState names the node label {word}; named are: {}",
            keys.join(", ")
        )),
    }
}

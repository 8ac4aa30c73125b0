//! The words about the definition of PersistentPodState.

use super::{Words, some_of};
use crate::facts::Facts;
use crate::finding::{DefinitionDiagnosis as D, NotEstablished};
use crate::rules::{OWN_FIELD, VERSIONS, is_ours};

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    match diagnosis {
        D::DefinitionReady { served } => {
            Words::seen(format!("{}, serves {}", owner(facts), served.join(" and ")))
        }
        D::DefinitionMissing => Words::seen(
            "does not exist, and all recorded states are gone with it: Pods start without their \
             states, on any node",
        )
        .advise(format!(
            "delete and drain nothing. Stop the sidecar first, which would record where Pods are \
             now: {}. Then follow \"The definition was deleted\" in docs/break-glass.md",
            stop_sidecars(facts)
        )),
        D::DefinitionOfOpenKruise => Words::seen(format!(
            "is OpenKruise's (its spec has no field {OWN_FIELD}), but the sidecar is to record"
        ))
        .advise(
            "apply our crd.yaml; to let OpenKruise record, follow \"Back to OpenKruise\" in \
             docs/operations.md",
        ),
        D::DefinitionNotEstablished(NotEstablished::Deleting) => {
            Words::seen("is being deleted, and all PersistentPodStates with it")
                .advise(
                    "wait until the definition is gone, then install it again, but save them first",
                )
                .run("kubectl get pps -A -o yaml")
        }
        D::DefinitionNotEstablished(NotEstablished::NotAccepted) => {
            Words::seen("is not established")
                .advise("usually another kind has its names")
                .run("kubectl describe crd persistentpodstates.apps.kruise.io")
        }
        D::DefinitionVersionNotServed => Words::seen(format!(
            "serves neither {} with the subresource status",
            VERSIONS.join(" nor ")
        ))
        .advise("apply our crd.yaml"),
        D::DefinitionWithoutCompactForm { hidden_objects } => Words::seen(format!(
            "has no field status.packed and hides the states that {} objects have there: {}. The \
             next write of such an object removes them",
            hidden_objects.len(),
            some_of(hidden_objects)
        ))
        .advise(
            "apply our crd.yaml again; until then restart no sidecar, change no such object, and \
             delete none of their Pods",
        ),
    }
}

fn owner(facts: &Facts) -> &'static str {
    if facts.definition.known().is_some_and(is_ours) {
        "ours"
    } else {
        "OpenKruise's"
    }
}

/// The command that stops all sidecars of the installation.
fn stop_sidecars(facts: &Facts) -> String {
    let sidecars: Vec<&str> = facts
        .each()
        .map(|one| one.settings.sidecar.as_str())
        .collect();
    format!(
        "kubectl scale deployment -n {} {} --replicas=0{}",
        facts.settings.namespace,
        sidecars.join(" "),
        facts.settings.cluster
    )
}

//! The words about the policies and their webhooks.

use super::{Words, list_server_pods};
use crate::facts::{Condition, Facts};
use crate::finding::{Difference, PolicyDiagnosis as D};

const APPLY_AGAIN: &str = "apply the policy of this version again";

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    match diagnosis {
        D::PolicyActive { mode } => Words::seen(format!("active, mode {mode}")),
        D::PolicyMissing => Words::seen(
            "does not exist: no Pod gets its state back, or nobody checks PersistentPodStates \
             that users write",
        )
        .advise(
            "apply it (kubectl apply -k, or helm upgrade); to stop the product on purpose, see \
             docs/break-glass.md",
        ),
        D::PolicyNotActive { state, unmet } => {
            Words::seen(format!("is {state}: {}", why_not_active(unmet.as_ref())))
                .advise("the log of a Pod of the PolicyServer that is not ready says why")
                .run(list_server_pods(facts))
        }
        D::PoliciesDiffer { field, values } => {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let values = values.join(", ");
            Words::seen(format!("the policies differ in spec.{field}: {values}")).advise(
                "set it to the same value in all; \"Another PolicyServer\" in deploy/README.md \
                 describes a move",
            )
        }
        D::PolicyServerImmutable { from, to } => Words::seen(format!(
            "runs on PolicyServer {from}, and would move to {to}, which Kubewarden refuses"
        ))
        .advise(
            "keep the PolicyServer, or move as \"Another PolicyServer\" in deploy/README.md \
             describes",
        ),
        D::PolicyMonitors => {
            Words::seen("has the mode monitor: it only logs, and changes and refuses nothing")
                .advise("set spec.mode to protect")
        }
        D::PolicyDiffers(difference) => difference_words(difference),
        D::LookupNotGranted => Words::seen(
            "spec.contextAwareResources does not name PersistentPodState: the PolicyServer \
             refuses each lookup",
        )
        .advise(APPLY_AGAIN),
        D::WebhookRegistered => Words::seen("exists"),
        D::WebhookMissing => {
            Words::seen("does not exist or is empty, so the API server does not ask the policy")
                .advise("Kubewarden's controller makes it once the policy is active")
        }
    }
}

fn why_not_active(unmet: Option<&Condition>) -> String {
    match unmet {
        Some(condition) => format!(
            "{} is {}: {}",
            condition.kind, condition.status, condition.message
        ),
        None => "Kubewarden's controller has not looked at it yet".to_owned(),
    }
}

fn difference_words(difference: &Difference) -> Words {
    match difference {
        Difference::NotMutating => {
            Words::seen("spec.mutating is false: no Pod gets its state back").advise(APPLY_AGAIN)
        }
        Difference::NoNewPods => Words::seen(
            "spec.rules has no CREATE of pods: the policy is never asked, and no Pod gets its \
             state back",
        )
        .advise(APPLY_AGAIN),
        Difference::Selects(fields) => Words::seen(format!(
            "is sent other Pods than with the {} of this version: Pods that it leaves out start \
             without their states",
            fields.join(", ")
        ))
        .advise(
            "apply the policy of this version again, if that is not meant (chart: \
             policy.namespaceSelector, policy.extraMatchConditions)",
        ),
    }
}

//! The Pod that the controller makes in place of one that waits.

use pps_admission::injected::{Template, injected};
use pps_admission::plan::Plan;
use pps_admission::{apply, plan};
use pps_core::succession::{has_newest_revision, has_other_template, is_held_back};
use pps_core::{AnnotationRules, PodState};
use pps_scheduler::fields::{list, text};
use serde_json::Value;

use super::Case;

impl Case {
    /// Whether the template is known from which the Pod was made, or will be made again. A Pod that
    /// a rollout holds back is made from an older one.
    pub(super) fn has_known_template(&self) -> bool {
        let Some(workload) = &self.workload else {
            return false;
        };
        let name = text(&self.pod["metadata"]["name"]);
        let is_older = has_newest_revision(&self.pod, workload) == Some(false);
        workload["spec"]["template"].is_object() && !(is_older && is_held_back(workload, name))
    }

    /// The Pod as its controller would create it now, without anything injected; none if nothing
    /// was injected into the present one.
    pub(super) fn successor(&self) -> Option<Value> {
        let workload = self.workload.as_ref();
        let template = workload.and_then(|workload| {
            // Without a revision the Pod may have been made from this template.
            let is_newest = has_newest_revision(&self.pod, workload);
            (is_newest != Some(false)).then_some(Template {
                template: &workload["spec"]["template"],
                is_certain: is_newest == Some(true),
            })
        });
        let before = injected(&self.pod, template, Some(&self.spec), Some(&self.state))?.before;
        let name = text(&self.pod["metadata"]["name"]);
        let changed = workload.filter(|workload| {
            has_other_template(&self.pod, workload) && !is_held_back(workload, name)
        });
        Some(match changed {
            Some(workload) => made_from(&workload["spec"]["template"], &self.pod),
            None => before,
        })
    }

    /// A Pod with what the policy injects for this state.
    pub(super) fn with_state(&self, pod: &Value, state: &PodState) -> Value {
        let plan: Plan = plan(&self.pps, &self.spec, state, &AnnotationRules::default());
        let mut with_state = pod.clone();
        // A Pod that the policy cannot change is refused when it is created.
        match apply(&plan, &mut with_state) {
            Ok(_) => with_state,
            Err(_) => pod.clone(),
        }
    }
}

pub(super) fn requires_the_same(one: &Value, other: &Value) -> bool {
    let required = |pod: &Value| {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            .clone()
    };
    required(one) == required(other)
}

/// The Pod that a controller makes from a template in place of this Pod: with the same name,
/// priority and claims. What selects nodes beside the template may come from an admission webhook,
/// which will select them again.
fn made_from(template: &Value, pod: &Value) -> Value {
    let mut made = template.clone();
    for field in ["name", "namespace"] {
        made["metadata"][field] = pod["metadata"][field].clone();
    }
    if made["spec"]["priority"].is_null() {
        made["spec"]["priority"] = pod["spec"]["priority"].clone();
    }
    let own_selector = template["spec"]["nodeSelector"].as_object();
    let mut selector = pod["spec"]["nodeSelector"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    selector.extend(own_selector.cloned().unwrap_or_default());
    if !selector.is_empty() {
        made["spec"]["nodeSelector"] = selector.into();
    }
    let volumes = |spec: &Value| -> Vec<Value> { list(&spec["volumes"]).cloned().collect() };
    let mut all = volumes(&template["spec"]);
    let claimed = volumes(&pod["spec"]).into_iter().filter(|volume| {
        let is_known = all.iter().any(|known| known["name"] == volume["name"]);
        !is_known && volume["persistentVolumeClaim"].is_object()
    });
    all.extend(claimed.collect::<Vec<_>>());
    made["spec"]["volumes"] = all.into();
    made
}

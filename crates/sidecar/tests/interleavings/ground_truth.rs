//! The ground truth: whether what the API server is asked to destroy may be destroyed, judged by
//! the cluster itself at that moment, never by what the watches have shown.

use pps_core::Status;
use pps_core::pps::{PodState, RetentionPolicy};
use serde_json::Value;

use super::cluster::{Cluster, Pod, Pps};
use super::model::{is_away, may_want, replaces_values};
use super::states::{changed_states, parse_status};

impl Cluster {
    /// Asserts that a status patch names no node on which the Pod does not run or is exempt from
    /// recording, and drops no state that a Pod of the cluster backs, that its workload wants, or
    /// that the retention policy keeps.
    pub(crate) fn assert_drops_no_needed_state(&self, name: &str, patch: &Value) {
        let Some(object) = self.objects.get(name) else {
            return;
        };
        let version = object.version.to_string();
        if patch["metadata"]["uid"] != object.uid || patch["metadata"]["resourceVersion"] != version
        {
            return;
        }
        let status = parse_status(&object.status);
        let changed = changed_states(&object.status, &patch["status"]);
        for (pod_name, after) in &changed {
            let Some(after) = after else { continue };
            let Some(before) = status.pod_states.get(pod_name) else {
                continue;
            };
            assert!(
                !self.is_disabled || !replaces_values(object.options, before, after),
                "{name}: the state of {pod_name} is replaced out of scope\n{patch}\n{self:?}"
            );
            let node = after.node_name.as_str();
            let is_recorded_there = self
                .pods
                .get(pod_name.as_str())
                .is_some_and(|pod| pod.ready && !pod.exempt && pod.node == Some(node));
            assert!(
                is_recorded_there || before.node_name == node,
                "{name}: the state of {pod_name} is overwritten although its Pod does not run on \
                 {node}, or is exempt\n{patch}\n{self:?}"
            );
        }
        for (pod, _) in changed.iter().filter(|(_, after)| after.is_none()) {
            let state = &status.pod_states[pod.as_str()];
            assert!(
                !self.is_disabled,
                "{name}: the state of {pod} is dropped out of scope\n{patch}\n{self:?}"
            );
            let why = self.why_needed(object, &status, pod, state);
            assert!(
                why.is_none(),
                "{name}: the state of {pod} is dropped although {}\n{patch}\n{self:?}",
                why.unwrap()
            );
        }
    }

    fn why_needed(
        &self,
        object: &Pps,
        status: &Status,
        pod_name: &str,
        state: &PodState,
    ) -> Option<&'static str> {
        let target_uid = status.target_uid.as_ref();
        let workload = self.workloads.get(&object.target);
        let pod = self.pods.get(pod_name);
        let exists_elsewhere = |uid: &String| {
            self.workloads
                .iter()
                .any(|(number, other)| *number != object.target && other.uid == *uid)
        };
        let former_uid = target_uid.filter(|uid| !exists_elsewhere(uid));
        let is_own = |pod: &&Pod| {
            pod.owner.as_ref().is_none_or(|owner| {
                Some(owner) == former_uid || workload.is_some_and(|workload| workload.uid == *owner)
            })
        };
        let living = pod.filter(|pod| !pod.terminating).filter(is_own);
        let is_backed = living
            .is_some_and(|pod| pod.ready || pod.node.is_some_and(|node| node != state.node_name))
            && !living.is_some_and(|pod| is_away(object.options, Some(state), pod));
        let is_node_gone =
            !state.node_name.is_empty() && !self.nodes.contains_key(state.node_name.as_str());
        if object.options.forget && !is_backed && is_node_gone {
            return None;
        }
        if object.options.retention == RetentionPolicy::Retain {
            return Some("it is to be retained");
        }
        let recorder = self
            .recorders
            .get(&(object.uid.clone(), pod_name.to_owned()));
        // Where a Pod of a re-created workload is not, no state of a former Pod is the Pod's.
        let is_others = |pod: &&Pod| {
            let owner = workload
                .map(|workload| &workload.uid)
                .filter(|uid| pod.owner.as_ref() == Some(*uid));
            owner.is_some_and(|owner| {
                target_uid.is_some_and(|uid| uid != owner) && recorder != Some(owner)
            }) && !pod.exempt
                && pod.node != Some(state.node_name.as_str())
        };
        if living.is_some_and(|pod| state.node_name.is_empty() || !is_others(&pod)) {
            return Some("a living Pod of the workload has its name");
        }
        match workload.filter(|workload| !workload.terminating) {
            None => (workload.is_none() && target_uid.is_none())
                .then_some("its workload is yet to come"),
            Some(workload) if target_uid.is_some_and(|uid| *uid != workload.uid) => {
                let is_kept = object.options.retention == RetentionPolicy::WhenDeleted
                    || may_want(
                        object.target,
                        workload,
                        pod_name,
                        &self.living(&workload.uid),
                        &status.pod_states,
                    );
                (is_kept && recorder == Some(&workload.uid))
                    .then_some("it is the living workload's own")
            }
            Some(_) if object.options.retention == RetentionPolicy::WhenDeleted => {
                Some("the workload exists")
            }
            Some(workload) => {
                let living = self.living(&workload.uid);
                let recorded = &status.pod_states;
                may_want(object.target, workload, pod_name, &living, recorded)
                    .then_some("the workload may want it")
            }
        }
    }
}

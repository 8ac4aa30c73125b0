//! Rollouts that stop at a Pod: the StatefulSet controller goes on only when the Pod that it has replaced is Ready.

use pps_core::pps::KIND;
use pps_simulation::{Action, Phase, PodView, World};

use super::StoppedRollout;

/// The workloads that these actions roll out.
pub(super) fn asked(actions: &[Action]) -> Vec<&str> {
    let mut asked: Vec<&str> = actions
        .iter()
        .filter_map(|action| match action {
            Action::RollingUpdate { workload } => Some(workload.as_str()),
            Action::ChangeSpec { object } if object["kind"] != KIND => object["metadata"]["name"].as_str(),
            _ => None,
        })
        .collect();
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// The rollouts among these actions that do not reach all Pods.
pub(super) fn stopped(namespace: &str, actions: &[Action], world: &World) -> Vec<StoppedRollout> {
    asked(actions).into_iter().filter_map(|workload| stop(namespace, workload, world)).collect()
}

fn stop(namespace: &str, workload: &str, world: &World) -> Option<StoppedRollout> {
    // In the order of a rollout: the Pod with the highest ordinal first.
    let pods: Vec<&PodView> = world.pods.iter().rev().filter(|pod| pod.workload == workload).collect();
    let not_reached: Vec<String> =
        pods.iter().filter(|pod| pod.is_outdated).map(|pod| pod.name.clone()).collect();
    if not_reached.is_empty() {
        return None;
    }
    let at = pods.iter().find(|pod| pod.phase != Phase::Running)?;
    Some(StoppedRollout {
        namespace: namespace.to_owned(),
        workload: workload.to_owned(),
        at: at.name.clone(),
        not_reached: not_reached.into_iter().filter(|pod| *pod != at.name).collect(),
    })
}

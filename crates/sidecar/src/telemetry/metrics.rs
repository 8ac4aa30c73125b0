//! The metrics of `/metrics`. No label holds the name of an object, so that the number of series does not grow with
//! the cluster.

mod labels;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use self::labels::{
    BoundPodLabels, CauseLabel, DropCheckLabel, LevelLabel, LookupLabel, ResourceLabel, WriteLabels,
};
pub(crate) use self::labels::{DropCheckOutcome, LookupOutcome, WriteOutcome, WrittenResource};
use super::process::ProcessCollector;

const STATUS_WRITE_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From the batching of a quiet object to what an outage causes. Ready times are whole seconds, so that finer buckets
/// would show nothing.
const READY_TO_RECORDED_BUCKETS: [f64; 11] =
    [1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

/// Where Pods are bound, compared with their recorded states.
const PLACEMENTS: [&str; 4] = ["unrecorded", "recorded_node", "required_topology", "elsewhere"];

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    watch_events: Family<ResourceLabel, Counter>,
    watch_errors: Family<ResourceLabel, Counter>,
    watch_up: Family<ResourceLabel, Gauge>,
    unreadable_objects: Family<ResourceLabel, Gauge>,
    skipped_objects: Family<ResourceLabel, Counter>,
    writes: Family<WriteLabels, Counter>,
    node_lookups: Family<LookupLabel, Counter>,
    states_forgotten: Counter,
    events_dropped: Counter,
    drop_checks: Family<DropCheckLabel, Counter>,
    status_patch_bytes: Counter,
    status_patch_entries: Counter,
    status_write_duration: Histogram,
    ready_to_recorded: Histogram,
    tracked_objects: Family<ResourceLabel, Gauge>,
    recorded_states: Gauge,
    desired_states: Gauge,
    missing_states: Gauge,
    injected_pods: Gauge,
    unschedulable_pods: Gauge,
    oldest_unschedulable_pod_age: Gauge<f64, AtomicU64>,
    bound_pods: Family<BoundPodLabels, Counter>,
    missing_nodes: Gauge,
    pending_writes: Gauge,
    oldest_pending_write_age: Gauge<f64, AtomicU64>,
    largest_object: Gauge,
    objects_at_capacity: Family<LevelLabel, Gauge>,
    conflicting_recorder: Gauge,
    unwritable_objects: Family<CauseLabel, Gauge>,
    ready: Gauge,
    leader: Gauge,
}

/// What is kept in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedCounts {
    pub(crate) pods: usize,
    pub(crate) nodes: usize,
    pub(crate) workloads: usize,
    pub(crate) persistent_pod_states: usize,
    pub(crate) recorded_states: usize,
    pub(crate) missing_nodes: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let own = registry.sub_registry_with_prefix("persistentpodstate");
        let build = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("os", std::env::consts::OS),
            ("arch", std::env::consts::ARCH),
        ];
        own.register("build", "The version of this program", Info::new(build.to_vec()));
        let metrics = Self {
            ready: add(own, "ready", "1 if all initial lists are complete and every watch works"),
            leader: add(own, "leader", "1 if this process leads and writes, 0 if it is a standby"),
            watch_up: add(own, "watch_up", "1 if the watch of a resource works, 0 if not"),
            watch_events: add(own, "watch_events", "Events received from a watch"),
            watch_errors: add(own, "watch_errors", "Failures of a watch, each followed by a retry"),
            unreadable_objects: add(own, "unreadable_objects", "Objects that exist but cannot be read"),
            skipped_objects: add(
                own,
                "skipped_objects",
                "Listed objects and events that were skipped because not even a name could be read",
            ),
            tracked_objects: add(own, "tracked_objects", "Objects kept in memory"),
            recorded_states: add(own, "recorded_states", "Pod states in all PersistentPodStates"),
            desired_states: add(
                own,
                "desired_states",
                "Pods that the workloads of all PersistentPodStates want and for which a state should be recorded",
            ),
            missing_states: add(
                own,
                "missing_states",
                "Pods that the workloads of all PersistentPodStates want and that have no recorded state",
            ),
            injected_pods: add(
                own,
                "injected_pods",
                "Pods into which the policy has injected a recorded state",
            ),
            unschedulable_pods: add(
                own,
                "unschedulable_pods",
                "Pods with an injected required topology for which the scheduler finds no node",
            ),
            oldest_unschedulable_pod_age: add(
                own,
                "oldest_unschedulable_pod_age_seconds",
                "For how long the scheduler has found no node for the first of these Pods, 0 if there is none",
            ),
            bound_pods: add(
                own,
                "bound_pods",
                "Pods that were bound to a node, by where that is compared with their recorded state",
            ),
            missing_nodes: add(
                own,
                "missing_nodes",
                "Nodes that do not exist although states with nodeDeletionPolicy Forget name them",
            ),
            pending_writes: add(own, "pending_writes", "Objects that wait for a write"),
            oldest_pending_write_age: add(
                own,
                "oldest_pending_write_age_seconds",
                "Age of the oldest change that waits for a write, 0 if none does",
            ),
            writes: add(own, "writes", "Writes to the API server"),
            status_patch_bytes: add(own, "status_patch_bytes", "Bytes of successful status patches"),
            status_patch_entries: add(
                own,
                "status_patch_entries",
                "Pod states set or removed by successful status patches",
            ),
            status_write_duration: add_histogram(
                own,
                "status_write_duration_seconds",
                "Duration of successful status writes",
                STATUS_WRITE_BUCKETS,
            ),
            ready_to_recorded: add_histogram(
                own,
                "ready_to_recorded_duration_seconds",
                "Time from a Pod's Ready condition to the write that first recorded it on its node",
                READY_TO_RECORDED_BUCKETS,
            ),
            largest_object: add(
                own,
                "largest_object_bytes",
                "Approximate size of the largest PersistentPodState",
            ),
            objects_at_capacity: add(
                own,
                "objects_at_capacity",
                "PersistentPodStates near the size limit, and those that exceed it",
            ),
            node_lookups: add(
                own,
                "node_lookups",
                "Reads that ask the API server whether a missing node exists",
            ),
            states_forgotten: add(
                own,
                "states_forgotten",
                "Pod states dropped because their node no longer exists",
            ),
            events_dropped: add(
                own,
                "events_dropped",
                "Events that were not published: too many, or refused by the API server",
            ),
            unwritable_objects: add(
                own,
                "unwritable_objects",
                "PersistentPodStates in which nothing can be recorded",
            ),
            drop_checks: add(
                own,
                "drop_checks",
                "Reads of the workload and its Pods before a status write drops states",
            ),
            conflicting_recorder: add(
                own,
                "conflicting_recorder",
                "1 if OpenKruise's manager runs, 0 if not",
            ),
            registry,
        };
        metrics.create_known_series();
        metrics
    }
}

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn add_histogram<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    buckets: [f64; N],
) -> Histogram {
    let histogram = Histogram::new(buckets);
    registry.register(name, help, histogram.clone());
    histogram
}

impl Metrics {
    /// Series whose labels are known in advance start at 0, so that a rate covers their first increment.
    fn create_known_series(&self) {
        for resource in WrittenResource::ALL {
            for result in WriteOutcome::ALL {
                drop(self.writes.get_or_create(&WriteLabels { resource, result }));
            }
        }
        for result in LookupOutcome::ALL {
            drop(self.node_lookups.get_or_create(&LookupLabel { result }));
        }
        for result in DropCheckOutcome::ALL {
            drop(self.drop_checks.get_or_create(&DropCheckLabel { result }));
        }
        for placement in PLACEMENTS {
            for injected in [false, true] {
                self.count_bound_pods(placement, injected, 0);
            }
        }
        self.set_sizes(0, 0, 0);
        self.set_unwritable(0, 0);
        self.set_tracked(&TrackedCounts {
            pods: 0,
            nodes: 0,
            workloads: 0,
            persistent_pod_states: 0,
            recorded_states: 0,
            missing_nodes: 0,
        });
    }

    pub fn count_watch_event(&self, resource: &Arc<str>) {
        self.watch_events.get_or_create(&ResourceLabel { resource: resource.clone() }).inc();
    }

    pub fn count_watch_error(&self, resource: &Arc<str>) {
        self.count_list_error(resource);
        self.set_watch_up(resource, false);
    }

    /// Sets whether a watch works. Its counters start at 0.
    pub(crate) fn set_watch_up(&self, resource: &Arc<str>, is_up: bool) {
        for counter in [&self.watch_events, &self.watch_errors] {
            drop(counter.get_or_create(&ResourceLabel { resource: resource.clone() }));
        }
        self.watch_up.get_or_create(&ResourceLabel { resource: resource.clone() }).set(is_up.into());
    }

    /// Counts a list that failed while the watch works.
    pub(crate) fn count_list_error(&self, resource: &Arc<str>) {
        self.watch_errors.get_or_create(&ResourceLabel { resource: resource.clone() }).inc();
    }

    pub fn set_unreadable(&self, resource: &Arc<str>, count: usize) {
        let label = ResourceLabel { resource: resource.clone() };
        self.unreadable_objects.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn count_skipped_object(&self, resource: &Arc<str>) {
        self.skipped_objects.get_or_create(&ResourceLabel { resource: resource.clone() }).inc();
    }

    /// Removes the state of a watch that was stopped.
    pub(crate) fn remove_watch(&self, resource: &Arc<str>) {
        self.unreadable_objects.remove(&ResourceLabel { resource: resource.clone() });
        self.watch_up.remove(&ResourceLabel { resource: resource.clone() });
    }

    pub(crate) fn count_node_lookup(&self, result: LookupOutcome) {
        self.node_lookups.get_or_create(&LookupLabel { result }).inc();
    }

    pub(crate) fn count_drop_check(&self, result: DropCheckOutcome) {
        self.drop_checks.get_or_create(&DropCheckLabel { result }).inc();
    }

    pub(crate) fn count_forgotten_states(&self, states: usize) {
        self.states_forgotten.inc_by(states as u64);
    }

    pub(crate) fn count_dropped_event(&self) {
        self.events_dropped.inc();
    }

    pub(crate) fn count_write(&self, resource: WrittenResource, result: WriteOutcome) {
        self.writes.get_or_create(&WriteLabels { resource, result }).inc();
    }

    /// Observes a successful status write.
    pub(crate) fn observe_status_write(&self, bytes: usize, entries: usize, duration: Duration) {
        self.status_patch_bytes.inc_by(bytes as u64);
        self.status_patch_entries.inc_by(entries as u64);
        self.status_write_duration.observe(duration.as_secs_f64());
    }

    /// Observes how long a Pod had been Ready when it was first recorded.
    pub(crate) fn observe_ready_to_recorded(&self, duration: Duration) {
        self.ready_to_recorded.observe(duration.as_secs_f64());
    }

    pub(crate) fn set_tracked(&self, counts: &TrackedCounts) {
        for (resource, count) in [
            ("pods", counts.pods),
            ("nodes", counts.nodes),
            ("workloads", counts.workloads),
            ("persistentpodstates", counts.persistent_pod_states),
        ] {
            self.tracked_objects
                .get_or_create(&ResourceLabel { resource: resource.into() })
                .set(gauge(count));
        }
        self.recorded_states.set(gauge(counts.recorded_states));
        self.missing_nodes.set(gauge(counts.missing_nodes));
    }

    /// Sets how many states the workloads want, and how many of them are not recorded.
    pub(crate) fn set_desired(&self, desired: u64, missing: u64) {
        self.desired_states.set(i64::try_from(desired).unwrap_or(i64::MAX));
        self.missing_states.set(i64::try_from(missing).unwrap_or(i64::MAX));
    }

    /// Sets how many Pods carry the policy's annotation, for how many of them the scheduler finds no node, and for how
    /// long already.
    pub(crate) fn set_injected(&self, injected: usize, unschedulable: usize, oldest_age: Duration) {
        self.injected_pods.set(gauge(injected));
        self.unschedulable_pods.set(gauge(unschedulable));
        self.oldest_unschedulable_pod_age.set(oldest_age.as_secs_f64());
    }

    /// Counts Pods that were bound to a node.
    pub(crate) fn count_bound_pods(&self, placement: &'static str, injected: bool, pods: u64) {
        let injected = if injected { "true" } else { "false" };
        self.bound_pods.get_or_create(&BoundPodLabels { placement, injected }).inc_by(pods);
    }

    pub(crate) fn set_pending_writes(&self, count: usize, oldest_age: Duration) {
        self.pending_writes.set(gauge(count));
        self.oldest_pending_write_age.set(oldest_age.as_secs_f64());
    }

    /// Sets the size of the largest object, and how many objects are near the limit and exceed it.
    pub(crate) fn set_sizes(&self, largest: usize, near: usize, exceeded: usize) {
        self.largest_object.set(gauge(largest));
        for (level, count) in [("near", near), ("exceeded", exceeded)] {
            self.objects_at_capacity.get_or_create(&LevelLabel { level }).set(gauge(count));
        }
    }

    /// Sets how many objects cannot be read, and how many keep conflicting.
    pub(crate) fn set_unwritable(&self, unreadable: usize, conflicting: usize) {
        for (cause, count) in [("unreadable", unreadable), ("conflicts", conflicting)] {
            self.unwritable_objects.get_or_create(&CauseLabel { cause }).set(gauge(count));
        }
    }

    pub(crate) fn set_conflicting_recorder(&self, is_running: bool) {
        self.conflicting_recorder.set(is_running.into());
    }

    /// Returns all metrics in the text format of `OpenMetrics`.
    pub fn render(&self, is_ready: bool, is_leader: bool) -> String {
        self.ready.set(is_ready.into());
        self.leader.set(is_leader.into());
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_metrics_with_their_labels() {
        let metrics = Metrics::default();
        metrics.count_write(WrittenResource::PpsStatus, WriteOutcome::Success);
        metrics.observe_status_write(120, 2, Duration::from_millis(10));
        metrics.observe_ready_to_recorded(Duration::from_millis(1500));
        metrics.set_pending_writes(1, Duration::from_millis(2500));
        let text = metrics.render(true, false);
        for line in [
            r#"persistentpodstate_writes_total{resource="persistentpodstates/status",result="success"} 1"#,
            r#"persistentpodstate_writes_total{resource="pods",result="not_leading"} 0"#,
            r#"persistentpodstate_objects_at_capacity{level="exceeded"} 0"#,
            r#"persistentpodstate_build_info{version=""#,
            r#"persistentpodstate_ready_to_recorded_duration_seconds_bucket{le="2.0"} 1"#,
            "persistentpodstate_oldest_pending_write_age_seconds 2.5",
            "persistentpodstate_status_patch_bytes_total 120",
            "persistentpodstate_ready 1",
            "persistentpodstate_leader 0",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}

//! The metrics of `/metrics`. No label holds the name of an object, so that the number of series
//! does not grow with the cluster.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use pps_recorder::record::Placement;
use pps_recorder::timing::schedule::Waiting;
use pps_recorder::{BoundPod, Counts};

const STATUS_WRITE_BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// From the batching of a quiet object to what an outage causes. Ready times are whole seconds, so
/// that finer buckets would show nothing.
const READY_TO_RECORDED_BUCKETS: [f64; 11] = [
    1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
];

/// The known values of labels: what is written, how writes, lookups of nodes and the checks before
/// drops end, whether Pods give up their places, and where Pods are bound, compared with their
/// recorded states.
pub(crate) const STATUS: &str = "persistentpodstates/status";
pub(crate) const GENERATED: &str = "persistentpodstates";
pub(crate) const PODS: &str = "pods";
const WRITE_RESULTS: [&str; 7] = [
    "success",
    "conflict",
    "not_found",
    "refused",
    "error",
    "too_large",
    "not_leading",
];
const LOOKUP_RESULTS: [&str; 3] = ["found", "not_found", "unknown"];
const DROP_CHECK_RESULTS: [&str; 3] = ["confirmed", "refuted", "unknown"];
const FALLBACK_RESULTS: [&str; 10] = [
    "gave_up",
    "evicted",
    "bound",
    "home",
    "no_node",
    "pinned",
    "not_judged",
    "unchanged",
    "forbidden",
    "error",
];
type Labels<const N: usize> = [(&'static str, String); N];

/// Declares the metrics. Each has the name of its field, after the prefix that all have.
macro_rules! metrics {
    ($($name:ident: $kind:ty = $help:literal;)*) => {
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            pub(crate) status_write_duration: Histogram,
            pub(crate) ready_to_recorded_duration: Histogram,
            $(pub(crate) $name: $kind,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::default();
                #[cfg(target_os = "linux")]
                registry.register_collector(Box::new(super::process::ProcessCollector));
                let own = registry.sub_registry_with_prefix("persistentpodstate");
                let build = [
                    ("version", env!("CARGO_PKG_VERSION")),
                    ("os", std::env::consts::OS),
                    ("arch", std::env::consts::ARCH),
                ];
                own.register("build", "The version of this program", Info::new(build.to_vec()));
                let metrics = Self {
                    status_write_duration: add(
                        own,
                        "status_write_duration_seconds",
                        "Duration of successful status writes",
                        Histogram::new(STATUS_WRITE_BUCKETS),
                    ),
                    ready_to_recorded_duration: add(
                        own,
                        "ready_to_recorded_duration_seconds",
                        "Time from a Pod's Ready condition to the write that first recorded it on its node",
                        Histogram::new(READY_TO_RECORDED_BUCKETS),
                    ),
                    $($name: add(own, stringify!($name), $help, <$kind>::default()),)*
                    registry,
                };
                metrics.create_known_series();
                metrics
            }
        }
    };
}

type Seconds = Gauge<f64, AtomicU64>;
type Gauges = Family<Labels<1>, Gauge>;
pub(crate) type Counters<const N: usize> = Family<Labels<N>, Counter>;

metrics! {
    ready: Gauge = "1 if all initial lists are complete and every watch works";
    leader: Gauge = "1 if this process leads and writes, 0 if it is a standby";
    watch_up: Gauges = "1 if the watch of a resource works, 0 if not";
    watch_events: Counters<1> = "Objects and events received from lists and watches";
    watch_errors: Counters<1> = "Failures of a watch, each followed by a retry";
    unreadable_objects: Gauges = "Objects that exist but cannot be read";
    skipped_objects: Counters<1> = "Objects and events without a readable name";
    tracked_objects: Gauges = "Objects kept in memory";
    recorded_states: Gauge = "Pod states in all PersistentPodStates";
    desired_states: Gauge = "Pods whose states should be recorded";
    missing_states: Gauge = "Pods that are wanted and have no recorded state";
    injected_pods: Gauge = "Pods into which a recorded state was injected";
    unschedulable_pods: Gauge = "Injected Pods for which no node is found";
    oldest_unschedulable_pod_age_seconds: Seconds = "For how long no node was found for the first of these Pods, 0 if there is none";
    bound_pods: Counters<2> = "Pods that were bound to a node, by their recorded state";
    missing_nodes: Gauge = "Missing nodes that states with nodeDeletionPolicy Forget name";
    pending_writes: Gauge = "Objects that wait for a write";
    oldest_pending_write_age_seconds: Seconds = "Age of the oldest change that waits for a write, 0 if none does";
    writes: Counters<2> = "Writes to the API server";
    status_patch_bytes: Counter = "Bytes of successful status patches";
    status_patch_entries: Counter = "States in successful status patches";
    largest_object_bytes: Gauge = "Size of the largest PersistentPodState";
    objects_at_capacity: Gauges = "Objects near and above the size limit";
    node_lookups: Counters<1> = "Reads that ask whether a missing node exists";
    states_forgotten: Counter = "States dropped because their node is gone";
    fallbacks: Counters<1> = "Judgements whether a Pod gives up its recorded place";
    events_dropped: Counter = "Events not published: too many, or refused";
    unwritable_objects: Gauges = "Objects in which nothing can be recorded";
    drop_checks: Counters<1> = "Reads before a status write drops states";
    conflicting_recorder: Gauge = "1 if OpenKruise's manager runs";
}

fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn owned<const N: usize>(labels: [(&'static str, &str); N]) -> Labels<N> {
    labels.map(|(label, value)| (label, value.to_owned()))
}

pub(crate) fn count<const N: usize>(counters: &Counters<N>, labels: [(&'static str, &str); N]) {
    counters.get_or_create(&owned(labels)).inc();
}

fn set_one(gauges: &Gauges, label: &'static str, value: &str, objects: impl TryInto<i64>) {
    set(&gauges.get_or_create(&owned([(label, value)])), objects);
}

fn set(gauge: &Gauge, objects: impl TryInto<i64>) {
    gauge.set(objects.try_into().unwrap_or(i64::MAX));
}

fn placement_label(placement: Placement) -> &'static str {
    match placement {
        Placement::Unrecorded => "unrecorded",
        Placement::RecordedNode => "recorded_node",
        Placement::RequiredTopology => "required_topology",
        Placement::Elsewhere => "elsewhere",
    }
}

impl Metrics {
    /// Series whose labels are known in advance start at 0, so that a rate covers their first
    /// increment.
    fn create_known_series(&self) {
        for resource in [STATUS, GENERATED, PODS] {
            for result in WRITE_RESULTS {
                drop(
                    self.writes
                        .get_or_create(&owned([("resource", resource), ("result", result)])),
                );
            }
        }
        for result in LOOKUP_RESULTS {
            drop(
                self.node_lookups
                    .get_or_create(&owned([("result", result)])),
            );
        }
        for result in DROP_CHECK_RESULTS {
            drop(self.drop_checks.get_or_create(&owned([("result", result)])));
        }
        for result in FALLBACK_RESULTS {
            drop(self.fallbacks.get_or_create(&owned([("result", result)])));
        }
        for placement in Placement::ALL {
            for is_injected in [false, true] {
                let bound = BoundPod {
                    placement,
                    is_injected,
                };
                self.count_bound_pods(bound, 0);
            }
        }
        self.set_counts(&Counts::default(), |_| Duration::ZERO);
        self.set_conflicting_objects(0);
    }

    /// Sets whether a watch works. Its other series start at 0.
    pub fn set_watch_up(&self, resource: &str, is_up: bool) {
        let labels = owned([("resource", resource)]);
        for counter in [
            &self.watch_events,
            &self.watch_errors,
            &self.skipped_objects,
        ] {
            drop(counter.get_or_create(&labels));
        }
        drop(self.unreadable_objects.get_or_create(&labels));
        self.watch_up.get_or_create(&labels).set(is_up.into());
    }

    pub(crate) fn set_unreadable(&self, resource: &str, objects: usize) {
        set_one(&self.unreadable_objects, "resource", resource, objects);
    }

    pub(crate) fn remove_watch(&self, resource: &str) {
        let labels = owned([("resource", resource)]);
        self.unreadable_objects.remove(&labels);
        self.watch_up.remove(&labels);
    }

    pub(crate) fn count_write(&self, resource: &str, result: &str) {
        count(&self.writes, [("resource", resource), ("result", result)]);
    }

    pub(crate) fn observe_status_write(&self, bytes: usize, entries: usize, duration: Duration) {
        self.status_patch_bytes.inc_by(bytes as u64);
        self.status_patch_entries.inc_by(entries as u64);
        self.status_write_duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn count_bound_pods(&self, bound: BoundPod, pods: u64) {
        let labels = owned([
            ("placement", placement_label(bound.placement)),
            ("injected", if bound.is_injected { "true" } else { "false" }),
        ]);
        self.bound_pods.get_or_create(&labels).inc_by(pods);
    }

    /// Takes over what the recorder counts. `time_since` gives the time since a Unix time.
    pub(crate) fn set_counts(&self, counts: &Counts, time_since: impl Fn(i64) -> Duration) {
        self.set_tracked("pods", counts.pods);
        self.set_tracked("nodes", counts.nodes);
        self.set_tracked("workloads", counts.workloads);
        self.set_tracked(GENERATED, counts.persistent_pod_states);
        set(&self.recorded_states, counts.recorded_states);
        set(&self.missing_nodes, counts.missing_nodes);
        set(&self.desired_states, counts.desired_states);
        set(&self.missing_states, counts.missing_states);
        set(&self.injected_pods, counts.injected_pods);
        set(&self.unschedulable_pods, counts.unschedulable_pods);
        let oldest = counts
            .unschedulable_since
            .map_or(Duration::ZERO, time_since);
        self.oldest_unschedulable_pod_age_seconds
            .set(oldest.as_secs_f64());
        set(&self.largest_object_bytes, counts.largest_object_bytes);
        let at_capacity = &self.objects_at_capacity;
        set_one(at_capacity, "level", "near", counts.near_capacity);
        set_one(at_capacity, "level", "exceeded", counts.exceeded_capacity);
        set_one(
            &self.unwritable_objects,
            "cause",
            "unreadable",
            counts.unreadable_objects,
        );
    }

    fn set_tracked(&self, resource: &str, objects: usize) {
        set_one(&self.tracked_objects, "resource", resource, objects);
    }

    pub(crate) fn set_conflicting_objects(&self, objects: usize) {
        set_one(&self.unwritable_objects, "cause", "conflicts", objects);
    }

    pub(crate) fn set_pending_writes(&self, waiting: Waiting, now: Instant) {
        let oldest_age = waiting.oldest.map_or(Duration::ZERO, |oldest| {
            now.saturating_duration_since(oldest)
        });
        set(&self.pending_writes, waiting.count);
        self.oldest_pending_write_age_seconds
            .set(oldest_age.as_secs_f64());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_metrics_with_their_labels() {
        let metrics = Metrics::default();
        metrics.count_write(STATUS, "success");
        metrics.observe_status_write(120, 2, Duration::from_millis(10));
        metrics.ready_to_recorded_duration.observe(1.5);
        let now = Instant::now();
        let waiting = Waiting {
            count: 1,
            oldest: Some(now),
        };
        metrics.set_pending_writes(waiting, now + Duration::from_millis(2500));
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

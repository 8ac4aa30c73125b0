//! What is counted. No name of an object is ever a label; a kind of objects may be.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    watch_events: Family<Kind, Counter>,
    watch_errors: Family<Kind, Counter>,
    watching: Family<Kind, Gauge>,
    writes: Family<Write, Counter>,
    node_looks: Family<Outcome, Counter>,
    forgotten: Counter,
    written_bytes: Counter,
    written_entries: Counter,
    write_seconds: Histogram,
    kept: Family<Kind, Gauge>,
    waiting: Gauge,
    largest_object: Gauge,
    full_objects: Family<Fullness, Gauge>,
    other_recorder: Gauge,
    ready: Gauge,
    leader: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Fullness {
    fullness: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    what: &'static str,
    outcome: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("persistentpodstate"),
            watch_events: Family::default(),
            watch_errors: Family::default(),
            watching: Family::default(),
            writes: Family::default(),
            node_looks: Family::default(),
            forgotten: Counter::default(),
            written_bytes: Counter::default(),
            written_entries: Counter::default(),
            write_seconds: Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
            kept: Family::default(),
            waiting: Gauge::default(),
            largest_object: Gauge::default(),
            full_objects: Family::default(),
            other_recorder: Gauge::default(),
            ready: Gauge::default(),
            leader: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("watch_events", "Events from a watch", metrics.watch_events.clone());
        registry.register(
            "watch_errors",
            "Failures of a watch, each followed by a retry",
            metrics.watch_errors.clone(),
        );
        registry.register("watch_up", "1 if the watch of a kind works, 0 if not", metrics.watching.clone());
        registry.register(
            "writes",
            "Writes to the API server, by what was written and how that went",
            metrics.writes.clone(),
        );
        registry.register(
            "node_lookups",
            "Questions whether a missing node is gone, by the answer",
            metrics.node_looks.clone(),
        );
        registry.register(
            "states_forgotten",
            "Pod states dropped because their node is gone",
            metrics.forgotten.clone(),
        );
        registry.register(
            "status_patch_bytes",
            "Bytes of the status patches that went through",
            metrics.written_bytes.clone(),
        );
        registry.register(
            "status_patch_entries",
            "Pod states set or removed",
            metrics.written_entries.clone(),
        );
        registry.register(
            "status_write_duration_seconds",
            "Time of a status write",
            metrics.write_seconds.clone(),
        );
        registry.register(
            "tracked_objects",
            "Objects of a kind that are kept in memory",
            metrics.kept.clone(),
        );
        registry.register("pending_writes", "Objects that wait for a write", metrics.waiting.clone());
        registry.register(
            "largest_object_bytes",
            "About how large the largest PersistentPodState is",
            metrics.largest_object.clone(),
        );
        registry.register(
            "objects_at_capacity",
            "PersistentPodStates that are nearly full, or full",
            metrics.full_objects.clone(),
        );
        registry.register(
            "conflicting_recorder",
            "1 if OpenKruise's manager runs, 0 if not",
            metrics.other_recorder.clone(),
        );
        registry.register("ready", "1 if everything is known and every watch works", metrics.ready.clone());
        registry.register(
            "leader",
            "1 if this process leads and writes, 0 if it stands by",
            metrics.leader.clone(),
        );
        metrics
    }
}

impl Metrics {
    /// A watch told something.
    pub fn watch_event(&self, kind: &Arc<str>) {
        self.watch_events.get_or_create(&Kind { kind: kind.clone() }).inc();
    }

    /// A watch failed.
    pub fn watch_error(&self, kind: &Arc<str>) {
        self.watch_errors.get_or_create(&Kind { kind: kind.clone() }).inc();
        self.watching(kind, false);
    }

    /// A watch works or does not.
    pub fn watching(&self, kind: &Arc<str>, works: bool) {
        self.watching.get_or_create(&Kind { kind: kind.clone() }).set(works.into());
    }

    /// A kind is not watched any longer.
    pub fn not_watching(&self, kind: &Arc<str>) {
        self.watching.remove(&Kind { kind: kind.clone() });
    }

    /// A missing node was looked for: `outcome` is `gone`, `there` or `unknown`.
    pub fn node_looked_for(&self, outcome: &'static str) {
        self.node_looks.get_or_create(&Outcome { outcome }).inc();
    }

    /// So many states were dropped because their node is gone.
    pub fn forgotten(&self, states: usize) {
        self.forgotten.inc_by(states as u64);
    }

    /// A write ended: `what` is `status`, `generated` or `pod`, `outcome` is `ok`, `conflict`, `gone`,
    /// `refused`, `too_large` or `withheld`.
    pub fn write(&self, what: &'static str, outcome: &'static str) {
        self.writes.get_or_create(&Write { what, outcome }).inc();
    }

    /// A status patch of so many bytes and entries went through in so many seconds.
    pub fn status_written(&self, bytes: usize, entries: usize, seconds: f64) {
        self.written_bytes.inc_by(bytes as u64);
        self.written_entries.inc_by(entries as u64);
        self.write_seconds.observe(seconds);
    }

    /// What is kept, and how many objects wait for a write.
    pub fn sizes(&self, kept: impl IntoIterator<Item = (&'static str, usize)>, waiting: usize) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        for (kind, number) in kept {
            self.kept.get_or_create(&Kind { kind: kind.into() }).set(gauge(number));
        }
        self.waiting.set(gauge(waiting));
    }

    /// How large the largest object is, and how many are nearly full, and full.
    pub fn fullness(&self, largest: usize, nearly: usize, full: usize) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.largest_object.set(gauge(largest));
        for (fullness, number) in [("nearly", nearly), ("full", full)] {
            self.full_objects.get_or_create(&Fullness { fullness }).set(gauge(number));
        }
    }

    /// Whether OpenKruise's manager runs.
    pub fn other_recorder(&self, runs: bool) {
        self.other_recorder.set(runs.into());
    }

    /// The metrics as text.
    pub fn render(&self, ready: bool, leads: bool) -> String {
        self.ready.set(i64::from(ready));
        self.leader.set(i64::from(leads));
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
    fn metrics_are_rendered_with_their_labels() {
        let metrics = Metrics::default();
        metrics.write("status", "ok");
        metrics.status_written(120, 2, 0.01);
        let text = metrics.render(true, false);
        for line in [
            r#"persistentpodstate_writes_total{what="status",outcome="ok"} 1"#,
            "persistentpodstate_status_patch_bytes_total 120",
            "persistentpodstate_ready 1",
            "persistentpodstate_leader 0",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}

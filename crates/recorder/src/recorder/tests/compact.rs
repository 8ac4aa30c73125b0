//! Objects in the compact form: when they get it, what is written in it, and the way back.

mod cost;
mod definition;
mod erased;

use std::time::{Duration, Instant};

use pps_core::packed::{Bucket, recorded_state};

use super::*;
use crate::facts::{Form, StoredForm};
use crate::timing::schedule::{Batch, Candidates};

/// From so many states on, an object gets the compact form here, and below so many it loses it.
const COMPACT_FROM: usize = 25;
const COMPACT_UNTIL: usize = 12;

/// Whether the managed fields of an object say that the compact form was written.
#[derive(Clone, Copy, Debug)]
enum Claims {
    No,
    Yes,
    /// The API server has dropped them, because the object was too large with them.
    Unknown,
}

/// An API server that merges patches, and perhaps prunes `packed`.
struct Server {
    world: World,
    /// The status of the object `p`.
    status: Value,
    prunes: bool,
}

impl Server {
    fn new(replicas: u64) -> Self {
        let mut world = World::new();
        world.recorder.change_compact_form(|form| {
            form.limits = CompactLimits {
                from: COMPACT_FROM,
                until: COMPACT_UNTIL,
            }
        });
        world
            .recorder
            .change_compact_form(|form| form.is_kept = Some(true));
        world.workload("w", "uid-w", replicas, &[]);
        world.object("p", &spec("w"), &json!({}));
        Self {
            world,
            status: json!({}),
            prunes: false,
        }
    }

    /// One whose object has so many states of ready Pods, and has settled.
    fn with(pods: u64) -> Self {
        let mut server = Self::new(pods);
        server.ready(0..pods);
        server.settle();
        server
    }

    fn ready(&mut self, pods: std::ops::Range<u64>) {
        for pod in pods {
            self.world.pod(
                &format!("w-{pod}"),
                ready_on(if pod % 2 == 0 { "node-1" } else { "node-2" }),
            );
        }
    }

    fn write(&mut self) -> Option<StatusWrite> {
        self.world.recorder.decide_status(&key("p"), NOW).write
    }

    fn store(&mut self, write: &StatusWrite) {
        let mut status = self.status.clone();
        json_patch::merge(&mut status, &write.patch["status"]);
        if self.prunes {
            status.as_object_mut().unwrap().remove("packed");
        }
        self.status = status;
        self.world.version += 1;
    }

    /// Stores a write, and checks that what the sidecar knows is what the API server has.
    fn accept(&mut self, write: &StatusWrite) {
        self.store(write);
        let version = self.world.version.to_string();
        self.world.recorder.on_status_done(
            &key("p"),
            "uid-p",
            StatusOutcome::Stored {
                resource_version: &version,
            },
        );
        assert_eq!(self.stored(), self.known());
    }

    fn settle(&mut self) -> Vec<StatusWrite> {
        let mut writes = Vec::new();
        while let Some(write) = self.write() {
            self.accept(&write);
            writes.push(write);
        }
        writes
    }

    /// The states that the sidecar knows.
    fn known(&self) -> Value {
        let mut status = self.world.status("p");
        status["podStates"].take()
    }

    /// The states that the policy would find for the Pods that the sidecar knows.
    fn stored(&self) -> Value {
        let known = self.world.states("p");
        let found = known.iter().filter_map(|pod| {
            Some((
                pod.clone(),
                json!(recorded_state(&self.status, pod).unwrap()?),
            ))
        });
        let found: serde_json::Map<String, Value> = found.collect();
        if found.is_empty() {
            Value::Null
        } else {
            found.into()
        }
    }

    fn buckets(&self) -> Vec<String> {
        self.status["packed"]["buckets"]
            .as_object()
            .into_iter()
            .flat_map(|buckets| buckets.keys().cloned())
            .collect()
    }

    /// The object as a watch reports it.
    fn report(&mut self, claims: Claims) {
        let fields = match claims {
            Claims::No => json!({"f:status": {"f:podStates": {}}}),
            Claims::Yes => {
                json!({"f:status": {"f:packed": {".": {}, "f:buckets": {}, "f:version": {}}}})
            }
            Claims::Unknown => json!({"f:spec": {}}),
        };
        let managed =
            json!([{"manager": "pps-sidecar", "operation": "Update", "fieldsV1": fields}]);
        let metadata = json!({"uid": "uid-p", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed});
        let status = self.status.clone();
        self.world.object_with("p", &metadata, &spec("w"), &status);
    }

    /// A complete list that began after the definition was in use.
    fn relist(&mut self, claims: Claims) {
        self.world.recorder.apply_pps(Update::Begin(u64::MAX));
        self.report(claims);
        self.world.recorder.apply_pps(Update::Done);
    }

    fn form(&self) -> &Form {
        &self.world.tracked("p").observed.status.form
    }
}

fn moves(writes: &[StatusWrite]) -> Vec<Option<StoredForm>> {
    writes.iter().map(|write| write.form.moves_to()).collect()
}

#[test]
fn a_large_object_moves_to_the_compact_form_in_one_write() {
    let from = COMPACT_FROM as u64;
    let mut server = Server::with(from - 1);
    assert_eq!(
        (server.form(), &server.status["packed"]),
        (&Form::Plain, &Value::Null)
    );
    server.world.workload("w", "uid-w", 300, &[]);
    server.settle();
    server.ready(from - 1..from);
    let before = server.world.recorder.counts().largest_object_bytes;
    let writes = server.settle();
    assert_eq!(moves(&writes), [Some(StoredForm::Compact)]);
    assert_eq!(writes[0].patch["status"]["podStates"], Value::Null);
    assert_eq!(writes[0].patch["status"]["packed"]["version"], 1);
    assert!(
        writes[0].patch["status"]
            .as_object()
            .unwrap()
            .contains_key("podStates")
    );
    assert_eq!(
        (server.buckets(), server.status["recorded"].clone()),
        (vec!["ordinals-0".to_owned()], json!(from))
    );
    assert!(
        server.world.recorder.counts().largest_object_bytes < before / 3 * 2,
        "the size that is reported shrinks"
    );
    assert!(server.form().is_compact());
}

#[test]
fn a_small_object_moves_back_and_not_at_each_change() {
    let (from, until) = (COMPACT_FROM as u64, COMPACT_UNTIL as u64);
    let mut server = Server::with(from);
    for pods in [from - 1, until] {
        server.world.workload("w", "uid-w", pods, &[]);
        for pod in pods..from {
            server
                .world
                .recorder
                .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
        }
        assert_eq!(moves(&server.settle()), [None]);
        assert!(server.form().is_compact());
    }
    server
        .world
        .recorder
        .apply(Fact::Pods(Update::Delete(key(&format!("w-{}", until - 1)))));
    server.world.workload("w", "uid-w", until - 1, &[]);
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
    assert_eq!(
        (server.status.get("packed"), server.form()),
        (None, &Form::Plain)
    );
    assert_eq!(
        server.status["podStates"].as_object().unwrap().len() as u64,
        until - 1
    );
}

#[test]
fn a_change_writes_only_its_bucket() {
    let mut small = Server::with(200);
    let mut large = Server::with(5000);
    let bytes = |server: &mut Server| {
        let moved = PodFact {
            annotations: vec![("ip".into(), "10.0.0.2".into())],
            ..ready_on("node-1")
        };
        server.world.pod("w-100", moved);
        let write = server.write().unwrap();
        assert_eq!(
            write.patch["status"]
                .as_object()
                .unwrap()
                .keys()
                .collect::<Vec<_>>(),
            ["packed"]
        );
        let packed = &write.patch["status"]["packed"];
        assert_eq!(
            packed["buckets"]
                .as_object()
                .unwrap()
                .keys()
                .collect::<Vec<_>>(),
            ["ordinals-100"]
        );
        assert_eq!(
            packed.get("version"),
            None,
            "only an object that has the rest takes it"
        );
        server.accept(&write);
        write.patch.to_string().len()
    };
    let (small, large_bytes) = (bytes(&mut small), bytes(&mut large));
    assert!(large_bytes < small + 10, "{small} {large_bytes}");
    assert!(large_bytes < 100 * 40, "{large_bytes}");
    assert_eq!(large.buckets().len(), 50);
}

#[test]
fn a_bucket_that_becomes_empty_is_removed() {
    let mut server = Server::with(120);
    assert_eq!(server.buckets(), ["ordinals-0", "ordinals-100"]);
    for pod in 100..120 {
        server
            .world
            .recorder
            .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
    }
    server.world.workload("w", "uid-w", 100, &[]);
    server.settle();
    assert_eq!(server.buckets(), ["ordinals-0"]);
    for pod in 0..100 {
        server
            .world
            .recorder
            .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
    }
    server.world.workload("w", "uid-w", 0, &[]);
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
    assert_eq!(
        (server.status.get("packed"), server.known()),
        (None, Value::Null)
    );
}

#[test]
fn no_object_gets_the_compact_form_unless_the_definition_is_known_to_keep_it() {
    for is_kept in [None, Some(false)] {
        let mut server = Server::new(100);
        server.world.recorder.ledger.compact_form.is_kept = is_kept;
        server.ready(0..100);
        assert_eq!(moves(&server.settle()), [None]);
        server
            .world
            .recorder
            .change_compact_form(|form| form.is_kept = Some(true));
        if is_kept.is_some() {
            server.relist(Claims::No);
        }
        assert!(
            server
                .world
                .recorder
                .take_work()
                .statuses
                .contains(&key("p"))
        );
        assert_eq!(moves(&server.settle()), [Some(StoredForm::Compact)]);
    }
}

#[test]
fn never_moves_all_objects_back_as_far_as_they_fit() {
    let mut server = Server::with(100);
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_off = true);
    assert!(
        server
            .world
            .recorder
            .take_work()
            .statuses
            .contains(&key("p"))
    );
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);

    let mut server = Server::with(300);
    let compact = server.world.recorder.counts().largest_object_bytes;
    server.world.recorder.limit_objects(2 * compact);
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_off = true);
    assert_eq!(moves(&server.settle()), [None]);
    let condition = &server.status["conditions"][0];
    assert_eq!(condition["reason"], "NearCapacity");
    assert!(
        condition["message"]
            .as_str()
            .unwrap()
            .contains("keeps the compact form"),
        "{condition}"
    );
    // What only the API server knows.
    server.world.recorder.limit_objects(1000 * compact);
    server.world.recorder.ledger.reconsider_forms();
    let write = server.write().unwrap();
    assert_eq!(write.form.moves_to(), Some(StoredForm::Plain));
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::TooLarge);
    assert!(
        server
            .settle()
            .iter()
            .all(|write| write.form.moves_to().is_none())
    );
    // A smaller object may be stored.
    server
        .world
        .recorder
        .apply(Fact::Pods(Update::Delete(key("w-299"))));
    server.world.workload("w", "uid-w", 299, &[]);
    assert_eq!(
        server.write().unwrap().form.moves_to(),
        Some(StoredForm::Plain)
    );
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::TooLarge);
    assert!(
        server
            .settle()
            .iter()
            .all(|write| write.form.moves_to().is_none())
    );
    server.world.recorder.retry_exceeded();
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
}

#[test]
fn states_that_the_compact_form_makes_no_smaller_stay_plain() {
    let change = |server: &mut Server| {
        for pod in 0..60_u32 {
            // Nothing but the value, which has to be escaped.
            let value = "é".repeat(200) + &pod.to_string();
            let annotations = vec![("ip".into(), value.into())];
            server.world.pod(
                &format!("w-{pod}"),
                PodFact {
                    annotations,
                    ..ready_on("node-1")
                },
            );
        }
    };
    let mut server = Server::new(200);
    change(&mut server);
    assert_eq!(moves(&server.settle()), [None]);
    assert!(
        server
            .world
            .tracked("p")
            .progress
            .refused_forms
            .useless_at
            .is_some()
    );
    server.ready(60..119);
    assert_eq!(moves(&server.settle()), [None]);
    // One that has it loses it.
    let mut server = Server::with(60);
    change(&mut server);
    assert_eq!(moves(&server.settle()), [None, Some(StoredForm::Plain)]);
    // Unless it would get it back after the changes that are due.
    let mut server = Server::with(60);
    change(&mut server);
    let write = server.write().unwrap();
    server.accept(&write);
    server.ready(0..60);
    assert_eq!(moves(&server.settle()), [None]);
}

#[test]
fn a_state_that_another_writer_puts_into_pod_states_takes_precedence_and_is_folded_in() {
    let mut server = Server::with(150);
    server.status["podStates"] =
        json!({"w-7": {"nodeName": "node-9"}, "w-120": {"nodeName": "node-9"}});
    server.report(Claims::Yes);
    assert_eq!(
        server
            .world
            .tracked("p")
            .observed
            .status
            .pod_states
            .get("w-7")
            .unwrap()
            .node_name,
        "node-9"
    );
    let writes = server.settle();
    assert_eq!(moves(&writes), [None]);
    // The Pods run elsewhere, so both are recorded again.
    assert_eq!(server.status["podStates"], json!({}));
    assert_eq!(
        recorded_state(&server.status, "w-7")
            .unwrap()
            .unwrap()
            .node_name,
        "node-2"
    );

    for pod in ["w-7", "w-120"] {
        server
            .world
            .recorder
            .apply(Fact::Pods(Update::Delete(key(pod))));
    }
    server.settle();
    server.status["podStates"] =
        json!({"w-7": {"nodeName": "node-9"}, "w-120": {"nodeName": "node-9"}});
    server.report(Claims::Yes);
    assert!(
        server.settle().is_empty(),
        "a state of a Pod that does not run stays"
    );
    server.world.pod("w-8", ready_on("node-2"));
    server.settle();
    assert_eq!(
        server.status["podStates"],
        json!({"w-120": {"nodeName": "node-9"}}),
        "its bucket is not written"
    );
    assert_eq!(
        recorded_state(&server.status, "w-7")
            .unwrap()
            .unwrap()
            .node_name,
        "node-9"
    );
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_off = true);
    server.settle();
    assert_eq!(
        server.status["podStates"]["w-120"],
        json!({"nodeName": "node-9"})
    );
}

#[test]
fn as_many_compact_states_are_written_as_fit() {
    let mut server = Server::with(100);
    server.world.workload("w", "uid-w", 2000, &[]);
    server.settle();
    let limit = 4 * server.world.recorder.counts().largest_object_bytes;
    server.ready(100..2000);
    let mut refused = 0;
    while let Some(write) = server.write() {
        let mut after = server.status.clone();
        json_patch::merge(&mut after, &write.patch["status"]);
        if after.to_string().len() > limit {
            refused += 1;
            assert!(refused < 30, "no progress");
            server
                .world
                .recorder
                .on_status_done(&key("p"), "uid-p", StatusOutcome::TooLarge);
        } else {
            server.accept(&write);
        }
    }
    let stored = server.status.to_string().len();
    assert!(
        refused > 0 && stored > limit - 12 * 1024,
        "{stored} of {limit}"
    );
    assert_eq!(server.status["conditions"][0]["reason"], "CapacityExceeded");
}

#[test]
fn a_damaged_object_is_not_written() {
    let mut server = Server::with(60);
    server.status["packed"]["buckets"]["ordinals-0"] = "1 web-* n\n".into();
    server.report(Claims::Yes);
    server.ready(0..1);
    assert!(server.write().is_none());
    assert_eq!(server.world.recorder.counts().unreadable_objects, 1);
    let reported = server.world.recorder.take_work().notices;
    assert!(
        reported.iter().any(|notice| notice
            .message
            .contains("status.packed.buckets.ordinals-0 is damaged")),
        "{reported:?}"
    );
}

#[test]
fn the_sizes_are_those_of_what_is_stored() {
    let mut server = Server::with(COMPACT_FROM as u64 - 1);
    for pods in [COMPACT_FROM as u64, 130, 260] {
        server.world.workload("w", "uid-w", pods, &[]);
        server.ready(0..pods);
        server.settle();
        let sizes = server.world.tracked("p").progress.capacity.sizes;
        let stored = server.status["packed"]["buckets"].to_string().len() - 1;
        assert_eq!(sizes.stored, stored);
        let plain = server.known().to_string().len();
        assert!(
            sizes.plain.abs_diff(plain) < plain / 50,
            "{} {plain}",
            sizes.plain
        );
    }
    assert_eq!(Bucket::of("w-259").to_string(), "ordinals-200");
}

/// How many writes, and how many bytes of patches, it takes until 1,000 Pods are recorded that
/// become Ready one after the other, 50 in a second. In simulated time; the API server answers
/// after 10 ms.
fn record_a_thousand_pods(compact: bool) -> (usize, usize) {
    let mut server = Server::new(1000);
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_off = !compact);
    server.settle();
    let (mut batch, start) = (Batch::default(), Instant::now());
    let (mut writes, mut bytes, mut in_flight) = (0, 0, None);
    for millisecond in (0..25_000).step_by(10) {
        let now = start + Duration::from_millis(millisecond);
        if let Some(write) = in_flight.take() {
            let write: StatusWrite = write;
            server.accept(&write);
            batch.written(&write.key, write.cost, now);
        }
        if millisecond % 20 == 0 && millisecond < 20_000 {
            server.ready(millisecond / 20..millisecond / 20 + 1);
        }
        for key in server.world.recorder.take_work().statuses {
            batch.mark(&key, now);
        }
        if batch.take(Candidates::All, now).is_some()
            && let Some(write) = server.write()
        {
            (writes, bytes) = (writes + 1, bytes + write.patch.to_string().len());
            in_flight = Some(write);
        }
    }
    assert_eq!(server.world.states("p").len(), 1000);
    (writes, bytes)
}

#[test]
fn the_compact_form_takes_no_more_writes_and_few_more_bytes() {
    let (plain, compact) = (record_a_thousand_pods(false), record_a_thousand_pods(true));
    assert!(
        compact.0 <= 50 && compact.0 <= plain.0 + 2,
        "{plain:?} {compact:?}"
    );
    assert!(compact.1 <= 300_000, "{plain:?} {compact:?}");
}

#[test]
fn no_object_is_made_larger_than_its_limit_by_its_first_states_in_the_compact_form() {
    let mut server = Server::new(4000);
    server.world.recorder.limit_objects(40 * 1024);
    server.ready(0..4000);
    // As many as fit into podStates come first. Then the object moves, and more fit.
    let mut recorded = Vec::new();
    while let Some(write) = server.write() {
        server.accept(&write);
        recorded.push((write.form.moves_to(), write.recorded));
        let size = server.status.to_string().len();
        assert!(size < 40 * 1024, "{size}");
        assert!(
            recorded.len() > 2
                || server
                    .world
                    .recorder
                    .take_work()
                    .statuses
                    .contains(&key("p"))
        );
    }
    let [
        (None, plain),
        (Some(StoredForm::Compact), moved),
        ..,
        (None, all),
    ] = recorded[..]
    else {
        panic!("{recorded:?}")
    };
    assert!(plain == moved && all > 2 * plain, "{recorded:?}");
    assert_eq!(server.status["conditions"][0]["reason"], "CapacityExceeded");
}

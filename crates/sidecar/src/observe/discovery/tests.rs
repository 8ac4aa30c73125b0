use pps_core::kinds::Version;

use super::*;

/// What is told to a discovery.
struct World(Discovery);

impl World {
    /// Nothing is defined, and there is no ConfigMap; both are known.
    fn new() -> Self {
        let mut world = Self(Discovery::new("config"));
        world.0.config(Update::Begin(0));
        world.0.config(Update::Done);
        world.0.definitions(Update::Begin(0));
        world.0.definitions(Update::Done);
        assert_eq!(world.steps(), Vec::<String>::new());
        world
    }

    fn config(&mut self, text: &str) {
        let fact = ConfigFact { uid: "u".into(), whitelist: Some(text.into()) };
        self.0.config(Update::Apply(config_key(), fact));
    }

    fn define(&mut self, kind: &str, versions: &[&str]) {
        self.0.definitions(Update::Apply(kind.into(), definition(kind, versions)));
    }

    fn id(&self, kind: &str) -> WatchId {
        let kind = group_kind(kind);
        let number = self.0.watching[&kind].number;
        WatchId { kind, number }
    }

    /// What has to be done now, in short; a kind that may be listed after all is left out.
    fn steps(&mut self) -> Vec<String> {
        let short = |step| match step {
            WatchAction::Start(id, resource) => Some(format!("start {} {}", id.kind, resource.version)),
            WatchAction::Stop(kind) => Some(format!("stop {kind}")),
            WatchAction::Forbid(kind, true) => Some(format!("forbid {kind}")),
            WatchAction::Forbid(_, false) => None,
            WatchAction::Tell(notice) => Some(format!("tell {} {}", notice.subject, notice.reason)),
        };
        self.0.take_actions().into_iter().filter_map(short).collect()
    }
}

fn config_key() -> NamespacedName {
    NamespacedName::new("config", CONFIG_MAP)
}

fn group_kind(kind: &str) -> GroupKind {
    GroupKind { group: "a.io".into(), kind: kind.into() }
}

fn definition(kind: &str, versions: &[&str]) -> Definition {
    Definition {
        group: "a.io".into(),
        kind: kind.into(),
        plural: "things".into(),
        namespaced: true,
        established: true,
        terminating: false,
        versions: versions.iter().map(|name| Version { name: (*name).into(), replicas: None }).collect(),
    }
}

fn list(kinds: &[&str]) -> String {
    let workloads: Vec<_> =
        kinds.iter().map(|kind| serde_json::json!({"group": "a.io", "kind": kind})).collect();
    serde_json::json!({"workloads": workloads}).to_string()
}

#[test]
fn a_kind_is_watched_while_it_is_listed_and_defined() {
    let mut world = World::new();
    world.config(&list(&["A", "B"]));
    assert_eq!(world.steps(), Vec::<String>::new(), "neither is defined");
    world.define("A", &["v1"]);
    world.define("C", &["v1"]);
    assert_eq!(world.steps(), ["start A.a.io v1"]);
    world.define("A", &["v1"]);
    assert_eq!(world.steps(), Vec::<String>::new());
    world.define("A", &["v1", "v2"]);
    assert_eq!(world.steps(), ["start A.a.io v2"], "another version is preferred now");
    world.config(&list(&["C", "A"]));
    assert_eq!(world.steps(), ["start C.a.io v1"]);
    world.config(&list(&["C"]));
    assert_eq!(world.steps(), ["stop A.a.io"]);
    world.0.definitions(Update::Delete("C".into()));
    assert_eq!(world.steps(), ["stop C.a.io"]);
}

#[test]
fn nothing_is_generated_while_the_definition_of_it_goes() {
    let mut world = World::new();
    let own = |terminating: bool| Definition {
        group: "apps.kruise.io".into(),
        terminating,
        ..definition("PersistentPodState", &["v1alpha1"])
    };
    let other = Definition { terminating: true, ..definition("PersistentPodState", &["v1"]) };
    assert!(!world.0.is_own_terminating());
    for (key, definition, terminating) in [
        ("own", own(false), false),
        ("other", other, false),
        ("own", own(true), true),
        ("own", own(false), false),
    ] {
        world.0.definitions(Update::Apply(key.into(), definition));
        assert_eq!(world.0.is_own_terminating(), terminating);
    }
    world.0.definitions(Update::Apply("own".into(), own(true)));
    world.0.definitions(Update::Delete("own".into()));
    assert!(!world.0.is_own_terminating());
}

#[test]
fn openkruises_stateful_set_needs_no_list() {
    let mut world = World::new();
    let definition =
        Definition { group: "apps.kruise.io".into(), ..definition("StatefulSet", &["v1alpha1", "v1beta1"]) };
    world.0.definitions(Update::Apply("statefulsets".into(), definition));
    assert_eq!(world.steps(), ["start StatefulSet.apps.kruise.io v1beta1"]);
    world.config(r#"{"workloads":[{"group":"apps.kruise.io","version":"v1alpha1","kind":"StatefulSet"}]}"#);
    assert_eq!(world.steps(), ["start StatefulSet.apps.kruise.io v1alpha1"]);
}

#[test]
fn nothing_is_stopped_before_both_lists_are_known() {
    let mut world = World(Discovery::new("config"));
    world.0.config(Update::Begin(0));
    world.0.definitions(Update::Begin(0));
    world.define("A", &["v1"]);
    world.0.definitions(Update::Done);
    world.config(&list(&["A"]));
    assert!(world.steps().is_empty() && !world.0.is_known());
    world.0.config(Update::Done);
    assert_eq!(world.steps(), ["start A.a.io v1"]);

    // A new list that does not name them yet.
    world.0.config(Update::Begin(0));
    world.0.definitions(Update::Begin(0));
    assert_eq!(world.steps(), Vec::<String>::new());
    world.0.definitions(Update::Done);
    assert_eq!(world.steps(), ["stop A.a.io"]);
}

#[test]
fn a_malformed_list_is_told_and_the_last_good_one_stays() {
    let mut world = World::new();
    world.define("A", &["v1"]);
    world.config(&list(&["A"]));
    world.steps();
    world.config("{");
    assert_eq!(world.steps(), ["tell ConfigMap config/kruise-configuration MalformedWhitelist"]);
    world.config("{");
    world.define("B", &["v1"]);
    assert_eq!(world.steps(), Vec::<String>::new(), "users are told once");
    world.config(&list(&["B"]));
    assert_eq!(world.steps(), ["stop A.a.io", "start B.a.io v1"]);
    world.config("{");
    assert_eq!(world.steps().len(), 1, "it is wrong again");
    world.0.config(Update::Delete(config_key()));
    assert_eq!(world.steps(), ["stop B.a.io"]);
}

#[test]
fn kinds_that_cannot_be_watched_are_told() {
    let mut world = World::new();
    world.define("A", &["v1"]);
    let mut wide = definition("Wide", &["v1"]);
    wide.namespaced = false;
    world.0.definitions(Update::Apply("wide".into(), wide));
    world.config(
        r#"{"workloads":[{"group":"apps","kind":"Deployment"},{"group":"a.io","kind":"Wide"},{"group":"a.io","kind":"A"}]}"#,
    );
    let told = "tell ConfigMap config/kruise-configuration WorkloadKindUnsupported";
    assert_eq!(world.steps(), ["start A.a.io v1", told, told]);
}

#[test]
fn a_kind_that_may_not_be_listed_keeps_nobody_waiting() {
    let mut world = World::new();
    assert!(world.0.is_settled());
    world.define("A", &["v1"]);
    world.config(&list(&["A"]));
    assert!(!world.0.is_settled());
    world.steps();
    let id = world.id("A");
    world.0.lost(&id, true);
    let told = "tell ConfigMap config/kruise-configuration WorkloadKindForbidden";
    assert_eq!(world.steps(), ["forbid A.a.io", told]);
    assert!(world.0.is_settled());
    world.0.lost(&id, true);
    assert_eq!(world.steps(), Vec::<String>::new());
    world.0.heard(&id, true);
    assert_eq!(world.0.take_actions(), [WatchAction::Forbid(group_kind("A"), false)]);
    world.0.lost(&id, true);
    assert_eq!(world.steps(), ["forbid A.a.io"], "users are told once");
}

#[test]
fn what_an_earlier_watch_tells_does_not_count() {
    let mut world = World::new();
    world.define("A", &["v1"]);
    world.config(&list(&["A"]));
    let before = world.id("A");
    assert!(world.0.is_current(&before));
    world.config(&list(&[]));
    assert!(!world.0.is_current(&before));
    world.config(&list(&["A"]));
    assert!(!world.0.is_current(&before) && world.0.is_current(&world.id("A")));
}

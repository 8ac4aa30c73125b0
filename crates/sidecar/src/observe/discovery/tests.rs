//! Updates of the ConfigMap and of definitions in, actions out.

use pps_recorder::kinds::Version;

use super::*;

struct World(Discovery);

impl World {
    /// Both lists are complete: no ConfigMap and no definitions.
    fn new() -> Self {
        let mut world = Self(Discovery::new("config"));
        world.0.apply_config(Update::Begin(0));
        world.0.apply_config(Update::Done);
        world.0.apply_definitions(Update::Begin(0));
        world.0.apply_definitions(Update::Done);
        assert_eq!(world.actions(), Vec::<String>::new());
        world
    }

    fn config(&mut self, text: &str) {
        let fact = ConfigFact {
            uid: "u".into(),
            whitelist: Some(text.into()),
        };
        self.0.apply_config(Update::Apply(config_key(), fact));
    }

    fn define(&mut self, kind: &str, versions: &[&str]) {
        self.0
            .apply_definitions(Update::Apply(kind.into(), definition(kind, versions)));
    }

    fn id(&self, kind: &str) -> WatchId {
        let kind = group_kind(kind);
        let number = self.0.watching[&kind].number;
        WatchId { kind, number }
    }

    /// The pending actions in short.
    fn actions(&mut self) -> Vec<String> {
        let short = |action| match action {
            WatchAction::Start(id, resource) => format!("start {} {}", id.kind, resource.version),
            WatchAction::Stop(kind) => format!("stop {kind}"),
            WatchAction::Publish(notice) => format!("publish {} {}", notice.subject, notice.reason),
            WatchAction::RelistObjects => "relist objects".into(),
        };
        self.0.take_actions().into_iter().map(short).collect()
    }
}

fn config_key() -> NamespacedName {
    NamespacedName::new("config", CONFIG_MAP)
}

fn group_kind(kind: &str) -> GroupKind {
    GroupKind {
        group: "a.io".into(),
        kind: kind.into(),
    }
}

fn definition(kind: &str, versions: &[&str]) -> Definition {
    Definition {
        group: "a.io".into(),
        kind: kind.into(),
        plural: "things".into(),
        namespaced: true,
        established: true,
        terminating: false,
        versions: versions
            .iter()
            .map(|name| Version {
                name: (*name).into(),
                replicas: None,
            })
            .collect(),
        generation: 1,
        keeps_packed: false,
    }
}

fn list(kinds: &[&str]) -> String {
    let workloads: Vec<_> = kinds
        .iter()
        .map(|kind| serde_json::json!({"group": "a.io", "kind": kind}))
        .collect();
    serde_json::json!({"workloads": workloads}).to_string()
}

#[test]
fn watches_a_kind_while_it_is_both_listed_and_defined() {
    let mut world = World::new();
    world.config(&list(&["A", "B"]));
    assert_eq!(world.actions(), Vec::<String>::new(), "no definition yet");
    world.define("A", &["v1"]);
    world.define("C", &["v1"]);
    assert_eq!(world.actions(), ["start A.a.io v1"]);
    world.define("A", &["v1"]);
    assert_eq!(world.actions(), Vec::<String>::new());
    world.define("A", &["v2", "v1"]);
    assert_eq!(
        world.actions(),
        ["start A.a.io v2"],
        "the stored version changed"
    );
    world.config(&list(&["C", "A"]));
    assert_eq!(world.actions(), ["start C.a.io v1"]);
    world.config(&list(&["C"]));
    assert_eq!(world.actions(), ["stop A.a.io"]);
    world.0.apply_definitions(Update::Delete("C".into()));
    assert_eq!(world.actions(), ["stop C.a.io"]);
}

#[test]
fn reports_that_the_definition_of_persistentpodstate_is_terminating() {
    let mut world = World::new();
    let own = |terminating: bool| Definition {
        group: "apps.kruise.io".into(),
        terminating,
        ..definition("PersistentPodState", &["v1alpha1"])
    };
    let other = Definition {
        terminating: true,
        ..definition("PersistentPodState", &["v1"])
    };
    assert_eq!(
        OWN_DEFINITION,
        format!("{}.{}", pps_core::pps::PLURAL, own(false).group)
    );
    assert!(!world.0.is_pps_definition_terminating());
    for (key, definition, terminating) in [
        (OWN_DEFINITION, own(false), false),
        ("other", other, false),
        (OWN_DEFINITION, own(true), true),
        (OWN_DEFINITION, own(false), false),
    ] {
        world
            .0
            .apply_definitions(Update::Apply(key.into(), definition));
        assert_eq!(world.0.is_pps_definition_terminating(), terminating);
    }
    world
        .0
        .apply_definitions(Update::Apply(OWN_DEFINITION.into(), own(true)));
    world
        .0
        .apply_definitions(Update::Delete(OWN_DEFINITION.into()));
    assert!(!world.0.is_pps_definition_terminating());
}

#[test]
fn lists_the_objects_again_when_their_definition_changes() {
    let mut world = World::new();
    let own = |generation: i64| Definition {
        group: "apps.kruise.io".into(),
        generation,
        ..definition("PersistentPodState", &["v1alpha1"])
    };
    let mut after = |update| {
        world.0.apply_definitions(update);
        world.actions()
    };
    let apply = |generation| Update::Apply(OWN_DEFINITION.into(), own(generation));
    assert_eq!(after(apply(1)), Vec::<String>::new());
    assert_eq!(after(apply(1)), Vec::<String>::new());
    assert_eq!(after(apply(2)), ["relist objects"]);
    assert_eq!(
        after(Update::Delete(OWN_DEFINITION.into())),
        Vec::<String>::new()
    );
    assert_eq!(after(apply(2)), ["relist objects"], "another definition");
}

#[test]
fn watches_openkruises_stateful_set_without_a_list_entry() {
    let mut world = World::new();
    let definition = Definition {
        group: "apps.kruise.io".into(),
        ..definition("StatefulSet", &["v1beta1", "v1alpha1"])
    };
    world
        .0
        .apply_definitions(Update::Apply("statefulsets".into(), definition));
    assert_eq!(
        world.actions(),
        ["start StatefulSet.apps.kruise.io v1beta1"]
    );
    world.config(
        r#"{"workloads":[{"group":"apps.kruise.io","version":"v1alpha1","kind":"StatefulSet"}]}"#,
    );
    assert_eq!(
        world.actions(),
        ["start StatefulSet.apps.kruise.io v1alpha1"]
    );
}

#[test]
fn stops_nothing_before_both_lists_are_complete() {
    let mut world = World(Discovery::new("config"));
    world.0.apply_config(Update::Begin(0));
    world.0.apply_definitions(Update::Begin(0));
    world.define("A", &["v1"]);
    world.0.apply_definitions(Update::Done);
    world.config(&list(&["A"]));
    assert!(world.actions().is_empty() && !world.0.is_known());
    world.0.apply_config(Update::Done);
    assert_eq!(world.actions(), ["start A.a.io v1"]);

    // A relist that does not contain them yet.
    world.0.apply_config(Update::Begin(0));
    world.0.apply_definitions(Update::Begin(0));
    assert_eq!(world.actions(), Vec::<String>::new());
    world.0.apply_definitions(Update::Done);
    assert_eq!(world.actions(), ["stop A.a.io"]);
}

#[test]
fn reports_a_malformed_list_and_keeps_the_last_valid_one() {
    let mut world = World::new();
    world.define("A", &["v1"]);
    world.config(&list(&["A"]));
    world.actions();
    world.config("{");
    assert_eq!(
        world.actions(),
        ["publish ConfigMap config/kruise-configuration MalformedWhitelist"]
    );
    world.config("{");
    world.define("B", &["v1"]);
    assert_eq!(world.actions(), Vec::<String>::new(), "published only once");
    world.config(&list(&["B"]));
    assert_eq!(world.actions(), ["stop A.a.io", "start B.a.io v1"]);
    world.config("{");
    assert_eq!(world.actions().len(), 1, "malformed again");
    world.0.apply_config(Update::Delete(config_key()));
    assert_eq!(world.actions(), ["stop B.a.io"]);
}

#[test]
fn reports_listed_kinds_that_cannot_be_watched() {
    let mut world = World::new();
    world.define("A", &["v1"]);
    let mut wide = definition("Wide", &["v1"]);
    wide.namespaced = false;
    world
        .0
        .apply_definitions(Update::Apply("wide".into(), wide));
    world.config(
        r#"{"workloads":[{"group":"apps","kind":"Deployment"},{"group":"a.io","kind":"Wide"},{"group":"a.io","kind":"A"}]}"#,
    );
    let published = "publish ConfigMap config/kruise-configuration WorkloadKindUnsupported";
    assert_eq!(world.actions(), ["start A.a.io v1", published, published]);
}

#[test]
fn settles_without_a_kind_that_is_forbidden() {
    let mut world = World::new();
    assert!(world.0.is_settled());
    world.define("A", &["v1"]);
    world.config(&list(&["A"]));
    assert!(!world.0.is_settled());
    world.actions();
    let id = world.id("A");
    world.0.mark(&id, WatchState::Forbidden);
    let published = "publish ConfigMap config/kruise-configuration WorkloadKindForbidden";
    assert_eq!(world.actions(), [published]);
    assert!(world.0.is_settled());
    for state in [
        WatchState::Forbidden,
        WatchState::Listed,
        WatchState::Forbidden,
    ] {
        world.0.mark(&id, state);
        assert_eq!(world.actions(), Vec::<String>::new(), "published only once");
    }
}

#[test]
fn an_earlier_watch_of_a_kind_is_not_current() {
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

#[test]
fn knows_whether_the_definition_keeps_the_compact_form() {
    let mut discovery = Discovery::new("config");
    let own = |keeps_packed: bool| Definition {
        group: "apps.kruise.io".into(),
        keeps_packed,
        ..definition("PersistentPodState", &["v1alpha1"])
    };
    discovery.apply_definitions(Update::Begin(0));
    discovery.apply_definitions(Update::Apply(OWN_DEFINITION.into(), own(true)));
    assert_eq!(discovery.keeps_packed(), None, "the list is not complete");
    discovery.apply_definitions(Update::Done);
    assert_eq!(discovery.keeps_packed(), Some(true));
    discovery.apply_definitions(Update::Apply(OWN_DEFINITION.into(), own(false)));
    assert_eq!(discovery.keeps_packed(), Some(false));
    discovery.apply_definitions(Update::Delete(OWN_DEFINITION.into()));
    assert_eq!(discovery.keeps_packed(), None, "there is no object either");
}

//! The rules for PersistentPodState objects, at their admission.
//!
//! They work on the object's JSON, since what is wrong may be its very shape. All mistakes come at once.
//! What passes is read by [`crate::pps::Spec`] without an error.

use std::fmt;

use serde_json::Value;

use crate::annotations::AnnotationRules;
use crate::owner::has_stable_names;
use crate::pps::TargetReference;
use crate::record::successor_of;
use crate::to_text;

/// How much of a wrong value is repeated.
const MAX_VALUE: usize = 100;

/// Whether a text is what it should be.
type Rule = fn(&str) -> bool;

/// A mistake in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `spec.preferredPersistentTopology[1].weight`.
    pub path: String,
    /// What it says, in JSON; none if it is missing.
    pub value: Option<String>,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, value, remedy } = self;
        match value {
            Some(value) => write!(f, "{path} is {value}: {remedy}"),
            None => write!(f, "{path} is missing: {remedy}"),
        }
    }
}

/// What is to be said about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// Why it is refused; all reasons that can be seen in the object itself.
    pub violations: Vec<Violation>,
    /// What should be mended, and can wait.
    pub warnings: Vec<String>,
    /// The workload that the object claims, if it can be told.
    pub workload: Option<TargetReference>,
}

/// Whether an object passes, whatever is wrong with it: it is being deleted, or its spec stays as it was.
/// Otherwise nobody could remove a finalizer or a label from an object that is wrong already.
pub fn is_exempt(object: &Value, before: Option<&Value>) -> bool {
    let is_going = object["metadata"]["deletionTimestamp"].is_string();
    is_going || before.is_some_and(|before| before["spec"] == object["spec"])
}

/// Reviews an object that is created, or updated from what it was `before`, and not [exempt](is_exempt).
pub fn review(object: &Value, before: Option<&Value>, rules: &AnnotationRules) -> Review {
    let mut review = Review::default();
    let spec = &object["spec"];
    if spec.is_object() {
        review.target(&spec["targetRef"], before.map(|before| &before["spec"]["targetRef"]));
        review.content(spec, rules);
    } else {
        review.refuse("spec", spec, "describe which workload's Pods come back to where they were");
    }
    review
}

/// The mistake of an object that claims a workload which others claim already.
pub fn claimed_already(workload: &TargetReference, others: &[String]) -> Option<Violation> {
    let first = others.first()?;
    Some(Violation {
        path: "spec.targetRef".into(),
        value: Some(format!("{} {}", workload.kind, workload.name)),
        remedy: format!(
            "PersistentPodState {} of this namespace names it already; change {first}, or delete it first",
            others.join(", ")
        ),
    })
}

impl Review {
    fn refuse(&mut self, path: &str, value: &Value, remedy: &str) {
        let value = (!value.is_null()).then(|| {
            let text = to_text(value);
            match text.char_indices().nth(MAX_VALUE) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        });
        self.violations.push(Violation { path: path.into(), value, remedy: remedy.into() });
    }

    /// The workload that is named, and whether it is the one that was named before.
    fn target(&mut self, target: &Value, before: Option<&Value>) {
        const PATH: &str = "spec.targetRef";
        if !target.is_object() {
            let remedy =
                "name the workload by apiVersion, kind and name, such as apps/v1, StatefulSet and web";
            return self.refuse(PATH, target, remedy);
        }
        let mistakes = self.violations.len();
        let rules: [(_, Rule, _); 3] = [
            ("apiVersion", is_api_version, "use the workload's group and version, such as apps/v1"),
            ("kind", is_kind, "use the workload's kind, such as StatefulSet"),
            ("name", is_dns_subdomain, "use the workload's name: lower-case letters, digits, '-' and '.'"),
        ];
        for (field, rule, remedy) in rules {
            let value = &target[field];
            if !value.as_str().is_some_and(rule) {
                self.refuse(&format!("{PATH}.{field}"), value, remedy);
            }
        }
        let workload = TargetReference::read(target);
        if !has_stable_names(&workload.api_version, &workload.kind) {
            let remedy = "its Pods get new names each time, so nothing can be given back to them; name a StatefulSet or its like";
            self.refuse(&format!("{PATH}.kind"), &target["kind"], remedy);
        }
        if let Some(before) = before.map(TargetReference::read) {
            let parts = [
                ("apiVersion", before.group(), workload.group()),
                ("kind", &before.kind, &workload.kind),
                ("name", &before.name, &workload.name),
            ];
            for (field, was, is) in parts {
                if was != is {
                    let remedy =
                        format!("it was {was:?} and cannot change; create another PersistentPodState");
                    let remedy = if field == "apiVersion" { format!("its group: {remedy}") } else { remedy };
                    self.refuse(&format!("{PATH}.{field}"), &target[field], &remedy);
                }
            }
        }
        if self.violations.len() == mistakes {
            self.workload = Some(workload);
        }
    }

    /// What is remembered, and for how long.
    fn content(&mut self, spec: &Value, rules: &AnnotationRules) {
        let required = &spec["requiredPersistentTopology"];
        if !required.is_null() {
            self.term("spec.requiredPersistentTopology", required);
        }
        let preferred = self.list("spec.preferredPersistentTopology", &spec["preferredPersistentTopology"]);
        for (path, term) in &preferred {
            let weight = &term["weight"];
            if !weight.as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
                self.refuse(&format!("{path}.weight"), weight, "use a whole number from 1 to 100");
            }
            self.term(&format!("{path}.preference"), &term["preference"]);
        }
        let annotations = self.list("spec.persistentPodAnnotations", &spec["persistentPodAnnotations"]);
        for (path, annotation) in &annotations {
            if annotation.is_object() {
                self.annotation_key(&format!("{path}.key"), &annotation["key"], rules);
                self.choice(
                    &format!("{path}.valueFrom"),
                    &annotation["valueFrom"],
                    &["PodIPsJSON", "PodIPsCSV"],
                );
            } else {
                self.annotation_key(path, annotation, rules);
            }
        }
        let nothing =
            ["requiredPersistentTopology", "preferredPersistentTopology", "persistentPodAnnotations"]
                .iter()
                .all(|field| spec[field].is_null() || spec[field].as_array().is_some_and(Vec::is_empty));
        if nothing {
            let remedy = "name what comes back: requiredPersistentTopology, preferredPersistentTopology or persistentPodAnnotations";
            self.violations.push(Violation {
                path: "spec".into(),
                value: Some("without anything to remember".into()),
                remedy: remedy.into(),
            });
        }
        for (field, choices) in [
            ("persistentPodStateRetentionPolicy", &["WhenScaled", "WhenDeleted", "Retain"][..]),
            ("nodeDeletionPolicy", &["Keep", "Forget"]),
        ] {
            self.choice(&format!("spec.{field}"), &spec[field], choices);
        }
    }

    /// The items of an optional list, with their paths.
    fn list<'a>(&mut self, path: &str, list: &'a Value) -> Vec<(String, &'a Value)> {
        if !list.is_null() && !list.is_array() {
            self.refuse(path, list, "it must be a list");
        }
        let items = list.as_array().into_iter().flatten().enumerate();
        items.map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
    }

    /// A topology: `nodeTopologyKeys`, or `keys` as v1beta1 has it.
    fn term(&mut self, path: &str, term: &Value) {
        let other = term.get("keys");
        let spelling = if other.is_some() { "keys" } else { "nodeTopologyKeys" };
        let path = &format!("{path}.{spelling}");
        let keys = &term[spelling];
        if other.is_some() && term.get("nodeTopologyKeys").is_some() {
            self.refuse(path, keys, "it is another spelling of nodeTopologyKeys; keep one of them");
        }
        if keys.as_array().is_none_or(Vec::is_empty) {
            let remedy = "list at least one key of a node label, such as topology.kubernetes.io/zone";
            return self.refuse(path, keys, remedy);
        }
        for (path, key) in &self.list(path, keys) {
            match key.as_str() {
                Some(label) if is_qualified_name(label) => {
                    if let Some(successor) = successor_of(label) {
                        self.warnings.push(format!(
                            "{path} is {label:?}: Kubernetes sets it no longer, so it may pin nothing; use {successor:?}"
                        ));
                    }
                }
                _ => {
                    self.refuse(
                        path,
                        key,
                        "use the key of a node label, such as topology.kubernetes.io/zone",
                    );
                }
            }
        }
    }

    fn annotation_key(&mut self, path: &str, key: &Value, rules: &AnnotationRules) {
        let text = key.as_str().unwrap_or_default();
        if !is_annotation_key(text) {
            return self.refuse(
                path,
                key,
                "use the key of an annotation, such as ovn.kubernetes.io/ip_address",
            );
        }
        if let Some(forbidden) = rules.forbid(text) {
            self.refuse(path, key, &forbidden.to_string());
        }
    }

    fn choice(&mut self, path: &str, value: &Value, choices: &[&str]) {
        if !value.is_null() && !value.as_str().is_some_and(|value| choices.contains(&value)) {
            self.refuse(path, value, &format!("use one of {}, or leave it out", choices.join(", ")));
        }
    }
}

fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        Some((group, version)) => is_dns_subdomain(group) && is_dns_label(version),
        None => is_dns_label(text),
    }
}

fn is_kind(text: &str) -> bool {
    is_dns_label(&text.to_ascii_lowercase()) && !text.starts_with(|first: char| first.is_ascii_digit())
}

/// Kubernetes looks at annotations in lower case, at labels as they are.
pub(crate) fn is_annotation_key(text: &str) -> bool {
    is_qualified_name(&text.to_ascii_lowercase())
}

/// What label keys and annotation keys are: `name`, or `prefix/name`.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain)
        && name.len() <= 63
        && is_made_of(name, b"-_.", |byte| byte.is_ascii_alphanumeric())
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| is_made_of(label, b"-", is_lower_case))
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_made_of(text, b"-", is_lower_case)
}

fn is_lower_case(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text is not empty, made of such characters and of separators, and has none of these at its
/// ends.
fn is_made_of(text: &str, separators: &[u8], is_ordinary: fn(u8) -> bool) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(is_ordinary);
    is_end(text.bytes().next())
        && is_end(text.bytes().next_back())
        && text.bytes().all(|byte| is_ordinary(byte) || separators.contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::annotations::Pattern;
    use crate::pps::Spec;
    use crate::{INJECTED_ANNOTATION, NEVER_INJECTED};

    fn object(changes: &Value) -> Value {
        let mut spec = json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
        });
        merge(&mut spec, changes);
        json!({"metadata": {"name": "web"}, "spec": spec})
    }

    fn merge(target: &mut Value, changes: &Value) {
        match (target, changes) {
            (Value::Object(target), Value::Object(changes)) => {
                for (field, change) in changes {
                    merge(target.entry(field).or_insert(Value::Null), change);
                }
            }
            (target, changes) => *target = changes.clone(),
        }
    }

    /// The review of a created object.
    fn create(object: &Value) -> Review {
        review(object, None, &AnnotationRules::default())
    }

    /// The violations of a created object, in one line each.
    fn violations(changes: &Value) -> Vec<String> {
        let review = create(&object(changes));
        assert_eq!(
            review.workload.is_none(),
            review.violations.iter().any(|it| it.path.contains("targetRef"))
        );
        review.violations.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn check(changes: &Value, expected: &[&str]) {
        let violations = violations(changes);
        assert_eq!(violations.len(), expected.len(), "{violations:#?}");
        for (violation, start) in violations.iter().zip(expected) {
            assert!(violation.starts_with(start), "{violation}");
        }
    }

    #[test]
    fn a_good_object_passes_in_all_spellings() {
        check(&json!({}), &[]);
        check(
            &json!({
                "targetRef": {"apiVersion": "game.kruise.io/v1alpha1", "kind": "GameServerSet", "name": "eu.web"},
                "requiredPersistentTopology": {"nodeTopologyKeys": null, "keys": ["rack", "Example.io_x"]},
                "preferredPersistentTopology": [{"weight": 1, "preference": {"keys": ["kubernetes.io/hostname"]}}],
                "persistentPodAnnotations": ["a", {"key": "Example.IO/B", "valueFrom": "PodIPsCSV"}, {"key": "c", "valueFrom": null}],
                "persistentPodStateRetentionPolicy": "Retain",
                "nodeDeletionPolicy": null,
            }),
            &[r#"spec.requiredPersistentTopology.keys is ["rack","Example.io_x"]: it is another spelling"#],
        );
        check(&json!({"requiredPersistentTopology": null, "persistentPodAnnotations": ["a"]}), &[]);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        check(
            &json!({
                "targetRef": {"apiVersion": "apps/v1/", "kind": "", "name": "Web"},
                "requiredPersistentTopology": {"nodeTopologyKeys": []},
                "preferredPersistentTopology": [
                    {"weight": 100, "preference": {"nodeTopologyKeys": ["a"]}},
                    {"weight": 0, "preference": {"nodeTopologyKeys": ["a", "-b", 7]}},
                    3,
                ],
                "persistentPodAnnotations": ["", {"key": INJECTED_ANNOTATION}, null],
                "nodeDeletionPolicy": "keep",
            }),
            &[
                r#"spec.targetRef.apiVersion is "apps/v1/": "#,
                r#"spec.targetRef.kind is "": "#,
                r#"spec.targetRef.name is "Web": "#,
                "spec.requiredPersistentTopology.nodeTopologyKeys is []: ",
                "spec.preferredPersistentTopology[1].weight is 0: use a whole number from 1 to 100",
                r#"spec.preferredPersistentTopology[1].preference.nodeTopologyKeys[1] is "-b": "#,
                "spec.preferredPersistentTopology[1].preference.nodeTopologyKeys[2] is 7: ",
                "spec.preferredPersistentTopology[2].weight is missing: ",
                "spec.preferredPersistentTopology[2].preference.nodeTopologyKeys is missing: ",
                r#"spec.persistentPodAnnotations[0] is "": "#,
                r#"spec.persistentPodAnnotations[1].key is "kruise.io/injected-persistent-pod-state": "#,
                "spec.persistentPodAnnotations[2] is missing: ",
                r#"spec.nodeDeletionPolicy is "keep": use one of Keep, Forget, or leave it out"#,
            ],
        );
    }

    #[test]
    fn kinds_without_stable_names_are_refused() {
        for (api_version, kind) in
            [("apps/v1", "Deployment"), ("batch/v1", "Job"), ("v1", "ReplicationController")]
        {
            let changes = json!({"targetRef": {"apiVersion": api_version, "kind": kind}});
            check(&changes, &[&format!("spec.targetRef.kind is {kind:?}: its Pods get new names each time")]);
        }
    }

    #[test]
    fn something_has_to_be_remembered() {
        let nothing = "spec is without anything to remember: ";
        check(&json!({"requiredPersistentTopology": null}), &[nothing]);
        check(
            &json!({"requiredPersistentTopology": null, "preferredPersistentTopology": [], "persistentPodAnnotations": []}),
            &[nothing],
        );
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        for good in
            ["a", "A.b_c-9", "example.io/A", "1.2/3", &"a".repeat(63), &format!("{}/b", "a".repeat(253))]
        {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "A.io/a",
            "a..b/c",
            "ä",
            &"a".repeat(64),
            &format!("{}/b", "a".repeat(254)),
        ] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        for good in ["v1", "apps/v1", "apps.kruise.io/v1beta1"] {
            assert!(is_api_version(good), "{good}");
        }
        for bad in ["", "/", "/v1", "apps/", "a/b/c", "Apps/v1", "apps/v 1"] {
            assert!(!is_api_version(bad), "{bad}");
        }
        assert!(is_kind("StatefulSet") && !is_kind("7Set") && !is_kind("Stateful Set"));
    }

    #[test]
    fn another_key_is_named_where_there_is_one() {
        for (never, instead) in NEVER_INJECTED {
            let told = violations(&json!({"persistentPodAnnotations": [never]}));
            assert_eq!(told.len(), 1);
            assert!(told[0].contains(instead.unwrap_or("remove it")), "{}", told[0]);
        }
    }

    #[test]
    fn what_the_administrator_forbids_is_told_with_all_the_rest() {
        let rules =
            AnnotationRules { allow: None, deny: Pattern::parse("example.io/*").into_iter().collect() };
        let changes =
            json!({"persistentPodAnnotations": ["a", {"key": "example.io/ip"}, "example.io/mac", ""]});
        let review = review(&object(&changes), None, &rules);
        let told: Vec<String> = review.violations.iter().map(ToString::to_string).collect();
        let remedy = "the policy's settings.annotations.deny forbids it by \"example.io/*\"; remove it";
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[0], format!("spec.persistentPodAnnotations[1].key is \"example.io/ip\": {remedy}"));
        assert_eq!(told[1], format!("spec.persistentPodAnnotations[2] is \"example.io/mac\": {remedy}"));
    }

    #[test]
    fn a_deprecated_key_is_accepted_with_a_warning() {
        let changes = json!({"requiredPersistentTopology": {"nodeTopologyKeys": ["failure-domain.beta.kubernetes.io/zone"]}});
        let review = create(&object(&changes));
        assert_eq!(review.violations, []);
        assert!(
            review.warnings[0].ends_with(r#"use "topology.kubernetes.io/zone""#),
            "{}",
            review.warnings[0]
        );
    }

    #[test]
    fn the_workload_cannot_change_but_its_version_can() {
        let of = |api_version: &str, kind: &str, name: &str| {
            object(&json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}}))
        };
        let paths = |after: &Value| -> Vec<String> {
            let before = of("apps/v1", "StatefulSet", "web");
            let review = review(after, Some(&before), &AnnotationRules::default());
            review.violations.iter().map(|violation| violation.path.clone()).collect()
        };
        assert_eq!(paths(&of("apps/v1beta2", "StatefulSet", "web")), [""; 0]);
        assert_eq!(paths(&of("apps.kruise.io/v1beta1", "StatefulSet", "web")), ["spec.targetRef.apiVersion"]);
        assert_eq!(paths(&of("apps/v1", "PetSet", "bew")), ["spec.targetRef.kind", "spec.targetRef.name"]);
    }

    #[test]
    fn what_is_wrong_already_may_go_and_may_be_touched() {
        let wrong = object(&json!({"targetRef": {"kind": "Deployment"}}));
        let mut touched = wrong.clone();
        touched["metadata"]["finalizers"] = json!([]);
        assert!(is_exempt(&touched, Some(&wrong)));
        let mut terminating = object(&json!({"targetRef": {"kind": "Job"}}));
        terminating["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
        assert!(is_exempt(&terminating, Some(&wrong)) && is_exempt(&terminating, None));
        assert!(!is_exempt(&object(&json!({})), Some(&wrong)) && !is_exempt(&wrong, None));
    }

    #[test]
    fn no_shape_is_a_panic() {
        for wrong in
            [json!(null), json!(7), json!("x"), json!([]), json!([[]]), json!({}), json!([{"key": {}}])]
        {
            assert!(!create(&wrong).violations.is_empty());
            assert!(!create(&json!({"spec": wrong})).violations.is_empty());
            for field in [
                "targetRef",
                "requiredPersistentTopology",
                "preferredPersistentTopology",
                "persistentPodAnnotations",
                "persistentPodStateRetentionPolicy",
                "nodeDeletionPolicy",
            ] {
                let mut object = object(&json!({}));
                object["spec"][field] = wrong.clone();
                let review = create(&object);
                // What passes can be read.
                let read = serde_json::from_value::<Spec>(object["spec"].clone());
                assert!(read.is_ok() || !review.violations.is_empty(), "{field} {wrong}: {read:?}");
            }
        }
    }

    #[test]
    fn long_values_are_cut() {
        let told = violations(&json!({"targetRef": {"name": "É".repeat(9000)}}));
        assert!(told[0].len() < 400, "{}", told[0].len());
    }
}

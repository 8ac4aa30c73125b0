//! Validates PersistentPodState objects at admission.
//!
//! Works on the object's JSON, since a field may be of the wrong type, and reports all violations
//! at once. Whatever passes can be read as a [`Spec`](pps_core::pps::Spec).

use std::fmt;

use serde_json::Value;

use pps_core::annotations::AnnotationRules;
use pps_core::governing::aliased;
use pps_core::json::shorten;
use pps_core::limits::{
    MAX_ANNOTATIONS, MAX_FALLBACK_SECONDS, MAX_PREFERRED_TERMS, MAX_TOPOLOGY_KEYS,
    MIN_FALLBACK_SECONDS, describe_excess, shorten_list,
};
use pps_core::names::successor_of;
use pps_core::names::{is_annotation_key, is_api_version, is_dns_subdomain, is_kind, is_label_key};
use pps_core::owner::has_stable_names;
use pps_core::pps::{TargetReference, group_of};

type SyntaxRule = fn(&str) -> bool;

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `spec.preferredPersistentTopology[1].weight`.
    pub path: String,
    /// Its value in JSON; `None` if it is missing.
    pub value: Option<String>,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            value,
            remedy,
        } = self;
        match value {
            Some(value) => write!(f, "{path} is {value}: {remedy}"),
            None => write!(f, "{path} is missing: {remedy}"),
        }
    }
}

/// The result of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// Why the object is refused.
    pub violations: Vec<Violation>,
    /// What should be corrected but does not refuse the object.
    pub warnings: Vec<String>,
    /// The workload that the object targets; `None` if `targetRef` has a violation, or for an
    /// alias.
    pub workload: Option<TargetReference>,
}

/// The violations in one line: the first of them, and how many more there are.
pub fn join(violations: &[Violation]) -> String {
    shorten_list(violations.iter().map(ToString::to_string).collect()).join("; ")
}

/// Whether an object passes without a review: it is terminating, or its spec is unchanged.
/// Otherwise finalizers and labels could not be removed from an object that is already invalid.
/// Only the object before the update says whether it is terminating: a client can submit any
/// `deletionTimestamp`.
pub fn is_exempt(object: &Value, before: Option<&Value>) -> bool {
    before.is_some_and(|before| {
        before["metadata"]["deletionTimestamp"].is_string() || before["spec"] == object["spec"]
    })
}

/// Reviews an object that is created, or updated from `before`, and is not [exempt](is_exempt).
///
/// ```
/// use pps_core::AnnotationRules;
/// use pps_admission::validate::review;
/// use serde_json::json;
///
/// let object = json!({"metadata": {"name": "web"}, "spec": {
///     "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
///     "preferredPersistentTopology": [
///         {"weight": 1000, "preference": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}},
///     ],
/// }});
///
/// let review = review(&object, None, &AnnotationRules::default());
///
/// assert_eq!(review.violations.len(), 1);
/// assert_eq!(
///     review.violations[0].to_string(),
///     "spec.preferredPersistentTopology[0].weight is 1000: use a whole number from 1 to 100",
/// );
/// assert_eq!(review.workload.unwrap().name, "web");
/// ```
pub fn review(object: &Value, before: Option<&Value>, rules: &AnnotationRules) -> Review {
    let mut review = Review::default();
    let spec = &object["spec"];
    if spec.is_object() {
        review.check_target(
            &spec["targetRef"],
            before.map(|before| &before["spec"]["targetRef"]),
        );
        match review
            .workload
            .take_if(|workload| aliased(workload).is_some())
        {
            Some(alias) => review.check_alias(object, &alias.name),
            None => review.check_content(spec, rules),
        }
    } else {
        review.refuse(
            "spec",
            spec,
            "set targetRef, and the topology or the annotations to persist",
        );
    }
    review
}

/// Refuses to create an object if `others` already target the same workload.
pub fn check_sole_target(workload: &TargetReference, others: &[String]) -> Option<Violation> {
    let first = others.first()?;
    Some(Violation {
        path: "spec.targetRef".into(),
        value: Some(format!("{} {}", workload.kind, workload.name)),
        remedy: format!(
            "it is already the target of PersistentPodState {}; update {first} instead, or delete \
             it first",
            shorten(&others.join(", "))
        ),
    })
}

impl Review {
    fn refuse(&mut self, path: &str, value: &Value, remedy: &str) {
        let value = (!value.is_null()).then(|| shorten(&value.to_string()));
        self.violations.push(Violation {
            path: path.into(),
            value,
            remedy: remedy.into(),
        });
    }

    /// Checks `spec.targetRef`, and that an update does not change the workload.
    fn check_target(&mut self, target: &Value, before: Option<&Value>) {
        const PATH: &str = "spec.targetRef";
        if !target.is_object() {
            let remedy = "name the workload by apiVersion, kind and name, such as apps/v1, \
                          StatefulSet and web";
            return self.refuse(PATH, target, remedy);
        }
        let violations_before = self.violations.len();
        let rules: [(_, SyntaxRule, _); 3] = [
            (
                "apiVersion",
                is_api_version,
                "use the workload's group and version, such as apps/v1",
            ),
            (
                "kind",
                is_kind,
                "use the workload's kind, such as StatefulSet",
            ),
            (
                "name",
                is_dns_subdomain,
                "use the workload's name: lower-case letters, digits, '-' and '.'",
            ),
        ];
        for (field, is_valid, remedy) in rules {
            let value = &target[field];
            let path = format!("{PATH}.{field}");
            let Some(text) = value.as_str().filter(|text| is_valid(text)) else {
                self.refuse(&path, value, remedy);
                continue;
            };
            // What was not valid has named no workload, and may be corrected.
            let before = before.and_then(|before| before[field].as_str());
            let Some(before) = before.filter(|before| is_valid(before)) else {
                continue;
            };
            let (what, [was, is]) = match field {
                "apiVersion" => ("its group", [before, text].map(group_of)),
                _ => ("it", [before, text]),
            };
            if was != is {
                let remedy = format!(
                    "{what} cannot change from \"{was}\"; create another PersistentPodState instead"
                );
                self.refuse(&path, value, &remedy);
            }
        }
        let workload = TargetReference::read(target);
        if !has_stable_names(&workload.api_version, &workload.kind) {
            let remedy = "its Pods do not keep their names; use a kind whose re-created Pods do, \
                          such as StatefulSet";
            self.refuse(&format!("{PATH}.kind"), &target["kind"], remedy);
        }
        if self.violations.len() == violations_before {
            self.workload = Some(workload);
        }
    }

    /// Checks an alias: it says nothing but which PPS it stands for, and that is another one.
    fn check_alias(&mut self, object: &Value, target: &str) {
        for field in [
            "requiredPersistentTopology",
            "preferredPersistentTopology",
            "persistentPodAnnotations",
            "persistentPodStateRetentionPolicy",
            "nodeDeletionPolicy",
            "recordingPolicy",
        ] {
            let value = &object["spec"][field];
            if !is_nothing(value) {
                let remedy = "remove it: an object that targets a PersistentPodState only stands \
                              for it; set this there";
                self.refuse(&format!("spec.{field}"), value, remedy);
            }
        }
        let name = &object["metadata"]["name"];
        if name == target {
            self.refuse(
                "spec.targetRef.name",
                name,
                "use the name of another PersistentPodState, or target a workload",
            );
        }
    }

    /// Checks what is persisted, and for how long.
    fn check_content(&mut self, spec: &Value, rules: &AnnotationRules) {
        let required = &spec["requiredPersistentTopology"];
        if !required.is_null() {
            self.check_topology("spec.requiredPersistentTopology", required);
            self.check_fallback(&required["fallbackAfterSeconds"]);
        }
        let preferred = self.read_list(
            "spec.preferredPersistentTopology",
            &spec["preferredPersistentTopology"],
            MAX_PREFERRED_TERMS,
        );
        for (path, term) in &preferred {
            let weight = &term["weight"];
            if !weight
                .as_i64()
                .is_some_and(|weight| (1..=100).contains(&weight))
            {
                self.refuse(
                    &format!("{path}.weight"),
                    weight,
                    "use a whole number from 1 to 100",
                );
            }
            self.check_topology(&format!("{path}.preference"), &term["preference"]);
            let end = &term["preference"]["fallbackAfterSeconds"];
            if !end.is_null() {
                let path = format!("{path}.preference.fallbackAfterSeconds");
                let remedy = "remove it: a Pod waits for no preference; only \
                              requiredPersistentTopology has an end";
                self.refuse(&path, end, remedy);
            }
        }
        let annotations = self.read_list(
            "spec.persistentPodAnnotations",
            &spec["persistentPodAnnotations"],
            MAX_ANNOTATIONS,
        );
        self.check_sources(&annotations);
        for (path, annotation) in &annotations {
            if annotation.is_object() {
                self.check_annotation_key(&format!("{path}.key"), &annotation["key"], rules);
                self.check_choice(
                    &format!("{path}.valueFrom"),
                    &annotation["valueFrom"],
                    &["PodIPsJSON", "PodIPsCSV"],
                );
            } else {
                self.check_annotation_key(path, annotation, rules);
            }
        }
        let nothing = [
            "requiredPersistentTopology",
            "preferredPersistentTopology",
            "persistentPodAnnotations",
        ]
        .iter()
        .all(|field| is_nothing(&spec[field]));
        if nothing {
            let remedy = "set requiredPersistentTopology, preferredPersistentTopology or \
                          persistentPodAnnotations";
            self.violations.push(Violation {
                path: "spec".into(),
                value: Some("without anything to persist".into()),
                remedy: remedy.into(),
            });
        }
        for (field, choices) in [
            (
                "persistentPodStateRetentionPolicy",
                &["WhenScaled", "WhenDeleted", "Retain"][..],
            ),
            ("nodeDeletionPolicy", &["Keep", "Forget"]),
            ("recordingPolicy", &["Always", "IfNotPresent"]),
        ] {
            self.check_choice(&format!("spec.{field}"), &spec[field], choices);
        }
    }

    /// Checks how long a Pod waits for its place, if that is bounded.
    fn check_fallback(&mut self, seconds: &Value) {
        let is_valid = |seconds: i64| {
            u32::try_from(seconds).is_ok_and(|seconds| {
                (MIN_FALLBACK_SECONDS..=MAX_FALLBACK_SECONDS).contains(&seconds)
            })
        };
        if !seconds.is_null() && !seconds.as_i64().is_some_and(is_valid) {
            let remedy = format!(
                "use a whole number from {MIN_FALLBACK_SECONDS} to {MAX_FALLBACK_SECONDS}, or \
                 remove it to wait forever"
            );
            let path = "spec.requiredPersistentTopology.fallbackAfterSeconds";
            self.refuse(path, seconds, &remedy);
        }
    }

    /// The items of an optional list, with their paths; none if there are too many.
    fn read_list<'a>(
        &mut self,
        path: &str,
        list: &'a Value,
        max: usize,
    ) -> Vec<(String, &'a Value)> {
        if !list.is_null() && !list.is_array() {
            self.refuse(path, list, "it must be a list");
        }
        let items = pps_core::json::list(list);
        if let Some([value, remedy]) = describe_excess(items.len(), max) {
            self.violations.push(Violation {
                path: path.into(),
                value: Some(value),
                remedy,
            });
            return Vec::new();
        }
        items
            .iter()
            .enumerate()
            .map(|(index, item)| (format!("{path}[{index}]"), item))
            .collect()
    }

    /// Checks the keys of a topology: `nodeTopologyKeys`, or `keys` in the spelling of v1beta1.
    fn check_topology(&mut self, path: &str, term: &Value) {
        let [has_keys, has_node_topology_keys] =
            ["keys", "nodeTopologyKeys"].map(|spelling| !term[spelling].is_null());
        let spelling = if has_keys { "keys" } else { "nodeTopologyKeys" };
        let path = &format!("{path}.{spelling}");
        let keys = &term[spelling];
        if has_keys && has_node_topology_keys {
            self.refuse(
                path,
                keys,
                "it is another spelling of nodeTopologyKeys; remove one of them",
            );
        }
        if keys.as_array().is_none_or(Vec::is_empty) {
            let remedy = "list at least one node label key, such as topology.kubernetes.io/zone";
            return self.refuse(path, keys, remedy);
        }
        for (path, key) in &self.read_list(path, keys, MAX_TOPOLOGY_KEYS) {
            match key.as_str() {
                Some(label) if is_label_key(label) => {
                    if let Some(successor) = successor_of(label) {
                        self.warnings.push(format!(
                            "{path} is \"{label}\": this label is deprecated; use \"{successor}\" \
                             (new nodes have only that one)"
                        ));
                    }
                }
                _ => {
                    self.refuse(
                        path,
                        key,
                        "use a node label key, such as topology.kubernetes.io/zone",
                    );
                }
            }
        }
    }

    /// Checks that no annotation is listed with two sources: only one of them can be recorded.
    fn check_sources(&mut self, annotations: &[(String, &Value)]) {
        let mut sources: Vec<(&str, &Value)> = Vec::new();
        for (path, annotation) in annotations {
            let (key, source) = match annotation.as_str() {
                Some(key) => (key, &Value::Null),
                None => (
                    annotation["key"].as_str().unwrap_or_default(),
                    &annotation["valueFrom"],
                ),
            };
            if key.is_empty() {
                continue;
            }
            match sources.iter().find(|(listed, _)| *listed == key) {
                None => sources.push((key, source)),
                Some((_, first)) if *first == source => {}
                Some(_) => {
                    let key = shorten(key);
                    let remedy = format!("{key} is listed before with another one; list it once");
                    self.refuse(&format!("{path}.valueFrom"), source, &remedy);
                }
            }
        }
    }

    fn check_annotation_key(&mut self, path: &str, key: &Value, rules: &AnnotationRules) {
        let text = key.as_str().unwrap_or_default();
        if !is_annotation_key(text) {
            return self.refuse(
                path,
                key,
                "use an annotation key, such as ovn.kubernetes.io/ip_address",
            );
        }
        if let Some(forbidden) = rules.forbid(text) {
            self.refuse(path, key, &forbidden.to_string());
        }
    }

    fn check_choice(&mut self, path: &str, value: &Value, choices: &[&str]) {
        if !value.is_null() && !value.as_str().is_some_and(|value| choices.contains(&value)) {
            self.refuse(
                path,
                value,
                &format!("use one of {}, or remove it", choices.join(", ")),
            );
        }
    }
}

/// Whether a field is missing, or an empty list.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests;

//! The objects of the files as a cluster, and the policy in it.

use std::collections::{BTreeMap, BTreeSet};

use persistent_pod_state_policy::cluster::Cluster;
use persistent_pod_state_policy::{Settings, ValidationResponse};
use pps_core::alias::{aliased, target_of_alias};
use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::generate::{read_request, second_name};
use pps_core::owner::has_stable_names;
use pps_core::pps::{API_VERSION, KIND};
use pps_core::{PodIdentity, TargetReference, shorten};
use pps_manifest::yaml::Document;
use pps_manifest::{answer, answer_creation, review};
use pps_simulation::host::ClusterHost;
use pps_simulation::template::{findings, pods_of};
use pps_simulation::{Severity, reason_of};
use serde_json::{Value, json};

use super::MAX_PODS;
use super::answers::{Answers, Attempt, Refusal};
use super::item::{Item, Subject};
use super::read::request_of;
use crate::snapshot::Pps;

/// The objects of the files as a cluster.
pub(super) struct World {
    /// PersistentPodStates, and the aliases that the sidecar would keep for them.
    pps: Vec<Value>,
    settings: Value,
}

impl World {
    pub(super) fn new(items: &[Item], settings: Value) -> Self {
        let mut pps: Vec<Value> = items
            .iter()
            .filter(|item| item.subject == Subject::Pps)
            .map(|item| item.object.clone())
            .collect();
        let aliases = missing_aliases(&pps);
        pps.extend(aliases);
        Self { pps, settings }
    }

    fn host(&self) -> ClusterHost<'_> {
        ClusterHost::new(self.pps.iter().collect())
    }

    /// Lets the policy answer for one object.
    pub(super) fn attempt(&self, item: &Item, answers: &mut Answers) {
        match item.subject {
            Subject::Pod => self.attempt_pod(item, answers),
            Subject::StatefulSet => self.attempt_workload(item, answers),
            Subject::Pps => self.attempt_pps(item, answers),
            Subject::Request => self.attempt_request(item, answers),
        }
    }

    fn attempt_pod(&self, item: &Item, answers: &mut Answers) {
        let mut pod = item.object.clone();
        if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            answers.notes.push(format!(
                "{}: Pod {} is bound to node {}, and is tried as if it were not; what was injected into it before is still in it",
                item.origin.place(),
                item.name(),
                shorten(node)
            ));
        }
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("nodeName");
        }
        answers.attempts.push(self.create_pod(item, &pod));
    }

    fn create_pod(&self, item: &Item, pod: &Value) -> Attempt {
        let mut attempt = item.begin(pod);
        let response = answer_creation(pod, &item.namespace, &self.settings, &self.host());
        self.finish_pod(&mut attempt, response);
        attempt
    }

    fn finish_pod(&self, attempt: &mut Attempt, response: ValidationResponse) {
        let is_changed = response.mutated_object.is_some();
        finish(attempt, response);
        if attempt.refusal.is_none() && !is_changed {
            attempt.unchanged = Some(self.why_unchanged(&attempt.before, &attempt.namespace));
        }
    }

    /// Why the policy has injected nothing into a Pod.
    fn why_unchanged(&self, pod: &Value, namespace: &str) -> String {
        let Ok(identity) = PodIdentity::parse(&pod.to_string()) else { return "it cannot be read".into() };
        let Some(owner) = &identity.controller else {
            return "it has no controller: metadata.ownerReferences needs one with controller: true".into();
        };
        let (kind, name) = (shorten(&owner.kind), shorten(&owner.name));
        if !has_stable_names(&owner.api_version, &owner.kind) {
            return format!("Pods of a {kind} get new names, so nothing is recorded for them");
        }
        if identity.name.is_empty() {
            return "it has no name".into();
        }
        if !identity.node_name.is_empty() {
            return format!("it is bound to node {} already", shorten(&identity.node_name));
        }
        match Cluster::new(&self.host(), namespace).find(&owner.target(), &identity.name) {
            Ok(Some(governing)) if governing.state.is_none() => {
                format!("PersistentPodState {} has recorded nothing of it", governing.name)
            }
            Ok(Some(governing)) => {
                format!("it has all that PersistentPodState {} would inject", governing.name)
            }
            Ok(None) => {
                let elsewhere = self.pps.iter().find(|pps| {
                    TargetReference::read(&pps["spec"]["targetRef"]).is_same_workload(&owner.target())
                });
                match elsewhere.and_then(|pps| pps["metadata"]["namespace"].as_str()) {
                    Some(other) if other != namespace => format!(
                        "no PersistentPodState of its namespace {namespace} targets {kind} {name}; one of namespace {} does",
                        shorten(other)
                    ),
                    _ => format!("no PersistentPodState in the files targets {kind} {name}"),
                }
            }
            Err(error) => error.to_string(),
        }
    }

    /// Tries the Pods that a StatefulSet has.
    fn attempt_workload(&self, item: &Item, answers: &mut Answers) {
        let found = findings(&item.object);
        let errors = found.iter().filter(|finding| finding.severity == Severity::Error);
        answers.problems.extend(errors.map(|finding| {
            item.origin.problem(finding.field.as_deref().unwrap_or_default(), &finding.message, true)
        }));
        let target = TargetReference { name: item.name().to_owned(), ..TargetReference::read(&item.object) };
        self.check_annotations(item, &target, answers);
        let (names, left_out) = self.pod_names(item, &target);
        let made_from = format!("{} {}", item.kind(), item.name());
        for pod in pods_of(&self.with_uid(item, &target), &item.namespace, names.iter().map(String::as_str)) {
            let attempt = self.create_pod(item, &pod);
            answers.attempts.push(Attempt { made_from: Some(made_from.clone()), ..attempt });
        }
        if left_out > 0 {
            answers.notes.push(format!("{made_from}: {left_out} more Pods are not tried"));
        }
        if names.is_empty() {
            answers.notes.push(format!("{made_from} wants no Pods"));
        }
    }

    /// The workload of a file. A manifest has no UID: it stands for the workload for which states were recorded.
    fn with_uid(&self, item: &Item, target: &TargetReference) -> Value {
        let mut object = item.object.clone();
        let recorded_for = self.pps.iter().find_map(|pps| {
            let is_of_workload = pps["metadata"]["namespace"] == item.namespace.as_str()
                && TargetReference::read(&pps["spec"]["targetRef"]).is_same_workload(target);
            pps["status"]["targetUID"].as_str().filter(|_| is_of_workload)
        });
        if let (Some(uid), Some(metadata)) = (recorded_for, object["metadata"].as_object_mut()) {
            metadata.entry("uid").or_insert_with(|| uid.into());
        }
        object
    }

    /// What the sidecar would say about the annotations of a workload, and what it would generate.
    fn check_annotations(&self, item: &Item, target: &TargetReference, answers: &mut Answers) {
        let annotations: BTreeMap<String, String> = item.object["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        match read_request(target, &annotations) {
            Err(message) => {
                let key = message.split([' ', ':']).nth(1).unwrap_or_default();
                let field = format!("metadata.annotations[{key}]");
                answers.problems.push(item.origin.problem(&field, &message, true));
            }
            Ok(Some(request)) => {
                for warning in &request.warnings {
                    answers.problems.push(item.origin.problem("metadata.annotations", warning, false));
                }
                let is_targeted = self.pps.iter().any(|pps| {
                    pps["metadata"]["namespace"] == item.namespace.as_str()
                        && TargetReference::read(&pps["spec"]["targetRef"]).is_same_workload(target)
                });
                if !is_targeted {
                    answers.notes.push(format!(
                        "{} {} asks for a PersistentPodState, which the sidecar generates: it has recorded nothing yet",
                        item.kind(),
                        item.name()
                    ));
                }
            }
            Ok(None) => {}
        }
    }

    /// The names of the Pods to try: all that the workload wants, or those that are recorded if there are too many. And
    /// how many are left out.
    fn pod_names(&self, item: &Item, target: &TargetReference) -> (Vec<String>, u64) {
        let spec = &item.object["spec"];
        let demand = Demand::read(spec, &Naming::StatefulSet);
        let wants = |pod: &str| demand.wants(&target.name, pod, 0) == Wanted::Yes;
        let replicas = demand.replicas().unwrap_or(0);
        let names: Vec<String> = if replicas <= MAX_PODS as u64 {
            let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
            // Whoever reserves more ordinals than this gets fewer Pods.
            let end = start.saturating_add(replicas).saturating_add(10_000);
            let names = (start..end).map(|ordinal| format!("{}-{ordinal}", target.name));
            names
                .filter(|pod| wants(pod))
                .take(MAX_PODS.min(usize::try_from(replicas).unwrap_or(0)))
                .collect()
        } else {
            self.recorded(item, target).into_iter().filter(|pod| wants(pod)).take(MAX_PODS).collect()
        };
        let left_out = replicas.saturating_sub(names.len() as u64);
        (names, left_out)
    }

    /// The Pods of a workload that have a recorded state, by ordinal.
    fn recorded(&self, item: &Item, target: &TargetReference) -> Vec<String> {
        let of_workload = self.pps.iter().filter(|pps| {
            pps["metadata"]["namespace"] == item.namespace.as_str()
                && TargetReference::read(&pps["spec"]["targetRef"]).is_same_workload(target)
        });
        let states = of_workload.filter_map(|pps| Pps::read(pps.clone())?.states().ok());
        let pods: BTreeSet<(Option<u64>, String)> = states
            .flat_map(BTreeMap::into_keys)
            .map(|pod| (pps_core::workload::ordinal(&target.name, &pod), pod))
            .collect();
        pods.into_iter().map(|(_, pod)| pod).collect()
    }

    fn attempt_pps(&self, item: &Item, answers: &mut Answers) {
        for finding in findings(&item.object) {
            let is_error = finding.severity == Severity::Error;
            let field = finding.field.as_deref().unwrap_or_default();
            answers.problems.push(item.origin.problem(field, &finding.message, is_error));
        }
        let rules = Settings::parse(&self.settings.to_string()).unwrap_or_default().annotations;
        let document = Document { value: item.object.clone(), positions: item.origin.positions.clone() };
        let verdict = review(&document, &rules);
        let flaws = verdict.flaws.iter();
        answers.problems.extend(flaws.map(|flaw| item.origin.problem(&flaw.field, &flaw.message, true)));
        let mut attempt = item.begin(&item.object);
        finish(&mut attempt, answer_creation(&item.object, &item.namespace, &self.settings, &self.host()));
        if let Some(refusal) = attempt.refusal.as_ref().filter(|_| verdict.flaws.is_empty()) {
            let (field, reason) = reason_of(&refusal.message);
            let field = field.unwrap_or_default();
            answers.problems.push(item.origin.problem(&field, reason, true));
        }
        answers.attempts.push(attempt);
    }

    /// Answers a request as PolicyServer gets it.
    fn attempt_request(&self, item: &Item, answers: &mut Answers) {
        let request = request_of(&item.object);
        let object = if request["object"].is_null() { &request["oldObject"] } else { &request["object"] };
        let mut attempt = item.begin(object);
        request["kind"]["kind"].as_str().unwrap_or_default().clone_into(&mut attempt.kind);
        let payload = json!({"request": request, "settings": self.settings}).to_string();
        let response = answer(&payload, &self.host());
        if attempt.kind == "Pod" && request["operation"] == "CREATE" {
            self.finish_pod(&mut attempt, response);
        } else {
            finish(&mut attempt, response);
        }
        answers.attempts.push(attempt);
    }
}

fn finish(attempt: &mut Attempt, response: ValidationResponse) {
    let mutated = response.mutated();
    let audit = |key: &str| {
        let annotations = response.audit_annotations.as_ref()?;
        annotations.get(key)?.as_str().map(str::to_owned)
    };
    (attempt.persistent_pod_state, attempt.injected) = (audit("pps"), audit("injected"));
    if response.accepted {
        attempt.object = Some(mutated.unwrap_or_else(|| attempt.before.clone()));
    } else {
        let message = response.message.unwrap_or_default();
        attempt.refusal = Some(Refusal { code: response.code.unwrap_or(403), message });
    }
    attempt.warnings = response.warnings.unwrap_or_default();
}

/// The aliases that the sidecar would keep: for workloads whose governing object has another name.
fn missing_aliases(pps: &[Value]) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut governing: BTreeMap<(String, String), (bool, String, String, TargetReference)> = BTreeMap::new();
    for object in pps {
        let target = TargetReference::read(&object["spec"]["targetRef"]);
        if aliased(&target).is_some() {
            continue;
        }
        let metadata = &object["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let second = second_name(&target);
        let is_found = name == target.name || name == second;
        let candidate = (!is_found, text(&metadata["creationTimestamp"]), name, target);
        let best = governing.entry((namespace, second)).or_insert_with(|| candidate.clone());
        if (&candidate.0, &candidate.1, &candidate.2) < (&best.0, &best.1, &best.2) {
            *best = candidate;
        }
    }
    let is_taken = |namespace: &str, name: &str| {
        pps.iter().any(|pps| pps["metadata"]["namespace"] == namespace && pps["metadata"]["name"] == name)
    };
    let missing = governing
        .into_iter()
        .filter(|((namespace, second), (is_found_last, ..))| *is_found_last && !is_taken(namespace, second));
    missing
        .map(|((namespace, second), (_, _, name, _))| {
            json!({
                "apiVersion": API_VERSION, "kind": KIND,
                "metadata": {"name": second, "namespace": namespace},
                "spec": {"targetRef": target_of_alias(&name)},
            })
        })
        .collect()
}

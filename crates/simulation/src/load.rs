//! Puts the objects of a scenario into a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use persistent_pod_state_policy::Settings;
use pps_core::alias::aliased;
use pps_core::pps::KIND;
use pps_core::validate::review;
use serde_json::Value;

use crate::admission::admit_pps;
use crate::adopt::{adopt, controller_of};
use crate::cluster::budget::Budget;
use crate::cluster::{Cluster, Node, Pps, Workload};
use crate::finding::Finding;
use crate::read::{Document, Parsed, Scope, expand, namespace_of, parse, parse_shared_pod};
use crate::result::{Problem, Refusal, Severity, Source};
use crate::shared::Shared;

/// Puts all objects of a scenario, and then these Pods, into an empty cluster. Returns what is wrong with them.
pub(crate) fn load(cluster: &mut Cluster, objects: &[Value], shared: &[Arc<Value>]) -> Vec<Problem> {
    let mut documents = expand(objects);
    if cluster.namespace.is_empty() {
        cluster.namespace = namespace_of(&documents);
    }
    let mut problems = Vec::new();
    let shared_documents: Vec<Document<'_>> = shared
        .iter()
        .enumerate()
        .map(|(index, object)| Document {
            index: objects.len() + index,
            prefix: String::new(),
            object,
            kind: "Pod",
        })
        .collect();
    let mut pods = Vec::new();
    let mut limits = BTreeSet::new();
    for document in &documents {
        let (parsed, mut findings) = parse(document.object, &scope(cluster));
        match parsed {
            Some(Parsed::Pod(pod)) => pods.push((document, pod.into())),
            Some(parsed) => {
                // A limit is the same for all objects that are beyond it.
                let mut added = add(cluster, parsed);
                added.retain(|finding| finding.field.is_some() || limits.insert(finding.message.clone()));
                findings.extend(added);
            }
            None => {}
        }
        problems.extend(findings.into_iter().map(|finding| problem(document, finding)));
    }
    for (document, pod) in shared_documents.iter().zip(shared) {
        let (parsed, findings) = parse_shared_pod(pod, &scope(cluster));
        pods.extend(parsed.map(|pod| (document, pod)));
        problems.extend(findings.into_iter().map(|finding| problem(document, finding)));
    }
    problems.extend(load_pods(cluster, pods));
    documents.extend(shared_documents.iter().cloned());
    let related = check_relations(cluster, &documents);
    problems.extend(related.into_iter().map(|(document, finding)| problem(document, finding)));
    problems
}

pub(crate) fn scope(cluster: &Cluster) -> Scope<'_> {
    Scope { namespace: &cluster.namespace, is_live: cluster.is_live }
}

/// Adds all Pods, those of workloads and the others. Returns what is wrong with them.
fn load_pods(cluster: &mut Cluster, pods: Vec<(&Document<'_>, Shared)>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut adopted = Vec::new();
    for (document, pod) in pods {
        if let Some(workload) = controller_of(cluster, &pod) {
            adopted.push((workload, pod));
            continue;
        }
        let is_bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if is_bound || cluster.is_live {
            cluster.add_other(pod);
        } else {
            let message = "this Pod is ignored: it has no spec.nodeName, and only a Pod that is bound to a node takes room";
            problems.push(problem(document, Finding::warning("spec.nodeName", message)));
        }
    }
    adopt(cluster, adopted);
    problems
}

fn problem(document: &Document<'_>, finding: Finding) -> Problem {
    Problem {
        source: Source::Objects { object: Some(document.index) },
        field: finding.field.map(|field| format!("{}{field}", document.prefix)),
        severity: finding.severity,
        message: finding.message,
    }
}

pub(crate) fn add(cluster: &mut Cluster, parsed: Parsed) -> Vec<Finding> {
    match parsed {
        Parsed::Node(node) => add_node(cluster, node).err().into_iter().collect(),
        Parsed::Workload(workload) => add_workload(cluster, workload).err().into_iter().collect(),
        Parsed::Pod(pod) => {
            cluster.add_other(pod.into());
            Vec::new()
        }
        Parsed::Pps(pps) => add_pps(cluster, pps),
        Parsed::Volume(object) => {
            cluster.volumes.add(&object);
            Vec::new()
        }
        Parsed::Budget(object) => {
            cluster.budgets.push(Budget::of(&object));
            Vec::new()
        }
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn duplicate(kind: &str, name: &str) -> Finding {
    Finding::error(
        "metadata.name",
        format!("there is another {kind} of the name {name}; give one of them another name"),
    )
}

pub(crate) fn add_node(cluster: &mut Cluster, object: Value) -> Result<(), Finding> {
    let name = name_of(&object);
    if cluster.has_node(&name) {
        return Err(duplicate("Node", &name));
    }
    let most = cluster.limits.nodes;
    if cluster.nodes().count() >= most && cluster.node(&name).is_none() {
        return Err(Finding::of_all(format!("at most {most} nodes are simulated: remove some")));
    }
    cluster.put_node(&name, Node::new(object));
    Ok(())
}

fn add_workload(cluster: &mut Cluster, object: Value) -> Result<(), Finding> {
    let name = name_of(&object);
    if cluster.workloads.contains_key(&name) {
        let message = format!(
            "there is another StatefulSet of the name {name}, and their Pods would have the same names; give one of them another name"
        );
        return Err(Finding::error("metadata.name", message));
    }
    let most = cluster.limits.workloads;
    if cluster.workloads.len() >= most {
        let message = format!("there are more than {most} workloads: at most {most} are simulated");
        return Err(Finding::of_all(message));
    }
    check_replicas(cluster, &name, crate::cluster::replicas(&object["spec"]))?;
    cluster.workloads.insert(name, Workload::new(object));
    Ok(())
}

/// Checks that all workloads together do not want too many Pods if this one wants so many.
pub(crate) fn check_replicas(cluster: &Cluster, workload: &str, replicas: u64) -> Result<(), Finding> {
    let others = cluster.workloads.iter().filter(|(name, _)| *name != workload);
    let total = others.fold(replicas, |total, (_, other)| total.saturating_add(other.replicas()));
    let most = cluster.limits.replicas;
    if total <= most {
        return Ok(());
    }
    let message =
        format!("all workloads together want {total} Pods: at most {most} are simulated; use fewer replicas");
    Err(Finding::error("spec.replicas", message))
}

/// Adds a PersistentPodState, unless the policy refuses it. One with a `creationTimestamp` is older than the policy, which
/// was not asked about it.
pub(crate) fn add_pps(cluster: &mut Cluster, mut object: Value) -> Vec<Finding> {
    let name = name_of(&object);
    if cluster.pps.contains_key(&name) {
        return vec![duplicate(KIND, &name)];
    }
    let is_older = object["metadata"]["creationTimestamp"].is_string();
    if cluster.is_live {
        cluster.set_server_fields(&mut object, None);
        cluster.pps.insert(name, Pps::new(object));
        return Vec::new();
    }
    let findings = match admit_pps(cluster, &object, None) {
        Ok(warnings) => warnings
            .into_iter()
            .map(|message| Finding { severity: Severity::Warning, ..Finding::of_all(message) })
            .collect(),
        Err(refusal) => {
            let findings = from_refusal(cluster, &object, None, &refusal);
            if !is_older {
                return findings;
            }
            let kept = |finding: Finding| Finding {
                severity: Severity::Warning,
                message: format!(
                    "{} (the object is kept: its metadata.creationTimestamp says that it is older than the policy)",
                    finding.message
                ),
                ..finding
            };
            findings.into_iter().map(kept).collect()
        }
    };
    cluster.set_server_fields(&mut object, None);
    cluster.pps.insert(name, Pps::new(object));
    findings
}

pub(crate) fn from_refusal(
    cluster: &Cluster,
    object: &Value,
    before: Option<&Value>,
    refusal: &Refusal,
) -> Vec<Finding> {
    let Ok(settings) = Settings::parse(&cluster.settings.to_string()) else {
        return vec![Finding::of_all(
            "the policy refuses each PersistentPodState while its settings have an error",
        )];
    };
    let rules = settings.annotations;
    let violations = review(object, before, &rules).violations;
    if violations.is_empty() {
        // Nothing is wrong with the object by itself: another one has the same target.
        return vec![Finding::error("spec.targetRef", refusal.message.clone())];
    }
    violations.iter().map(|one| Finding::error(one.path.clone(), one.to_string())).collect()
}

fn check_relations<'a, 'b>(
    cluster: &Cluster,
    documents: &'b [Document<'a>],
) -> Vec<(&'b Document<'a>, Finding)> {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }
    let there: BTreeSet<(&str, &str)> = documents
        .iter()
        .map(|document| (document.kind, text(&document.object["metadata"]["name"])))
        .collect();
    let wanted: BTreeSet<&String> =
        cluster.workloads.values().flat_map(|workload| &workload.wanted).collect();
    let check = |document: &Document<'_>| {
        let (object, name) = (document.object, document.object["metadata"]["name"].as_str()?);
        if object["kind"] == KIND {
            return check_target(cluster, name, &there);
        }
        let is_in_the_way = document.kind == "Pod"
            && cluster.others().named(name).is_some()
            && wanted.contains(&name.to_owned())
            && !cluster.pods.contains(name);
        is_in_the_way.then(|| {
            let message = format!(
                "{name} has the name of a StatefulSet's Pod, which cannot be created while this one exists; remove it"
            );
            Finding::warning("metadata.name", message)
        })
    };
    documents.iter().filter_map(|document| Some((document, check(document)?))).collect()
}

/// What is wrong with the target of a PPS. `there` has kind and name of each object.
fn check_target(cluster: &Cluster, name: &str, there: &BTreeSet<(&str, &str)>) -> Option<Finding> {
    let pps = cluster.pps.get(name).filter(|pps| aliased(&pps.target).is_none())?;
    let target = &pps.target;
    let (field, message) = match cluster.workloads.get(&target.name) {
        Some(workload) if workload.target.is_same_workload(target) => return None,
        Some(workload) => (
            "spec.targetRef",
            format!(
                "spec.targetRef names {} {} of {}, and the scenario has {} {} of {}: nothing is recorded until they agree",
                target.kind,
                target.name,
                target.api_version,
                workload.target.kind,
                workload.target.name,
                workload.target.api_version
            ),
        ),
        // It is there, but has errors that are reported.
        None if there.contains(&(target.kind.as_str(), target.name.as_str())) => return None,
        None => (
            "spec.targetRef.name",
            format!("the scenario has no {} {}, so nothing is recorded", target.kind, target.name),
        ),
    };
    Some(Finding::warning(field, message))
}

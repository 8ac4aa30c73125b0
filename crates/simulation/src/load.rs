//! Puts the objects of a scenario into a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_admission::Settings;
use pps_admission::validate::review;
use pps_core::pps::KIND;
use pps_scheduler::fields::text;
use serde_json::Value;

use crate::admission::admit_pps;
use crate::adopt::{AdoptedPod, adopt, controller_of};
use crate::cluster::{Cluster, Node, Pps, Workload, replicas};
use crate::finding::Finding;
use crate::read::{Document, Parsed, ParsedObject, expand, namespace_of, parse, parse_pod};
use crate::result::{Problem, Refusal, Severity, Source};

/// Puts all objects of a scenario, and then these Pods, into an empty cluster. Returns what is
/// wrong with them.
pub(crate) fn load(
    cluster: &mut Cluster,
    objects: &[Value],
    shared: &[Arc<Value>],
) -> Vec<Problem> {
    let documents = expand(objects);
    if cluster.namespace.is_empty() {
        cluster.namespace = namespace_of(&documents);
    }
    let mut loader = Loader::default();
    for document in documents {
        loader.load(cluster, document);
    }
    for (index, object) in shared.iter().enumerate() {
        let document = Document {
            index: objects.len() + index,
            prefix: String::new(),
            object,
        };
        loader.load_pod(cluster, document, object);
    }
    loader.place_pods(cluster)
}

#[derive(Default)]
struct Loader<'a> {
    problems: Vec<Problem>,
    /// Pods are placed last: only then all workloads are known.
    pods: Vec<LoadedPod<'a>>,
    /// The limits that objects were beyond. A limit is the same for all of them.
    exceeded_limits: BTreeSet<String>,
}

struct LoadedPod<'a> {
    document: Document<'a>,
    object: Arc<Value>,
}

impl<'a> Loader<'a> {
    fn load(&mut self, cluster: &mut Cluster, document: Document<'a>) {
        let ParsedObject { parsed, findings } = parse(document.object, cluster);
        self.report(&document, findings);
        match parsed {
            Some(Parsed::Pod(object)) => self.pods.push(LoadedPod { document, object }),
            Some(parsed) => {
                let mut added = add(cluster, parsed);
                added.retain(|finding| {
                    finding.field.is_some() || self.exceeded_limits.insert(finding.message.clone())
                });
                self.report(&document, added);
            }
            None => {}
        }
    }

    fn load_pod(&mut self, cluster: &Cluster, document: Document<'a>, pod: &Arc<Value>) {
        let ParsedObject { parsed, findings } = parse_pod(pod, cluster);
        self.report(&document, findings);
        if let Some(Parsed::Pod(object)) = parsed {
            self.pods.push(LoadedPod { document, object });
        }
    }

    /// A Pod belongs to a workload, or only takes room.
    fn place_pods(mut self, cluster: &mut Cluster) -> Vec<Problem> {
        let mut adopted = Vec::new();
        for LoadedPod { document, object } in std::mem::take(&mut self.pods) {
            if let Some(workload) = controller_of(cluster, &object) {
                adopted.push(AdoptedPod { workload, object });
            } else if cluster.is_live || !text(&object["spec"]["nodeName"]).is_empty() {
                cluster.add_other(object);
            } else {
                let message = "this Pod is ignored: it has no spec.nodeName, and only a Pod that \
                               is bound to a node takes room";
                let finding = Finding::warning("spec.nodeName", message);
                self.report(&document, finding.into());
            }
        }
        adopt(cluster, adopted);
        self.problems
    }

    fn report(&mut self, document: &Document<'_>, findings: Vec<Finding>) {
        let source = Source::Objects {
            object: Some(document.index),
        };
        self.problems.extend(findings.into_iter().map(|finding| {
            Problem {
                source,
                field: finding
                    .field
                    .map(|field| format!("{}{field}", document.prefix)),
                severity: finding.severity,
                message: finding.message,
            }
        }));
    }
}

pub(crate) fn add(cluster: &mut Cluster, parsed: Parsed) -> Vec<Finding> {
    match parsed {
        Parsed::Node(node) => return add_node(cluster, node).err().into_iter().collect(),
        Parsed::Workload(workload) => {
            return add_workload(cluster, workload).err().into_iter().collect();
        }
        Parsed::Pps(pps) => return add_pps(cluster, pps),
        Parsed::Pod(pod) => cluster.add_other(pod),
        Parsed::Volume(object) => cluster.volumes.add(&object),
        Parsed::Budget(object) => cluster.budgets.push(object),
    }
    Vec::new()
}

fn name_of(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

fn duplicate(kind: &str, name: &str) -> Finding {
    let message =
        format!("there is another {kind} of the name {name}; give one of them another name");
    Finding::error("metadata.name", message)
}

pub(crate) fn add_node(cluster: &mut Cluster, object: Value) -> Result<(), Finding> {
    let name = name_of(&object);
    if cluster.has_node(&name) {
        return Err(duplicate("Node", &name));
    }
    let most = cluster.limits.nodes;
    if cluster.nodes().count() >= most && cluster.node(&name).is_none() {
        return Err(Finding::of_all(format!(
            "at most {most} nodes are simulated: remove some"
        )));
    }
    cluster.put_node(&name, Node::new(object));
    Ok(())
}

fn add_workload(cluster: &mut Cluster, object: Value) -> Result<(), Finding> {
    let name = name_of(&object);
    if cluster.workloads.contains_key(&name) {
        return Err(duplicate("StatefulSet", &name));
    }
    let most = cluster.limits.workloads;
    if cluster.workloads.len() >= most {
        let message = format!("there are more than {most} workloads: at most {most} are simulated");
        return Err(Finding::of_all(message));
    }
    check_replicas(cluster, &name, replicas(&object["spec"]))?;
    cluster.workloads.insert(name, Workload::new(object));
    Ok(())
}

/// Checks that all workloads together do not want too many Pods if this one wants so many.
pub(crate) fn check_replicas(
    cluster: &Cluster,
    workload: &str,
    replicas: u64,
) -> Result<(), Finding> {
    let others = cluster
        .workloads
        .iter()
        .filter(|(name, _)| *name != workload);
    let total = others.fold(replicas, |total, (_, other)| {
        total.saturating_add(other.replicas())
    });
    let most = cluster.limits.replicas;
    if total <= most {
        return Ok(());
    }
    let message = format!(
        "all workloads together want {total} Pods: at most {most} are simulated; use fewer \
         replicas"
    );
    Err(Finding::error("spec.replicas", message))
}

/// Adds a PersistentPodState, unless the policy refuses it. One with a `creationTimestamp` is older
/// than the policy, which was not asked about it.
fn add_pps(cluster: &mut Cluster, mut object: Value) -> Vec<Finding> {
    let name = name_of(&object);
    if cluster.pps.contains_key(&name) {
        return duplicate(KIND, &name).into();
    }
    let admitted = if cluster.is_live {
        Ok(Vec::new())
    } else {
        admit_pps(cluster, &object, None)
    };
    let mut findings = match admitted {
        Ok(warnings) => warnings.into_iter().map(Finding::of_all).collect(),
        Err(refusal) => {
            let findings = from_refusal(cluster, &object, None, &refusal);
            if object["metadata"]["creationTimestamp"].is_null() {
                return findings;
            }
            findings
        }
    };
    for finding in &mut findings {
        finding.severity = Severity::Warning;
    }
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
    let rules = Settings::read(&cluster.settings)
        .unwrap_or_default()
        .annotations;
    let violations = review(object, before, &rules).violations;
    if violations.is_empty() {
        // Nothing is wrong with the object by itself: another one has the same target, or the
        // settings have an error.
        return Finding::error("spec.targetRef", refusal.message.clone()).into();
    }
    violations
        .iter()
        .map(|one| Finding::error(one.path.clone(), one.to_string()))
        .collect()
}

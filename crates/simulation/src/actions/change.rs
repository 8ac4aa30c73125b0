//! A user applies a whole object.

use pps_core::pps::KIND;
use pps_scheduler::fields::text;
use serde_json::Value;

use super::nodes;
use super::workloads::create_one;
use crate::admission::admit_pps;
use crate::cluster::{Cluster, Pps, replicas};
use crate::finding::Finding;
use crate::load::{add, check_replicas, from_refusal};
use crate::read::{Parsed, ParsedObject, parse};
use crate::result::{EventKind, Severity};

pub(super) fn change(cluster: &mut Cluster, object: &Value) -> Result<(), Vec<Finding>> {
    let ParsedObject { parsed, findings } = parse(object, cluster);
    let Some(parsed) = parsed else {
        return Err(findings);
    };
    let kind = text(&object["kind"]);
    let name = text(&object["metadata"]["name"]);
    let warnings = match parsed {
        Parsed::Node(node) if cluster.has_node(name) => {
            change_node(cluster, name, node);
            Vec::new()
        }
        Parsed::Node(node) => {
            nodes::join(cluster, node)?;
            Vec::new()
        }
        Parsed::Workload(workload) if cluster.workloads.contains_key(name) => {
            change_workload(cluster, name, workload)?;
            Vec::new()
        }
        Parsed::Pps(pps) if cluster.pps.contains_key(name) => change_pps(cluster, name, pps)?,
        Parsed::Pod(_) => {
            return Err(Finding::error("kind", "a step cannot create or change a Pod").into());
        }
        parsed => create(cluster, kind, name, parsed)?,
    };
    for warning in findings.into_iter().chain(warnings) {
        cluster.tell(
            EventKind::Warning,
            format!("{kind}/{name}"),
            warning.message,
        );
    }
    Ok(())
}

/// Returns what the policy warns of.
fn create(
    cluster: &mut Cluster,
    kind: &str,
    name: &str,
    parsed: Parsed,
) -> Result<Vec<Finding>, Vec<Finding>> {
    let findings = add(cluster, parsed);
    if findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
    {
        return Err(findings);
    }
    if kind == KIND {
        cluster.tell(
            EventKind::Created,
            format!("{KIND}/{name}"),
            "is created by a user",
        );
    } else {
        create_one(cluster, name);
    }
    Ok(findings)
}

fn change_node(cluster: &mut Cluster, name: &str, object: Value) {
    if let Some(node) = cluster.node_mut(name) {
        node.object = object;
    }
    let text = "is changed by a user";
    cluster.tell(EventKind::Changed, format!("Node/{name}"), text);
    nodes::evict_untolerant(cluster, name);
}

fn change_workload(cluster: &mut Cluster, name: &str, object: Value) -> Result<(), Finding> {
    check_replicas(cluster, name, replicas(&object["spec"]))?;
    let Some(workload) = cluster.workloads.get_mut(name) else {
        return Ok(());
    };
    let reference = workload.reference();
    let target = &workload.target;
    if target.api_version != text(&object["apiVersion"]) {
        let message = format!(
            "apiVersion of {reference} is {}: use it here as well",
            target.api_version
        );
        return Err(Finding::error("apiVersion", message));
    }
    workload.set_object(object);
    if workload.exists() {
        cluster.tell(EventKind::Changed, reference, "is changed by a user");
    } else {
        create_one(cluster, name);
    }
    Ok(())
}

/// Returns what the policy warns of.
fn change_pps(
    cluster: &mut Cluster,
    name: &str,
    mut object: Value,
) -> Result<Vec<Finding>, Vec<Finding>> {
    let Some(before) = cluster.pps.get(name).map(|pps| pps.object.clone()) else {
        return Ok(Vec::new());
    };
    for field in ["uid", "creationTimestamp", "ownerReferences"] {
        if field != "ownerReferences" || object["metadata"][field].is_null() {
            object["metadata"][field] = before["metadata"][field].clone();
        }
    }
    object["status"] = before["status"].clone();
    cluster.set_server_fields(&mut object, Some(&before));
    let warnings = admit_pps(cluster, &object, Some(&before))
        .map_err(|refusal| from_refusal(cluster, &object, Some(&before), &refusal))?;
    cluster.pps.insert(name.to_owned(), Pps::new(object));
    cluster.tell(
        EventKind::Changed,
        format!("{KIND}/{name}"),
        "is changed by a user",
    );
    Ok(warnings.into_iter().map(Finding::of_all).collect())
}

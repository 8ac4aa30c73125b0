//! A user applies a whole object.

use pps_core::pps::KIND;
use serde_json::Value;

use super::nodes;
use super::workloads::create_one;
use crate::admission::admit_pps;
use crate::cluster::{Cluster, Pps, replicas};
use crate::finding::Finding;
use crate::load::{add, check_replicas, from_refusal, scope};
use crate::read::{Parsed, is_allowed_change, parse};
use crate::result::{EventKind, Severity};

pub(super) fn change(cluster: &mut Cluster, object: &Value) -> Result<(), Vec<Finding>> {
    let (parsed, findings) = parse(object, &scope(cluster));
    let Some(parsed) = parsed else { return Err(findings) };
    replace(cluster, object, parsed)
        .map_err(|errors| errors.into_iter().chain(findings.clone()).collect::<Vec<_>>())?;
    let reference =
        [&object["kind"], &object["metadata"]["name"]].map(|part| part.as_str().unwrap_or_default());
    for warning in findings {
        cluster.tell(EventKind::Warning, reference.join("/"), warning.message);
    }
    Ok(())
}

fn replace(cluster: &mut Cluster, object: &Value, parsed: Parsed) -> Result<(), Vec<Finding>> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match parsed {
        Parsed::Node(node) if cluster.has_node(name) => {
            change_node(cluster, name, node);
            Ok(())
        }
        Parsed::Node(node) => nodes::join(cluster, node).map_err(|finding| vec![finding]),
        Parsed::Workload(workload) if cluster.workloads.contains_key(name) => {
            change_workload(cluster, name, workload)
        }
        Parsed::Pps(pps) if cluster.pps.contains_key(name) => change_pps(cluster, name, pps),
        Parsed::Pod(_) => Err(vec![Finding::error(
            "kind",
            "a step cannot create or change a Pod: put it among the objects, or change its StatefulSet",
        )]),
        parsed => create(cluster, name, parsed),
    }
}

fn create(cluster: &mut Cluster, name: &str, parsed: Parsed) -> Result<(), Vec<Finding>> {
    let is_pps = matches!(parsed, Parsed::Pps(_));
    let findings = add(cluster, parsed);
    let errors: Vec<Finding> =
        findings.iter().filter(|finding| finding.severity == Severity::Error).cloned().collect();
    let object = format!("{KIND}/{name}");
    if !errors.is_empty() {
        if is_pps {
            tell_refusal(cluster, &object, &errors);
        }
        return Err(errors);
    }
    if is_pps {
        cluster.tell(EventKind::Created, object.clone(), "is created by a user");
        for warning in findings {
            cluster.tell(EventKind::Warning, object.clone(), warning.message);
        }
    } else {
        create_one(cluster, name);
    }
    Ok(())
}

fn tell_refusal(cluster: &mut Cluster, object: &str, errors: &[Finding]) {
    let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
    cluster.tell(EventKind::Refused, object, format!("is refused: {}", messages.join("; ")));
}

fn change_node(cluster: &mut Cluster, name: &str, object: Value) {
    if let Some(node) = cluster.node_mut(name) {
        node.object = object;
        cluster.tell(EventKind::Changed, format!("Node/{name}"), "is changed by a user");
        nodes::evict_untolerant(cluster, name);
    }
}

fn change_workload(cluster: &mut Cluster, name: &str, object: Value) -> Result<(), Vec<Finding>> {
    check_replicas(cluster, name, replicas(&object["spec"])).map_err(|finding| vec![finding])?;
    let Some(workload) = cluster.workloads.get_mut(name) else { return Ok(()) };
    let reference = workload.reference();
    let target = &workload.target;
    if target.api_version != object["apiVersion"].as_str().unwrap_or_default() {
        let message = format!(
            "apiVersion of {reference} is {}: use it here as well, or delete the StatefulSet and give the new one another name",
            target.api_version
        );
        return Err(vec![Finding::error("apiVersion", message)]);
    }
    if !workload.exists() {
        workload.set_object(object);
        create_one(cluster, name);
        return Ok(());
    }
    let is_immutable = target.group() == "apps" && !is_allowed_change(&workload.object, &object);
    if is_immutable {
        let message = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden: delete the StatefulSet and create it again";
        let finding = Finding::error("spec", message);
        tell_refusal(cluster, &reference, std::slice::from_ref(&finding));
        return Err(vec![finding]);
    }
    let before = workload.replicas();
    let is_updated = workload.set_object(object);
    let after = workload.replicas();
    let scaled =
        if before == after { String::new() } else { format!("; it is scaled from {before} to {after}") };
    let updated = if is_updated { "; its template is a new one" } else { "" };
    let text = format!("is changed by a user{scaled}{updated}");
    cluster.tell(EventKind::Changed, reference, text);
    Ok(())
}

fn change_pps(cluster: &mut Cluster, name: &str, mut object: Value) -> Result<(), Vec<Finding>> {
    let Some(pps) = cluster.pps.get(name) else { return Ok(()) };
    let before = pps.object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp"] {
            metadata.insert(field.into(), before["metadata"][field].clone());
        }
        metadata.entry("ownerReferences").or_insert_with(|| before["metadata"]["ownerReferences"].clone());
    }
    object["status"] = before["status"].clone();
    cluster.set_server_fields(&mut object, Some(&before));
    let reference = format!("{KIND}/{name}");
    match admit_pps(cluster, &object, Some(&before)) {
        Ok(warnings) => {
            cluster.pps.insert(name.to_owned(), Pps::new(object));
            cluster.tell(EventKind::Changed, reference.clone(), "is changed by a user");
            for warning in warnings {
                cluster.tell(EventKind::Warning, reference.clone(), warning);
            }
            Ok(())
        }
        Err(refusal) => {
            let findings = from_refusal(cluster, &object, Some(&before), &refusal);
            tell_refusal(cluster, &reference, &findings);
            Err(findings)
        }
    }
}

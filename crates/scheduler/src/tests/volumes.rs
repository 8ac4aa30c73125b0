use serde_json::{Value, json};

use super::super::{Caveat, Contradiction, ExclusionKind, Placement, Selection, Volumes, select};
use super::{HOSTNAME, ZONE, empty, node, pod, texts, views};

fn claim(name: &str, volume: Option<&str>) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume}, "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }}})
}

fn volume(name: &str, labels: &Value, terms: &Value) -> Value {
    let affinity = json!({"required": {"nodeSelectorTerms": terms}});
    json!({"kind": "PersistentVolume", "metadata": {"name": name, "labels": labels},
        "spec": {"nodeAffinity": if terms.is_null() { Value::Null } else { affinity }}})
}

fn only_in(key: &str, values: &[&str]) -> Value {
    json!([{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}])
}

/// A Pod with the claim `data-db-0` on nodes in the zones a, b and none.
fn placed(objects: &[Value]) -> Selection {
    let nodes = empty(vec![
        node("n1", &json!({HOSTNAME: "n1", ZONE: "a"})),
        node("n2", &json!({HOSTNAME: "n2", ZONE: "b"})),
        node("n3", &json!({HOSTNAME: "n3"})),
    ]);
    let new = pod(
        &json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}),
    );
    let volumes = Volumes::of(objects);
    select(
        &Placement {
            pod: &new,
            before: None,
            selector: None,
            volumes: Some(&volumes),
        },
        &views(&nodes),
    )
}

#[test]
fn a_volume_keeps_its_pod_on_the_nodes_that_it_requires() {
    let found = placed(&[
        claim("data-db-0", Some("pv")),
        volume("pv", &json!({}), &only_in(HOSTNAME, &["n2"])),
    ]);
    assert_eq!(found.may_land_on, ["n2"]);
    assert!(found.caveats.is_empty());
    assert!(
        found.verdicts[0]
            .exclusions
            .iter()
            .all(|one| one.kind() == ExclusionKind::Volume && !one.from_pps())
    );
    assert_eq!(
        texts(&found),
        [
            "n1: kubernetes.io/hostname is n1, the volume of the Pod's claim data-db-0 requires n2",
            "n3: kubernetes.io/hostname is n3, the volume of the Pod's claim data-db-0 requires n2"
        ]
    );
    let nowhere = placed(&[
        claim("data-db-0", Some("pv")),
        volume("pv", &json!({}), &json!([])),
    ]);
    assert_eq!(nowhere.may_land_on, [""; 0]);
}

/// How many volumes a node takes is in its `CSINode`, which is not read.
#[test]
fn a_volume_of_a_csi_driver_is_a_caveat_once() {
    let on_any = volume("pv", &json!({}), &json!(null));
    let mut limited = on_any.clone();
    limited["spec"]["csi"] = json!({"driver": "ebs.csi.aws.com"});
    for (volume, caveats) in [(on_any, &[][..]), (limited, &[Caveat::VolumeLimits])] {
        let found = placed(&[claim("data-db-0", Some("pv")), volume]);
        assert_eq!((&found.caveats[..], found.may_land_on.len()), (caveats, 3));
    }
}

#[test]
fn a_claim_that_is_not_bound_or_not_known_is_named() {
    let bound = claim("data-db-0", Some("pv"));
    let lost = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0", "namespace": "default"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}});
    let elsewhere = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0", "namespace": "x"}});
    let old = volume(
        "pv",
        &json!({"failure-domain.beta.kubernetes.io/zone": "a"}),
        &json!(null),
    );
    for objects in [
        &[claim("data-db-0", None)][..],
        &[lost],
        &[elsewhere],
        std::slice::from_ref(&bound),
        &[bound.clone(), old],
    ] {
        let found = placed(objects);
        assert_eq!(found.may_land_on, ["n1", "n2", "n3"]);
        assert_eq!(found.caveats, [Caveat::Claim("data-db-0".into())]);
    }
}

#[test]
fn pods_that_have_ended_take_no_room() {
    let full = |phase: &str| {
        let mut other = pod(&json!({}));
        other["status"] = json!({"phase": phase});
        let one = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}});
        let nodes = vec![(one, vec![other])];
        let new = pod(&json!({}));
        select(
            &Placement {
                pod: &new,
                before: None,
                selector: None,
                volumes: None,
            },
            &views(&nodes),
        )
        .chosen
    };
    assert_eq!(full("Running"), None);
    assert_eq!(full("Succeeded").as_deref(), Some("n"));
    assert_eq!(full("Failed").as_deref(), Some("n"));
}

/// The volume that contradicts these labels, of a Pod with the claim `data-db-0`.
fn contradiction(labels: &[(&str, &str)], terms: &Value) -> Option<String> {
    let nodes = empty(vec![
        node("n1", &json!({HOSTNAME: "n1", ZONE: "a"})),
        node("n2", &json!({HOSTNAME: "n2", ZONE: "b"})),
    ]);
    let pod = pod(
        &json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}),
    );
    let volumes = Volumes::of(&[
        claim("data-db-0", Some("pv")),
        volume("pv", &json!({}), terms),
    ]);
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let found = volumes.contradiction(&pod, &labels, &views(&nodes))?;
    let Contradiction {
        claim,
        volume,
        key,
        value,
    } = found;
    assert_eq!((claim.as_str(), volume.as_str()), ("data-db-0", "pv"));
    Some(format!("{key}={value}"))
}

#[test]
fn a_volume_contradicts_labels_that_no_node_with_it_can_have() {
    let zone = |zones: &[&str]| only_in(ZONE, zones);
    let hosts = |hosts: &[&str]| only_in(HOSTNAME, hosts);
    let in_a: &[_] = &[(ZONE, "a")];
    let on_n1: &[_] = &[(HOSTNAME, "n1")];
    let zone_a = Some(format!("{ZONE}=a"));
    assert_eq!(contradiction(in_a, &zone(&["b"])), zone_a);
    assert_eq!(contradiction(in_a, &zone(&["a", "b"])), None);
    assert_eq!(contradiction(in_a, &Value::Null), None);
    assert_eq!(
        contradiction(on_n1, &hosts(&["n2"])),
        Some(format!("{HOSTNAME}=n1"))
    );
    assert_eq!(contradiction(on_n1, &hosts(&["n2", "n1"])), None);
    // Terms are alternatives.
    let both = json!([zone(&["b"])[0], hosts(&["n1"])[0]]);
    assert_eq!(contradiction(in_a, &both), None);
    let both = json!([zone(&["b"])[0], zone(&["c"])[0]]);
    assert_eq!(contradiction(in_a, &both), zone_a);
    // A local volume says in which zone it is by its node alone.
    assert_eq!(contradiction(in_a, &hosts(&["n2"])), zone_a);
    assert_eq!(contradiction(in_a, &hosts(&["n1"])), None);
    // The zone of a node that does not exist, and the node of a volume in a zone, are not known.
    assert_eq!(contradiction(in_a, &hosts(&["n2", "gone"])), None);
    assert_eq!(contradiction(&[(HOSTNAME, "gone")], &zone(&["b"])), None);
}

//! A real API server accepts the CRD and the RBAC of `deploy/` and enforces them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    },
};
use pps_e2e::{
    cluster::Cluster,
    kubewarden,
    manifests::{self, render::remove_rules},
    repository::repository_file,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support;

const DEFINITION: &str = "persistentpodstates.apps.kruise.io";

#[tokio::test]
async fn the_api_server_serves_the_definition() {
    let cluster = Cluster::builder().start().await.unwrap();
    support::run_in_turn(scenarios![&cluster;
        crd_is_established_structural_and_explained,
        accepts_objects_written_for_openkruise_unchanged,
        accepts_manifests_for_openkruise_in_both_versions_and_shows_them_in_both,
        schema_refuses_invalid_specs,
        rules_refuse_what_the_policy_refuses_and_keep_no_broken_object,
        status_subresource_stores_states_and_prints_columns,
        service_accounts_have_exactly_the_expected_permissions,
        the_compact_form_is_stored_exactly_and_a_definition_without_it_prunes_it,
        replaces_openkruises_definition_and_back_with_objects_in_it,
        replaces_a_definition_that_has_a_conversion_webhook,
    ])
    .await
    .unwrap();
}

fn pps(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PersistentPodState",
        "metadata": {"name": name},
        "spec": spec,
    }))
    .unwrap()
}

/// A valid spec, with changes as a JSON merge patch.
fn spec_with(changes: &Value) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
    });
    json_patch::merge(&mut spec, changes);
    spec
}

async fn create(api: &Api<DynamicObject>, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
    api.create(&PostParams::default(), &pps(name, spec)).await
}

async fn patch_status(
    api: &Api<DynamicObject>,
    name: &str,
    status: &Value,
) -> kube::Result<DynamicObject> {
    let manager = PatchParams {
        field_manager: Some("recorder".to_owned()),
        ..PatchParams::default()
    };
    api.patch_status(name, &manager, &Patch::Merge(json!({"status": status})))
        .await
}

async fn crd_is_established_structural_and_explained(cluster: &Cluster) {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = api.get(DEFINITION).await.unwrap();
    let conditions: BTreeMap<_, _> = definition
        .status
        .and_then(|status| status.conditions)
        .unwrap()
        .into_iter()
        .map(|condition| {
            (
                condition.type_,
                (condition.status, condition.message.unwrap_or_default()),
            )
        })
        .collect();
    assert_eq!(conditions["Established"].0, "True", "{conditions:?}");
    assert_eq!(conditions["NamesAccepted"].0, "True", "{conditions:?}");
    assert_eq!(conditions.get("NonStructuralSchema"), None);

    // Nothing was pruned or defaulted, so applying the file again changes nothing.
    let file = manifests::read(&repository_file("deploy/base/crd.yaml")).unwrap();
    let again = cluster.apply_objects(&file).await.unwrap().remove(0);
    assert_eq!(again.metadata.generation, definition.metadata.generation);
    assert_eq!(again.data["spec"]["versions"], file[0]["spec"]["versions"]);

    check_that_every_field_is_explained(cluster).await;
}

async fn check_that_every_field_is_explained(cluster: &Cluster) {
    let definition = manifests::read(&repository_file("deploy/base/crd.yaml"))
        .unwrap()
        .remove(0);
    let root = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let all: Value = serde_json::from_str(&documented(cluster, true).await).unwrap();
    wait_for(
        "kubectl explain knows the resource",
        Duration::from_mins(2),
        async || {
            let text = cluster.control_plane.kubectl(&["explain", "pps"]).await?;
            Ok(Progress::when(text.contains(DESCRIPTION), (), text))
        },
    )
    .await
    .unwrap();

    // kubectl explains each field with its description there.
    let mut pending = vec![("pps".to_owned(), root, &all["definitions"][DOCUMENTED])];
    let mut explained = BTreeSet::new();
    while let Some((path, schema, served)) = pending.pop() {
        for (field, below) in schema["properties"].as_object().unwrap() {
            let path = format!("{path}.{field}");
            let served = &served["properties"][field];
            assert!(
                below["description"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{path}"
            );
            assert_eq!(served["description"], below["description"], "{path}");
            // Descend into lists and maps of objects.
            let of_items = ["items", "additionalProperties"]
                .into_iter()
                .find(|key| below.get(key).is_some());
            let (below, served) =
                of_items.map_or((below, served), |key| (&below[key], &served[key]));
            if below.get("properties").is_some() {
                pending.push((path.clone(), below, served));
            }
            explained.insert(path);
        }
    }
    for field in [
        "spec.persistentPodAnnotations.valueFrom",
        "status.podStates.nodeName",
    ] {
        assert!(
            explained.contains(&format!("pps.{field}")),
            "{field} is missing in {explained:?}"
        );
    }
}

/// The first version's name where the API server describes everything.
const DOCUMENTED: &str = "io.kruise.apps.v1alpha1.PersistentPodState";
/// A part of our description, which no other definition of the kind has.
const DESCRIPTION: &str = "names a workload";

/// What the API server describes, which `kubectl explain` shows, once our definition is there, or
/// another one of the kind. That is a moment after the definition is in use.
async fn documented(cluster: &Cluster, is_ours: bool) -> String {
    wait_for(
        "the definition to be described",
        Duration::from_mins(2),
        async || {
            let request = axum::http::Request::get("/openapi/v2").body(Vec::new())?;
            let text = cluster.client().request_text(request).await?;
            let is_there = text.contains(DOCUMENTED) && text.contains(DESCRIPTION) == is_ours;
            Ok(Progress::when(
                is_there,
                text,
                "no definition, or the one before",
            ))
        },
    )
    .await
    .unwrap()
}

async fn accepts_objects_written_for_openkruise_unchanged(cluster: &Cluster) {
    let api = cluster.pps_api("default");
    let spec = json!({
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "echoserver"},
        "requiredPersistentTopology": {"nodeTopologyKeys": [
            "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone",
        ]},
        "preferredPersistentTopology": [
            {"preference": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}, "weight": 100},
            {"preference": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}, "weight": 1},
        ],
        "persistentPodAnnotations": [{"key": "cni.projectcalico.org/podIP"}],
        "persistentPodStateRetentionPolicy": "WhenDeleted",
    });
    let created = create(&api, "unchanged", &spec).await.unwrap();
    assert_eq!(created.data["spec"], spec);

    let status = json!({
        "observedGeneration": 1,
        "podStates": {"echoserver-0": {
            "nodeName": "node-1",
            "nodeTopologyLabels": {"kubernetes.io/hostname": "node-1"},
            "annotations": {"cni.projectcalico.org/podIP": "10.0.0.7/32"},
        }},
    });
    patch_status(&api, "unchanged", &status).await.unwrap();
    assert_eq!(api.get("unchanged").await.unwrap().data["status"], status);

    // A minimal object gets no defaults.
    let least = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "persistentPodAnnotations": [{"key": "a"}]});
    assert_eq!(
        create(&api, "least", &least).await.unwrap().data["spec"],
        least
    );
}

/// Manifests as OpenKruise's documentation has them, in both of its versions.
const MANIFESTS: &str = r"
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: echoserver
spec:
  targetRef:
    apiVersion: apps.kruise.io/v1beta1
    kind: StatefulSet
    name: echoserver
  requiredPersistentTopology:
    nodeTopologyKeys:
    - failure-domain.beta.kubernetes.io/zone
  preferredPersistentTopology:
  - preference:
      nodeTopologyKeys:
      - kubernetes.io/hostname
    weight: 100
  persistentPodAnnotations:
  - key: cni.projectcalico.org/podIP
---
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata:
  name: sample
spec:
  targetRef:
    apiVersion: apps.kruise.io/v1beta1
    kind: StatefulSet
    name: sample
  persistentPodStateRetentionPolicy: WhenDeleted
  requiredPersistentTopology:
    keys:
    - topology.kubernetes.io/zone
  preferredPersistentTopology:
  - preference:
      keys:
      - kubernetes.io/hostname
    weight: 100
";

fn api_of(cluster: &Cluster, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", version, "PersistentPodState");
    Api::namespaced_with(
        cluster.client(),
        "default",
        &ApiResource::from_gvk_with_plural(&kind, "persistentpodstates"),
    )
}

async fn accepts_manifests_for_openkruise_in_both_versions_and_shows_them_in_both(
    cluster: &Cluster,
) {
    let written: Vec<Value> = manifests::parse(MANIFESTS).unwrap();
    cluster.apply(MANIFESTS).await.unwrap();
    let status = json!({"podStates": {"sample-0": {"nodeName": "node-1"}}});
    patch_status(&api_of(cluster, "v1beta1"), "sample", &status)
        .await
        .unwrap();
    for version in ["v1alpha1", "v1beta1"] {
        let api = api_of(cluster, version);
        for manifest in &written {
            let read = api
                .get(manifest["metadata"]["name"].as_str().unwrap())
                .await
                .unwrap();
            assert_eq!(read.data["spec"], manifest["spec"], "{version}");
            assert_eq!(
                read.types.unwrap().api_version,
                format!("apps.kruise.io/{version}")
            );
        }
        assert_eq!(
            api.get("sample").await.unwrap().data["status"],
            status,
            "{version}"
        );
        let resource = format!("persistentpodstates.{version}.apps.kruise.io");
        let table = cluster
            .control_plane
            .kubectl(&["get", &resource])
            .await
            .unwrap();
        assert!(
            table.starts_with("NAME") && table.contains("RECORDED"),
            "{table}"
        );
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let status = definitions.get(DEFINITION).await.unwrap().status.unwrap();
    assert_eq!(status.stored_versions, Some(vec!["v1alpha1".to_owned()]));
}

/// A definition with the schemas, the spellings and the storage version of OpenKruise's.
fn openkruise_definition() -> Value {
    let mut definition = manifests::read(&repository_file("deploy/base/crd.yaml"))
        .unwrap()
        .remove(0);
    let text = json!({"type": "string"});
    let version = |name: &str, spelling: &str| {
        let keys = json!({"type": "object", "required": [spelling], "properties": {
            spelling: {"type": "array", "items": text},
        }});
        let map = json!({"type": "object", "additionalProperties": text});
        json!({
            "name": name, "served": true, "storage": name == "v1beta1", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["targetRef"], "properties": {
                    "targetRef": {"type": "object", "required": ["apiVersion", "kind", "name"],
                        "properties": {"apiVersion": text, "kind": text, "name": text}},
                    "requiredPersistentTopology": keys,
                    "preferredPersistentTopology": {"type": "array", "items": {
                        "type": "object", "required": ["preference", "weight"],
                        "properties": {"preference": keys, "weight": {"type": "integer", "format": "int32"}},
                    }},
                    "persistentPodAnnotations": {"type": "array", "items":
                        {"type": "object", "required": ["key"], "properties": {"key": text}}},
                    "persistentPodStateRetentionPolicy": text,
                }},
                "status": {"type": "object", "required": ["observedGeneration"], "properties": {
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "podStates": {"type": "object", "additionalProperties": {"type": "object", "properties":
                        {"nodeName": text, "nodeTopologyLabels": map, "annotations": map}}},
                }},
            }}},
        })
    };
    let names = json!({"kind": "PersistentPodState", "listKind": "PersistentPodStateList",
        "plural": "persistentpodstates", "singular": "persistentpodstate"});
    definition["spec"] = json!({"group": "apps.kruise.io", "names": names, "scope": "Namespaced",
        "versions": [version("v1alpha1", "nodeTopologyKeys"), version("v1beta1", "keys")]});
    definition
}

/// Puts a definition in place of the one that is there, and waits until the API server uses it.
async fn replace_definition(cluster: &Cluster, definition: &Value, is_ours: bool) {
    cluster
        .apply_objects(std::slice::from_ref(definition))
        .await
        .unwrap();
    documented(cluster, is_ours).await;
}

/// Deletes the definition with all objects.
async fn delete_definition(cluster: &Cluster) {
    cluster
        .control_plane
        .kubectl(&["delete", "crd", DEFINITION])
        .await
        .unwrap();
}

async fn replaces_openkruises_definition_and_back_with_objects_in_it(cluster: &Cluster) {
    delete_definition(cluster).await;
    let ours = manifests::read(&repository_file("deploy/base/crd.yaml"))
        .unwrap()
        .remove(0);
    replace_definition(cluster, &openkruise_definition(), false).await;
    let beta = api_of(cluster, "v1beta1");
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"keys": ["zone"]},
    });
    let object = |spec: &Value| {
        let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
            "metadata": {"name": "web"}, "spec": spec});
        serde_json::from_value::<DynamicObject>(object).unwrap()
    };
    beta.create(&PostParams::default(), &object(&spec))
        .await
        .unwrap();
    let status = json!({"observedGeneration": 1, "podStates":
        {"web-0": {"nodeName": "node-0", "nodeTopologyLabels": {"zone": "a"}}}});
    patch_status(&beta, "web", &status).await.unwrap();

    replace_definition(cluster, &ours, true).await;
    for version in ["v1alpha1", "v1beta1"] {
        let read = api_of(cluster, version).get("web").await.unwrap();
        assert_eq!(
            [&read.data["spec"], &read.data["status"]],
            [&spec, &status],
            "{version}"
        );
    }
    // From now on it can be written in either version, with the fields that only ours has.
    let alpha = api_of(cluster, "v1alpha1");
    let more = json!({"desired": 2, "podStates": {"web-1": {"nodeName": "node-1"}}});
    patch_status(&alpha, "web", &more).await.unwrap();
    let forget = Patch::Merge(json!({"spec": {"nodeDeletionPolicy": "Forget"}}));
    beta.patch("web", &PatchParams::default(), &forget)
        .await
        .unwrap();
    assert_eq!(beta.get("web").await.unwrap().data["status"]["desired"], 2);

    // OpenKruise's definition shows what the API server has stored in v1alpha1 without the fields
    // that its v1alpha1 does not have: the other spelling, and the policy for deleted nodes. The
    // states stay, and nothing is lost in etcd.
    replace_definition(cluster, &openkruise_definition(), false).await;
    let states = &beta.get("web").await.unwrap().data["status"]["podStates"];
    assert_eq!(states["web-0"], status["podStates"]["web-0"]);
    assert_eq!(states["web-1"], json!({"nodeName": "node-1"}));
    replace_definition(cluster, &ours, true).await;
    let read = alpha.get("web").await.unwrap();
    assert_eq!(
        read.data["spec"]["requiredPersistentTopology"],
        spec["requiredPersistentTopology"]
    );
    assert_eq!(read.data["spec"]["nodeDeletionPolicy"], "Forget");
    assert_eq!(&read.data["status"]["podStates"], states);
}

/// OpenKruise's definition after v1.9.0: its manager converts the objects.
async fn replaces_a_definition_that_has_a_conversion_webhook(cluster: &Cluster) {
    delete_definition(cluster).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let mut openkruises = openkruise_definition();
    openkruises["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://127.0.0.1:9/convert"},
        "conversionReviewVersions": ["v1", "v1beta1"],
    }});
    let file = repository_file("deploy/base/crd.yaml");
    let file = file.to_str().unwrap();
    let patch = r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#;
    let server_side = ["apply", "--server-side", "--force-conflicts", "-f", file];
    let kubectl = async |args: &[&str]| cluster.control_plane.kubectl(args).await;

    for is_server_side in [false, true] {
        cluster
            .apply_objects(std::slice::from_ref(&openkruises))
            .await
            .unwrap();
        let before = definitions
            .get(DEFINITION)
            .await
            .unwrap()
            .spec
            .conversion
            .unwrap();
        assert_eq!(
            (before.strategy.as_str(), before.webhook.is_some()),
            ("Webhook", true)
        );
        if is_server_side {
            // A server-side apply does not remove what another manager set, so the guide has the
            // patch.
            let error = kubectl(&server_side).await.unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("should not be set when strategy"),
                "{error}"
            );
            kubectl(&["patch", "crd", DEFINITION, "--type=merge", "-p", patch])
                .await
                .unwrap();
            kubectl(&server_side).await.unwrap();
        } else {
            kubectl(&["apply", "-f", file]).await.unwrap();
        }
        let after = definitions.get(DEFINITION).await.unwrap().spec;
        let conversion = after.conversion.unwrap();
        assert_eq!(
            (conversion.strategy.as_str(), conversion.webhook),
            ("None", None)
        );
        let stored: Vec<&str> = after
            .versions
            .iter()
            .filter(|version| version.storage)
            .map(|version| version.name.as_str())
            .collect();
        assert_eq!(
            stored,
            ["v1alpha1"],
            "the rest of the file is applied as well"
        );
    }
}

async fn schema_refuses_invalid_specs(cluster: &Cluster) {
    let api = cluster.pps_api("default");
    let term =
        |weight: i64| json!({"weight": weight, "preference": {"nodeTopologyKeys": ["zone"]}});
    let fallback = |seconds: Value| {
        json!({"requiredPersistentTopology":
            {"nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": seconds}})
    };
    let refused = [
        (json!({"preferredPersistentTopology": [term(0)]}), "weight"),
        (
            json!({"preferredPersistentTopology": [term(101)]}),
            "weight",
        ),
        (
            json!({"preferredPersistentTopology": [{"weight": 1}]}),
            "preference",
        ),
        (
            json!({"requiredPersistentTopology": {"nodeTopologyKeys": []}}),
            "nodeTopologyKeys",
        ),
        (
            json!({"requiredPersistentTopology": {"nodeTopologyKeys": [""]}}),
            "nodeTopologyKeys",
        ),
        (json!({"requiredPersistentTopology": {"keys": []}}), "keys"),
        (
            json!({"requiredPersistentTopology": {"nodeTopologyKeys": vec!["zone"; 65]}}),
            "nodeTopologyKeys",
        ),
        (
            json!({"requiredPersistentTopology": {"keys": ["k".repeat(318)]}}),
            "keys",
        ),
        (
            json!({"preferredPersistentTopology": vec![term(1); 65]}),
            "preferredPersistentTopology",
        ),
        (
            json!({"persistentPodAnnotations": vec![json!({"key": "a"}); 129]}),
            "persistentPodAnnotations",
        ),
        (
            json!({"targetRef": {"name": "w".repeat(254)}}),
            "targetRef.name",
        ),
        (json!({"targetRef": {"name": ""}}), "targetRef.name"),
        (json!({"targetRef": {"kind": null}}), "targetRef.kind"),
        (json!({"targetRef": null}), "targetRef"),
        (
            json!({"persistentPodStateRetentionPolicy": "Always"}),
            "persistentPodStateRetentionPolicy",
        ),
        (json!({"nodeDeletionPolicy": "keep"}), "nodeDeletionPolicy"),
        (
            json!({"persistentPodAnnotations": [{"valueFrom": "PodIPsCSV"}]}),
            "key",
        ),
        (
            json!({"persistentPodAnnotations": [{"key": "a", "valueFrom": "PodIPs"}]}),
            "valueFrom",
        ),
        (fallback(json!(29)), "fallbackAfterSeconds"),
        (fallback(json!(14_401)), "fallbackAfterSeconds"),
        (fallback(json!("600")), "fallbackAfterSeconds"),
        // A bare string instead of an object.
        (
            json!({"persistentPodAnnotations": ["a"]}),
            "must be of type object",
        ),
    ];
    for (changes, named) in refused {
        let refusal = create(&api, "refused", &spec_with(&changes))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refusal.contains("is invalid") && refusal.contains(named),
            "{changes}: {refusal}"
        );
    }
    for weight in [1, 100] {
        let changes = json!({"preferredPersistentTopology": [term(weight)]});
        create(&api, &format!("weight-{weight}"), &spec_with(&changes))
            .await
            .unwrap();
    }
    for seconds in [30, 14_400] {
        let name = format!("fallback-{seconds}");
        let stored = create(&api, &name, &spec_with(&fallback(json!(seconds)))).await;
        let required = &stored.unwrap().data["spec"]["requiredPersistentTopology"];
        assert_eq!(required["fallbackAfterSeconds"], seconds);
    }
    // A preference has no end: the field is not stored.
    let mut preferred = term(1);
    preferred["preference"]["fallbackAfterSeconds"] = 600.into();
    let changes = json!({"preferredPersistentTopology": [preferred]});
    let stored = create(&api, "no-end", &spec_with(&changes)).await.unwrap();
    assert_eq!(
        stored.data["spec"]["preferredPersistentTopology"],
        json!([term(1)])
    );
}

async fn rules_refuse_what_the_policy_refuses_and_keep_no_broken_object(cluster: &Cluster) {
    let api = cluster.pps_api("default");
    let none = json!({"requiredPersistentTopology": null});
    let deployment = json!({"targetRef": {"kind": "Deployment"}});
    for (changes, path, message) in [
        (none.clone(), "spec", "it persists nothing: set"),
        (
            json!({"requiredPersistentTopology": {"nodeTopologyKeys": null}}),
            "spec.requiredPersistentTopology",
            "in either nodeTopologyKeys or keys",
        ),
        (
            deployment.clone(),
            "spec.targetRef.kind",
            "it is \"Deployment\", whose Pods",
        ),
    ] {
        let refusal = create(&api, "ruled", &spec_with(&changes))
            .await
            .unwrap_err()
            .to_string();
        // Kubernetes before 1.36 says `Invalid value: "object": ` in between.
        let path = format!("{path}: Invalid value: ");
        assert!(
            refusal.contains(&path) && refusal.contains(message),
            "{changes}: {refusal}"
        );
    }
    let alias = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "name": "a"},
        "requiredPersistentTopology": null});
    create(&api, "ruled-alias", &spec_with(&alias))
        .await
        .unwrap();

    create(&api, "ruled", &spec_with(&json!({}))).await.unwrap();
    let update = async |name: &str, patch: Value| {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| error.to_string())
    };
    for (field, value, message) in [
        ("name", "db", "it is \"db\" and cannot change from \"web\""),
        (
            "kind",
            "Database",
            "it is \"Database\" and cannot change from \"StatefulSet\"",
        ),
        (
            "apiVersion",
            "apps.kruise.io/v1",
            "its group cannot change from that of \"apps/v1\"",
        ),
    ] {
        let refusal = update("ruled", json!({"spec": {"targetRef": {field: value}}}))
            .await
            .unwrap_err();
        let path = format!("spec.targetRef.{field}: Invalid value");
        assert!(
            refusal.contains(&path) && refusal.contains(message),
            "{refusal}"
        );
    }
    update(
        "ruled",
        json!({"spec": {"targetRef": {"apiVersion": "apps/v2"}}}),
    )
    .await
    .unwrap();

    // Objects that are older than the rules.
    let ours = manifests::read(&repository_file("deploy/base/crd.yaml")).unwrap();
    let mut without = ours.clone();
    remove_rules(&mut without[0]);
    cluster.apply_objects(&without).await.unwrap();
    let broken = [("ruled-none", &none), ("ruled-deployment", &deployment)];
    wait_for("the rules to be gone", Duration::from_mins(1), async || {
        for (name, changes) in broken {
            let mut object = pps(name, &spec_with(changes));
            object.metadata.finalizers = Some(vec!["example.io/wait".to_owned()]);
            match api.create(&PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                other => drop(other?),
            }
        }
        Ok(Progress::Done(()))
    })
    .await
    .unwrap();
    cluster.apply_objects(&ours).await.unwrap();
    wait_for("the rules to be back", Duration::from_mins(1), async || {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let refused = api
            .create(&dry, &pps("ruled-dry", &spec_with(&none)))
            .await
            .is_err();
        Ok(Progress::when(refused, (), "not refused"))
    })
    .await
    .unwrap();
    for (name, _) in broken {
        patch_status(&api, name, &json!({"desired": 3}))
            .await
            .unwrap();
        update(name, json!({"metadata": {"labels": {"a": "b"}}}))
            .await
            .unwrap();
        api.delete(name, &DeleteParams::default()).await.unwrap();
        update(name, json!({"metadata": {"finalizers": null}}))
            .await
            .unwrap();
        assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

async fn status_subresource_stores_states_and_prints_columns(cluster: &Cluster) {
    let api = cluster.pps_api("default");
    let changes = json!({
        "persistentPodAnnotations": [{"key": "cni.projectcalico.org/ipAddrs", "valueFrom": "PodIPsJSON"}],
        "persistentPodStateRetentionPolicy": "Retain",
        "nodeDeletionPolicy": "Forget",
    });
    let created = create(&api, "web", &spec_with(&changes)).await.unwrap();
    assert_eq!(created.data["spec"], spec_with(&changes));

    let condition = json!({"type": "Recording", "status": "True", "reason": "Recorded", "message": "All is well.",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1});
    let status = json!({
        "observedGeneration": 1,
        "targetUID": "0b9c",
        "recorded": 2,
        "desired": 3,
        "conditions": [condition],
        "podStates": {
            "web-0": {"nodeName": "node-0", "nodeTopologyLabels": {"topology.kubernetes.io/zone": "a"}},
            "web-1": {"nodeName": "node-1", "annotations": {"cni.projectcalico.org/ipAddrs": "[\"10.0.0.7\"]"}},
        },
    });
    let patched = patch_status(&api, "web", &status).await.unwrap();
    assert_eq!(patched.data["status"], status);
    assert_eq!(
        patched.metadata.generation,
        Some(1),
        "a status must not change the generation"
    );

    // The status is a subresource: a write to the object cannot change it.
    let intruder = Patch::Merge(json!({"status": {"recorded": 9}}));
    let untouched = api
        .patch("web", &PatchParams::default(), &intruder)
        .await
        .unwrap();
    assert_eq!(untouched.data["status"], status);

    // A merge patch of one Pod keeps the others, although the map is atomic.
    let patched = patch_status(
        &api,
        "web",
        &json!({"podStates": {"web-0": {"nodeName": "node-2"}}}),
    )
    .await
    .unwrap();
    let recorded = &patched.data["status"]["podStates"];
    assert_eq!(recorded["web-0"]["nodeName"], "node-2");
    assert_eq!(
        recorded["web-0"]["nodeTopologyLabels"]["topology.kubernetes.io/zone"],
        "a"
    );
    assert_eq!(recorded["web-1"], status["podStates"]["web-1"]);
    assert_that_managed_fields_do_not_list_pods(&patched);

    let patched = patch_status(&api, "web", &json!({"podStates": {"web-0": null}}))
        .await
        .unwrap();
    assert_eq!(
        patched.data["status"]["podStates"],
        json!({"web-1": status["podStates"]["web-1"]})
    );

    let table = cluster
        .control_plane
        .kubectl(&["get", "pps", "web"])
        .await
        .unwrap();
    let cells: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        cells[0],
        [
            "NAME", "KIND", "TARGET", "RECORDED", "DESIRED", "STATUS", "AGE"
        ]
    );
    assert_eq!(
        cells[1][..6],
        ["web", "StatefulSet", "web", "2", "3", "Recorded"]
    );
}

fn assert_that_managed_fields_do_not_list_pods(object: &DynamicObject) {
    let entries = object.metadata.managed_fields.as_ref().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.manager.as_deref() == Some("recorder"))
        .unwrap();
    let fields = serde_json::to_value(&entry.fields_v1).unwrap();
    assert_eq!(fields["f:status"]["f:podStates"], json!({}), "{fields}");
    assert!(!fields.to_string().contains("web-0"), "{fields}");
    // Conditions are merged by type.
    assert!(
        fields["f:status"]["f:conditions"][r#"k:{"type":"Recording"}"#].is_object(),
        "{fields}"
    );
}

async fn service_accounts_have_exactly_the_expected_permissions(cluster: &Cluster) {
    cluster.namespace(kubewarden::NAMESPACE).await.unwrap();
    for file in ["namespace", "serviceaccount", "rbac", "policy-server"] {
        let mut objects =
            manifests::read(&repository_file(&format!("deploy/base/{file}.yaml"))).unwrap();
        objects.retain(|object| object["kind"] != "PolicyServer");
        cluster.apply_objects(&objects).await.unwrap();
    }
    let expected_of_sidecar = permissions([
        ("", "configmaps/kruise-configuration", "list watch"),
        ("", "namespaces", "list watch"),
        ("", "nodes", "get list watch"),
        ("", "pods", "list watch"),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "list watch",
        ),
        ("apps", "statefulsets", "list watch"),
        (
            "apps.kruise.io",
            "persistentpodstates",
            "create delete list patch watch",
        ),
        ("apps.kruise.io", "persistentpodstates/status", "patch"),
        ("apps.kruise.io", "statefulsets", "list watch"),
        ("coordination.k8s.io", "leases/kruise-manager", "get"),
        ("events.k8s.io", "events", "create"),
    ]);
    let expected_of_policy = permissions([("apps.kruise.io", "persistentpodstates", "get")]);
    // Every account may ask who it is and what it may do, for example.
    let nobody = cluster
        .control_plane
        .client_for_service_account("default", "nobody")
        .await
        .unwrap();
    let everyone = permissions_of(&nobody, "default").await.unwrap();
    for (namespace, account, expected) in [
        (NAMESPACE, "pps-sidecar", expected_of_sidecar),
        (
            kubewarden::NAMESPACE,
            "policy-server-persistent-pod-state",
            expected_of_policy,
        ),
    ] {
        let client = cluster
            .control_plane
            .client_for_service_account(namespace, account)
            .await
            .unwrap();
        let granted = wait_for("the role to be bound", Duration::from_mins(2), async || {
            let permissions = without(&everyone, permissions_of(&client, "default").await?);
            Ok(Progress::when(!permissions.is_empty(), permissions, "none"))
        });
        assert_eq!(granted.await.unwrap(), expected, "{account}");
        // The Lease is in the product's own namespace.
        let mut expected = expected;
        if account == "pps-sidecar" {
            expected.extend(permissions([
                ("coordination.k8s.io", "leases", "create"),
                ("coordination.k8s.io", "leases/pps-sidecar", "get update"),
            ]));
        }
        assert_eq!(
            without(&everyone, permissions_of(&client, NAMESPACE).await.unwrap()),
            expected,
            "{account}"
        );
    }
}

/// Verbs by API group and resource.
type Permissions = BTreeMap<(String, String), BTreeSet<String>>;

fn permissions<const N: usize>(of: [(&str, &str, &str); N]) -> Permissions {
    of.into_iter()
        .map(|(group, resource, verbs)| {
            (
                (group.to_owned(), resource.to_owned()),
                verbs.split(' ').map(str::to_owned).collect(),
            )
        })
        .collect()
}

/// Those of these permissions that are not among the others.
fn without(others: &Permissions, mut permissions: Permissions) -> Permissions {
    permissions.retain(|of, verbs| others.get(of) != Some(verbs));
    permissions
}

/// The permissions of a client in a namespace.
async fn permissions_of(client: &Client, namespace: &str) -> anyhow::Result<Permissions> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let review = Api::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    let mut permissions = Permissions::new();
    for rule in review
        .status
        .into_iter()
        .flat_map(|status| status.resource_rules)
    {
        let names = rule.resource_names.unwrap_or_default();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let whole = names.is_empty().then(|| resource.clone());
                for resource in whole
                    .into_iter()
                    .chain(names.iter().map(|name| format!("{resource}/{name}")))
                {
                    let verbs = permissions.entry((group.clone(), resource)).or_default();
                    verbs.extend(rule.verbs.iter().cloned());
                }
            }
        }
    }
    Ok(permissions)
}

async fn the_compact_form_is_stored_exactly_and_a_definition_without_it_prunes_it(
    cluster: &Cluster,
) {
    cluster.namespace("compact").await.unwrap();
    let api = cluster.pps_api("compact");
    create(&api, "web", &spec_with(&json!({}))).await.unwrap();
    let buckets = json!({
        "ordinals-0": "2 web-* node-* label:zone=* annotation:ip=10.0.0.*\n0 1 a 7\n1 2 %C3%A9%0A -\n",
        "hash-63": " \u{85}\u{2028}\u{feff}<>&\"\\\t\r\n\u{0}é🦀 trailing \n\n",
        "ordinals-102300": "\n",
    });
    let packed = json!({"version": 1, "buckets": buckets});
    let patched = patch_status(&api, "web", &json!({"packed": packed}))
        .await
        .unwrap();
    assert_eq!(patched.data["status"]["packed"], packed);
    assert_eq!(
        api.get("web").await.unwrap().data["status"]["packed"],
        packed
    );
    // A merge patch of one bucket keeps the others, although the map is atomic.
    let one = json!({"packed": {"buckets": {"ordinals-0": "1 web-0 n\n% %\n", "hash-63": null}}});
    let patched = patch_status(&api, "web", &one).await.unwrap();
    let expected = json!({"ordinals-0": "1 web-0 n\n% %\n", "ordinals-102300": "\n"});
    assert_eq!(
        patched.data["status"]["packed"],
        json!({"version": 1, "buckets": expected})
    );
    for (refused, named) in [
        (json!({"packed": {"version": "1"}}), "packed.version"),
        (json!({"packed": {"version": null}}), "packed.version"),
        (
            json!({"packed": {"buckets": {"ordinals-0": 7}}}),
            "packed.buckets.ordinals-0",
        ),
    ] {
        let refusal = patch_status(&api, "web", &refused)
            .await
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(named), "{refused}: {refusal}");
    }

    replace_definition(cluster, &openkruise_definition(), false).await;
    assert_eq!(
        api.get("web").await.unwrap().data["status"].get("packed"),
        None
    );
    let status = json!({"observedGeneration": 1, "packed": packed});
    let patched = patch_status(&api, "web", &status).await.unwrap();
    assert_eq!(patched.data["status"].get("packed"), None);
}

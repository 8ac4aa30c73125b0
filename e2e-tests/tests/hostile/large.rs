//! Large Pods, and large objects in the host's answers.

use serde_json::{Value, json};

use super::cases::{HostileCase, PREFERRED, REQUIRED, Verdict, alias, object};

pub(super) fn all() -> Vec<HostileCase> {
    let megabyte = "x".repeat(1 << 20);
    let state = object()["status"]["podStates"]["web-0"].clone();
    let many_states: Value = (0..10_000)
        .map(|pod| (format!("web-{pod}"), state.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let keys = |count: usize| {
        (0..count)
            .map(|key| format!("example.io/key-{key}"))
            .collect::<Vec<_>>()
    };
    let recorded = |keys: &[String]| {
        keys.iter()
            .map(|key| (key.clone(), json!("v")))
            .collect::<serde_json::Map<_, _>>()
    };
    let many_terms = |count: usize| {
        move |pod: &mut Value| {
            let term = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
            pod["spec"]["affinity"] =
                json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": vec![term; count]}}});
        }
    };
    let many_preferences = |count: usize| {
        move |pod: &mut Value| {
            let expression = json!({"key": "example.io/key-1", "operator": "In", "values": ["w"]});
            let preference = json!({"weight": 1, "preference": {"matchExpressions": [expression]}});
            pod["spec"]["affinity"] = json!({"nodeAffinity": {PREFERRED: vec![preference; count]}});
        }
    };
    let annotations = |count: usize| {
        move |object: &mut Value| {
            object["spec"]["persistentPodAnnotations"] = json!(keys(count));
            object["status"]["podStates"]["web-0"]["annotations"] = recorded(&keys(count)).into();
        }
    };
    let preferred = move |count: usize| {
        move |object: &mut Value| {
            let term =
                |key: &String| json!({"weight": 1, "preference": {"nodeTopologyKeys": [key]}});
            object["spec"]["preferredPersistentTopology"] = keys(count).iter().map(term).collect();
            object["status"]["podStates"]["web-0"]["nodeTopologyLabels"] =
                recorded(&keys(count)).into();
        }
    };
    let required = move |count: usize| {
        move |object: &mut Value| {
            object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": keys(count)});
            object["status"]["podStates"]["web-0"]["nodeTopologyLabels"] =
                recorded(&keys(count)).into();
        }
    };
    vec![
        HostileCase::new("an annotation of a megabyte", Verdict::Changed)
            .with_pod(|pod| pod["metadata"]["annotations"]["own"] = megabyte.clone().into()),
        // Each object is a node of a map in the guest's memory: this is what costs the most for
        // its bytes.
        HostileCase::new(
            "two megabytes of objects with one short key",
            Verdict::Changed,
        )
        .with_pod(|pod| pod["spec"]["unknown"] = json!(vec![json!({"a": 0}); (2 << 20) / 8])),
        HostileCase::new("two megabytes of numbers", Verdict::Changed)
            .with_pod(|pod| pod["spec"]["unknown"] = json!(vec![0; (2 << 20) / 2])),
        HostileCase::new("a recorded annotation of a megabyte", Verdict::Changed).with_object(
            |object| {
                object["status"]["podStates"]["web-0"]["annotations"]["ip"] =
                    megabyte.clone().into();
            },
        ),
        HostileCase::new("10,000 recorded Pods and no masks", Verdict::Changed)
            .with_object(|object| object["status"]["podStates"] = many_states),
        HostileCase {
            has_other_name: true,
            alias: Some(alias(&megabyte).into()),
            ..HostileCase::new("an alias with a name of a megabyte", Verdict::Accepted)
        }
        .with_object(|object| object["metadata"]["name"] = megabyte.clone().into()),
        HostileCase::new("10,000 recorded annotations", Verdict::Changed)
            .with_object(annotations(10_000)),
        HostileCase::new("20,000 required labels", Verdict::Changed).with_object(required(20_000)),
        HostileCase::new("10,000 preferred terms", Verdict::Changed).with_object(preferred(10_000)),
        HostileCase::new("20,000 required keys without a value", Verdict::Changed).with_object(
            |object| {
                object["spec"]["requiredPersistentTopology"] =
                    json!({"nodeTopologyKeys": keys(20_000)});
            },
        ),
        HostileCase::new("128 terms and 64 labels", Verdict::Changed)
            .with_object(required(64))
            .with_pod(many_terms(128)),
        HostileCase::new(
            "50,000 terms",
            Verdict::Rejected(400, "may have 128 items, with the recorded topology"),
        )
        .with_object(required(64))
        .with_pod(many_terms(50_000)),
        HostileCase::new(
            "64 expressions in each of 128 terms, and 64 labels",
            Verdict::Changed,
        )
        .with_object(required(64))
        .with_pod(|pod| {
            let expression = json!({"key": "example.io/key-1", "operator": "In", "values": ["w"]});
            let term = json!({"matchExpressions": vec![expression; 64]});
            pod["spec"]["affinity"] =
                json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": vec![term; 128]}}});
        }),
        HostileCase::new(
            "50,000 expressions",
            Verdict::Rejected(400, "may have 128 items, with the recorded topology"),
        )
        .with_object(required(64))
        .with_pod(|pod| {
            let expression = json!({"key": "example.io/key-1", "operator": "Exists"});
            pod["spec"]["affinity"] = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": vec![expression; 50_000]},
            ]}}});
        }),
        HostileCase::new("64 preferences and 64 terms", Verdict::Changed)
            .with_object(preferred(64))
            .with_pod(many_preferences(64)),
        HostileCase::new("25,000 preferences", Verdict::Changed)
            .with_object(preferred(64))
            .with_pod(many_preferences(25_000)),
    ]
}

//! PersistentPodStates that somebody creates, changes or deletes.

use serde_json::{Value, json};

use super::cases::{HostileCase, Verdict, into_text, nest};

/// PersistentPodStates that somebody creates, changes or deletes.
pub(super) fn all() -> Vec<HostileCase> {
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let review = |name: &str, verdict: Verdict, object: &Value| {
        let before = json!({"metadata": {"name": "web"}, "spec": {"targetRef": target}});
        let payload = json!({"settings": null, "request": {
            "kind": {"group": "apps.kruise.io", "version": "v1alpha1", "kind": "PersistentPodState"},
            "operation": "UPDATE",
            "namespace": "shop",
            "object": object,
            "oldObject": before,
        }});
        HostileCase {
            payload: payload.to_string().into(),
            ..HostileCase::new(name, verdict)
        }
    };
    let spec = |name: &str, verdict: Verdict, field: &str, value: Value| {
        review(
            name,
            verdict,
            &json!({"metadata": {"name": "web"}, "spec": {"targetRef": target, field: value}}),
        )
    };
    let refused = |piece| Verdict::Rejected(422, piece);
    let keys = |count: usize| {
        (0..count)
            .map(|key| format!("example.io/key-{key}"))
            .collect::<Vec<_>>()
    };
    let term = json!({"weight": 0, "preference": {"nodeTopologyKeys": vec!["-"; 64]}});
    let nested = |request: &str| {
        let deep = into_text(nest("[", "1", "]", 1_000_000));
        let kind =
            json!({"group": "apps.kruise.io", "version": "v1alpha1", "kind": "PersistentPodState"});
        format!(
            r#"{{"settings": null, "request": {{"kind": {kind}, {request}: {{"spec": {deep}}}}}}}"#
        )
        .into_bytes()
    };
    let unreadable = Verdict::Rejected(400, "not an admission request: recursion limit");
    let required = "requiredPersistentTopology";
    vec![
        spec(
            "20,000 required keys",
            refused("nodeTopologyKeys is a list of 20000: list at most 64"),
            required,
            json!({"nodeTopologyKeys": keys(20_000)}),
        ),
        spec(
            "20,000 deprecated keys",
            refused("keys is a list of 20000: list at most 64"),
            required,
            json!({"keys": vec!["failure-domain.beta.kubernetes.io/zone"; 20_000]}),
        ),
        spec(
            "10,000 preferred terms",
            refused("preferredPersistentTopology is a list of 10000: list at most 64"),
            "preferredPersistentTopology",
            json!(vec![term.clone(); 10_000]),
        ),
        spec(
            "4,096 wrong keys in as many terms as there may be",
            refused("; and 4140 more"),
            "preferredPersistentTopology",
            json!(vec![term; 64]),
        ),
        spec(
            "900,000 empty keys",
            refused("persistentPodAnnotations is a list of 900000: list at most 128"),
            "persistentPodAnnotations",
            json!(vec![""; 900_000]),
        ),
        spec(
            "a key of two megabytes",
            refused("persistentPodAnnotations[0] is"),
            "persistentPodAnnotations",
            json!(["x".repeat(2 << 20)]),
        ),
        review(
            "a name of two megabytes",
            refused("spec.targetRef.name"),
            &json!({"metadata": {"name": "x".repeat(2 << 20)}, "spec": {"targetRef": {"name": "y".repeat(1 << 20)}}}),
        ),
        HostileCase {
            payload: nested(r#""operation": "CREATE", "object""#),
            ..HostileCase::new("an object nested too deep", unreadable.clone())
        },
        HostileCase {
            payload: nested(r#""operation": "DELETE", "oldObject""#),
            ..HostileCase::new(
                "the deletion of an object nested too deep",
                unreadable.clone(),
            )
        },
        HostileCase {
            payload: nested(
                r#""operation": "DELETE", "userInfo": {"username": "system:kube-controller-manager"}, "oldObject""#,
            ),
            // No definition keeps such an object.
            ..HostileCase::new(
                "the garbage collection of an object nested too deep",
                unreadable,
            )
        },
    ]
}

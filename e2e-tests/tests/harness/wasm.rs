//! The waPC host of the stand-in, without a cluster.

use std::sync::Arc;

use pps_e2e::kubewarden::stand_in::{Evaluation, HostCalls, NoHost, PolicyModule};
use serde_json::{Value, json};

use super::guest::{Validate, metadata, policy};

fn request(object: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({"uid": "u-1", "kind": kind, "resource": resource, "operation": "CREATE", "name": "web-0",
        "namespace": "default", "userInfo": {"username": "me"}, "object": object})
}

fn no_host() -> Arc<dyn HostCalls> {
    Arc::new(NoHost)
}

fn host(answer: Result<&'static str, &'static str>) -> Arc<dyn HostCalls> {
    Arc::new(move |_: &str, _: &str, _: &[u8]| {
        answer
            .map(|text| text.as_bytes().to_vec())
            .map_err(str::to_owned)
    })
}

fn get(kind: &str) -> Value {
    json!({"api_version": "v1", "kind": kind, "name": "x", "namespace": "default", "disable_cache": true,
        "field_masks": null})
}

fn message(evaluation: &Evaluation) -> String {
    evaluation
        .response
        .status
        .as_ref()
        .and_then(|status| status.message.clone())
        .unwrap_or_default()
}

#[test]
fn derives_the_patch_from_the_mutated_object() {
    let after = json!({"metadata": {"name": "web-0", "annotations": {"a/b": "c"}}});
    let answer = json!({"accepted": true, "mutated_object": after, "warnings": ["careful"]});
    let module = PolicyModule::load(&policy(&metadata(), &Validate::Answer(&answer))).unwrap();
    let before = json!({"metadata": {"name": "web-0"}});
    let evaluation = module
        .evaluate(&request(&before), &json!({}), &no_host())
        .unwrap();
    let response = serde_json::to_value(&evaluation.response).unwrap();
    assert_eq!(response["uid"], "u-1");
    assert_eq!(response["allowed"], true);
    assert_eq!(response["patchType"], "JSONPatch");
    assert_eq!(response["warnings"], json!(["careful"]));
    assert_eq!(response["auditAnnotations"], Value::Null);
    assert!(response.get("status").is_none());
    assert_eq!(
        json!(evaluation.patch.unwrap()),
        json!([{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}}])
    );

    // An unchanged object gives no patch.
    let evaluation = module
        .evaluate(&request(&after), &json!({}), &no_host())
        .unwrap();
    assert!(evaluation.response.allowed && evaluation.patch.is_none());

    // A policy that is not declared as mutating must not mutate.
    let mut validating = metadata();
    validating["mutating"] = json!(false);
    let module = PolicyModule::load(&policy(&validating, &Validate::Answer(&answer))).unwrap();
    let evaluation = module
        .evaluate(&request(&before), &json!({}), &no_host())
        .unwrap();
    assert!(!evaluation.response.allowed && evaluation.response.patch.is_none());
    assert!(message(&evaluation).contains("it is currently configured to not allow mutations"));
}

#[test]
fn answers_and_records_host_calls() {
    let payload = get("ConfigMap");
    let relay = Validate::Relay {
        operation: "get_resource",
        payload: &payload,
    };
    let module = PolicyModule::load(&policy(&metadata(), &relay)).unwrap();
    let answering = host(Ok(r#"{"accepted": false, "message": "no", "code": 403}"#));
    let evaluation = module
        .evaluate(&request(&json!({})), &json!({}), &answering)
        .unwrap();
    assert!(!evaluation.response.allowed);
    assert_eq!(
        json!(evaluation.response.status),
        json!({"message": "no", "code": 403})
    );
    let [call] = evaluation.host_calls.as_slice() else {
        panic!("{:?}", evaluation.host_calls)
    };
    assert_eq!(
        (call.namespace.as_str(), call.operation.as_str()),
        ("kubernetes", "get_resource")
    );
    assert_eq!(call.payload_json(), payload);
    assert_eq!(call.response_json()["code"], 403);

    let evaluation = module
        .evaluate(&request(&json!({})), &json!({}), &host(Err("broken")))
        .unwrap();
    assert_eq!(
        message(&evaluation),
        "internal server error: Guest call failure: broken"
    );
    assert_eq!(evaluation.response.status.unwrap().code, Some(500));
    let nonsense = module
        .evaluate(&request(&json!({})), &json!({}), &host(Ok("[]")))
        .unwrap();
    assert!(
        message(&nonsense).starts_with("internal server error: invalid response from policy: ")
    );
}

#[test]
fn refuses_host_calls_that_are_not_granted() {
    let panics: Arc<dyn HostCalls> =
        Arc::new(|_: &str, _: &str, _: &[u8]| panic!("no call may reach the host"));
    let refusal = |metadata: &Value, operation: &str, payload: &Value| {
        let module =
            PolicyModule::load(&policy(metadata, &Validate::Relay { operation, payload })).unwrap();
        let evaluation = module
            .evaluate(&request(&json!({})), &json!({}), &panics)
            .unwrap();
        assert_eq!(evaluation.host_calls.len(), 1);
        message(&evaluation).replace("internal server error: Guest call failure: ", "")
    };
    assert_eq!(
        refusal(&metadata(), "get_resource", &get("Secret")),
        "Policy has not been granted access to Kubernetes v1/Secret resources. The violation has \
         been reported."
    );
    let mut poor = metadata();
    poor["hostCapabilities"] = json!(["kubernetes/list_resources_all"]);
    assert_eq!(
        refusal(&poor, "get_resource", &get("ConfigMap")),
        "Policy has not been granted access to the 'kubernetes/get_resource' host capability. The \
         violation has been reported."
    );
    assert_eq!(
        refusal(&metadata(), "make_coffee", &get("ConfigMap")),
        "unknown operation: make_coffee"
    );
    assert!(refusal(&metadata(), "get_resource", &json!({})).contains("missing field"));
}

#[test]
fn interrupts_a_policy_that_loops_forever() {
    let module = PolicyModule::load(&policy(&metadata(), &Validate::Loop)).unwrap();
    let evaluation = module
        .evaluate(&request(&json!({})), &json!({}), &no_host())
        .unwrap();
    assert_eq!(
        message(&evaluation),
        "Policy execution interrupted because it exceeded the allowed execution time"
    );
    assert!(evaluation.took.as_secs_f64() < 4.0, "{:?}", evaluation.took);
}

#[test]
fn refuses_modules_without_a_supported_protocol_version() {
    let load = |metadata: Value| {
        PolicyModule::load(&policy(&metadata, &Validate::Loop))
            .err()
            .unwrap()
            .to_string()
    };
    let mut without = metadata();
    without.as_object_mut().unwrap().remove("protocolVersion");
    assert!(load(without).contains("missing protocol version"));
    let mut other = metadata();
    other["protocolVersion"] = json!("v2");
    assert!(load(other).contains("only V1 is supported"));

    let module = PolicyModule::load(&policy(&metadata(), &Validate::Loop)).unwrap();
    assert_eq!(module.protocol_version().unwrap(), "v1");
    assert!(module.validate_settings(&json!({})).unwrap().valid);
    assert_eq!(module.metadata().rules[0].resources, ["pods"]);
    assert!(
        module
            .evaluate(&json!({"uid": "x"}), &json!({}), &no_host())
            .is_err()
    );
}

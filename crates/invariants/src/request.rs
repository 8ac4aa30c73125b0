//! A request from PolicyServer to the policy: any bytes, or a request generated from them.

use std::cell::Cell;
use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Result, Unstructured};
use persistent_pod_state_policy::answer as admit;
use pps_admission::Host;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::injected::{Recorded, list};
use crate::settings::Expected;

/// If the first byte is this one, the payload is generated from the bytes after it.
pub const STRUCTURED: u8 = 0;

/// The name of the object that governs the StatefulSet `web` in [`Answers::Aliased`].
const CHOSEN: &str = "chosen";
/// The second name of that StatefulSet.
const ALIAS: &str = "web-bfaad516";

/// Sends a payload to the policy, with several hosts, and checks the responses.
pub fn check(data: &[u8]) {
    let payload = match data.split_first() {
        Some((&STRUCTURED, seed)) => match payload(&mut Unstructured::new(seed)) {
            Ok(payload) => payload.to_string().into_bytes(),
            Err(_) => return,
        },
        _ => data.to_vec(),
    };
    // If the policy does not ask this host, it does not ask the others either.
    if check_with(&payload, Answers::Rich) {
        for answers in [
            Answers::Aliased,
            Answers::NotFound,
            Answers::NoSuchKind,
            Answers::Broken,
        ] {
            check_with(&payload, answers);
        }
    }
}

/// How a host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// Every name belongs to an object that has a state for every Pod.
    Rich,
    /// The object that governs the workload has another name; an alias leads to it.
    Aliased,
    /// There is no object.
    NotFound,
    /// The cluster does not know the kind.
    NoSuchKind,
    /// Every call fails.
    Broken,
}

struct FixedHost {
    answers: Answers,
    calls: Cell<usize>,
}

impl Host for FixedHost {
    fn call(
        &self,
        namespace: &str,
        operation: &str,
        payload: &str,
    ) -> std::result::Result<String, String> {
        let request: Value = serde_json::from_str(payload).unwrap();
        if (namespace, operation) == ("tracing", "log") {
            assert!(request["message"].is_string());
            return Ok(String::new());
        }
        assert_eq!((namespace, operation), ("kubernetes", "get_resource"));
        assert!(self.calls.get() < 3, "too many calls");
        self.calls.set(self.calls.get() + 1);
        let name = request["name"].as_str().unwrap_or_default();
        let exists =
            self.answers == Answers::Rich || (self.answers == Answers::Aliased && name == CHOSEN);
        match self.answers {
            Answers::Broken => Err("Callback evaluation failure: timed out".into()),
            Answers::NoSuchKind => {
                let version = request["api_version"].as_str().unwrap();
                Err(format!(
                    "Cannot find resource {version}/PersistentPodState\n"
                ))
            }
            Answers::Aliased if name == ALIAS => {
                let target = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": CHOSEN});
                Ok(json!({"metadata": {"name": ALIAS}, "spec": {"targetRef": target}}).to_string())
            }
            _ if exists => {
                let mut masks = list(&request["field_masks"])
                    .iter()
                    .filter_map(Value::as_str);
                let pod = masks.find_map(|mask| mask.strip_prefix("status.podStates."));
                let pods = pod
                    .map_or(vec!["web-0", "web.0"], |pod| vec![pod])
                    .into_iter();
                let status = json!({"podStates": pods.map(|pod| (pod.to_owned(), state())).collect::<Map<_, _>>()});
                let target = if self.answers == Answers::Rich {
                    name
                } else {
                    "web"
                };
                Ok(object(name, target, &status).to_string())
            }
            _ => Err(format!(
                "Cannot find apps.kruise.io/v1alpha1/PersistentPodState named '{name}' inside of"
            )),
        }
    }
}

fn object(name: &str, target: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": target},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone", "rack", "host", "zone"]},
            "preferredPersistentTopology": [
                {"weight": 100, "preference": {"nodeTopologyKeys": ["host"]}},
                {"weight": 0, "preference": {"keys": ["disk", "zone", "rack"]}},
                {"weight": 5, "preference": {"nodeTopologyKeys": ["rack"]}},
            ],
            "persistentPodAnnotations": ["ip", {"key": "mac"}, "empty", "ovn.kubernetes.io/allocated"],
        },
        "status": status,
    })
}

fn state() -> Value {
    json!({
        "nodeName": "node-1",
        "nodeTopologyLabels": {"zone": "a", "host": "1", "disk": "b", "unnamed": "x"},
        "annotations": {"ip": "10.0.0.7", "mac": "é\"\\", "empty": "", "ovn.kubernetes.io/allocated": "true"},
    })
}

/// Returns whether the policy called the host.
fn check_with(payload: &[u8], answers: Answers) -> bool {
    let host = FixedHost {
        answers,
        calls: Cell::new(0),
    };
    let response = admit(payload, &host);
    let was_asked = host.calls.get() > 0;
    let text = serde_json::to_string(&response).unwrap();
    assert!(
        response.accepted || response.code.is_some_and(|code| code >= 400),
        "{text}"
    );
    assert_eq!(response.accepted, response.message.is_none(), "{text}");
    // serde reads a list in place of an object by position. PolicyServer never sends one, so the
    // checks end here.
    let Some((settings, request)) = parts(payload) else {
        return was_asked;
    };
    // A raw value may hold half a surrogate pair; it then fails only when it is parsed.
    let kind: Value = request
        .get("kind")
        .and_then(|kind| serde_json::from_str(kind.get()).ok())
        .unwrap_or_default();
    if kind["kind"] != "Pod" {
        assert!(response.mutated_object.is_none(), "{text}");
        return was_asked;
    }
    let raw_pod = request.get("object").map_or("null", |pod| pod.get());
    let pod: Value = serde_json::from_str(raw_pod).unwrap_or_default();
    if !list(&pod["metadata"]["ownerReferences"])
        .iter()
        .all(Value::is_object)
    {
        return was_asked;
    }
    if was_asked {
        let operation = request
            .get("operation")
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        assert_eq!(operation.as_deref(), Some("CREATE"));
    }
    let expected = Expected::parse(settings.as_ref().map_or("null", |raw| raw.get()));
    let is_forbidden = |key: &str| {
        expected
            .as_ref()
            .is_some_and(|settings| settings.annotations.forbid(key))
    };
    if let Some(after) = &response.mutated_object {
        assert!(response.accepted && was_asked && *after != pod, "{text}");
        let again = with_object(settings, request, after);
        let host = FixedHost {
            answers,
            calls: Cell::new(0),
        };
        let second = admit(again.as_bytes(), &host);
        assert!(
            second.accepted,
            "the policy refuses its own output: {second:?}\n{again}"
        );
        assert!(
            second.mutated_object.is_none(),
            "the policy changes its own output: {second:?}\n{again}"
        );
    }
    match governing(&pod, answers) {
        Some(name) if was_asked && response.accepted => {
            let object = object(name, "", &Value::Null);
            let after = &response
                .mutated_object
                .clone()
                .unwrap_or_else(|| pod.clone());
            Recorded::read(name, &object["spec"], &state())
                .without(is_forbidden)
                .judge(&pod, after);
        }
        _ => assert!(response.mutated_object.is_none(), "{text}"),
    }
    was_asked
}

/// The name of the object that governs a Pod, if the host has it and it has a state for the Pod.
fn governing(pod: &Value, answers: Answers) -> Option<&str> {
    let owner = list(&pod["metadata"]["ownerReferences"])
        .iter()
        .find(|owner| owner["controller"] == true)?;
    let (group, _) = owner["apiVersion"].as_str()?.split_once('/')?;
    // The policy reads a missing name as an empty one.
    let name = owner["name"].as_str().unwrap_or_default();
    let has_state = !is_dotted(pod) || pod["metadata"]["name"] == "web.0";
    let is_stateful = group == "apps" && owner["kind"] == "StatefulSet" && has_state;
    match answers {
        Answers::Rich if is_stateful => Some(name),
        Answers::Aliased if is_stateful && name == "web" => Some(CHOSEN),
        _ => None,
    }
}

fn is_dotted(pod: &Value) -> bool {
    pod["metadata"]["name"]
        .as_str()
        .is_some_and(|name| name.contains('.'))
}

type Fields = BTreeMap<String, Box<RawValue>>;

/// The settings and the fields of the request, if the payload has them.
fn parts(payload: &[u8]) -> Option<(Option<Box<RawValue>>, Fields)> {
    let mut payload: Fields = serde_json::from_slice(payload).ok()?;
    let request = serde_json::from_str(payload.get("request")?.get()).ok()?;
    Some((payload.remove("settings"), request))
}

fn with_object(settings: Option<Box<RawValue>>, mut request: Fields, object: &Value) -> String {
    let raw = |text: String| RawValue::from_string(text).unwrap();
    request.insert("object".into(), raw(object.to_string()));
    let mut payload = Fields::from([(
        "request".into(),
        raw(serde_json::to_string(&request).unwrap()),
    )]);
    payload.extend(settings.map(|settings| ("settings".into(), settings)));
    serde_json::to_string(&payload).unwrap()
}

/// A request to create a Pod: mostly a valid one, and mostly of a workload whose Pods can have a
/// state.
fn payload(u: &mut Unstructured) -> Result<Value> {
    let settings = match u.int_in_range(0..=5)? {
        0 => json!({"onLookupFailure": "reject"}),
        1 => json!({"onLookupFailure": "accept"}),
        2 => json!({"annotations": {"deny": ["i*"]}}),
        3 => json!({"annotations": {"allow": ["mac"]}}),
        _ => Value::Null,
    };
    Ok(json!({
        "settings": settings,
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "shop",
            "object": pod(u)?,
        },
    }))
}

fn pod(u: &mut Unstructured) -> Result<Value> {
    let name = *u.choose(&["web-0", "web-0", "web.0", "web-0\"'", ""])?;
    let mut metadata = unknown(u)?;
    metadata.insert("name".into(), name.into());
    metadata.insert("ownerReferences".into(), owners(u)?);
    field(&mut metadata, "annotations", u, |u| {
        some_of(
            u,
            &[
                "ip",
                "mac",
                "mine",
                "kruise.io/injected-persistent-pod-state",
            ],
            |u| Ok((*u.choose(&["", "x", "web", "chosen"])?).into()),
        )
    })?;
    let mut spec = unknown(u)?;
    field(&mut spec, "affinity", u, affinity)?;
    field(&mut spec, "nodeSelector", u, |u| {
        some_of(u, &["zone", "host", "disk"], |u| Ok(value(u)?.into()))
    })?;
    let mut pod = unknown(u)?;
    pod.insert("metadata".into(), metadata.into());
    pod.insert("spec".into(), spec.into());
    Ok(pod.into())
}

fn owners(u: &mut Unstructured) -> Result<Value> {
    let (api_version, kind) = *u.choose(&[
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1beta1", "StatefulSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
    ])?;
    let name = *u.choose(&["web", "other", "a\"'.\n"])?;
    let owner = |controller: bool| json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "1", "controller": controller});
    Ok(if u.ratio(1, 8)? {
        json!([owner(false), owner(true), owner(true)])
    } else {
        json!([owner(true)])
    })
}

fn affinity(u: &mut Unstructured) -> Result<Value> {
    let mut affinity = unknown(u)?;
    field(&mut affinity, "nodeAffinity", u, |u| {
        let mut node_affinity = unknown(u)?;
        field(
            &mut node_affinity,
            "requiredDuringSchedulingIgnoredDuringExecution",
            u,
            |u| {
                let mut required = unknown(u)?;
                field(&mut required, "nodeSelectorTerms", u, |u| several(u, term))?;
                Ok(required.into())
            },
        )?;
        field(
            &mut node_affinity,
            "preferredDuringSchedulingIgnoredDuringExecution",
            u,
            |u| {
                several(u, |u| {
                    Ok(json!({"weight": u.int_in_range(1..=100)?, "preference": term(u)?}))
                })
            },
        )?;
        Ok(node_affinity.into())
    })?;
    Ok(affinity.into())
}

fn term(u: &mut Unstructured) -> Result<Value> {
    let mut term = unknown(u)?;
    field(&mut term, "matchExpressions", u, |u| {
        several(u, |u| {
            let operator = *u.choose(&[
                "In",
                "In",
                "NotIn",
                "Exists",
                "DoesNotExist",
                "Gt",
                "Lt",
                "Like",
            ])?;
            let mut expression = unknown(u)?;
            expression.insert("key".into(), (*u.choose(&["zone", "host", "disk"])?).into());
            expression.insert("operator".into(), operator.into());
            field(&mut expression, "values", u, |u| {
                several(u, |u| Ok(value(u)?.into()))
            })?;
            Ok(expression.into())
        })
    })?;
    field(&mut term, "matchFields", u, |u| {
        several(u, |u| {
            let node = *u.choose(&["node-1", "node-2"])?;
            Ok(
                json!({"key": "metadata.name", "operator": u.choose(&["In", "NotIn"])?, "values": [node]}),
            )
        })
    })?;
    Ok(term.into())
}

fn value(u: &mut Unstructured<'_>) -> Result<&'static str> {
    Ok(u.choose(&["a", "b", "1", "2", "99999999999999999999"])?)
}

fn several(
    u: &mut Unstructured,
    mut item: impl FnMut(&mut Unstructured) -> Result<Value>,
) -> Result<Value> {
    (0..u.int_in_range(0..=3)?)
        .map(|_| item(u))
        .collect::<Result<Vec<_>>>()
        .map(Value::from)
}

fn some_of(
    u: &mut Unstructured,
    keys: &[&str],
    mut value: impl FnMut(&mut Unstructured) -> Result<Value>,
) -> Result<Value> {
    let mut object = Map::new();
    for key in keys {
        if bool::arbitrary(u)? {
            object.insert((*key).to_owned(), value(u)?);
        }
    }
    Ok(object.into())
}

/// Leaves the field out, or sets it to null, to an arbitrary value or to a valid one.
fn field(
    object: &mut Map<String, Value>,
    name: &str,
    u: &mut Unstructured,
    value: impl FnOnce(&mut Unstructured) -> Result<Value>,
) -> Result<()> {
    let value = match u.int_in_range(0..=15)? {
        0..=2 => return Ok(()),
        3 | 4 => Value::Null,
        5 => anything(u, 2)?,
        _ => value(u)?,
    };
    object.insert(name.to_owned(), value);
    Ok(())
}

/// Mostly empty, else an object with an unknown field.
fn unknown(u: &mut Unstructured) -> Result<Map<String, Value>> {
    let mut object = Map::new();
    if u.ratio(1, 6)? {
        object.insert(String::arbitrary(u)?, anything(u, 3)?);
    }
    Ok(object)
}

fn anything(u: &mut Unstructured, depth: usize) -> Result<Value> {
    Ok(match u.int_in_range(0..=if depth > 0 { 7 } else { 5 })? {
        0 => Value::Null,
        1 => bool::arbitrary(u)?.into(),
        2 => i64::arbitrary(u)?.into(),
        3 => u64::arbitrary(u)?.into(),
        4 => f64::arbitrary(u)?.into(),
        5 => String::arbitrary(u)?.into(),
        6 => several(u, |u| anything(u, depth - 1))?,
        _ => some_of(u, &["a", "é\u{0}", ""], |u| anything(u, depth - 1))?,
    })
}

//! Hostile payloads and host answers: malformed, oversized, truncated.

use serde_json::{Value, json};

use super::{buckets, large, owners, reviews};

/// A hostile input and the expected verdict.
pub(crate) struct HostileCase {
    /// What is hostile about it.
    pub(crate) name: String,
    /// The payload, which need not be JSON or even text.
    pub(crate) payload: Vec<u8>,
    /// Whether the governing object has another name than the workload.
    pub(crate) has_other_name: bool,
    /// The host's answer to `get_resource`.
    pub(crate) object: Result<Vec<u8>, String>,
    /// The host's answer to the get of the workload's second name, if there is an object of that
    /// name.
    pub(crate) alias: Option<Vec<u8>>,
    /// The expected verdict.
    pub(crate) verdict: Verdict,
}

/// What the policy does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Accepts it unchanged.
    Accepted,
    /// Accepts and changes it.
    Changed,
    /// Rejects it with this status and this substring of the message.
    Rejected(u16, &'static str),
}

impl HostileCase {
    /// Answers a call in the `kubernetes` namespace.
    pub(crate) fn call(&self, operation: &str, payload: &str) -> Result<Vec<u8>, String> {
        let names = |name: &str| payload.contains(&format!("\"name\":\"{name}\""));
        match operation {
            "get_resource" if self.has_other_name && names("web") => Err(not_found_error("web")),
            "get_resource" if self.has_other_name && names(SECOND_NAME) => self
                .alias
                .clone()
                .ok_or_else(|| not_found_error(SECOND_NAME)),
            "get_resource" => self.object.clone(),
            _ => Err(format!("unknown operation: {operation}")),
        }
    }

    /// Compares the policy's response, as JSON, with the expected verdict.
    pub(crate) fn check(&self, answer: &[u8]) -> Result<(), String> {
        let response: Value =
            serde_json::from_slice(answer).map_err(|error| format!("{}: {error}", self.name))?;
        let is_changed = !response["mutated_object"].is_null();
        let message = response["message"].as_str().unwrap_or_default();
        let fits = match self.verdict {
            Verdict::Accepted => response["accepted"] == true && !is_changed,
            Verdict::Changed => response["accepted"] == true && is_changed,
            Verdict::Rejected(code, piece) => {
                response["accepted"] == false
                    && response["code"] == code
                    && message.contains(piece)
                    && message.len() < 8000
                    && !is_changed
            }
        };
        let shown: String = String::from_utf8_lossy(answer).chars().take(1000).collect();
        if fits {
            Ok(())
        } else {
            Err(format!(
                "{}: {:?} was expected, not {shown}",
                self.name, self.verdict
            ))
        }
    }

    pub(super) fn new(name: &str, verdict: Verdict) -> Self {
        Self {
            name: name.to_owned(),
            payload: payload(&pod()).to_string().into(),
            has_other_name: false,
            object: Ok(object().to_string().into()),
            alias: None,
            verdict,
        }
    }

    pub(super) fn with_pod(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut pod = pod();
        change(&mut pod);
        Self {
            payload: payload(&pod).to_string().into(),
            ..self
        }
    }

    /// Inserts JSON that serde would not write into the Pod's spec.
    pub(super) fn with_unknown_field(self, text: &str) -> Self {
        let payload = payload(&pod()).to_string().replace("\"UNKNOWN\"", text);
        Self {
            payload: payload.into(),
            ..self
        }
    }

    pub(super) fn with_object(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut object = object();
        change(&mut object);
        Self {
            object: Ok(object.to_string().into()),
            ..self
        }
    }
}

/// The second name of the StatefulSet `web`.
const SECOND_NAME: &str = "web-bfaad516";
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const UNREADABLE: Verdict = Verdict::Rejected(400, "this Pod cannot be read");
const NO_REQUEST: Verdict = Verdict::Rejected(400, "not an admission request");
pub(super) const NO_OBJECT: Verdict = Verdict::Rejected(
    503,
    "PersistentPodState of StatefulSet web in namespace shop",
);

/// All hostile cases.
pub(crate) fn all() -> Vec<HostileCase> {
    [
        payloads(),
        pods(),
        owners::all(),
        objects(),
        buckets::all(),
        reviews::all(),
        large::all(),
        truncated(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn payloads() -> Vec<HostileCase> {
    let raw = |name: &str, payload: &[u8]| HostileCase {
        payload: payload.into(),
        ..HostileCase::new(name, NO_REQUEST)
    };
    let settings = |settings: String| {
        let payload = format!(
            r#"{{"settings": {settings}, "request": {}}}"#,
            payload(&pod())["request"]
        );
        let verdict = Verdict::Rejected(500, "the policy's settings are wrong");
        HostileCase {
            payload: payload.into(),
            ..HostileCase::new("settings", verdict)
        }
    };
    let text = payload(&pod()).to_string();
    vec![
        raw("an empty payload", b""),
        raw("bytes that are not UTF-8", b"\xff\xfe\x00{}"),
        raw("a million brackets", "[".repeat(1_000_000).as_bytes()),
        raw("a million lists", &nest("[", "1", "]", 1_000_000)),
        raw("a Pod with a string that is not UTF-8", &break_utf8(&text)),
        raw(
            "a repeated field",
            text.replacen("\"namespace\"", "\"object\":1,\"namespace\"", 1)
                .as_bytes(),
        ),
        raw(
            "a number for the operation",
            text.replace("\"CREATE\"", "1").as_bytes(),
        ),
        settings("\"full\"".into()),
        settings("{\"annotations\": 1e300}".into()),
    ]
}

fn pods() -> Vec<HostileCase> {
    let unreadable = |name: &str| HostileCase::new(name, UNREADABLE);
    let unchangeable = |name: &str, piece| HostileCase::new(name, Verdict::Rejected(400, piece));
    let too_deep = Verdict::Rejected(400, "not an admission request: recursion limit");
    let no_request = Verdict::Rejected(400, "not an admission request: ");
    let terms = |terms: Value| {
        move |pod: &mut Value| {
            pod["spec"]["affinity"] =
                json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}});
        }
    };
    vec![
        HostileCase::new("a Pod nested 120 deep below its spec", Verdict::Changed)
            .with_unknown_field(&into_text(nest("[", "1", "]", 120))),
        HostileCase::new("a Pod nested too deep", too_deep.clone())
            .with_unknown_field(&into_text(nest("[", "1", "]", 130))),
        HostileCase::new("a Pod of deeply nested objects", too_deep)
            .with_unknown_field(&into_text(nest("{\"a\":", "1", "}", 300_000))),
        HostileCase::new("a large number with an exponent", Verdict::Changed)
            .with_unknown_field("1e300"),
        HostileCase::new("a number that no API server can hold", no_request.clone())
            .with_unknown_field("1e400"),
        HostileCase::new("half a surrogate pair", no_request).with_unknown_field("\"\\ud800\""),
        HostileCase::new("a number with many digits", Verdict::Changed)
            .with_unknown_field(&"7".repeat(300)),
        HostileCase::new("a Pod with a NUL in a string", Verdict::Changed)
            .with_unknown_field("\"\\u0000\""),
        unreadable("a number for the name").with_pod(|pod| pod["metadata"]["name"] = 7.into()),
        unreadable("a number for the owner's name")
            .with_pod(|pod| pod["metadata"]["ownerReferences"][0]["name"] = 7.into()),
        unreadable("a number for the node").with_pod(|pod| pod["spec"]["nodeName"] = 7.into()),
        unreadable("a number for the metadata").with_pod(|pod| pod["metadata"] = 7.into()),
        unreadable("a string in place of a Pod").with_pod(|pod| *pod = "web-0".into()),
        unchangeable(
            "a number for the annotations",
            "metadata.annotations is not an object",
        )
        .with_pod(|pod| pod["metadata"]["annotations"] = 7.into()),
        unchangeable("a number for the terms", "nodeSelectorTerms is not a list")
            .with_pod(terms(7.into())),
        unchangeable(
            "a number for a term",
            "nodeSelectorTerms[0] is not an object",
        )
        .with_pod(terms(json!([7]))),
        unchangeable(
            "a number for the expressions",
            "matchExpressions is not a list",
        )
        .with_pod(terms(json!([{"matchExpressions": 7}]))),
        HostileCase::new("numbers in the node selector", Verdict::Changed)
            .with_pod(|pod| pod["spec"]["nodeSelector"] = json!({"zone": 7, "host": {}})),
        HostileCase::new("numbers in an expression", Verdict::Changed).with_pod(terms(
            json!([{"matchExpressions": [{"key": 7, "operator": 7, "values": 7}, 7]}]),
        )),
        HostileCase::new(
            "a name with everything that JSON escapes",
            Verdict::Accepted,
        )
        .with_pod(|pod| pod["metadata"]["name"] = "\"\\\n\u{0}\u{1f}é".into()),
    ]
}

fn objects() -> Vec<HostileCase> {
    let broken = |name: &str, answer: &[u8]| HostileCase {
        object: Ok(answer.into()),
        ..HostileCase::new(name, NO_OBJECT)
    };
    let text = object().to_string();
    vec![
        broken("an empty answer", b""),
        broken("an answer that is an empty list", b"[]"),
        broken("an answer that is a list of objects", b"[{}, {}]"),
        broken("an answer without a name", b"{}"),
        broken(
            "an answer with another name",
            text.replace("\"name\":\"web\"", "\"name\":\"other\"")
                .as_bytes(),
        ),
        broken("an answer that is not UTF-8", &break_utf8(&text)),
        broken(
            "an answer of a million lists",
            &nest("[", "1", "]", 1_000_000),
        ),
        broken(
            "an answer with something after it",
            format!("{text}{text}").as_bytes(),
        ),
        HostileCase::new(
            "a repeated status field, whose last value counts",
            Verdict::Changed,
        )
        .with_answer(|text| text.replace("\"status\":", "\"status\":null,\"status\":")),
        HostileCase::new("an answer with a field that is nested too deep", NO_OBJECT)
            .with_object(|object| object["unknown"] = "unknown".into())
            .with_answer(|text| {
                text.replace(
                    "\"unknown\":\"unknown\"",
                    &format!(
                        "\"unknown\":{}",
                        into_text(nest("[", "1e999", "]", 1_000_000))
                    ),
                )
            }),
        HostileCase::new("numbers for labels", NO_OBJECT).with_object(|object| {
            object["status"]["podStates"]["web-0"]["nodeTopologyLabels"]["zone"] = 7.into();
        }),
        HostileCase::new("numbers for annotations", NO_OBJECT).with_object(|object| {
            object["status"]["podStates"]["web-0"]["annotations"]["ip"] = 7.into();
        }),
        HostileCase::new("a number for a state", NO_OBJECT)
            .with_object(|object| object["status"]["podStates"]["web-0"] = 7.into()),
        HostileCase::new("text for a weight", NO_OBJECT).with_object(|object| {
            object["spec"]["preferredPersistentTopology"][0]["weight"] = "100".into();
        }),
        HostileCase::new("a weight out of range", Verdict::Changed).with_object(|object| {
            object["spec"]["preferredPersistentTopology"][0]["weight"] = 3_000_000_000_u64.into();
        }),
        HostileCase::new("a number for a key", NO_OBJECT).with_object(|object| {
            object["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"][0] = 7.into();
        }),
        HostileCase {
            object: Err("words ".repeat(200_000)),
            ..HostileCase::new("an error of a megabyte", NO_OBJECT)
        },
        HostileCase {
            object: Err(String::new()),
            ..HostileCase::new("an empty error text", NO_OBJECT)
        },
    ]
}

/// An object, an alias and a payload, truncated at each of their bytes.
fn truncated() -> Vec<HostileCase> {
    let mut truncated = Vec::new();
    let text = object().to_string();
    for end in 0..text.len() {
        let name = format!("an object truncated at {end}");
        truncated.push(HostileCase {
            object: Ok(text.as_bytes()[..end].into()),
            ..HostileCase::new(&name, NO_OBJECT)
        });
    }
    let alias = alias("mine");
    for end in 0..alias.len() {
        let verdict = Verdict::Rejected(503, "get_resource web-bfaad516");
        let hostile = HostileCase::new(&format!("an alias truncated at {end}"), verdict);
        let alias = Some(alias.as_bytes()[..end].into());
        truncated.push(HostileCase {
            has_other_name: true,
            alias,
            ..hostile
        });
    }
    let text = payload(&pod()).to_string();
    for end in 0..text.len() {
        let hostile = HostileCase::new(&format!("a payload truncated at {end}"), NO_REQUEST);
        truncated.push(HostileCase {
            payload: text.as_bytes()[..end].into(),
            ..hostile
        });
    }
    truncated
}

impl HostileCase {
    fn with_answer(self, change: impl FnOnce(String) -> String) -> Self {
        Self {
            object: self.object.map(|text| change(into_text(text)).into()),
            ..self
        }
    }
}

pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

pub(super) fn nest(open: &str, inner: &str, close: &str, depth: usize) -> Vec<u8> {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth)).into()
}

/// The text with an incomplete UTF-8 sequence in it.
fn break_utf8(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if let Some(place) = text.find("StatefulSet") {
        bytes[place] = 0xc3;
    }
    bytes
}

fn not_found_error(name: &str) -> String {
    format!(
        "Callback evaluation failure: Cannot find apps.kruise.io/v1alpha1/PersistentPodState \
         named '{name}' inside of namespace 'Some(\"shop\")'"
    )
}

fn payload(pod: &Value) -> Value {
    json!({
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "shop",
            "object": pod,
        },
        "settings": null,
    })
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "web-0",
            "annotations": {"é": "ü"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "web", "image": "web:1"}], "unknown": "UNKNOWN"},
    })
}

/// The alias of the PersistentPodState of this name.
pub(super) fn alias(pps: &str) -> String {
    json!({
        "metadata": {"name": SECOND_NAME},
        "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": pps}},
    })
    .to_string()
}

pub(super) fn object() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PersistentPodState",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": ["host"]}}],
            "persistentPodAnnotations": ["ip"],
        },
        "status": {"podStates": {"web-0": {
            "nodeName": "node-1",
            "nodeTopologyLabels": {"zone": "a", "host": "é"},
            "annotations": {"ip": "10.0.0.7"},
        }}},
    })
}

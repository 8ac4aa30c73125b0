//! Payloads and answers that are meant to hurt. No door may trap, hang or take one of them for what it is not.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What to do to the policy, and what must come of it.
pub struct Hostile {
    /// What it is.
    pub name: String,
    /// What is handed to the policy, which need not be JSON, nor text.
    pub payload: Vec<u8>,
    /// Whether there is no object of the workload's name.
    pub has_other_name: bool,
    /// What the host answers to `get_resource`.
    pub object: Result<Vec<u8>, String>,
    /// What the host answers to `list_resources_by_namespace`.
    pub list: Vec<u8>,
    /// What must come of it.
    pub verdict: Verdict,
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is accepted as it is.
    Accepted,
    /// It is accepted and changed.
    Changed,
    /// It is refused with this status, and with this piece of text in the message.
    Refused(u16, &'static str),
}

impl Hostile {
    /// Answers a call of the `kubernetes` namespace.
    ///
    /// # Errors
    ///
    /// The text that the host has for the policy.
    pub fn call(&self, operation: &str, payload: &str) -> Result<Vec<u8>, String> {
        match operation {
            "get_resource" if self.has_other_name && payload.contains("\"name\":\"web\"") => Err(not_found()),
            "get_resource" => self.object.clone(),
            _ => Ok(self.list.clone()),
        }
    }

    /// Compares what the policy answers, a JSON text, with what must come of it.
    ///
    /// # Errors
    ///
    /// What differs.
    pub fn check(&self, answer: &[u8]) -> Result<(), String> {
        let response: Value =
            serde_json::from_slice(answer).map_err(|error| format!("{}: {error}", self.name))?;
        let is_changed = !response["mutated_object"].is_null();
        let message = response["message"].as_str().unwrap_or_default();
        let fits = match self.verdict {
            Verdict::Accepted => response["accepted"] == true && !is_changed,
            Verdict::Changed => response["accepted"] == true && is_changed,
            Verdict::Refused(code, piece) => {
                response["accepted"] == false
                    && response["code"] == code
                    && message.contains(piece)
                    && message.len() < 2000
                    && !is_changed
            }
        };
        let shown: String = String::from_utf8_lossy(answer).chars().take(1000).collect();
        if fits {
            Ok(())
        } else {
            Err(format!("{}: {:?} was expected, not {shown}", self.name, self.verdict))
        }
    }

    fn new(name: &str, verdict: Verdict) -> Self {
        Self {
            name: name.to_owned(),
            payload: payload(&pod()).to_string().into(),
            has_other_name: false,
            object: Ok(object().to_string().into()),
            list: br#"{"items": []}"#.to_vec(),
            verdict,
        }
    }

    fn pod(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut pod = pod();
        change(&mut pod);
        Self { payload: payload(&pod).to_string().into(), ..self }
    }

    /// Puts a text that serde would not make into the Pod's spec.
    fn unheard(self, text: &str) -> Self {
        let payload = payload(&pod()).to_string().replace("\"UNHEARD\"", text);
        Self { payload: payload.into(), ..self }
    }

    fn object(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut object = object();
        change(&mut object);
        Self { object: Ok(object.to_string().into()), ..self }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const UNREADABLE: Verdict = Verdict::Refused(400, "this Pod cannot be read");
const NO_REQUEST: Verdict = Verdict::Refused(400, "not an admission request");
const NO_OBJECT: Verdict = Verdict::Refused(503, "get_resource web failed");

/// All of them.
pub fn all() -> Vec<Hostile> {
    [payloads(), pods(), objects(), large(), cut()].into_iter().flatten().collect()
}

fn payloads() -> Vec<Hostile> {
    let raw =
        |name: &str, payload: &[u8]| Hostile { payload: payload.into(), ..Hostile::new(name, NO_REQUEST) };
    let settings = |settings: String| {
        let payload = format!(r#"{{"settings": {settings}, "request": {}}}"#, payload(&pod())["request"]);
        let verdict = Verdict::Refused(500, "the policy's settings are wrong");
        Hostile { payload: payload.into(), ..Hostile::new("settings", verdict) }
    };
    let text = payload(&pod()).to_string();
    vec![
        raw("an empty payload", b""),
        raw("bytes that are no text", b"\xff\xfe\x00{}"),
        raw("a million brackets", "[".repeat(1_000_000).as_bytes()),
        raw("a million lists", &nested("[", "1", "]", 1_000_000)),
        raw("text that is no UTF-8 in a Pod", &broken_text(&text)),
        raw(
            "a field that comes twice",
            text.replacen("\"namespace\"", "\"object\":1,\"namespace\"", 1).as_bytes(),
        ),
        raw("a number for the operation", text.replace("\"CREATE\"", "1").as_bytes()),
        settings(text_of(nested("[", "1", "]", 1_000_000))),
        settings("{\"lookup\": 1e999}".into()),
        settings("\"full\"".into()),
    ]
}

fn pods() -> Vec<Hostile> {
    let unreadable = |name: &str| Hostile::new(name, UNREADABLE);
    let unchangeable = |name: &str, piece| Hostile::new(name, Verdict::Refused(400, piece));
    let too_deep = Verdict::Refused(400, "this Pod cannot be read: recursion limit exceeded");
    let terms = |terms: Value| {
        move |pod: &mut Value| {
            pod["spec"]["affinity"] = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}});
        }
    };
    vec![
        Hostile::new("a Pod nested 124 deep below its spec", Verdict::Changed)
            .unheard(&text_of(nested("[", "1", "]", 124))),
        Hostile::new("a Pod nested too deep", too_deep.clone()).unheard(&text_of(nested("[", "1", "]", 130))),
        Hostile::new("a Pod of many objects in each other", too_deep)
            .unheard(&text_of(nested("{\"a\":", "1", "}", 300_000))),
        Hostile { has_other_name: true, ..Hostile::new("such a Pod without a state", Verdict::Accepted) }
            .unheard(&text_of(nested("{\"a\":", "1", "}", 300_000))),
        unreadable("a number out of range").unheard("1e999"),
        unreadable("half a character").unheard("\"\\ud800\""),
        Hostile::new("a number with many digits", Verdict::Changed).unheard(&"7".repeat(300)),
        Hostile::new("a Pod with a zero in its text", Verdict::Changed).unheard("\"\\u0000\""),
        unreadable("a number for the name").pod(|pod| pod["metadata"]["name"] = 7.into()),
        unreadable("a number for the owner's name")
            .pod(|pod| pod["metadata"]["ownerReferences"][0]["name"] = 7.into()),
        unreadable("a number for the node").pod(|pod| pod["spec"]["nodeName"] = 7.into()),
        unreadable("a number for the metadata").pod(|pod| pod["metadata"] = 7.into()),
        unreadable("no Pod at all").pod(|pod| *pod = "web-0".into()),
        unchangeable("a number for the annotations", "metadata.annotations is not an object")
            .pod(|pod| pod["metadata"]["annotations"] = 7.into()),
        unchangeable("a number for the terms", "nodeSelectorTerms is not a list").pod(terms(7.into())),
        unchangeable("a number for a term", "nodeSelectorTerms[0] is not an object").pod(terms(json!([7]))),
        unchangeable("a number for the expressions", "matchExpressions is not a list")
            .pod(terms(json!([{"matchExpressions": 7}]))),
        Hostile::new("numbers in the node selector", Verdict::Changed)
            .pod(|pod| pod["spec"]["nodeSelector"] = json!({"zone": 7, "host": {}})),
        Hostile::new("numbers in an expression", Verdict::Changed)
            .pod(terms(json!([{"matchExpressions": [{"key": 7, "operator": 7, "values": 7}, 7]}]))),
        Hostile::new("a name with all that JSON escapes", Verdict::Accepted)
            .pod(|pod| pod["metadata"]["name"] = "\"\\\n\u{0}\u{1f}é".into()),
    ]
}

fn objects() -> Vec<Hostile> {
    let broken =
        |name: &str, answer: &[u8]| Hostile { object: Ok(answer.into()), ..Hostile::new(name, NO_OBJECT) };
    let text = object().to_string();
    vec![
        broken("an empty answer", b""),
        broken("an answer that is no object", b"[]"),
        broken("an answer that is another list", b"[{}, {}]"),
        broken("an answer without a name", b"{}"),
        broken(
            "an answer with another name",
            text.replace("\"name\":\"web\"", "\"name\":\"other\"").as_bytes(),
        ),
        broken("an answer that is no UTF-8", &broken_text(&text)),
        broken("an answer of a million lists", &nested("[", "1", "]", 1_000_000)),
        broken("an answer with something after it", format!("{text}{text}").as_bytes()),
        Hostile::new("two states of one name, of which the last counts", Verdict::Changed)
            .answered(|text| text.replace("\"status\":", "\"status\":null,\"status\":")),
        Hostile::new("an answer with more in it than can be read", NO_OBJECT)
            .object(|object| object["unheard"] = "unheard".into())
            .answered(|text| {
                text.replace(
                    "\"unheard\":\"unheard\"",
                    &format!("\"unheard\":{}", text_of(nested("[", "1e999", "]", 1_000_000))),
                )
            }),
        Hostile::new("numbers for labels", NO_OBJECT)
            .object(|object| object["status"]["podStates"]["web-0"]["nodeTopologyLabels"]["zone"] = 7.into()),
        Hostile::new("numbers for annotations", NO_OBJECT)
            .object(|object| object["status"]["podStates"]["web-0"]["annotations"]["ip"] = 7.into()),
        Hostile::new("a number for a state", NO_OBJECT)
            .object(|object| object["status"]["podStates"]["web-0"] = 7.into()),
        Hostile::new("text for a weight", NO_OBJECT)
            .object(|object| object["spec"]["preferredPersistentTopology"][0]["weight"] = "100".into()),
        Hostile::new("a weight out of range", NO_OBJECT).object(|object| {
            object["spec"]["preferredPersistentTopology"][0]["weight"] = 3_000_000_000_u64.into();
        }),
        Hostile::new("a number for a key", NO_OBJECT)
            .object(|object| object["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"][0] = 7.into()),
        Hostile {
            object: Err("words ".repeat(200_000)),
            ..Hostile::new("an error of a megabyte", NO_OBJECT)
        },
        Hostile { object: Err(String::new()), ..Hostile::new("an error without a word", NO_OBJECT) },
    ]
}

fn large() -> Vec<Hostile> {
    let megabyte = "x".repeat(1 << 20);
    let state = object()["status"]["podStates"]["web-0"].clone();
    let many_states: Value = (0..10_000)
        .map(|pod| (format!("web-{pod}"), state.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut listed = String::from(r#"{"items": ["#);
    for index in 0..10_000 {
        let mut claim = object();
        claim["metadata"]["name"] = format!("pps-{index:05}").into();
        claim["status"] = Value::Null;
        write!(listed, "{claim},").unwrap_or_default();
    }
    let listed = format!("{}]}}", listed.trim_end_matches(','));
    let keys = |count: usize| (0..count).map(|key| format!("example.io/key-{key}")).collect::<Vec<_>>();
    let recorded =
        |keys: &[String]| keys.iter().map(|key| (key.clone(), json!("v"))).collect::<serde_json::Map<_, _>>();
    let many_terms = |count: usize| {
        move |pod: &mut Value| {
            let term = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
            pod["spec"]["affinity"] =
                json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": vec![term; count]}}});
        }
    };
    let annotations = |count: usize| {
        move |object: &mut Value| {
            object["spec"]["persistentPodAnnotations"] = json!(keys(count));
            object["status"]["podStates"]["web-0"]["annotations"] = recorded(&keys(count)).into();
        }
    };
    let required = move |count: usize| {
        move |object: &mut Value| {
            object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": keys(count)});
            object["status"]["podStates"]["web-0"]["nodeTopologyLabels"] = recorded(&keys(count)).into();
        }
    };
    vec![
        Hostile::new("an annotation of a megabyte", Verdict::Changed)
            .pod(|pod| pod["metadata"]["annotations"]["own"] = megabyte.clone().into()),
        Hostile::new("a recorded annotation of a megabyte", Verdict::Changed).object(|object| {
            object["status"]["podStates"]["web-0"]["annotations"]["ip"] = megabyte.clone().into();
        }),
        Hostile::new("10,000 recorded Pods and no masks", Verdict::Changed)
            .object(|object| object["status"]["podStates"] = many_states),
        Hostile {
            has_other_name: true,
            list: listed.into(),
            ..Hostile::new("10,000 claims", Verdict::Changed)
        }
        .object(|object| object["metadata"]["name"] = "pps-00000".into()),
        Hostile::new("10,000 recorded annotations", Verdict::Changed).object(annotations(10_000)),
        Hostile::new("2,000 required labels", Verdict::Changed).object(required(2_000)),
        Hostile::new("2,000 terms and 20 labels", Verdict::Changed)
            .object(required(20))
            .pod(many_terms(2_000)),
    ]
}

/// An answer and a payload that end at each of their bytes.
fn cut() -> Vec<Hostile> {
    let mut cut = Vec::new();
    let text = object().to_string();
    for end in 0..text.len() {
        let name = format!("an object cut at {end}");
        cut.push(Hostile { object: Ok(text.as_bytes()[..end].into()), ..Hostile::new(&name, NO_OBJECT) });
    }
    let list = json!({"items": [object()]}).to_string();
    for end in 0..list.len() {
        let verdict = Verdict::Refused(503, "list_resources_by_namespace persistentpodstates failed");
        let hostile = Hostile::new(&format!("a list cut at {end}"), verdict);
        cut.push(Hostile { has_other_name: true, list: list.as_bytes()[..end].into(), ..hostile });
    }
    let text = payload(&pod()).to_string();
    for end in 0..text.len() {
        let hostile = Hostile::new(&format!("a payload cut at {end}"), NO_REQUEST);
        cut.push(Hostile { payload: text.as_bytes()[..end].into(), ..hostile });
    }
    cut
}

impl Hostile {
    fn answered(self, change: impl FnOnce(String) -> String) -> Self {
        Self { object: self.object.map(|text| change(text_of(text)).into()), ..self }
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> Vec<u8> {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth)).into()
}

/// Half a character in the middle of a text.
fn broken_text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if let Some(place) = text.find("StatefulSet") {
        bytes[place] = 0xc3;
    }
    bytes
}

fn not_found() -> String {
    "Callback evaluation failure: Cannot find apps.kruise.io/v1alpha1/PersistentPodState named 'web' inside of namespace 'Some(\"shop\")'"
        .into()
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
        "spec": {"containers": [{"name": "web", "image": "web:1"}], "unheard": "UNHEARD"},
    })
}

fn object() -> Value {
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

//! Looks up the PersistentPodState of a workload. The only place that makes host calls.

use std::{fmt, iter};

use pps_core::pps::{API_VERSIONS, KIND, Metadata, PLURAL};
use pps_core::select::{self, Candidate};
use pps_core::{PodState, Spec, TargetReference, to_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// How much of a host's error text goes into a message.
const MAX_REASON: usize = 400;

/// Whoever answers the calls of a policy.
pub trait Host {
    /// Makes one call in the `kubewarden` binding.
    ///
    /// # Errors
    ///
    /// What the host says of the failure: a text is all that a policy gets.
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String>;
}

/// The host that runs this module.
#[derive(Clone, Copy, Debug)]
pub struct PolicyServer;

impl Host for PolicyServer {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        let answer = wapc_guest::host_call("kubewarden", namespace, operation, payload.as_bytes());
        let answer = answer.map_err(|error| error.to_string())?;
        String::from_utf8(answer).map_err(|error| error.to_string())
    }
}

/// One namespace of the cluster, as far as the policy may look into it.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    host: &'a dyn Host,
    namespace: &'a str,
    /// In which version objects are asked for.
    api_version: &'static str,
}

/// The object that governs a workload, with what it says of one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Governing {
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: Spec,
    /// What is recorded of the Pod.
    pub state: Option<PodState>,
    /// UID of the workload that the states were recorded for, if it is known.
    pub target_uid: Option<String>,
    /// Names of the other objects that claim the same workload.
    pub ignored: Vec<String>,
}

/// Why there is no answer about the state of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The cluster does not know the kind PersistentPodState, so that no state can be lost.
    NoSuchKind,
    /// Anything else: there may be a state. A sentence that names the call, the reason and the way out.
    Failed(String),
}

/// The answer to a list.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// As much of an object as tells which workload it claims. OpenKruise's CRD takes objects that claim
/// nothing.
struct Claim {
    metadata: Metadata,
    target_ref: TargetReference,
}

impl Claim {
    fn read(object: &Value) -> Self {
        let target_ref = TargetReference::read(&object["spec"]["targetRef"]);
        Self { metadata: Metadata::read(object), target_ref }
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate { metadata: &self.metadata, target_ref: &self.target_ref }
    }

    fn governs(&self, workload: &TargetReference) -> bool {
        select::governs(&self.metadata, &self.target_ref, workload)
    }
}

impl<'a> Cluster<'a> {
    /// A namespace, seen through a host.
    pub fn new(host: &'a dyn Host, namespace: &'a str) -> Self {
        Self { host, namespace, api_version: API_VERSIONS[0] }
    }

    /// Makes a look-up in the first version of the kind that the cluster serves.
    ///
    /// # Errors
    ///
    /// Those of the look-up; [`LookupError::NoSuchKind`] if no version is served.
    pub fn in_served_version<T>(
        self,
        look_up: impl Fn(Self) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        for api_version in API_VERSIONS {
            match look_up(Self { api_version, ..self }) {
                Err(LookupError::NoSuchKind) => {}
                answer => return answer,
            }
        }
        Err(LookupError::NoSuchKind)
    }

    /// The name of the namespace.
    pub fn namespace(self) -> &'a str {
        self.namespace
    }

    /// Finds the object that governs a workload under the workload's own name, which generated objects
    /// bear. The answer is never older than the call, and holds the state of `pod`.
    ///
    /// # Errors
    ///
    /// When it cannot be told whether there is such an object.
    pub fn find_by_name(
        self,
        workload: &TargetReference,
        pod: &str,
    ) -> Result<Option<Governing>, LookupError> {
        self.get_governing(&workload.name, workload, pod)
    }

    /// Finds it among all objects of the namespace; the list may be some milliseconds old, the object
    /// itself is not.
    ///
    /// # Errors
    ///
    /// When it cannot be told whether there is such an object.
    pub fn find_in_namespace(
        self,
        workload: &TargetReference,
        pod: &str,
    ) -> Result<Option<Governing>, LookupError> {
        let claims = self.list(&workload.name)?;
        let Some(choice) = select::choose(claims.iter().map(Claim::candidate), workload) else {
            return Ok(None);
        };
        let ignored = choice.ignored.iter().map(|&name| name.to_owned()).collect();
        let governing = self.get_governing(choice.name, workload, pod)?;
        Ok(governing.map(|governing| Governing { ignored, ..governing }))
    }

    /// Names of the objects that claim a workload: the one under the workload's own name, or if `full`
    /// any others, oldest first. The answer is never older than the call.
    ///
    /// # Errors
    ///
    /// When that cannot be told.
    pub fn claimants(self, workload: &TargetReference, full: bool) -> Result<Vec<String>, LookupError> {
        // Read first, as for a Pod: without permission a read fails at once, where a list would hang.
        let (_, answer) = self.get(&workload.name, json!(["spec.targetRef"]))?;
        if answer.is_some_and(|object| Claim::read(&object).governs(workload)) {
            return Ok(vec![workload.name.clone()]);
        }
        let claims = if full { self.list(&workload.name)? } else { Vec::new() };
        let choice = select::choose(claims.iter().map(Claim::candidate), workload);
        let mut names = Vec::new();
        for name in choice.into_iter().flat_map(|choice| iter::once(choice.name).chain(choice.ignored)) {
            // The list is a little old: what it names may be gone.
            let (_, answer) = self.get(name, json!(["spec.targetRef"]))?;
            if answer.is_some_and(|object| Claim::read(&object).governs(workload)) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Writes a warning into the host's log.
    pub fn log_warning(self, message: &str) {
        let entry = json!({"level": "warning", "message": message, "namespace": self.namespace});
        // Where not even the log can be written to, nobody can be told.
        let _ = self.host.call("tracing", "log", &to_text(&entry));
    }

    fn get_governing(
        self,
        name: &str,
        workload: &TargetReference,
        pod: &str,
    ) -> Result<Option<Governing>, LookupError> {
        // A mask cannot name a field with a dot in it.
        let state =
            if pod.contains('.') { "status.podStates".into() } else { format!("status.podStates.{pod}") };
        let (call, answer) = self.get(name, json!(["spec", state, "status.targetUID"]))?;
        let Some(object) = answer.filter(|object| Claim::read(object).governs(workload)) else {
            return Ok(None);
        };
        let malformed = |error: serde_json::Error| call.malformed(&error);
        let status = &object["status"];
        Ok(Some(Governing {
            name: name.into(),
            spec: Spec::deserialize(&object["spec"]).map_err(malformed)?,
            state: Option::deserialize(&status["podStates"][pod]).map_err(malformed)?,
            target_uid: status["targetUID"].as_str().map(str::to_owned),
            ignored: Vec::new(),
        }))
    }

    /// Reads one object, as it is now; none if it does not exist.
    fn get(self, name: &str, masks: Value) -> Result<(Call<'_>, Option<Value>), LookupError> {
        let mut request = json!({
            "api_version": self.api_version,
            "kind": KIND,
            "name": name,
            "namespace": self.namespace,
            "disable_cache": true,
        });
        request["field_masks"] = masks;
        let call = self.named_call("get_resource", name, "get");
        match self.call(&call, &request) {
            Ok(answer) => match call.parse(&answer)? {
                // Any other object, a list above all, must not pass for one that claims nothing.
                other if other["metadata"]["name"] != name => Err(call.malformed(&"it has another name")),
                answer => Ok((call, Some(answer))),
            },
            Err(text) if call.is_not_found(&text) => Ok((call, None)),
            Err(text) => Err(call.error(&text)),
        }
    }

    /// The objects of the namespace that may claim a workload of this name.
    fn list(self, workload: &str) -> Result<Vec<Claim>, LookupError> {
        // Each distinct query makes a watch in the PolicyServer that is never removed: nothing of the Pod
        // may be in it.
        let request = json!({
            "api_version": self.api_version,
            "kind": KIND,
            "namespace": self.namespace,
            "label_selector": null,
            "field_selector": null,
            "field_masks": ["spec.targetRef"],
        });
        let call = self.named_call("list_resources_by_namespace", PLURAL, "get, list and watch");
        let answer = self.call(&call, &request).map_err(|text| call.error(&text))?;
        let List { items } = serde_json::from_str(&answer).map_err(|error| call.malformed(&error))?;
        // Most are of other workloads: these need not be parsed.
        let named = items.iter().map(|item| item.get()).filter(|item| item.contains(workload));
        // A malformed object must not cost the others their state.
        let claims = named.map(|item| Claim::read(&serde_json::from_str(item).unwrap_or_default()));
        Ok(claims.filter(|claim| !claim.metadata.name.is_empty()).collect())
    }

    fn named_call<'n>(self, operation: &'static str, what: &'n str, verb: &'static str) -> Call<'n> {
        Call { api_version: self.api_version, operation, what, verb }
    }

    fn call(self, call: &Call, request: &Value) -> Result<String, String> {
        self.host.call("kubernetes", call.operation, &to_text(request))
    }
}

/// A host call, as messages name it.
struct Call<'a> {
    api_version: &'static str,
    operation: &'static str,
    what: &'a str,
    /// What the PolicyServer must be allowed to do.
    verb: &'static str,
}

impl Call<'_> {
    fn parse(&self, answer: &str) -> Result<Value, LookupError> {
        match serde_json::from_str(answer) {
            Ok(Value::Object(object)) => Ok(object.into()),
            Ok(_) => Err(self.malformed(&"it is no object")),
            Err(error) => Err(self.malformed(&error)),
        }
    }

    fn malformed(&self, error: &dyn fmt::Display) -> LookupError {
        let reason = format!("the answer is not what a {KIND} looks like: {error}");
        self.failure(&reason, "Mend the object")
    }

    fn error(&self, text: &str) -> LookupError {
        if self.is_no_such_kind(text) {
            return LookupError::NoSuchKind;
        }
        let reason = reason(text);
        let way_out = if reason.contains("has not been granted access") {
            format!(
                "Name {} {KIND} in the policy's spec.contextAwareResources, and kubernetes/{} in its host capabilities",
                self.api_version, self.operation
            )
        } else if reason.contains("forbidden") || reason.contains("Forbidden") {
            let group = pps_core::pps::GROUP;
            format!("Grant the PolicyServer's ServiceAccount the verb {} on {PLURAL}.{group}", self.verb)
        } else {
            "See whether the PolicyServer reaches the API server".into()
        };
        self.failure(&reason, &way_out)
    }

    fn failure(&self, reason: &str, way_out: &str) -> LookupError {
        LookupError::Failed(format!("{} {} failed: {reason}. {way_out}", self.operation, self.what))
    }

    /// Whether the API server does not know the object.
    fn is_not_found(&self, text: &str) -> bool {
        let Self { api_version, what, .. } = self;
        host_words(text).starts_with(&format!("Cannot find {api_version}/{KIND} named '{what}'"))
    }

    /// Whether the API server does not know the kind in this version. The second wording also wraps
    /// time-outs and refused connections, which say nothing of the kind.
    fn is_no_such_kind(&self, text: &str) -> bool {
        let Self { api_version, .. } = self;
        let words = host_words(text);
        if let Some(rest) = words.strip_prefix(&format!("Cannot find resource {api_version}/{KIND}")) {
            return rest.trim().is_empty();
        }
        words.strip_prefix(&format!("error finding resource {api_version} / {KIND}:")).is_some_and(|rest| {
            ["404 page not found", "code: 404", "404 Not Found"].iter().any(|code| rest.contains(code))
        })
    }
}

/// The host's own words, without what the layers below put around them.
fn host_words(text: &str) -> &str {
    let text = text.split_once("Callback evaluation failure: ").map_or(text, |(_, words)| words);
    text.split("Stack backtrace:").next().unwrap_or_default()
}

/// A host's error text in one line of bounded length.
fn reason(text: &str) -> String {
    let line = host_words(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_start_matches("Host error: ").trim_end_matches('.');
    match line.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}

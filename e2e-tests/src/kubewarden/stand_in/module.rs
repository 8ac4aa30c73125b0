//! A policy in a waPC host that works like PolicyServer's: the module is compiled once, each
//! request gets a fresh instance, and an epoch deadline interrupts long evaluations.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use wapc::WapcHost;
use wasmtime_provider::{
    EpochDeadlines, WasmtimeEngineProviderBuilder, WasmtimeEngineProviderPre,
    wasmtime::{Config, Engine, Module},
};

use super::{
    host_calls::{Gate, HostCall, HostCalls, LogEntry, NoHost, Record},
    metadata::Metadata,
    review::{AdmissionRequest, AdmissionResponse, PolicyResponse},
};
use crate::kubewarden::policy::Policy;

/// The tick of the clock that interrupts guests.
const TICK: Duration = Duration::from_secs(1);
/// The number of ticks after which a guest is interrupted, unless its policy says otherwise:
/// PolicyServer's default.
const TIMEOUT_TICKS: u64 = 2;
/// The same in the manifests in `deploy/base`: `timeoutEvalSeconds`.
const SHIPPED_TIMEOUT_TICKS: u64 = 3;
const INTERRUPTED: &str = "guest code interrupted, execution deadline exceeded";

/// A compiled policy. Clones share the compiled code.
#[derive(Clone)]
pub struct PolicyModule {
    id: String,
    metadata: Arc<Metadata>,
    timeout_ticks: u64,
    pre: WasmtimeEngineProviderPre,
}

/// An instance of a policy.
pub struct Instance(WapcHost);

impl Instance {
    /// Calls one of the guest's functions with an unchanged payload.
    pub fn call(&self, operation: &str, payload: &[u8]) -> Result<Vec<u8>> {
        self.0
            .call(operation, payload)
            .map_err(|error| anyhow!("{operation}: {error}"))
    }
}

/// The result of one request.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The answer to the API server.
    pub response: AdmissionResponse,
    /// Its patch, decoded.
    pub patch: Option<json_patch::Patch>,
    /// The guest's own answer, if it returned one.
    pub answer: Option<PolicyResponse>,
    /// The host calls in order, without log entries.
    pub host_calls: Vec<HostCall>,
    /// The log entries.
    pub logs: Vec<LogEntry>,
    /// How long it took, from the request to the response.
    pub took: Duration,
}

/// A policy's verdict on its settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SettingsVerdict {
    /// Whether they are valid.
    pub valid: bool,
    /// Why not.
    pub message: Option<String>,
}

impl PolicyModule {
    /// Compiles a module in binary form, unless this process has done so.
    pub fn load(wasm: &[u8]) -> Result<Self> {
        static KNOWN: Mutex<Vec<(Vec<u8>, PolicyModule)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, module)) = known.iter().find(|(content, _)| content == wasm) {
            return Ok(module.clone());
        }
        let module = Self::compile(wasm)?;
        known.push((wasm.to_owned(), module.clone()));
        Ok(module)
    }

    /// Compiles the module in a file.
    pub fn load_file(path: &Path) -> Result<Self> {
        let wasm = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::load(&wasm).with_context(|| path.display().to_string())
    }

    /// Compiles a module again.
    pub fn compile(wasm: &[u8]) -> Result<Self> {
        let metadata = Metadata::of_module(wasm)?;
        let mut config = Config::new();
        config.epoch_interruption(true);
        config.wasm_function_references(true);
        let engine = Engine::new(&config).map_err(|error| anyhow!("{error:#}"))?;
        let module = Module::new(&engine, wasm)
            .map_err(|error| anyhow!("cannot compile the policy: {error:#}"))?;
        let pre = WasmtimeEngineProviderBuilder::new()
            .engine(engine.clone())
            .module(module)
            .build_pre()
            .context("cannot link the policy")?;
        start_epochs(&engine)?;
        let id = "clusterwide-persistent-pod-state".to_owned();
        Ok(Self {
            id,
            metadata: Arc::new(metadata),
            timeout_ticks: TIMEOUT_TICKS,
            pre,
        })
    }

    /// The same policy with the permissions that a `ClusterAdmissionPolicy` grants, in place of the
    /// permissions that its metadata asks for, and with its time limit.
    pub fn installed_by(&self, policy: &Policy) -> Result<Self> {
        let resources = match policy.spec("contextAwareResources") {
            Value::Null => json!([]),
            resources => resources.clone(),
        };
        let metadata = Metadata {
            mutating: policy.spec("mutating") == &json!(true),
            context_aware_resources: serde_json::from_value(resources)
                .context("contextAwareResources")?,
            host_capabilities: Some(["*".to_owned()].into()),
            rules: serde_json::from_value(policy.spec("rules").clone()).context("rules")?,
            ..(*self.metadata).clone()
        };
        let timeout_ticks = policy
            .spec("timeoutEvalSeconds")
            .as_u64()
            .unwrap_or(TIMEOUT_TICKS);
        Ok(Self {
            id: policy.id(),
            metadata: Arc::new(metadata),
            timeout_ticks,
            pre: self.pre.clone(),
        })
    }

    /// The same policy with the time limit of the manifests in `deploy/base`, which a busy machine
    /// keeps more easily than PolicyServer's default.
    #[must_use]
    pub fn with_shipped_time_limit(self) -> Self {
        Self {
            timeout_ticks: SHIPPED_TIMEOUT_TICKS,
            ..self
        }
    }

    /// The policy's id: the last part of its URL and its name in messages.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The policy's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Evaluates the `request` of an admission review. This blocks: in async code use
    /// `spawn_blocking`.
    ///
    /// Returns an error only if the request cannot be parsed. Whatever the policy does becomes a
    /// response.
    pub fn evaluate(
        &self,
        request: &Value,
        settings: &Value,
        host: &Arc<dyn HostCalls>,
    ) -> Result<Evaluation> {
        let request: AdmissionRequest = serde_json::from_value(request.clone())
            .context("not the request of an AdmissionReview")?;
        Ok(self.evaluate_request(&request, settings, host))
    }

    /// Evaluates a parsed request.
    pub fn evaluate_request(
        &self,
        request: &AdmissionRequest,
        settings: &Value,
        host: &Arc<dyn HostCalls>,
    ) -> Evaluation {
        let started = Instant::now();
        let gate = self.gate(host.clone());
        let (response, answer) = self.validate(request, settings, &gate);
        let response = if self.metadata.mutating {
            response
        } else {
            response.without_right_to_mutate(&self.id)
        };
        let record =
            std::mem::take(&mut *gate.record.lock().unwrap_or_else(PoisonError::into_inner));
        let Record { calls, logs } = record;
        let patch = response.decoded_patch();
        Evaluation {
            response,
            patch,
            answer,
            host_calls: calls,
            logs,
            took: started.elapsed(),
        }
    }

    /// Asks the policy whether these settings are valid. Host calls fail, as they do in
    /// PolicyServer at that time.
    pub fn validate_settings(&self, settings: &Value) -> Result<SettingsVerdict> {
        let answer = self.ask("validate_settings", settings.to_string().as_bytes())?;
        serde_json::from_slice(&answer).context("not an answer to validate_settings")
    }

    /// The protocol version that the guest reports.
    pub fn protocol_version(&self) -> Result<String> {
        let answer = self.ask("protocol_version", &[])?;
        serde_json::from_slice(&answer).context("not an answer to protocol_version")
    }

    fn ask(&self, operation: &str, payload: &[u8]) -> Result<Vec<u8>> {
        self.call(operation, payload, Arc::new(NoHost))
    }

    /// Calls one of the guest's functions with an unchanged payload, which PolicyServer need not be
    /// able to send.
    pub fn call(
        &self,
        operation: &str,
        payload: &[u8],
        host: Arc<dyn HostCalls>,
    ) -> Result<Vec<u8>> {
        self.instance(host)?.call(operation, payload)
    }

    /// An instance that accepts any number of calls. PolicyServer uses each instance once.
    pub fn instance(&self, host: Arc<dyn HostCalls>) -> Result<Instance> {
        Ok(Instance(self.instantiate(self.gate(host))?))
    }

    fn gate(&self, host: Arc<dyn HostCalls>) -> Arc<Gate> {
        Arc::new(Gate {
            metadata: self.metadata.clone(),
            host,
            record: Mutex::default(),
        })
    }

    /// A fresh instance, so that no state survives a request.
    fn instantiate(&self, gate: Arc<Gate>) -> Result<WapcHost> {
        let deadlines = EpochDeadlines {
            wapc_init: self.timeout_ticks,
            wapc_func: self.timeout_ticks,
        };
        let engine = self.pre.rehydrate(Some(deadlines))?;
        let callback =
            move |_: u64, binding: &str, namespace: &str, operation: &str, payload: &[u8]| {
                gate.call(binding, namespace, operation, payload)
                    .map_err(Into::into)
            };
        WapcHost::new(Box::new(engine), Some(Box::new(callback)))
            .map_err(|error| anyhow!("{error}"))
    }

    fn validate(
        &self,
        request: &AdmissionRequest,
        settings: &Value,
        gate: &Arc<Gate>,
    ) -> (AdmissionResponse, Option<PolicyResponse>) {
        const TOO_LONG: &str =
            "Policy execution interrupted because it exceeded the allowed execution time";
        let uid = request.uid.as_str();
        let guest = match self.instantiate(gate.clone()) {
            Ok(guest) => guest,
            Err(error)
                if error
                    .to_string()
                    .contains("init interrupted, execution deadline exceeded") =>
            {
                return (AdmissionResponse::reject(uid, TOO_LONG, Some(500)), None);
            }
            Err(error) => return (AdmissionResponse::internal_error(uid, error), None),
        };
        let payload = json!({"request": request, "settings": settings});
        let answer = match guest.call("validate", payload.to_string().as_bytes()) {
            Ok(answer) => answer,
            Err(error) if error.to_string().contains(INTERRUPTED) => {
                return (AdmissionResponse::reject(uid, TOO_LONG, Some(500)), None);
            }
            Err(error) => return (AdmissionResponse::internal_error(uid, error), None),
        };
        let answer: PolicyResponse = match serde_json::from_slice(&answer) {
            Ok(answer) => answer,
            Err(error) => {
                let message = format!("invalid response from policy: {error}");
                return (AdmissionResponse::internal_error(uid, message), None);
            }
        };
        let object = payload.pointer("/request/object");
        let response = AdmissionResponse::from_policy(uid, object, answer.clone());
        let response = response.unwrap_or_else(|error| {
            AdmissionResponse::internal_error(uid, format!("invalid response format: {error}"))
        });
        (response, Some(answer))
    }
}

/// Fails if the policy refuses these settings.
pub(super) fn check_settings(module: &PolicyModule, settings: &Value) -> Result<()> {
    let verdict = module.validate_settings(settings)?;
    if !verdict.valid {
        let message = verdict.message.unwrap_or_else(|| "no message".to_owned());
        bail!("Policy settings are invalid: {message}");
    }
    Ok(())
}

/// Advances the engine's epoch regularly until the engine is dropped.
fn start_epochs(engine: &Engine) -> Result<()> {
    let engine = engine.weak();
    thread::Builder::new()
        .name("epochs".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(TICK);
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })?;
    Ok(())
}

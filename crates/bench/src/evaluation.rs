//! One evaluation, from bytes to bytes: native and in Wasm, and how it grows with the recorded
//! Pods.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use persistent_pod_state_policy::answer as admit;
use pps_admission::Host;
use pps_corpus::{FakeHost, HostQuirks};
use pps_e2e::kubewarden::stand_in::{HostCalls, Instance, PolicyModule};
use serde_json::{Value, json};

use crate::layout::Layout;
use crate::meter::compare;
use crate::report::{count, micros, ratio, table};

/// The size of the module, and how long a PolicyServer takes to compile it, once for each policy.
pub(crate) fn measure_size(wasm: &[u8]) -> String {
    let compiled = (0..10).map(|_| time_compilation(wasm)).min();
    let cells = vec![
        count(wasm.len()),
        format!("{:.1} ms", compiled.unwrap_or_default().as_secs_f64() * 1e3),
    ];
    table(&["policy.wasm, bytes", "compile, once"], [cells])
}

/// The compiler uses all processors, so this is no thread's CPU time.
fn time_compilation(wasm: &[u8]) -> Duration {
    let started = Instant::now();
    drop(black_box(PolicyModule::compile(black_box(wasm))));
    started.elapsed()
}

/// Compares Wasm with native code.
pub(crate) fn compare_with_native(wasm: &[u8]) -> Result<String> {
    let cases = named_cases(wasm)?;
    let rows = cases.iter().map(|NamedCase { name, case }| {
        let [native, guest, new_instance] = compare([
            &mut || case.run_natively(),
            &mut || case.run_guest(),
            &mut || case.run_new_instance(),
        ]);
        vec![
            (*name).to_owned(),
            count(case.payload.len()),
            micros(native.each),
            micros(guest.each),
            ratio(guest.ratio),
            micros(new_instance.each),
            ratio(new_instance.ratio),
        ]
    });
    let header = [
        "Pod",
        "request, bytes",
        "native",
        "Wasm, guest",
        "÷ native",
        "Wasm, new instance",
        "÷ native",
    ];
    Ok(table(&header, rows))
}

/// Compares the policy with another build of it, each in new instances.
pub(crate) fn compare_with_baseline(wasm: &[u8], baseline: &[u8]) -> Result<String> {
    let cases = named_cases(wasm)?;
    let baselines = named_cases(baseline)?;
    let rows = cases.iter().zip(&baselines).map(|(ours, theirs)| {
        let [baseline, now] = compare([&mut || theirs.case.run_new_instance(), &mut || {
            ours.case.run_new_instance();
        }]);
        vec![
            ours.name.to_owned(),
            micros(baseline.each),
            micros(now.each),
            ratio(now.ratio),
        ]
    });
    Ok(table(&["Pod", "baseline", "now", "÷ baseline"], rows))
}

/// A case and its row's name.
struct NamedCase {
    name: &'static str,
    case: Case,
}

fn named_cases(wasm: &[u8]) -> Result<Vec<NamedCase>> {
    let layout = Layout::new("bench", 1, 10);
    let request = layout.request(0);
    let mut ignored = request.clone();
    ignored["object"]["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into();
    let mut large = request.clone();
    // The objects that take the most memory for their bytes.
    large["object"]["spec"]["unknown"] = vec![json!({"a": 0}); (2 << 20) / 8].into();
    let pps = layout.recorded_pps();
    Ok(vec![
        NamedCase {
            name: "of a ReplicaSet: ignored",
            case: Case::new(wasm, &ignored, None, false)?,
        },
        NamedCase {
            name: "of a StatefulSet without a PPS",
            case: Case::new(wasm, &request, None, false)?,
        },
        NamedCase {
            name: "with a state, PPS of the workload's name",
            case: Case::new(wasm, &request, Some(&pps), true)?,
        },
        NamedCase {
            name: "with a state, 2 MB of small objects",
            case: Case::new(wasm, &large, Some(&pps), true)?,
        },
    ])
}

/// Grows the number of Pods that the PPS has recorded, in the form in which the sidecar writes so
/// many.
pub(crate) fn measure_by_recorded_pods(wasm: &[u8], sizes: &[usize]) -> Result<String> {
    let base = RecordedCase::new(wasm, 10)?;
    let mut rows = Vec::new();
    for &pods in sizes {
        let recorded = RecordedCase::new(wasm, pods)?;
        let [_, guest] = compare([&mut || base.case.run_guest(), &mut || {
            recorded.case.run_guest();
        }]);
        rows.push(vec![
            format!("{}, {}", count(pods), recorded.form),
            micros(guest.each),
            ratio(guest.ratio),
            count(recorded.pps_bytes),
        ]);
    }
    Ok(table(
        &["recorded Pods", "guest", "÷ at 10", "PPS, bytes"],
        rows,
    ))
}

/// A Pod whose PPS has recorded a number of Pods.
struct RecordedCase {
    case: Case,
    /// The form of the recorded states.
    form: &'static str,
    pps_bytes: usize,
}

impl RecordedCase {
    fn new(wasm: &[u8], pods: usize) -> Result<Self> {
        let layout = Layout::new("bench", 1, pods);
        let pps = layout.recorded_pps();
        let form = if pps["status"]["packed"].is_object() {
            "compact"
        } else {
            "plain"
        };
        Ok(Self {
            case: Case::new(wasm, &layout.request(0), Some(&pps), true)?,
            form,
            pps_bytes: pps.to_string().len(),
        })
    }
}

/// A request with the cluster behind it, ready to be evaluated in each way.
struct Case {
    payload: Vec<u8>,
    host: CachedHost,
    module: PolicyModule,
    /// An instance that serves many evaluations.
    instance: Instance,
}

impl Case {
    /// Fails if native code and Wasm do not give the same, expected response.
    fn new(wasm: &[u8], request: &Value, pps: Option<&Value>, is_injected: bool) -> Result<Self> {
        let payload = json!({"request": request, "settings": {}})
            .to_string()
            .into_bytes();
        let host = FakeHost::new(pps.into_iter().cloned().collect(), HostQuirks::default());
        let host = CachedHost {
            host: Arc::new(host),
            answers: Arc::default(),
        };
        let module = PolicyModule::load(wasm)?;
        let instance = module.instance(Arc::new(host.clone()))?;
        let native: Value = serde_json::to_value(admit(&payload, &host))?;
        let guest: Value = serde_json::from_slice(&instance.call("validate", &payload)?)?;
        // Another build may leave out fields that are null.
        for field in ["accepted", "mutated_object", "warnings"] {
            ensure!(
                native[field] == guest[field],
                "the responses differ\nnative: {native}\nWasm: {guest}"
            );
        }
        ensure!(
            guest["mutated_object"].is_object() == is_injected,
            "not the expected response: {guest}"
        );
        Ok(Self {
            payload,
            host,
            module,
            instance,
        })
    }

    fn run_natively(&self) {
        drop(black_box(serde_json::to_vec(&admit(
            black_box(&self.payload),
            &self.host,
        ))));
    }

    /// Runs in an instance that was used before, which takes only the guest's own time.
    fn run_guest(&self) {
        let _ = black_box(self.instance.call("validate", black_box(&self.payload)));
    }

    /// Runs in a new instance, as PolicyServer does for each request.
    fn run_new_instance(&self) {
        let host = Arc::new(self.host.clone());
        let _ = black_box(self.module.call("validate", black_box(&self.payload), host));
    }
}

type Answers = HashMap<String, Result<String, String>>;

/// A host that repeats its first answer to each request, so that its own work is only a copy.
#[derive(Clone)]
struct CachedHost {
    host: Arc<FakeHost>,
    answers: Arc<Mutex<Answers>>,
}

impl Host for CachedHost {
    fn call(&self, _: &str, operation: &str, payload: &str) -> Result<String, String> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(payload) {
            return answer.clone();
        }
        let answer = self.host.call(operation, payload);
        answers.insert(payload.to_owned(), answer.clone());
        answer
    }
}

impl HostCalls for CachedHost {
    fn call(&self, namespace: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
        Host::call(
            self,
            namespace,
            operation,
            &String::from_utf8_lossy(payload),
        )
        .map(String::into_bytes)
    }
}

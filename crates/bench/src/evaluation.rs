//! One evaluation, from bytes to bytes: native and in Wasm, and where the time is spent.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use persistent_pod_state_policy::cluster::{Cluster, GoverningPps};
use persistent_pod_state_policy::{Host, ValidationResponse, admit};
use pps_core::{AnnotationRules, PodIdentity, apply, conflict, plan};
use pps_e2e::kubewarden::stand_in::{HostCalls, Instance, Meter, PolicyModule};
use serde_json::Value;

use crate::fixture::{CachedHost, Case, NAMESPACE, Owner, Recording};
use crate::report::{count, micros, ratio, table};
use crate::sample::compare;

/// Evaluates a request without Wasm.
pub(crate) fn evaluate_natively(payload: &[u8], host: &dyn Host) -> Vec<u8> {
    admit(payload, host).into_json().into_bytes()
}

/// A case, ready to be evaluated in each way.
pub(crate) struct PreparedCase {
    payload: Vec<u8>,
    host: CachedHost,
    calls: Arc<dyn HostCalls>,
    module: PolicyModule,
    /// An instance that is used for many evaluations.
    instance: Instance,
}

impl PreparedCase {
    /// Prepares a case. Fails if native code and Wasm do not give the same, expected response.
    pub(crate) fn new(module: &PolicyModule, case: &Case) -> Result<Self> {
        let (payload, host) = (case.payload(), case.host());
        let calls: Arc<dyn HostCalls> = Arc::new(host.clone());
        let instance = module.instance(calls.clone())?;
        let responses = [evaluate_natively(&payload, &host), instance.call("validate", &payload)?];
        let [from_native, from_wasm] = responses.map(|response| serde_json::from_slice::<Value>(&response));
        let (from_native, from_wasm) = (from_native?, from_wasm?);
        ensure!(from_native == from_wasm, "the responses differ\nnative: {from_native}\nWasm: {from_wasm}");
        let mutated = !from_wasm["mutated_object"].is_null();
        let expected = case.owner == Owner::StatefulSet
            && matches!(case.recording, Recording::SameName | Recording::OtherName);
        ensure!(mutated == expected, "mutated is {mutated}, not {expected}: {case:?}: {from_wasm}");
        Ok(Self { payload, host, calls, module: module.clone(), instance })
    }

    pub(crate) fn run_natively(&self) {
        black_box(evaluate_natively(black_box(&self.payload), &self.host));
    }

    /// Runs in an instance that was used before, which takes only the guest's own time.
    pub(crate) fn run_guest(&self) {
        let _ = black_box(self.instance.call("validate", black_box(&self.payload)));
    }

    /// Runs in a new instance, as PolicyServer does for each request.
    pub(crate) fn run_new_instance(&self) {
        let _ = black_box(self.module.call("validate", black_box(&self.payload), self.calls.clone()));
    }
}

fn cases() -> [(&'static str, Case); 4] {
    let default = Case::default;
    [
        ("of a ReplicaSet: ignored", Case { owner: Owner::ReplicaSet, ..default() }),
        ("of a StatefulSet without a PPS", Case { recording: Recording::None, ..default() }),
        ("with a state, PPS of the workload's name", default()),
        ("with a state, PPS of another name", Case { recording: Recording::OtherName, ..default() }),
    ]
}

/// Compares Wasm with native code.
pub(crate) fn compare_with_native(module: &PolicyModule) -> Result<String> {
    let mut rows = Vec::new();
    for (name, case) in cases() {
        let prepared = PreparedCase::new(module, &case)?;
        let [native, guest, new_instance] =
            compare([&mut || prepared.run_natively(), &mut || prepared.run_guest(), &mut || {
                prepared.run_new_instance();
            }]);
        rows.push(vec![
            name.to_owned(),
            count(prepared.payload.len()),
            micros(native.each),
            micros(guest.each),
            ratio(guest.ratio),
            micros(new_instance.each),
            ratio(new_instance.ratio),
        ]);
    }
    let header =
        ["Pod", "request, bytes", "native", "Wasm, guest", "÷ native", "Wasm, new instance", "÷ native"];
    Ok(table(&header, rows))
}

/// Compares another build of the module with the first one, in turns.
pub(crate) fn compare_modules(paths: &[PathBuf; 2]) -> Result<String> {
    let load = |path: &PathBuf| PolicyModule::load_file(path);
    let [first, second] = [load(&paths[0])?, load(&paths[1])?];
    let meters = [Meter::load_file(&paths[0])?, Meter::load_file(&paths[1])?];
    let mut rows = Vec::new();
    for (name, case) in cases() {
        let [first, second] = [PreparedCase::new(&first, &case)?, PreparedCase::new(&second, &case)?];
        let count_in = |meter: &Meter| -> Result<f64> {
            Ok(meter.validate(&first.payload, first.calls.clone(), u64::MAX)?.instructions as f64)
        };
        let instructions = [count_in(&meters[0])?, count_in(&meters[1])?];
        let [first_guest, second_guest] = compare([&mut || first.run_guest(), &mut || second.run_guest()]);
        let [first_new, second_new] =
            compare([&mut || first.run_new_instance(), &mut || second.run_new_instance()]);
        rows.push(vec![
            name.to_owned(),
            micros(first_guest.each),
            micros(second_guest.each),
            ratio(second_guest.ratio),
            micros(first_new.each),
            micros(second_new.each),
            ratio(second_new.ratio),
            ratio(instructions[1] / instructions[0]),
        ]);
    }
    let header = [
        "Pod",
        "guest, first",
        "second",
        "÷ first",
        "new instance, first",
        "second",
        "÷ first",
        "instructions ÷ first",
    ];
    Ok(table(&header, rows))
}

/// Splits the time that an evaluation takes in the host.
pub(crate) fn split_host_time(module: &PolicyModule) -> Result<String> {
    let case = Case::default();
    let prepared = PreparedCase::new(module, &case)?;
    let request = serde_json::from_value(case.request())?;
    let settings = case.settings.clone();
    let empty_module = PolicyModule::load(&compile_empty_module()?)?;
    let [total, new_instance, guest, instance, empty_instance, empty_call] = compare([
        &mut || drop(black_box(module.evaluate_request(&request, &settings, &prepared.calls))),
        &mut || prepared.run_new_instance(),
        &mut || prepared.run_guest(),
        &mut || drop(black_box(module.instance(prepared.calls.clone()))),
        &mut || drop(black_box(empty_module.instance(prepared.calls.clone()))),
        &mut || drop(black_box(prepared.instance.call("protocol_version", &[]))),
    ]);
    let share = |name: &str, time: Duration| share_row(name, time, total.each);
    let rest = total.each.saturating_sub(new_instance.each);
    let rows = [
        share("host: write the payload, read the response, make the JSON patch", rest),
        share("a new instance: its memory, start and end", instance.each),
        share("… of which any module takes, even without code", empty_instance.each),
        share("the guest", guest.each),
        share("… of which a call into the guest and back (`protocol_version`)", empty_call.each),
        share("total", total.each),
    ];
    Ok(table(&["part", "time", "share"], rows))
}

fn share_row(name: &str, time: Duration, total: Duration) -> Vec<String> {
    let share = time.as_secs_f64() / total.as_secs_f64();
    vec![name.to_owned(), micros(time), format!("{:.0} %", share * 100.0)]
}

fn look_up(host: &dyn Host, case: &Case) -> Result<Option<GoverningPps>> {
    let pod = case.pod().to_string();
    let identity = PodIdentity::parse(&pod)?;
    let owner = identity.stateful_owner().context("the Pod has no stateful owner")?;
    Ok(Cluster::new(host, NAMESPACE).find(&owner.target(), &identity.name)?)
}

/// The smallest module that a waPC host accepts.
fn compile_empty_module() -> Result<Vec<u8>> {
    let metadata = r#"{\"protocolVersion\":\"v1\",\"rules\":[],\"mutating\":true}"#;
    let text = format!(
        r#"(module (memory (export "memory") 1)
            (func (export "__guest_call") (param i32 i32) (result i32) (i32.const 1))
            (@custom "io.kubewarden.metadata" "{metadata}"))"#
    );
    Ok(wat::parse_str(text)?)
}

/// Splits the policy's own time.
pub(crate) fn split_policy_time() -> Result<String> {
    let case = Case::default();
    let (payload, host) = (case.payload(), case.host());
    let ignored = Case { owner: Owner::ReplicaSet, ..Case::default() }.payload();
    let text = case.pod().to_string();
    let identity = PodIdentity::parse(&text)?;
    let owner = identity.stateful_owner().context("the Pod has no stateful owner")?;
    let target = owner.target();
    let governing = look_up(&host, &case)?.context("the host has no PPS")?;
    let state = governing.state.as_ref().context("the PPS has no state of this Pod")?;
    let rules = AnnotationRules::default();
    let injection = plan(&governing.name, &governing.spec, state, &rules);
    let response: ValidationResponse = admit(&payload, &host);

    let find = || Cluster::new(&host, NAMESPACE).find(&target, &identity.name);
    let parse = || serde_json::from_str::<Value>(&text);
    let change = || {
        let mut pod = parse().unwrap_or_default();
        let warnings = conflict::conflicts(&injection, &pod);
        let applied = apply(&injection, &mut pod);
        (pod, warnings, applied)
    };
    let [total, identify, find, plan, parse, change, write] = compare([
        &mut || drop(black_box(evaluate_natively(&payload, &host))),
        &mut || drop(black_box(admit(&ignored, &host))),
        &mut || drop(black_box(find())),
        &mut || drop(black_box(plan(&governing.name, &governing.spec, state, &rules))),
        &mut || drop(black_box(parse())),
        &mut || drop(black_box(change())),
        &mut || drop(black_box(response.clone().into_json())),
    ]);
    let change = change.each.saturating_sub(parse.each);
    let share = |name: &str, time: Duration| share_row(name, time, total.each);
    let rows = [
        share("read the request, find the Pod's owner", identify.each),
        share("lookup: one host call, its request and its response", find.each),
        share("plan the injection", plan.each),
        share("parse the Pod, free it at the end", parse.each),
        share("find conflicts, change the Pod", change),
        share("write the response", write.each),
        share("total, measured in one", total.each),
    ];
    Ok(table(&["part", "time", "share"], rows))
}

/// How long a PolicyServer takes to compile the module, once for each policy.
pub(crate) fn compile_time(wasm: &[u8]) -> Duration {
    // The compiler uses all processors, so this is no thread's CPU time.
    let load = |_| {
        let started = Instant::now();
        drop(black_box(PolicyModule::load(black_box(wasm))));
        started.elapsed()
    };
    (0..10).map(load).min().unwrap_or_default()
}

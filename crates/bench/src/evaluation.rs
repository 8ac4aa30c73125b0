//! One evaluation, from bytes to bytes: native against Wasm, and where the time goes.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use persistent_pod_state_policy::cluster::{Cluster, GoverningPps};
use persistent_pod_state_policy::settings::Lookup;
use persistent_pod_state_policy::{Host, ValidationResponse, admit};
use pps_core::{AnnotationRules, PodIdentity, apply, conflict, plan};
use pps_e2e::kubewarden::stand_in::{HostCalls, Instance, PolicyModule};
use serde_json::Value;

use crate::fixture::{Answers, Case, NAMESPACE, Owner, Recorded};
use crate::report::{count, micros, table, times};
use crate::sample::{race, time};

/// One evaluation without Wasm.
pub(crate) fn native(payload: &[u8], host: &dyn Host) -> Vec<u8> {
    serde_json::to_vec(&admit(payload, host)).unwrap_or_default()
}

/// A case in all forms in which it can be run.
pub(crate) struct Runs {
    payload: Vec<u8>,
    host: Answers,
    calls: Arc<dyn HostCalls>,
    module: PolicyModule,
    kept: Instance,
}

impl Runs {
    /// Makes sure, too, that native code and Wasm give the same answer.
    pub(crate) fn new(module: &PolicyModule, case: &Case) -> Result<Self> {
        let (payload, host) = (case.payload(), case.host());
        let calls: Arc<dyn HostCalls> = Arc::new(host.clone());
        let kept = module.instance(calls.clone())?;
        let answers = [native(&payload, &host), kept.call("validate", &payload)?];
        let [from_native, from_wasm] = answers.map(|answer| serde_json::from_slice::<Value>(&answer));
        let (from_native, from_wasm) = (from_native?, from_wasm?);
        ensure!(from_native == from_wasm, "native: {from_native}\nWasm: {from_wasm}");
        let mutated = !from_wasm["mutated_object"].is_null();
        let expected =
            case.owner == Owner::StatefulSet && matches!(case.recorded, Recorded::ByName | Recorded::ByHand);
        ensure!(mutated == expected, "mutated: {mutated}, {case:?}: {from_wasm}");
        Ok(Self { payload, host, calls, module: module.clone(), kept })
    }

    pub(crate) fn native(&self) {
        black_box(native(black_box(&self.payload), &self.host));
    }

    /// In an instance that was used before: the guest's own time.
    pub(crate) fn guest(&self) {
        let _ = black_box(self.kept.call("validate", black_box(&self.payload)));
    }

    /// In a fresh instance, as PolicyServer does it.
    pub(crate) fn fresh(&self) {
        let _ = black_box(self.module.call("validate", black_box(&self.payload), self.calls.clone()));
    }
}

fn cases() -> [(&'static str, Case); 4] {
    let default = Case::default;
    [
        ("of a ReplicaSet: not ours", Case { owner: Owner::ReplicaSet, ..default() }),
        ("of a StatefulSet without PPS", Case { recorded: Recorded::Nothing, ..default() }),
        ("with a state, PPS under the workload's name", default()),
        ("with a state, PPS under another name", Case { recorded: Recorded::ByHand, ..default() }),
    ]
}

/// Native against Wasm.
pub(crate) fn against_native(module: &PolicyModule) -> Result<String> {
    let mut rows = Vec::new();
    for (name, case) in cases() {
        let runs = Runs::new(module, &case)?;
        let [native, guest, fresh] =
            race([&mut || runs.native(), &mut || runs.guest(), &mut || runs.fresh()]);
        rows.push(vec![
            name.to_owned(),
            count(runs.payload.len()),
            micros(native.each),
            micros(guest.each),
            times(guest.ratio),
            micros(fresh.each),
            times(fresh.ratio),
        ]);
    }
    let header =
        ["Pod", "request, bytes", "native", "Wasm, guest", "÷ native", "Wasm, fresh instance", "÷ native"];
    Ok(table(&header, rows))
}

/// Where the time of an evaluation in the host goes.
pub(crate) fn parts_in_host(module: &PolicyModule) -> Result<String> {
    let case = Case::default();
    let runs = Runs::new(module, &case)?;
    let request = serde_json::from_value(case.request())?;
    let settings = case.settings.clone();
    let nothing = PolicyModule::load(&module_without_code()?)?;
    let [whole, fresh, guest, instance, smallest, empty] = race([
        &mut || drop(black_box(module.evaluate_request(&request, &settings, &runs.calls))),
        &mut || runs.fresh(),
        &mut || runs.guest(),
        &mut || drop(black_box(module.instance(runs.calls.clone()))),
        &mut || drop(black_box(nothing.instance(runs.calls.clone()))),
        &mut || drop(black_box(runs.kept.call("protocol_version", &[]))),
    ]);
    let share = |name: &str, time: Duration| share(name, time, whole.each);
    let rest = whole.each.saturating_sub(fresh.each);
    let rows = [
        share("the host makes the payload, reads the answer, makes the JSON patch", rest),
        share("a fresh instance: its memory, start and end", instance.each),
        share("… of it, what a module without any code costs, too", smallest.each),
        share("the guest", guest.each),
        share("… of it, a call into the guest and back (`protocol_version`)", empty.each),
        share("all together", whole.each),
    ];
    Ok(table(&["part", "time", "of all"], rows))
}

fn share(name: &str, time: Duration, whole: Duration) -> Vec<String> {
    let part = time.as_secs_f64() / whole.as_secs_f64();
    vec![name.to_owned(), micros(time), format!("{:.0} %", part * 100.0)]
}

fn look_up(host: &dyn Host, case: &Case) -> Result<Option<GoverningPps>> {
    let pod = case.pod().to_string();
    let identity = PodIdentity::parse(&pod)?;
    let owner = identity.stateful_owner().context("the Pod has no stateful owner")?;
    Ok(Cluster::new(host, NAMESPACE).find(&owner.target(), &identity.name, Lookup::ByName)?)
}

/// The smallest module that a waPC host takes.
fn module_without_code() -> Result<Vec<u8>> {
    let metadata = r#"{\"protocolVersion\":\"v1\",\"rules\":[],\"mutating\":true}"#;
    let text = format!(
        r#"(module (memory (export "memory") 1)
            (func (export "__guest_call") (param i32 i32) (result i32) (i32.const 1))
            (@custom "io.kubewarden.metadata" "{metadata}"))"#
    );
    Ok(wat::parse_str(text)?)
}

/// Where the policy's own time goes.
pub(crate) fn parts_in_policy() -> Result<String> {
    let case = Case::default();
    let (payload, host) = (case.payload(), case.host());
    let stranger = Case { owner: Owner::ReplicaSet, ..Case::default() }.payload();
    let text = case.pod().to_string();
    let identity = PodIdentity::parse(&text)?;
    let owner = identity.stateful_owner().context("the Pod has no stateful owner")?;
    let target = owner.target();
    let governing = look_up(&host, &case)?.context("no PPS")?;
    let state = governing.state.as_ref().context("no state")?;
    let rules = AnnotationRules::default();
    let made = plan(&governing.name, &governing.spec, state, &rules);
    let answer: ValidationResponse = admit(&payload, &host);

    let find = || Cluster::new(&host, NAMESPACE).find(&target, &identity.name, Lookup::ByName);
    let parse = || serde_json::from_str::<Value>(&text);
    let change = || {
        let mut pod = parse().unwrap_or_default();
        let warnings = conflict::conflicts(&made, &pod);
        let applied = apply(&made, &mut pod);
        (pod, warnings, applied)
    };
    let [whole, look, find, plan, parse, change, write] = race([
        &mut || drop(black_box(native(&payload, &host))),
        &mut || drop(black_box(admit(&stranger, &host))),
        &mut || drop(black_box(find())),
        &mut || drop(black_box(plan(&governing.name, &governing.spec, state, &rules))),
        &mut || drop(black_box(parse())),
        &mut || drop(black_box(change())),
        &mut || drop(black_box(serde_json::to_vec(&answer))),
    ]);
    let change = change.each.saturating_sub(parse.each);
    let share = |name: &str, time: Duration| share(name, time, whole.each);
    let rows = [
        share("read the request, see whose Pod it is", look.each),
        share("look up: one host call, write its question, read its answer", find.each),
        share("plan", plan.each),
        share("parse the Pod, free it at the end", parse.each),
        share("find conflicts, change the Pod", change),
        share("write the answer", write.each),
        share("all together, measured in one", whole.each),
    ];
    Ok(table(&["part", "time", "of all"], rows))
}

/// Time of compiling the module, once for each policy of a PolicyServer.
pub(crate) fn compilation(wasm: &[u8]) -> Duration {
    time(&mut || drop(black_box(PolicyModule::load(wasm))))
}

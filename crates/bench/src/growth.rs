//! How the time of an evaluation grows with what is recorded, and with the Pod.

use std::hint::black_box;

use anyhow::Result;
use pps_core::to_text;
use pps_e2e::kubewarden::stand_in::{Mask, PolicyModule};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::evaluation::Runs;
use crate::fixture::{Case, Owner, Recorded, object};
use crate::report::{count, micros, table, times};
use crate::sample::race;

/// With the Pods that the object has states of.
pub(crate) fn recorded_pods(module: &PolicyModule) -> Result<String> {
    let case = |states, without_masks| Case { states, without_masks, ..Case::default() };
    let base = Runs::new(module, &case(10, false))?;
    let mut rows = Vec::new();
    for states in [10, 100, 1_000, 10_000] {
        let masked = Runs::new(module, &case(states, false))?;
        let whole = Runs::new(module, &case(states, true))?;
        let pods: Vec<String> = (0..states).map(|ordinal| format!("web-{ordinal}")).collect();
        let text = to_text(&object("web", "web", &pods));
        let mask = Mask::new(["spec", "status.podStates.web-0", "status.targetUID"]);
        let [_, masked, whole, host] =
            race([&mut || base.guest(), &mut || masked.guest(), &mut || whole.guest(), &mut || {
                let mut object: Value = serde_json::from_str(black_box(&text)).unwrap_or_default();
                mask.prune(&mut object);
                drop(black_box(to_text(&object)));
            }]);
        rows.push(vec![
            count(states),
            micros(masked.each),
            times(masked.ratio),
            micros(whole.each),
            times(whole.ratio),
            count(text.len()),
            micros(host.each),
        ]);
    }
    let header = [
        "recorded Pods",
        "guest",
        "÷ at 10",
        "guest, host without masks",
        "÷ at 10 with masks",
        "object, bytes",
        "host: parse and mask it",
    ];
    Ok(table(&header, rows))
}

/// With the other objects of the namespace.
pub(crate) fn objects_in_namespace(module: &PolicyModule) -> Result<String> {
    let case = |recorded, others| Case { recorded, others, ..Case::default() };
    let base = Runs::new(module, &case(Recorded::ByHand, 0))?;
    let mut rows = Vec::new();
    for objects in [1, 10, 100, 1_000] {
        let by_name = Runs::new(module, &case(Recorded::ByName, objects - 1))?;
        let by_hand = Runs::new(module, &case(Recorded::ByHand, objects - 1))?;
        let none = Runs::new(module, &case(Recorded::Nothing, objects))?;
        let [_, by_name, by_hand, none] =
            race([&mut || base.guest(), &mut || by_name.guest(), &mut || by_hand.guest(), &mut || {
                none.guest();
            }]);
        let mut row = vec![count(objects)];
        row.extend([by_name, by_hand, none].into_iter().flat_map(|it| [micros(it.each), times(it.ratio)]));
        rows.push(row);
    }
    let header = [
        "objects in the namespace",
        "PPS under the workload's name",
        "÷ base",
        "PPS under another name",
        "÷ base",
        "no PPS of this workload",
        "÷ base",
    ];
    Ok(table(&header, rows))
}

/// With the Pod's size. The least that any reader of the request must do is to find where it ends.
pub(crate) fn pod_size(module: &PolicyModule) -> Result<String> {
    let mut rows = Vec::new();
    for containers in [1, 10, 100, 600] {
        let case = |owner| Case { owner, containers, ..Case::default() };
        let not_ours = Runs::new(module, &case(Owner::ReplicaSet))?;
        let ours = Runs::new(module, &case(Owner::StatefulSet))?;
        let payload = case(Owner::StatefulSet).payload();
        let [least, not_ours_native, not_ours, ours_native, ours] = race([
            &mut || drop(black_box(serde_json::from_slice::<IgnoredAny>(black_box(&payload)))),
            &mut || not_ours.native(),
            &mut || not_ours.guest(),
            &mut || ours.native(),
            &mut || ours.guest(),
        ]);
        rows.push(vec![
            count(payload.len()),
            micros(least.each),
            micros(not_ours_native.each),
            times(not_ours_native.ratio),
            micros(not_ours.each),
            micros(ours_native.each),
            micros(ours.each),
            times(ours.each.as_secs_f64() / ours_native.each.as_secs_f64()),
        ]);
    }
    let header = [
        "request, bytes",
        "skip it as JSON, native",
        "not ours, native",
        "÷ skip",
        "not ours, guest",
        "with a state, native",
        "with a state, guest",
        "÷ native",
    ];
    Ok(table(&header, rows))
}

//! How the time of an evaluation grows with the recorded Pods, the PPS in the namespace, and the Pod's size.

use std::hint::black_box;

use anyhow::Result;
use pps_core::to_text;
use pps_e2e::kubewarden::stand_in::{Mask, PolicyModule};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::admission::form::Form;
use crate::evaluation::PreparedCase;
use crate::fixture::{Case, Owner};
use crate::report::{count, micros, ratio, table};
use crate::sample::compare;

/// Grows the number of Pods that the PPS has recorded, in both forms.
pub(crate) fn measure_by_recorded_pods(module: &PolicyModule) -> Result<String> {
    let case = |states, form, ignores_masks| Case { states, form, ignores_masks, ..Case::default() };
    let base = PreparedCase::new(module, &case(10, Form::Plain, false))?;
    let mut rows = Vec::new();
    for form in [Form::Plain, Form::Compact] {
        for states in [10, 100, 1_000, 10_000] {
            let masked = PreparedCase::new(module, &case(states, form, false))?;
            let whole = PreparedCase::new(module, &case(states, form, true))?;
            let text = to_text(&case(states, form, false).object("web", 0));
            // What the policy asks for.
            let mask = Mask::new([
                "spec",
                "status.podStates.web-0",
                "status.packed.version",
                "status.packed.buckets.ordinals-0",
                "status.targetUID",
            ]);
            let [_, masked, whole, host] = compare([
                &mut || base.run_guest(),
                &mut || masked.run_guest(),
                &mut || whole.run_guest(),
                &mut || {
                    let mut object: Value = serde_json::from_str(black_box(&text)).unwrap_or_default();
                    mask.prune(&mut object);
                    drop(black_box(to_text(&object)));
                },
            ]);
            rows.push(vec![
                format!("{}, {}", count(states), form.title()),
                micros(masked.each),
                ratio(masked.ratio),
                micros(whole.each),
                ratio(whole.ratio),
                count(text.len()),
                micros(host.each),
            ]);
        }
    }
    let header = [
        "recorded Pods",
        "guest",
        "÷ at 10, plain",
        "guest, host without field masks",
        "÷ at 10, plain, with field masks",
        "PPS, bytes",
        "host: parse and mask it",
    ];
    Ok(table(&header, rows))
}

/// Grows the Pod. Skipping the request as JSON is the least work that any reader must do: it finds where the
/// request ends.
pub(crate) fn measure_by_pod_size(module: &PolicyModule) -> Result<String> {
    let mut rows = Vec::new();
    for containers in [1, 10, 100, 600] {
        let case = |owner| Case { owner, containers, ..Case::default() };
        let ignored = PreparedCase::new(module, &case(Owner::ReplicaSet))?;
        let injected = PreparedCase::new(module, &case(Owner::StatefulSet))?;
        let payload = case(Owner::StatefulSet).payload();
        let [skip, ignored_native, ignored_guest, injected_native, injected_guest] = compare([
            &mut || drop(black_box(serde_json::from_slice::<IgnoredAny>(black_box(&payload)))),
            &mut || ignored.run_natively(),
            &mut || ignored.run_guest(),
            &mut || injected.run_natively(),
            &mut || injected.run_guest(),
        ]);
        rows.push(vec![
            count(payload.len()),
            micros(skip.each),
            micros(ignored_native.each),
            ratio(ignored_native.ratio),
            micros(ignored_guest.each),
            micros(injected_native.each),
            micros(injected_guest.each),
            ratio(injected_guest.each.as_secs_f64() / injected_native.each.as_secs_f64()),
        ]);
    }
    let header = [
        "request, bytes",
        "skip it as JSON, native",
        "ignored Pod, native",
        "÷ skip",
        "ignored Pod, guest",
        "with a state, native",
        "with a state, guest",
        "÷ native",
    ];
    Ok(table(&header, rows))
}

//! Hostile payloads for the compiled policy: none of them traps, hangs or is misread.

mod buckets;
mod cases;
mod large;
mod meter;
mod owners;
mod reviews;

use std::sync::Arc;

use anyhow::{Result, ensure};
use pps_e2e::kubewarden::stand_in::HostCalls;
use pps_e2e::repository::policy_path;

use self::meter::{Measurement, Meter};

/// What a payload may cost the guest: far less than the two seconds after which PolicyServer
/// interrupts a policy.
const INSTRUCTIONS: u64 = 1_000_000_000;
/// The chart's values say what this means for a PolicyServer.
const MEMORY: u64 = 128 << 20;

/// Counts instructions and memory, which do not depend on the machine.
#[test]
fn hostile_payloads_stay_within_a_budget_of_instructions_and_memory() -> Result<()> {
    let meter = Meter::load_file(&policy_path())?;
    let mut wrong = Vec::new();
    for hostile in cases::all() {
        let hostile = Arc::new(hostile);
        let attacker = hostile.clone();
        let host: Arc<dyn HostCalls> = Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
            attacker.call(operation, &String::from_utf8_lossy(payload))
        });
        let cost = meter.validate(&hostile.payload, host, INSTRUCTIONS)?;
        let Measurement {
            instructions,
            memory,
            ..
        } = cost;
        match cost.answer {
            Some(answer) => wrong.extend(hostile.check(&answer).err()),
            None => wrong.push(format!(
                "{}: no answer after {instructions} instructions",
                hostile.name
            )),
        }
        if memory > MEMORY {
            wrong.push(format!("{}: {} MiB of memory", hostile.name, memory >> 20));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

//! Hostile payloads for the compiled policy in a waPC host: none of them traps or runs into PolicyServer's time limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pps_corpus::hostile;
use pps_e2e::kubewarden::stand_in::{HostCalls, Measurement, Meter, PolicyModule};
use pps_e2e::repository::policy_path;

/// The time after which PolicyServer interrupts a policy.
const LIMIT: Duration = Duration::from_secs(2);
/// What a payload may cost the guest: a second or less on any machine.
const INSTRUCTIONS: u64 = 1_000_000_000;
const MEMORY: u64 = 256 << 20;
/// How often a slow payload is tried: on a busy machine anything is slow now and then, but not each time.
const ATTEMPTS: u32 = 3;

#[test]
fn hostile_payloads_neither_trap_nor_exceed_the_time_limit() -> Result<()> {
    let module = PolicyModule::load_file(&policy_path())?;
    let mut wrong = Vec::new();
    for hostile in hostile::all() {
        let (name, payload) = (hostile.name.clone(), hostile.payload.clone());
        let hostile = Arc::new(hostile);
        let attacker = hostile.clone();
        let host: Arc<dyn HostCalls> = Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
            attacker.call(operation, &String::from_utf8_lossy(payload))
        });
        for attempt in 1..=ATTEMPTS {
            let started = Instant::now();
            let answer = module.call("validate", &payload, host.clone());
            let took = started.elapsed();
            if took > LIMIT / 20 {
                println!("{name}: {took:?}");
            }
            // The stand-in may interrupt a call a little earlier than PolicyServer.
            if took > LIMIT / 2 && attempt < ATTEMPTS {
                continue;
            }
            match answer {
                Ok(answer) => wrong.extend(hostile.check(&answer).err()),
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
            if took > LIMIT {
                wrong.push(format!("{name}: {took:?}"));
            }
            break;
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Each payload costs a bounded number of instructions and a bounded memory, in proportion to its size. The numbers do not
/// depend on the machine, so they are the same each time.
#[test]
fn hostile_payloads_stay_within_a_budget_of_instructions_and_memory() -> Result<()> {
    let meter = Meter::load_file(&policy_path())?;
    let mut wrong = Vec::new();
    for hostile in hostile::all() {
        let hostile = Arc::new(hostile);
        let attacker = hostile.clone();
        let host: Arc<dyn HostCalls> = Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
            attacker.call(operation, &String::from_utf8_lossy(payload))
        });
        let cost = meter.validate(&hostile.payload, host, INSTRUCTIONS)?;
        let Measurement { instructions, memory, .. } = cost;
        let input = hostile.payload.len() as u64;
        println!(
            "{}: {input} bytes, {} M instructions, {} MiB",
            hostile.name,
            instructions / 1_000_000,
            memory >> 20
        );
        match cost.answer {
            Some(answer) => wrong.extend(hostile.check(&answer).err()),
            None => wrong.push(format!("{}: no answer after {instructions} instructions", hostile.name)),
        }
        if memory > MEMORY {
            wrong.push(format!("{}: {} MiB of memory", hostile.name, memory >> 20));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

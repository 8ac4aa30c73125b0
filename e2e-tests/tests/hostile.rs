//! Hostile payloads for the compiled policy in a waPC host: none of them traps or runs into PolicyServer's time limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pps_corpus::hostile;
use pps_e2e::kubewarden::stand_in::{HostCalls, PolicyModule};
use pps_e2e::repository::policy_path;

/// The time after which PolicyServer interrupts a policy.
const LIMIT: Duration = Duration::from_secs(2);
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

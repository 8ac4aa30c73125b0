//! What is meant to hurt, against the compiled policy in a waPC host: nothing traps, and nothing takes so
//! long that PolicyServer would end it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pps_corpus::hostile;
use pps_e2e::kubewarden::stand_in::{HostCalls, PolicyModule};
use pps_e2e::repository::policy_path;

/// After which time PolicyServer ends a policy.
const LIMIT: Duration = Duration::from_secs(2);
/// How often something may be too slow: a busy machine slows anything down now and then, and nothing each time.
const ATTEMPTS: u32 = 3;

#[test]
fn nothing_that_is_meant_to_hurt_does() -> Result<()> {
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
            // The harness ends a call a little before PolicyServer would.
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

//! What is meant to hurt, against the compiled policy in a waPC host: nothing traps, and nothing takes so
//! long that PolicyServer would end it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pps_corpus::hostile;
use pps_e2e::cluster::policy_path;
use pps_e2e::wasm_host::{HostCalls, PolicyModule};

/// After which time PolicyServer ends a policy.
const LIMIT: Duration = Duration::from_secs(2);

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
        let started = Instant::now();
        match module.call("validate", &payload, host) {
            Ok(answer) => wrong.extend(hostile.check(&answer).err()),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
        let took = started.elapsed();
        if took > LIMIT / 20 {
            println!("{name}: {took:?}");
        }
        if took > LIMIT {
            wrong.push(format!("{name}: {took:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

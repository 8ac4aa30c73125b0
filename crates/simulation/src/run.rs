//! Replays a scenario.

use crate::result::RunResult;
use crate::scenario::Scenario;

/// Replays a scenario.
pub fn run(scenario: &Scenario) -> RunResult {
    let _ = scenario;
    RunResult::default()
}

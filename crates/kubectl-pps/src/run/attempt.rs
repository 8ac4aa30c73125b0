//! `try`: what the policy would inject into Pods from files.

use crate::args::Try;
use crate::print::Terminal;
use crate::{Failure, Outcome};

#[allow(clippy::unused_async, reason = "it will read")]
pub(super) async fn run(_args: &Try, _terminal: &Terminal) -> Result<Outcome, Failure> {
    Err(Failure::Usage("this command is not there yet".into()))
}

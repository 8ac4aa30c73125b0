//! `pin`: has Pods recorded and brought back.

use crate::args::{Connection, Pin};
use crate::print::Terminal;
use crate::{Failure, Outcome};

#[allow(clippy::unused_async, reason = "it will read")]
pub(super) async fn run(
    _args: &Pin,
    _connection: &Connection,
    _terminal: &Terminal,
) -> Result<Outcome, Failure> {
    Err(Failure::Usage("this command is not there yet".into()))
}

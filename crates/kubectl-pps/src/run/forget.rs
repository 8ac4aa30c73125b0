//! `forget`: drops recorded states.

use crate::args::{Connection, Forget};
use crate::print::Terminal;
use crate::{Failure, Outcome};

#[allow(clippy::unused_async, reason = "it will read")]
pub(super) async fn run(
    _args: &Forget,
    _connection: &Connection,
    _terminal: &Terminal,
) -> Result<Outcome, Failure> {
    Err(Failure::Usage("this command is not there yet".into()))
}

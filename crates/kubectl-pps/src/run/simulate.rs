//! `simulate`: where Pods would go.

use crate::args::{Connection, Simulate};
use crate::print::Terminal;
use crate::{Failure, Outcome};

#[allow(clippy::unused_async, reason = "it will read")]
pub(super) async fn run(
    _args: &Simulate,
    _connection: &Connection,
    _terminal: &Terminal,
) -> Result<Outcome, Failure> {
    Err(Failure::Usage("this command is not there yet".into()))
}

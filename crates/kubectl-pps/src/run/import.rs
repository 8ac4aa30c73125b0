//! `import`: recorded states from a file.

use crate::args::{Connection, Import};
use crate::print::Terminal;
use crate::{Failure, Outcome};

#[allow(clippy::unused_async, reason = "it will read")]
pub(super) async fn run(
    _args: &Import,
    _connection: &Connection,
    _terminal: &Terminal,
) -> Result<Outcome, Failure> {
    Err(Failure::Usage("this command is not there yet".into()))
}

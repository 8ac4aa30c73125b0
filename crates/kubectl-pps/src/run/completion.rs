//! `completion`: a script for a shell, and what kubectl asks.

use crate::args::{Complete, Completion, candidates, script};
use crate::print::Terminal;
use crate::{Failure, Outcome};

pub(super) fn run(args: &Completion, terminal: &Terminal) -> Result<Outcome, Failure> {
    terminal.print(&script(args.shell))?;
    Ok(Outcome::Well)
}

pub(super) fn complete(args: &Complete, terminal: &Terminal) -> Result<Outcome, Failure> {
    terminal.print(&candidates(&args.words))?;
    Ok(Outcome::Well)
}

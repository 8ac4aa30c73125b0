//! `try`: what the policy does with the objects of files.

mod show;

use std::path::Path;

use self::show::show;
use super::file;
use crate::args::{Connection, Try};
use crate::decide::attempt::{Source, attempt};
use crate::print::{Terminal, for_programs};
use crate::{Failure, Outcome};

/// The namespace of objects that name none.
const NAMESPACE: &str = "default";

pub(super) fn run(args: &Try, connection: &Connection, terminal: &Terminal) -> Result<Outcome, Failure> {
    let inputs = args.files.iter().chain(&args.settings).filter(|path| path.as_os_str() == "-").count();
    if inputs > 1 {
        return Err(Failure::Usage("standard input can be read only once: give one -".into()));
    }
    let sources = args.files.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    let settings = args.settings.as_ref().map(source).transpose()?;
    let namespace = connection.namespace.as_deref().unwrap_or(NAMESPACE);
    let answers = attempt(&sources, settings.as_ref(), namespace);
    let text = match for_programs(args.output.output, "Trial", &answers) {
        Some(text) => text,
        None => show(&answers, &terminal.style()),
    };
    terminal.print(&text)?;
    Ok(if answers.is_unreadable {
        Outcome::Incomplete
    } else if answers.is_refused() {
        Outcome::NotWell
    } else {
        Outcome::Well
    })
}

fn source(path: impl AsRef<Path>) -> Result<Source, Failure> {
    let path = path.as_ref();
    Ok(Source { name: file::name(path), text: file::read(path)? })
}

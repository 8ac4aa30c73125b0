//! What the user sees: tables, colours, and text that a terminal can show.

mod difference;
pub mod explanation;
pub mod forecast;
pub mod plan;
pub mod screen;
mod size;
pub mod status;
mod style;
mod table;
mod terminal;
mod text;

use serde::Serialize;

pub use pps_check::report::{printable, wrap};

pub use self::style::{Role, Style};
pub use self::table::Table;
pub use self::terminal::Terminal;
use crate::args::Output;

/// An answer for programs. `None` for people: the caller prints a table.
pub fn for_programs(output: Output, answer: &impl Serialize) -> Option<String> {
    match output {
        Output::Table | Output::Wide => None,
        Output::Json => Some(serde_json::to_string_pretty(answer).unwrap_or_default() + "\n"),
        Output::Yaml => Some(yaml_serde::to_string(answer).unwrap_or_default()),
    }
}

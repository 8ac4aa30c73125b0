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
        Output::Json => Some(escaped(&serde_json::to_string_pretty(answer).unwrap_or_default()) + "\n"),
        Output::Yaml => Some(yaml_serde::to_string(answer).unwrap_or_default()),
    }
}

/// JSON whose texts have nothing that a terminal obeys: such characters are only in strings, where they can be escaped.
fn escaped(json: &str) -> String {
    let escape = |c: char| match c {
        '\n' => c.to_string(),
        c if c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}') =>
        {
            format!("\\u{:04x}", u32::from(c))
        }
        c => c.to_string(),
    };
    json.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same_without_characters_that_a_terminal_obeys() {
        let text = "n\u{1b}[31m\u{202e}\u{9b}31m\u{e4}";
        let json = for_programs(Output::Json, &text).unwrap();
        assert!(!json.trim_end().chars().any(|c| c.is_control() || c == '\u{202e}'), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}

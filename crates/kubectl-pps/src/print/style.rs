//! Colours and width.

use anstyle::{AnsiColor, Effects, Style as Ansi};

/// What a text means, and so how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As it should be.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
    /// What counts most.
    Strong,
    /// Of little interest.
    Dim,
    /// A line that is added.
    Added,
    /// A line that is removed.
    Removed,
}

impl Role {
    /// The style in ANSI.
    pub fn ansi(self) -> Ansi {
        let colour = |colour: AnsiColor| Ansi::new().fg_color(Some(colour.into()));
        match self {
            Self::Good | Self::Added => colour(AnsiColor::Green),
            Self::Warning => colour(AnsiColor::Yellow),
            Self::Bad | Self::Removed => colour(AnsiColor::Red),
            Self::Strong => Ansi::new().effects(Effects::BOLD),
            Self::Dim => Ansi::new().effects(Effects::DIMMED),
        }
    }
}

/// How a text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are used.
    pub has_color: bool,
    /// Columns; none if lines may have any length.
    pub width: Option<usize>,
}

impl Style {
    /// No colours, and lines of any length.
    pub const PLAIN: Self = Self { has_color: false, width: None };

    /// A text in the colour of its role.
    pub fn paint(&self, role: Role, text: &str) -> String {
        if self.has_color && !text.is_empty() {
            let ansi = role.ansi();
            format!("{ansi}{text}{ansi:#}")
        } else {
            text.to_owned()
        }
    }

    /// An error message.
    pub fn error(&self, text: &str) -> String {
        let text = text.lines().map(super::printable).collect::<Vec<_>>().join("\n");
        format!("{} {text}", self.paint(Role::Bad, "error:"))
    }

    /// A note: something that the user should know beside the answer.
    pub fn note(&self, text: &str) -> String {
        format!("{} {}", self.paint(Role::Warning, "note:"), super::printable(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_used_only_where_they_are_wanted_and_end_where_the_text_does() {
        let coloured = Style { has_color: true, width: None };
        assert_eq!(coloured.paint(Role::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(coloured.paint(Role::Bad, ""), "");
        assert_eq!(Style::PLAIN.paint(Role::Bad, "no"), "no");
    }

    #[test]
    fn an_error_has_no_control_characters() {
        assert_eq!(Style::PLAIN.error("a\u{1b}[2J\nb"), "error: a\u{fffd}[2J\nb");
    }
}

//! The difference between two texts, line by line.

use serde::Serialize;
use similar::ChangeTag;
use similar::algorithms::{Capture, Replace, myers};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line<'a> {
    /// `+` if only the second text has it, `-` if only the first has it, a space if both have it.
    pub op: char,
    pub text: &'a str,
}

/// The difference of longer texts is not shown: the algorithm takes quadratic time.
const MAX_LINES: usize = 1_500;

/// The lines of both texts.
pub fn difference<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    if old.len().max(new.len()) > MAX_LINES {
        return vec![Line {
            op: ' ',
            text: "The difference is too long to show.",
        }];
    }
    let old = old.as_slice();
    let new = new.as_slice();
    let mut steps = Replace::new(Capture::new());
    // Capturing cannot fail. The other algorithms would make the playground larger.
    let Ok(()) = myers::diff_deadline_raw(&mut steps, old, 0..old.len(), new, 0..new.len(), None);
    steps
        .into_inner()
        .into_ops()
        .into_iter()
        .flat_map(|step| step.iter_changes(old, new))
        .map(|change| Line {
            op: match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            },
            text: change.value(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let lines = difference(before, after);
        lines
            .iter()
            .flat_map(|line| [line.op.to_string(), line.text.to_owned(), "\n".to_owned()])
            .collect()
    }

    #[test]
    fn inserted_lines_are_marked_and_all_others_are_kept() {
        assert_eq!(
            shown("a\nb\nc\n", "a\nx\nb\ny\nc\n"),
            " a\n+x\n b\n+y\n c\n"
        );
        assert_eq!(shown("a\nb\nc", "a\nc"), " a\n-b\n c\n");
        assert_eq!(shown("a: 1\n", "a: 2\n"), "-a: 1\n+a: 2\n");
        assert_eq!(shown("", "a\n"), "+a\n");
        assert_eq!(shown("a\n", "a\n"), " a\n");
        assert_eq!(
            difference("a\n", &"b\n".repeat(MAX_LINES)).len(),
            MAX_LINES + 1
        );
        assert_eq!(
            shown("a\n", &"b\n".repeat(MAX_LINES + 1)),
            " The difference is too long to show.\n"
        );
    }

    proptest! {
        #[test]
        fn a_difference_holds_both_texts(before in "[abc\n]{0,30}", after in "[abc\n]{0,30}") {
            let lines = difference(&before, &after);
            let without = |op: char| lines.iter().filter(|line| line.op != op).map(|line| line.text).collect::<Vec<_>>();
            prop_assert_eq!(without('+'), before.lines().collect::<Vec<_>>());
            prop_assert_eq!(without('-'), after.lines().collect::<Vec<_>>());
        }
    }
}

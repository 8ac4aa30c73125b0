//! The difference between two texts, line by line.

use serde::Serialize;

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line<'a> {
    /// `+` if only the second text has it, `-` if only the first has it, a space if both have it.
    pub op: char,
    /// The line, without its end.
    pub text: &'a str,
}

/// More lines than this are compared only at their beginning and end: the table below grows with their square.
const MAX_COMPARED: usize = 1500;

/// The shortest difference. A Pod has some hundred lines, so the table of a longest common subsequence is small.
pub fn difference<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let lines = |op, lines: &[&'a str]| lines.iter().map(|text| Line { op, text }).collect::<Vec<_>>();
    let mut all = lines(' ', &old[..start]);
    if old_middle.len().max(new_middle.len()) > MAX_COMPARED {
        all.extend(lines('-', old_middle));
        all.extend(lines('+', new_middle));
    } else {
        all.extend(changed(old_middle, new_middle));
    }
    all.extend(lines(' ', &old[old.len() - end..]));
    all
}

fn changed<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    // common[i][j]: how many lines old[i..] and new[j..] have in common, in this order.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line { op: ' ', text: old[i] });
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(Line { op: '-', text: old[i] });
            i += 1;
        } else {
            lines.push(Line { op: '+', text: new[j] });
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let lines = difference(before, after);
        lines.iter().flat_map(|line| [line.op.to_string(), line.text.to_owned(), "\n".to_owned()]).collect()
    }

    #[test]
    fn inserted_lines_are_marked_and_all_others_are_kept() {
        assert_eq!(shown("a\nb\nc\n", "a\nx\nb\ny\nc\n"), " a\n+x\n b\n+y\n c\n");
        assert_eq!(shown("a\nb\nc", "a\nc"), " a\n-b\n c\n");
        assert_eq!(shown("a: 1\n", "a: 2\n"), "-a: 1\n+a: 2\n");
        assert_eq!(shown("", "a\n"), "+a\n");
        assert_eq!(shown("a\n", "a\n"), " a\n");
    }

    #[test]
    fn very_long_texts_are_compared_at_both_ends_only() {
        let text =
            |number: usize| (0..3000).map(|line| (line * number).to_string()).collect::<Vec<_>>().join("\n");
        let lines = difference("first\n", "first\n").len();
        assert_eq!(lines, 1);
        let (before, after) = (text(2), text(3));
        assert_eq!(difference(&before, &after).len(), 1 + 2 * 2999);
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

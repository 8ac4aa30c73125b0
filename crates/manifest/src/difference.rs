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

/// Lines of a difference that belong together: changes, with some unchanged lines around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// The number of its first line in the first text, from 1, and how many of its lines that text has.
    pub old: (usize, usize),
    /// The same in the second text.
    pub new: (usize, usize),
    /// Its lines.
    pub lines: Vec<Line<'a>>,
}

/// The parts of a difference that have changes, each with up to `context` unchanged lines before and after it.
pub fn hunks<'a>(lines: &[Line<'a>], context: usize) -> Vec<Hunk<'a>> {
    let is_shown = {
        let changes: Vec<usize> =
            lines.iter().enumerate().filter(|(_, line)| line.op != ' ').map(|(index, _)| index).collect();
        move |index: usize| {
            let next = changes.partition_point(|change| change.saturating_add(context) < index);
            changes.get(next).is_some_and(|change| *change <= index.saturating_add(context))
        }
    };
    let (mut old, mut new) = (1, 1);
    let mut found: Vec<Hunk<'a>> = Vec::new();
    let mut is_open = false;
    for (index, line) in lines.iter().enumerate() {
        let (in_old, in_new) = (usize::from(line.op != '+'), usize::from(line.op != '-'));
        if is_shown(index) {
            if !is_open {
                found.push(Hunk { old: (old, 0), new: (new, 0), lines: Vec::new() });
            }
            if let Some(hunk) = found.last_mut() {
                hunk.old.1 += in_old;
                hunk.new.1 += in_new;
                hunk.lines.push(line.clone());
            }
        }
        is_open = is_shown(index);
        (old, new) = (old + in_old, new + in_new);
    }
    // As in every unified difference, an empty range is named by the line before it.
    for hunk in &mut found {
        for range in [&mut hunk.old, &mut hunk.new] {
            if range.1 == 0 {
                range.0 = range.0.saturating_sub(1);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

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

    fn shown_hunks(before: &str, after: &str, context: usize) -> String {
        let lines = difference(before, after);
        let hunks = hunks(&lines, context);
        let mut shown = String::new();
        for Hunk { old, new, lines } in hunks {
            let _ = writeln!(shown, "@@ -{},{} +{},{} @@", old.0, old.1, new.0, new.1);
            for line in lines {
                let _ = writeln!(shown, "{}{}", line.op, line.text);
            }
        }
        shown
    }

    /// The expected texts are those of `diff -U`.
    #[test]
    fn hunks_show_changes_with_their_surroundings() {
        let (before, after) = ("a\nb\nc\nd\ne\nf\ng\n", "a\nX\nb\nc\nd\ne\nf\n");
        assert_eq!(shown_hunks(before, after, 1), "@@ -1,2 +1,3 @@\n a\n+X\n b\n@@ -6,2 +7,1 @@\n f\n-g\n");
        assert_eq!(shown_hunks(before, after, 3), "@@ -1,7 +1,7 @@\n a\n+X\n b\n c\n d\n e\n f\n-g\n");
        assert_eq!(shown_hunks(before, after, 0), "@@ -1,0 +2,1 @@\n+X\n@@ -7,1 +7,0 @@\n-g\n");
        assert_eq!(shown_hunks("", "a\n", 3), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(shown_hunks("a\n", "a\n", 3), "");
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

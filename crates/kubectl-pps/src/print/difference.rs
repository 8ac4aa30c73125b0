//! Differences of objects, as `diff -u` shows them.

use pps_manifest::{difference, hunks, to_yaml};
use serde_json::Value;

use super::{Role, Style, printable};

/// Unchanged lines around each change.
const CONTEXT: usize = 3;

impl Style {
    /// The difference of two objects as YAML. Null is an object that does not exist. Empty if they are the same.
    pub fn difference(&self, before: &Value, after: &Value, titles: [&str; 2]) -> String {
        let text = |object: &Value| if object.is_null() { String::new() } else { to_yaml(object) };
        let (before, after) = (text(before), text(after));
        let lines = difference(&before, &after);
        let hunks = hunks(&lines, CONTEXT);
        let mut shown = String::new();
        let mut push = |role: Option<Role>, text: &str| {
            // Spaces count in YAML, and the filter would join them.
            let text = text.split(' ').map(printable).collect::<Vec<_>>().join(" ");
            shown.push_str(&role.map_or_else(|| text.clone(), |role| self.paint(role, &text)));
            shown.push('\n');
        };
        if !hunks.is_empty() {
            push(Some(Role::Strong), &format!("--- {}", titles[0]));
            push(Some(Role::Strong), &format!("+++ {}", titles[1]));
        }
        for hunk in hunks {
            let ((old, old_count), (new, new_count)) = (hunk.old, hunk.new);
            push(Some(Role::Dim), &format!("@@ -{old},{old_count} +{new},{new_count} @@"));
            for line in hunk.lines {
                let role = match line.op {
                    '+' => Some(Role::Added),
                    '-' => Some(Role::Removed),
                    _ => None,
                };
                push(role, &format!("{}{}", line.op, line.text));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changes_is_shown_in_its_colours() {
        let (before, after) = (json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 3}}));
        let plain = Style::PLAIN.difference(&before, &after, ["before", "after"]);
        assert_eq!(plain, "--- before\n+++ after\n@@ -1,3 +1,3 @@\n a: 1\n b:\n-  c: 2\n+  c: 3\n");
        assert_eq!(Style::PLAIN.difference(&after, &after, ["", ""]), "");
        let created = Style::PLAIN.difference(&Value::Null, &json!({"a": 1}), ["", "new"]);
        assert_eq!(created, "--- \n+++ new\n@@ -0,0 +1,1 @@\n+a: 1\n");
        let coloured = Style { has_color: true, width: None }.difference(&before, &after, ["", ""]);
        assert!(coloured.contains("\u{1b}[31m-  c: 2\u{1b}[0m"), "{coloured:?}");
    }

    #[test]
    fn nothing_of_an_object_reaches_the_terminal_as_a_command() {
        let hostile = json!({"a": "\u{1b}]0;x\u{7}", "b\u{202e}": "\u{9b}2J"});
        let shown = Style::PLAIN.difference(&Value::Null, &hostile, ["x\u{1b}[2J", ""]);
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
    }
}

//! What a command is about to do, in the width of the terminal.

use super::text::Text;
use super::{Role, Style, printable};

/// A heading, and what is done, each with a title.
pub fn titled(style: Style, heading: &str, lines: &[(&str, String)]) -> String {
    let mut text = Text::new(style);
    text.push(&(style.paint(Role::Strong, &printable(heading)) + "\n"));
    for (title, sentence) in lines {
        text.sentence(&format!("  {title:<10}"), None, sentence);
    }
    text.into_lines()
}

/// A heading, a table, and what is done with its rows.
pub fn tabled(style: Style, heading: &str, table: &str, steps: &[String]) -> String {
    let mut text = Text::new(style);
    text.push(&(style.paint(Role::Strong, &printable(heading)) + "\n"));
    text.push(table);
    for step in steps {
        text.sentence("- ", None, step);
    }
    text.into_lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let style = Style { has_color: false, width: Some(60) };
        let becomes = "ip=10.0.0.7, without a node (PersistentPodState db); its node is recorded again once it is Ready";
        assert_eq!(
            titled(style, "Move Pod db-0", &[("from", "node-1".into()), ("becomes", becomes.into())]),
            "Move Pod db-0\n  from      node-1\n  becomes   ip=10.0.0.7, without a node (PersistentPodState\n            \
             db); its node is recorded again once it is Ready\n"
        );
        let steps = ["the recorded nodes and their labels are dropped until the Pods are Ready".to_owned()];
        assert_eq!(
            tabled(style, "Move 2 Pods", "POD\ndb-0\n", &steps),
            "Move 2 Pods\nPOD\ndb-0\n- the recorded nodes and their labels are dropped until the\n  Pods are Ready\n"
        );
    }
}

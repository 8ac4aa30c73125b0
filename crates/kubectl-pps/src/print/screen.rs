//! A text that is drawn again in place.

use super::Style;

/// What was drawn last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    lines: usize,
    size: Option<(usize, usize)>,
}

impl Screen {
    /// Whether the terminal has another size than that for which was drawn.
    pub fn is_of_another_size(&self, size: Option<(usize, usize)>) -> bool {
        self.size != size
    }

    /// What to write so that this text stands where the last one stood. Lines that do not fit are left out at the end of
    /// the first paragraph: what follows an empty line is always shown.
    pub fn draw(&mut self, text: &str, size: Option<(usize, usize)>) -> String {
        let (columns, rows) = size.unwrap_or((80, 24));
        let mut frame = if self.size.is_some() && self.size != size {
            // The terminal has wrapped what was drawn.
            "\u{1b}[2J\u{1b}[H".to_owned()
        } else if self.lines > 0 {
            format!("\u{1b}[{}A\r", self.lines)
        } else {
            String::new()
        };
        let height = |line: &str| visible(line).div_ceil(columns.max(1)).max(1);
        let (table, rest) = text.split_once("\n\n").unwrap_or((text.trim_end_matches('\n'), ""));
        let rest: Vec<&str> = rest.lines().collect();
        let reserved: usize = rest.iter().map(|line| height(line)).sum::<usize>() + 2;
        let room = rows.saturating_sub(reserved + 1).max(3);
        let mut used = 0;
        let mut lines: Vec<String> = Vec::new();
        let all: Vec<&str> = table.lines().collect();
        for (drawn, line) in all.iter().enumerate() {
            if used + height(line) > room {
                lines.push(format!("… {} lines more", all.len() - drawn));
                used += 1;
                break;
            }
            used += height(line);
            lines.push((*line).to_owned());
        }
        for line in &rest {
            used += height(line);
            lines.push((*line).to_owned());
        }
        for line in lines {
            frame.push_str(&line);
            frame.push_str("\u{1b}[K\n");
        }
        frame.push_str("\u{1b}[J");
        self.lines = used;
        self.size = size;
        frame
    }
}

/// How many columns a line takes.
fn visible(line: &str) -> usize {
    let mut count = 0;
    let mut is_escape = false;
    for c in line.chars() {
        match c {
            '\u{1b}' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ if is_escape => {}
            _ => count += 1,
        }
    }
    count
}

/// The style for a terminal of this size.
pub fn style_for(style: Style, size: Option<(usize, usize)>) -> Style {
    Style { width: size.map(|(columns, _)| columns.max(super::terminal::MIN_WIDTH)).or(style.width), ..style }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_where_the_last_one_stood() {
        let mut screen = Screen::default();
        let size = Some((80, 24));
        assert_eq!(screen.draw("a\nb\n", size), "a\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
        assert_eq!(screen.draw("c\n", size), "\u{1b}[2A\rc\u{1b}[K\n\u{1b}[J");
        assert!(
            screen.draw("c\n", Some((60, 24))).starts_with("\u{1b}[2J\u{1b}[H"),
            "after a change of the size"
        );
    }

    #[test]
    fn a_table_that_is_too_long_leaves_room_for_what_follows_it() {
        let mut screen = Screen::default();
        let text = "x\n".repeat(100) + "\nlast\n";
        let frame = screen.draw(&text, Some((80, 20)));
        assert!(frame.matches('\n').count() < 20, "{frame}");
        assert!(frame.contains("lines more") && frame.contains("last"), "{frame}");
        assert_eq!(visible("\u{1b}[31mno\u{1b}[0m"), 2);
    }
}

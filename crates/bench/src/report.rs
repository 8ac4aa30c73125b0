//! Markdown tables, and their place in a file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

/// Formats a table. The first column is text, the others are numbers.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // A colon under the header right-aligns a column in Markdown.
    let lines = table.to_string();
    let aligned = lines.lines().enumerate().map(|(number, line)| match number {
        1 => right_align(line),
        _ => line.to_owned(),
    });
    aligned.collect::<Vec<_>>().join("\n")
}

fn right_align(line: &str) -> String {
    let mut columns: Vec<String> = line.split('|').map(str::to_owned).collect();
    let last = columns.len() - 1;
    for column in columns.iter_mut().take(last).skip(2) {
        column.pop();
        column.push(':');
    }
    columns.join("|")
}

pub(crate) fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn ratio(ratio: f64) -> String {
    format!("{ratio:.2} ×")
}

/// A whole number with thousands separators.
pub(crate) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// Replaces what a file has between the comments `begin NAME` and `end NAME`.
pub(crate) fn write(file: &Path, name: &str, text: &str) -> Result<()> {
    let old = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {word} {name} -->"));
    let place = old.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = place
        .with_context(|| format!("{} has no place for {name}: add {begin} and {end}", file.display()))?;
    fs::write(file, format!("{before}{begin}\n{text}\n{end}{after}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_columns_are_right_aligned() {
        let text = table(&["what", "time"], [vec!["parse".to_owned(), "1.0 µs".to_owned()]]);
        assert_eq!(text, "| what  |   time |\n|-------|-------:|\n| parse | 1.0 µs |");
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!([count(7_u64), count(1000_u64), count(1_234_567_u64)], ["7", "1,000", "1,234,567"]);
    }
}

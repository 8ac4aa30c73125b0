//! Figures, Markdown tables, and their place in a file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use k8s_openapi::jiff::Timestamp;

use crate::meter::median;
use crate::recorder::Product;

/// Neither product is ahead if they differ by less than this factor.
const MARGIN: f64 = 1.1;

/// The day of a measurement.
pub(crate) fn today() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// The table, and below it the day.
pub(crate) fn dated(table: &str) -> String {
    format!("{table}\n\n*{}*", today())
}

/// How a figure is printed. Less is better for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    Seconds,
    Milliseconds,
    Bytes,
    Ratio,
}

impl Unit {
    fn format(self, value: f64) -> String {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "figures are small and positive"
        )]
        let whole = value.round() as u64;
        match self {
            Self::Count => count(whole),
            Self::Seconds => format!("{value:.2} s"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::Bytes if whole < 1 << 20 => format!("{:.1} KiB", value / 1024.0),
            Self::Bytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Self::Ratio => format!("{value:.2} ×"),
        }
    }
}

/// The figures of all turns, by row and column. Both are in the order in which they were first
/// added.
#[derive(Default)]
pub(crate) struct Figures {
    columns: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    unit: Unit,
    /// The figures of each column.
    values: Vec<Vec<f64>>,
}

impl Row {
    fn median(&self, column: usize) -> Option<f64> {
        self.values
            .get(column)
            .filter(|values| !values.is_empty())
            .map(|values| median(values))
    }
}

impl Figures {
    pub(crate) fn add(&mut self, column: &str, row: &str, unit: Unit, value: f64) {
        let column = position(
            &mut self.columns,
            |known| known == column,
            || column.to_owned(),
        );
        let row = position(
            &mut self.rows,
            |known| known.name == row,
            || Row {
                name: row.to_owned(),
                unit,
                values: Vec::new(),
            },
        );
        let values = &mut self.rows[row].values;
        values.resize_with(values.len().max(column + 1), Vec::new);
        values[column].push(value);
    }

    /// Adds a column of other figures under another name.
    pub(crate) fn add_column(&mut self, column: &str, others: &Self, theirs: &str) {
        let Some(theirs) = others.columns.iter().position(|known| known == theirs) else {
            return;
        };
        for row in &others.rows {
            for &value in row.values.get(theirs).into_iter().flatten() {
                self.add(column, &row.name, row.unit, value);
            }
        }
    }

    /// A table of medians. Beside other products it also says who is ahead; one without a figure
    /// could not do it.
    pub(crate) fn table(&self, first: &str) -> String {
        let ours = self
            .columns
            .iter()
            .position(|column| column == Product::Ours.title())
            .filter(|_| self.columns.len() > 1);
        let rows = self.rows.iter().map(|row| {
            let medians: Vec<_> = (0..self.columns.len())
                .map(|column| row.median(column))
                .collect();
            let mut cells = vec![row.name.clone()];
            cells.extend(medians.iter().map(|median| match median {
                Some(value) => row.unit.format(*value),
                None => "not possible".to_owned(),
            }));
            if let Some(ours) = ours {
                let theirs = medians
                    .iter()
                    .enumerate()
                    .filter(|(column, _)| *column != ours)
                    .filter_map(|(_, value)| *value)
                    .min_by(f64::total_cmp);
                cells.extend(judge(theirs, medians[ours]));
            }
            cells
        });
        let mut header = vec![first];
        header.extend(self.columns.iter().map(String::as_str));
        header.extend(
            ours.into_iter()
                .flat_map(|_| ["their better ÷ here", "ahead"]),
        );
        table(&header, rows)
    }
}

/// The place of an item, which is added if it is not there.
fn position<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    items.iter().position(is_it).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}

fn judge(theirs: Option<f64>, ours: Option<f64>) -> [String; 2] {
    let ratio = theirs
        .zip(ours)
        .filter(|(_, ours)| *ours > 0.0)
        .map(|(theirs, ours)| theirs / ours);
    let ahead = match (ratio, theirs, ours) {
        (Some(ratio), ..) if ratio > MARGIN => "here",
        (Some(ratio), ..) if ratio < 1.0 / MARGIN => "OpenKruise",
        (Some(_), ..) | (None, None, None) | (None, Some(0.0), Some(_)) => "even",
        (None, _, Some(_)) => "here",
        (None, Some(_), None) => "OpenKruise",
    };
    [
        ratio.map_or("–".to_owned(), |ratio| Unit::Ratio.format(ratio)),
        ahead.to_owned(),
    ]
}

/// Formats a table. The first column is text, the others are numbers.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_header(header)
        .add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // A colon under the header right-aligns a column in Markdown.
    let mut lines: Vec<String> = table.to_string().lines().map(str::to_owned).collect();
    if let Some(rule) = lines.get_mut(1)
        && let Some((first, others)) = rule[1..].split_once('|')
    {
        *rule = format!("|{first}|{}", others.replace("-|", ":|"));
    }
    lines.join("\n")
}

pub(crate) fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

pub(crate) fn ratio(ratio: f64) -> String {
    Unit::Ratio.format(ratio)
}

/// A whole number with thousands separators.
pub(crate) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Replaces what a file has between the comments `begin NAME` and `end NAME`.
pub(crate) fn write(file: &Path, name: &str, text: &str) -> Result<()> {
    let old =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let begin = format!("<!-- begin {name} -->");
    let end = format!("<!-- end {name} -->");
    let place = old
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = place.with_context(|| {
        format!(
            "{} has no place for {name}: add {begin} and {end}",
            file.display()
        )
    })?;
    fs::write(file, format!("{before}{begin}\n{text}\n{end}{after}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_figure_is_ahead_unless_both_are_close() {
        let ahead = |theirs, ours| judge(theirs, ours)[1].clone();
        assert_eq!(ahead(Some(2.0), Some(1.0)), "here");
        assert_eq!(ahead(Some(1.0), Some(2.0)), "OpenKruise");
        assert_eq!(ahead(Some(1.05), Some(1.0)), "even");
        assert_eq!(ahead(None, Some(1.0)), "here");
        assert_eq!(ahead(Some(1.0), None), "OpenKruise");
    }

    #[test]
    fn a_row_has_the_medians_of_all_turns_and_the_ratio_to_their_better_one() {
        let mut figures = Figures::default();
        let turns = [(0, 30.0), (1, 8.0), (2, 4.0), (0, 40.0)];
        for (product, value) in turns {
            figures.add(
                Product::ALL[product].title(),
                "all recorded after",
                Unit::Seconds,
                value,
            );
        }
        let text = figures.table("start");
        let row: Vec<&str> = text
            .lines()
            .nth(2)
            .unwrap()
            .split('|')
            .map(str::trim)
            .collect();
        assert_eq!(
            row[1..7],
            [
                "all recorded after",
                "35.00 s",
                "8.00 s",
                "4.00 s",
                "2.00 ×",
                "here"
            ]
        );
    }
}

//! Figures of all turns, and the table that says who is ahead.

use std::collections::BTreeMap;

use crate::report::{count, table};
use crate::sidecar::mebibytes;

use super::recorder::Product;

/// Neither is ahead if they differ by less than this factor.
const MARGIN: f64 = 1.1;

/// How a figure is printed. Less is better for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Seconds,
    Milliseconds,
    Bytes,
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
            Self::Bytes => mebibytes(whole),
        }
    }
}

/// The rows of a table, in the order in which they were first added, with the figures of all turns.
#[derive(Default)]
pub(super) struct Comparison {
    rows: Vec<(String, Unit, BTreeMap<Product, Vec<f64>>)>,
}

impl Comparison {
    pub(super) fn add(&mut self, name: &str, unit: Unit, product: Product, value: f64) {
        let index = self.rows.iter().position(|(known, ..)| known == name).unwrap_or_else(|| {
            self.rows.push((name.to_owned(), unit, BTreeMap::new()));
            self.rows.len() - 1
        });
        self.rows[index].2.entry(product).or_default().push(value);
    }

    /// Medians, the ratio of OpenKruise's better figure to ours, and who is ahead. A product without a figure could not do
    /// it.
    pub(super) fn table(&self, first: &str, products: &[Product]) -> String {
        let rows = self.rows.iter().map(|(name, unit, figures)| {
            let value = |product: &Product| figures.get(product).map(|values| median(values));
            let cells = products.iter().map(|product| {
                value(product).map_or_else(|| "not possible".to_owned(), |value| unit.format(value))
            });
            let theirs = products.iter().filter(|product| !product.is_ours()).filter_map(value);
            let theirs = theirs.min_by(f64::total_cmp);
            let (ratio, ahead) = judge(theirs, value(&Product::Ours));
            [name.clone()].into_iter().chain(cells).chain([ratio, ahead.to_owned()]).collect()
        });
        let ratio = if products.len() > 2 { "their better ÷ here" } else { "OpenKruise ÷ here" };
        let mut header = vec![first];
        header.extend(products.iter().map(|product| product.title()));
        header.extend([ratio, "ahead"]);
        table(&header, rows)
    }
}

fn judge(theirs: Option<f64>, ours: Option<f64>) -> (String, &'static str) {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) if ours > 0.0 => {
            let ratio = theirs / ours;
            let ahead = match ratio {
                ratio if ratio > MARGIN => "here",
                ratio if ratio < 1.0 / MARGIN => "OpenKruise",
                _ => "even",
            };
            (format!("{ratio:.2} ×"), ahead)
        }
        (Some(theirs), Some(_)) => ("–".to_owned(), if theirs > 0.0 { "here" } else { "even" }),
        (None, Some(_)) => ("–".to_owned(), "here"),
        (Some(_), None) => ("–".to_owned(), "OpenKruise"),
        (None, None) => ("–".to_owned(), "–"),
    }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_figure_is_ahead_unless_both_are_close() {
        let ahead = |theirs, ours| judge(Some(theirs), Some(ours)).1;
        assert_eq!([ahead(2.0, 1.0), ahead(1.0, 2.0), ahead(1.05, 1.0)], ["here", "OpenKruise", "even"]);
        assert_eq!(judge(None, Some(1.0)).1, "here");
        assert_eq!(judge(Some(1.0), None).1, "OpenKruise");
    }

    #[test]
    fn a_row_has_the_medians_of_all_turns_and_the_ratio_to_their_better_one() {
        let mut comparison = Comparison::default();
        for (product, value) in [
            (Product::OpenKruise, 30.0),
            (Product::OpenKruiseLifted, 8.0),
            (Product::Ours, 4.0),
            (Product::OpenKruise, 40.0),
        ] {
            comparison.add("all recorded after", Unit::Seconds, product, value);
        }
        let text = comparison.table("start", &Product::ALL);
        let row: Vec<&str> = text.lines().nth(2).unwrap().split('|').map(str::trim).collect();
        assert_eq!(row[1..7], ["all recorded after", "35.00 s", "8.00 s", "4.00 s", "2.00 ×", "here"]);
    }
}

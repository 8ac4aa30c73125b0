//! Metrics as text, and the metrics that `PromQL` expressions name.

use std::collections::BTreeMap;

/// One line of `/metrics`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// Reads the samples of a text in the format of Prometheus or `OpenMetrics`. Skips lines that it
/// cannot read.
pub fn parse(text: &str) -> Vec<Sample> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(sample)
        .collect()
}

/// The names of the counters that a text in the format of `OpenMetrics` declares, also of those
/// without samples.
pub fn counters(text: &str) -> Vec<String> {
    let name = |line: &str| {
        line.strip_prefix("# TYPE ")?
            .strip_suffix(" counter")
            .map(|name| format!("{name}_total"))
    };
    text.lines().filter_map(name).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_prefix('{').unwrap_or(rest);
    while let Some((label, value)) = rest.split_once("=\"").filter(|(label, _)| is_label(label)) {
        let end = quoted_end(value)?;
        labels.insert(label.to_owned(), value[..end].to_owned());
        rest = value[end + 1..].trim_start_matches(',');
    }
    let value = rest
        .trim_start_matches('}')
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// Where the quotation ends that has begun.
fn quoted_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// The metrics that a `PromQL` expression selects, each with the labels that it selects by.
pub fn selectors(expression: &str) -> Vec<(String, Vec<String>)> {
    const LABEL_LISTS: [&str; 6] = [
        "by",
        "group_left",
        "group_right",
        "ignoring",
        "on",
        "without",
    ];
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut rest = expression;
    while let Some(letter) = rest.chars().next() {
        if letter == '"' {
            rest = &rest[1..];
            rest = quoted_end(rest).map_or("", |end| &rest[end + 1..]);
        } else if letter == '[' {
            rest = rest.split_once(']').map_or("", |(_, rest)| rest);
        } else if is_word(letter) {
            let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after.trim_start();
            if LABEL_LISTS.contains(&word) && rest.starts_with('(') {
                rest = rest.split_once(')').map_or("", |(_, rest)| rest);
            } else if word.contains('_') && !rest.starts_with('(') {
                let (labels, after) = rest.strip_prefix('{').map_or((Vec::new(), rest), matchers);
                found.push((word.to_owned(), labels));
                rest = after;
            }
        } else {
            rest = &rest[letter.len_utf8()..];
        }
    }
    found
}

/// The labels of matchers, and what follows their brace.
fn matchers(text: &str) -> (Vec<String>, &str) {
    let (mut labels, mut rest) = (Vec::new(), text);
    while !rest.starts_with('}')
        && let Some((label, value)) = rest.split_once('"')
    {
        let is_part_of_name = |letter: char| !is_word(letter);
        labels.push(label.trim_matches(is_part_of_name).to_owned());
        rest = quoted_end(value)
            .map_or("", |end| &value[end + 1..])
            .trim_start();
    }
    (labels, rest.strip_prefix('}').unwrap_or_default())
}

//! Words for lists and numbers.

/// How many names a text lists.
const MAX_LISTED: usize = 4;

/// The first names of a list, and how many more there are.
pub(crate) fn list(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [rest @ .., last] if names.len() <= MAX_LISTED => format!("{} {conjunction} {last}", rest.join(", ")),
        _ => format!(
            "{} {conjunction} {} others",
            names[..MAX_LISTED - 1].join(", "),
            names.len() - MAX_LISTED + 1
        ),
    }
}

/// A number of Pods: `1 Pod`, `2 Pods`.
pub(crate) fn pods(count: u64) -> String {
    if count == 1 { "1 Pod".into() } else { format!("{count} Pods") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_ends_with_the_number_of_the_others() {
        assert_eq!(list(&["a"], "or"), "a");
        assert_eq!(list(&["a", "b", "c", "d"], "or"), "a, b, c or d");
        assert_eq!(list(&["a", "b", "c", "d", "e"], "or"), "a, b, c or 2 others");
    }
}

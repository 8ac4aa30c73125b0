//! Lists of names in sentences.

/// Up to so many names are all named.
const ALL: usize = 6;
/// How many are named if there are more.
const SOME: usize = 3;

/// `node-1`, `node-1 and node-2`, `node-1, node-2, node-3 and 7 others`.
pub fn list(names: &[String], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [rest @ .., last] if names.len() <= ALL => format!("{} {conjunction} {last}", rest.join(", ")),
        _ => format!("{} {conjunction} {} others", names[..SOME].join(", "), names.len() - SOME),
    }
}

/// `1 Pod`, `2 Pods`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_six_names_are_all_named_and_more_are_counted() {
        let names: Vec<String> = (0..9).map(|number| format!("n{number}")).collect();
        assert_eq!(list(&names[..0], "and"), "");
        assert_eq!(list(&names[..1], "and"), "n0");
        assert_eq!(list(&names[..2], "or"), "n0 or n1");
        assert_eq!(list(&names[..6], "and"), "n0, n1, n2, n3, n4 and n5");
        assert_eq!(list(&names, "and"), "n0, n1, n2 and 6 others");
    }
}

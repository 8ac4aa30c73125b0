//! Names that a user may have meant.

/// How many names are shown.
const SHOWN: usize = 3;
/// Longer texts are not compared: that would take time for nothing.
const MAX_LENGTH: usize = 80;

/// The names that are most like this one, the best first.
pub fn similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let allowed = name.chars().count() / 3 + 1;
    let near = |other: &'a str| {
        if name.len().max(other.len()) > MAX_LENGTH {
            return None;
        }
        let distance = strsim::levenshtein(name, other);
        let is_part = name.len() > 2 && (other.starts_with(name) || name.starts_with(other));
        // The name of a workload in place of one of its Pods, and the other way round.
        let is_number = |rest: &str| rest.strip_prefix('-').is_some_and(|rest| rest.parse::<u64>().is_ok());
        let is_pod = other.strip_prefix(name).or_else(|| name.strip_prefix(other)).is_some_and(is_number);
        (distance <= allowed || is_part || is_pod).then_some((distance, other))
    };
    let mut near: Vec<(usize, &str)> = names.into_iter().filter_map(near).collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(SHOWN).map(|(_, name)| name.to_owned()).collect()
}

/// The end of a sentence that says that there is no such name: `; similar names: db-0, db-1`.
pub fn hint<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = similar(name, names);
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_a_user_may_have_meant_and_nothing_else() {
        let pods = ["db-0", "db-1", "web-0", "coredns-x"];
        assert_eq!(similar("db0", pods), ["db-0", "db-1"]);
        assert_eq!(similar("dbb-1", pods), ["db-1", "db-0"]);
        assert_eq!(similar("coredns", pods), ["coredns-x"]);
        assert_eq!(similar("something-else-0", pods), [""; 0]);
        assert_eq!(similar("", pods), [""; 0]);
        assert_eq!(similar("z", ["z-0", "z-1", "x-yz", "z-a"]), ["z-0", "z-1"]);
        assert_eq!(similar("z-0", ["z", "w"]), ["z"]);
    }
}

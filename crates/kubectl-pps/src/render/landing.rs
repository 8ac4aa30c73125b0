//! Where a Pod could go, in the words of all commands.

use std::fmt;

use crate::decide::landing::Landing;
use crate::decide::names::list;

/// Up to so many nodes are all named.
const ALL: usize = 6;
/// How many are named if there are more.
const SOME: usize = 3;

impl Landing {
    /// `would probably start on node-2; node-0 and node-1 could take it too`: the words after "it", with this verb.
    pub fn would(&self, verb: &str) -> String {
        match self.only() {
            _ if self.is_nowhere() => format!("would not {verb} any node: none could take it"),
            Some(node) => format!("would {verb} {node}, the only node that could take it"),
            None => format!("would probably {verb} {}", self.best_and_rest()),
        }
    }

    fn best_and_rest(&self) -> String {
        let (favourites, others) = (self.favourites(), self.others());
        let best = match favourites.len() {
            count if count > ALL => {
                format!("one of {count} nodes, such as {}", list(&favourites[..SOME], "or"))
            }
            _ => list(favourites, "or"),
        };
        match others.len() {
            0 => best,
            count if count > ALL => format!("{best}; {count} other nodes could take it too"),
            _ => format!("{best}; {} could take it too", list(others, "and")),
        }
    }
}

/// After a word such as "start": `probably on node-2; node-0 and node-1 could take it too`.
impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.only() {
            _ if self.is_nowhere() => f.write_str("nowhere: no node could take it"),
            Some(node) => write!(f, "on {node}, the only node that could take it"),
            None => write!(f, "probably on {}", self.best_and_rest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_up_to_six_and_counted_beyond() {
        let names = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect::<Vec<_>>();
        let would =
            |best: &[&str], others: &[&str]| Landing::new(names(best), names(others)).would("start on");
        assert_eq!(would(&["a"], &["b", "c"]), "would probably start on a; b and c could take it too");
        assert_eq!(would(&["a", "b"], &[]), "would probably start on a or b");
        assert_eq!(would(&["a"], &["a"]), "would start on a, the only node that could take it");
        assert_eq!(Landing::default().would("start on"), "would not start on any node: none could take it");
        let many: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
        let tied = Landing::new(many.clone(), Vec::new()).to_string();
        assert_eq!(tied, "probably on one of 1000 nodes, such as n0, n1 or n2");
        let others = Landing::new(vec!["x".into()], many[..7].to_vec()).to_string();
        assert_eq!(others, "probably on x; 7 other nodes could take it too");
    }
}

//! Where a Pod could go, in the words of all commands.

use std::collections::BTreeSet;
use std::fmt;

use pps_simulation::scheduler::Selection;

use super::names::list;

/// Up to so many nodes are all named.
const ALL: usize = 6;
/// How many are named if there are more.
const SOME: usize = 3;

/// Where a Pod could go: the nodes that the scheduler prefers, and the others that could take it.
///
/// Shown, it follows a word such as "start": `probably on node-2; node-0 and node-1 could take it too`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landing {
    favourites: Vec<String>,
    others: Vec<String>,
}

impl Landing {
    /// The best nodes, which the scheduler may choose, and all others that could take the Pod.
    pub fn new(favourites: Vec<String>, mut others: Vec<String>) -> Self {
        let best: BTreeSet<&String> = favourites.iter().collect();
        others.retain(|node| !best.contains(node));
        Self { favourites, others }
    }

    /// What the simulation of the scheduler says.
    pub fn of(selection: &Selection) -> Self {
        if selection.chosen.is_none() {
            return Self::default();
        }
        let could = selection.verdicts.iter().filter(|verdict| verdict.exclusions.is_empty());
        Self::new(selection.may_land_on.clone(), could.map(|verdict| verdict.node.clone()).collect())
    }

    /// Whether no node could take it.
    pub fn is_nowhere(&self) -> bool {
        self.favourites.is_empty()
    }

    /// The same with these nodes alone.
    #[must_use]
    pub fn within(&self, nodes: &BTreeSet<String>) -> Self {
        let [best, others] = [&self.favourites, &self.others]
            .map(|all| all.iter().filter(|node| nodes.contains(*node)).cloned().collect::<Vec<_>>());
        if best.is_empty() { Self::new(others, best) } else { Self::new(best, others) }
    }

    /// The best nodes: the scheduler may choose any of them.
    pub fn favourites(&self) -> &[String] {
        &self.favourites
    }

    /// The other nodes that could take it.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Whether the scheduler may choose this node.
    pub fn may_be(&self, node: &str) -> bool {
        self.favourites.iter().any(|one| one == node)
    }

    /// The only node that could take it.
    pub fn only(&self) -> Option<&str> {
        match (self.favourites.as_slice(), self.others.as_slice()) {
            ([node], []) => Some(node),
            _ => None,
        }
    }

    /// `would probably start on node-2; node-0 and node-1 could take it too`: the words after "it", with this verb.
    pub fn would(&self, verb: &str) -> String {
        match self.only() {
            _ if self.is_nowhere() => format!("would not {verb} any node: none could take it"),
            Some(node) => format!("would {verb} {node}, the only node that could take it"),
            None => format!("would probably {verb} {}{}", self.best(), self.rest()),
        }
    }

    fn best(&self) -> String {
        let count = self.favourites.len();
        if count > ALL {
            return format!("one of {count} nodes, such as {}", list(&self.favourites[..SOME], "or"));
        }
        list(&self.favourites, "or")
    }

    fn rest(&self) -> String {
        match self.others.len() {
            0 => String::new(),
            count if count > ALL => format!("; {count} other nodes could take it too"),
            _ => format!("; {} could take it too", list(&self.others, "and")),
        }
    }
}

impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.only() {
            _ if self.is_nowhere() => f.write_str("nowhere: no node could take it"),
            Some(node) => write!(f, "on {node}, the only node that could take it"),
            None => write!(f, "probably on {}{}", self.best(), self.rest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pps_simulation::scheduler::{Exclusion, ExclusionKind, Verdict};

    use super::*;

    fn landing(favourites: &[&str], others: &[&str]) -> Landing {
        let names = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
        Landing::new(names(favourites), names(others))
    }

    #[test]
    fn the_favourite_is_named_and_the_others_that_could_take_it() {
        let one = landing(&["node-2"], &["node-0", "node-1", "node-3"]);
        assert_eq!(one.to_string(), "probably on node-2; node-0, node-1 and node-3 could take it too");
        let words = "would probably start on node-2; node-0, node-1 and node-3 could take it too";
        assert_eq!(one.would("start on"), words);
    }

    #[test]
    fn favourites_that_are_equally_good_are_all_named() {
        assert_eq!(landing(&["node-0", "node-2"], &[]).to_string(), "probably on node-0 or node-2");
        let mixed = landing(&["node-0", "node-2"], &["node-1"]);
        assert_eq!(mixed.would("go to"), "would probably go to node-0 or node-2; node-1 could take it too");
    }

    #[test]
    fn the_only_node_and_none_are_certain() {
        let only = landing(&["node-1"], &["node-1"]);
        assert_eq!(only.only(), Some("node-1"));
        assert_eq!(only.to_string(), "on node-1, the only node that could take it");
        assert_eq!(only.would("start on"), "would start on node-1, the only node that could take it");
        assert_eq!(Landing::default().to_string(), "nowhere: no node could take it");
        assert_eq!(Landing::default().would("start on"), "would not start on any node: none could take it");
    }

    #[test]
    fn more_than_six_nodes_are_counted() {
        let many: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
        let others = Landing::new(vec!["x".into()], many[..7].to_vec());
        assert_eq!(others.to_string(), "probably on x; 7 other nodes could take it too");
        let tied = Landing::new(many, Vec::new());
        assert_eq!(tied.to_string(), "probably on one of 1000 nodes, such as n0, n1 or n2");
    }

    #[test]
    fn a_node_that_is_excluded_could_not_take_it() {
        let verdict = |node: &str, is_excluded: bool| {
            let cordon = Exclusion { what: ExclusionKind::Cordon, text: String::new(), from_pps: false };
            let exclusions = if is_excluded { vec![cordon] } else { Vec::new() };
            Verdict { node: node.into(), exclusions, score: 0 }
        };
        let mut selection = Selection::default();
        selection.verdicts = vec![verdict("a", true), verdict("b", false), verdict("c", false)];
        selection.may_land_on = vec!["c".into()];
        assert!(Landing::of(&selection).is_nowhere(), "none was chosen");
        selection.chosen = Some("c".into());
        assert_eq!(Landing::of(&selection), landing(&["c"], &["b"]));
    }
}

//! Where a Pod could go.

use std::collections::BTreeSet;

use pps_scheduler::Selection;
use serde::Serialize;

/// Where a Pod could go: the nodes that the scheduler prefers, and the others that could take it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Landing {
    #[serde(rename = "mayLandOn")]
    favourites: Vec<String>,
    #[serde(rename = "couldAlsoLandOn")]
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
}

//! The Pod that its controller would create now.

use pps_admission::plan::Requirement;
use pps_scheduler::{Exclusion, Selection};

use crate::decide::placement::Landing;
use crate::decide::subject::{Candidate, Subject};

/// The Pod that its controller would create now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The labels that the recorded state requires.
    pub required: Vec<Requirement>,
    pub landing: Landing,
    /// Why the node of the present Pod could not take it.
    pub excluded: Vec<Exclusion>,
}

impl Successor {
    pub(super) fn new(candidate: &Candidate, selection: &Selection) -> Self {
        Self {
            required: candidate.required.clone(),
            landing: Landing::of(selection),
            excluded: Vec::new(),
        }
    }

    /// The successor of a Pod on this node.
    pub(super) fn of_pod_on(node: &str, candidate: &Candidate, selection: &Selection) -> Self {
        let own = selection
            .verdicts
            .iter()
            .find(|verdict| verdict.node == node);
        Self {
            excluded: own.map_or_else(Vec::new, |verdict| verdict.exclusions.clone()),
            ..Self::new(candidate, selection)
        }
    }

    /// The successor if this node did not exist; none if too little is known.
    pub(super) fn without_node(subject: &Subject, node: &str) -> Option<Self> {
        let candidate = subject.successor()?;
        let nodes = subject.nodes.as_ref()?.without(node);
        let selection = subject.select_on(&nodes, &candidate.pod, Some(&candidate.before));
        Some(Self::new(&candidate, &selection))
    }
}

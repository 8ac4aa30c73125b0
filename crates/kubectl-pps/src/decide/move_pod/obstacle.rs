//! What is in the way of a move.

use pps_core::{PodState, Spec};
use pps_scheduler::{Exclusion, Selection, Verdict};

use crate::decide::placement::Landing;
use crate::decide::subject::Subject;
use crate::decide::way_out::WayOut;

#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    Excluded(Vec<Exclusion>),
    /// The destination could take the Pod, and the scheduler chooses another node.
    NotChosen,
    /// No node can take the Pod.
    NoNode {
        excluded: Vec<Verdict>,
        /// The values to give up.
        way_out: Option<WayOut>,
    },
}

/// What keeps a moved Pod from nodes.
pub(super) struct Constraint<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) spec: &'a Spec,
    /// The state that the move records.
    pub(super) after: Option<&'a PodState>,
}

impl Constraint<'_> {
    fn way_out(&self) -> Option<WayOut> {
        let successor = self.subject.successor_with(None)?;
        let free = Landing::of(&self.subject.select(&successor)?);
        let nodes = free.favourites().iter().chain(free.others());
        let nodes = nodes.filter_map(|node| self.subject.snapshot.node(node));
        WayOut::of(self.spec, self.after?, nodes)
    }
}

/// What is in the way to the node `to`, or to any node.
pub(super) fn obstacle(
    forecast: &Selection,
    to: Option<&str>,
    constraint: &Constraint,
) -> Option<Obstacle> {
    let mut excluded = forecast
        .verdicts
        .iter()
        .filter(|verdict| !verdict.exclusions.is_empty());
    let may_land_on = &forecast.may_land_on;
    match to {
        None if may_land_on.is_empty() => Some(Obstacle::NoNode {
            excluded: excluded.cloned().collect(),
            way_out: constraint.way_out(),
        }),
        Some(to) if !may_land_on.iter().any(|node| node == to) => {
            Some(match excluded.find(|verdict| verdict.node == to) {
                Some(verdict) => Obstacle::Excluded(verdict.exclusions.clone()),
                None => Obstacle::NotChosen,
            })
        }
        _ => None,
    }
}

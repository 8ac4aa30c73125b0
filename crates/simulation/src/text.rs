//! Words of the event log.

use std::fmt;

use pps_core::shorten;

use crate::result::{Absence, Pending};

/// How many names a text lists.
const MAX_LISTED: usize = 4;

/// Some of these names.
pub(crate) fn any_of(names: &[&str]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() && names.len() <= MAX_LISTED => {
            format!("{} or {last}", rest.join(", "))
        }
        _ if names.len() <= MAX_LISTED => names.concat(),
        _ => format!("{} or {} others", names[..MAX_LISTED - 1].join(", "), names.len() - MAX_LISTED + 1),
    }
}

/// In words that follow the node's name.
impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NodeGone => f.write_str("does not exist"),
            Self::LowerScore => f.write_str("fits, but has a lower score"),
            Self::Excluded(exclusions) => {
                let reasons: Vec<String> = exclusions.iter().map(ToString::to_string).collect();
                write!(f, "is excluded: {}", reasons.join("; "))
            }
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::UnknownNode(node) => write!(f, "its template names the node {node}, which does not exist"),
            Self::NoNode => f.write_str("there is no node"),
            Self::Excluded => f.write_str("no node can take it"),
            Self::UnreadableAddress { plugin, annotation, value } => {
                write!(f, "{plugin} cannot read its annotation {annotation}: {}", shorten(value))
            }
            Self::AddressTaken { ip, annotation } => write!(
                f,
                "it asks for the address {ip}, which another Pod has. To let it start with another one, remove {annotation} from the PersistentPodState and delete the Pod"
            ),
        }
    }
}

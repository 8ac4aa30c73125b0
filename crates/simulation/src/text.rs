//! Words of the event log.

use std::fmt;

use pps_core::shorten;

use crate::result::Pending;

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

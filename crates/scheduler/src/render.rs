//! Exclusions and caveats in English.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::amounts::{CPU, MEMORY};
use super::reason::{Caveat, Exclusion, RequiredBy, Skew};

/// Without the node's name: `topology.kubernetes.io/zone is b, the Pod requires a`.
impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NodeName { wanted } => write!(f, "the Pod's spec.nodeName is {wanted}"),
            Self::Label {
                by,
                key,
                operator,
                wanted,
                found,
            } => {
                match found {
                    Some(found) => write!(f, "{key} is {}", quoted_if_empty(found))?,
                    None => write!(f, "the label {key} is missing")?,
                }
                write!(f, ", {by} requires {}", required(operator, wanted))
            }
            Self::Impossible { by } => write!(f, "{by} requires a node that cannot exist"),
            Self::Taint(taint) => write!(f, "the Pod does not tolerate the taint {taint}"),
            Self::Cordon => f.write_str("cordoned"),
            Self::Insufficient {
                resource,
                requested,
                free,
                limit,
            } => write!(
                f,
                "{} of {} {resource} is free, the Pod requests {}",
                amount(resource, *free),
                amount(resource, *limit),
                amount(resource, *requested)
            ),
            Self::TooManyPods { running: 1, limit } => {
                write!(f, "1 Pod runs there, and it takes {limit}")
            }
            Self::TooManyPods { running, limit } => {
                write!(f, "{running} Pods run there, and it takes {limit}")
            }
            Self::PodAffinity { key, domain } => f.write_str(&pod_affinity(key, domain.as_deref())),
            Self::PodAntiAffinity {
                key,
                domain,
                of_running,
            } => {
                let relation = if *of_running {
                    "must not be near this Pod"
                } else {
                    "the Pod must not be near"
                };
                write!(f, "a Pod runs at {key} {domain} that {relation}")
            }
            Self::TopologySpread { key, skew } => f.write_str(&topology_spread(key, skew.as_ref())),
        }
    }
}

fn pod_affinity(key: &str, domain: Option<&str>) -> String {
    match domain {
        Some(domain) => {
            format!("no Pod runs at {key} {domain} that the Pod requires to be near")
        }
        None => {
            format!("the label {key} is missing, which the Pod's required Pod affinity names")
        }
    }
}

fn topology_spread(key: &str, skew: Option<&Skew>) -> String {
    match skew {
        Some(Skew {
            domain,
            pods,
            least,
            max,
        }) => format!(
            "with this Pod {key} {domain} would have {pods} Pods where another has {least}, and \
             maxSkew is {max}"
        ),
        None => {
            format!("the label {key} is missing, which a topology spread constraint names")
        }
    }
}

impl Exclusion {
    /// Without what differs from node to node: `the Pod's recorded state requires
    /// topology.kubernetes.io/zone a`.
    pub fn in_general(&self) -> String {
        match self {
            Self::Label {
                by,
                key,
                operator,
                wanted,
                ..
            } => match (operator.as_str(), wanted.as_slice()) {
                ("In", [value]) => format!("{by} requires {key} {}", quoted_if_empty(value)),
                // A node without the label is allowed, too.
                ("NotIn", [value]) => {
                    format!("{by} requires {key} not to be {}", quoted_if_empty(value))
                }
                ("Exists", _) => format!("{by} requires the label {key}"),
                ("DoesNotExist", _) => format!("{by} requires that the label {key} is absent"),
                _ => format!("{by} requires {key} to be {}", required(operator, wanted)),
            },
            Self::Insufficient {
                resource,
                requested,
                ..
            } => {
                format!(
                    "too little {resource} is free, the Pod requests {}",
                    amount(resource, *requested)
                )
            }
            Self::TooManyPods { .. } => "no room for one more Pod".to_owned(),
            Self::PodAffinity { key, .. } => {
                format!("no Pod runs in the same {key} that the Pod requires to be near")
            }
            Self::PodAntiAffinity { key, .. } => {
                format!("a Pod runs in the same {key} that keeps the Pod away")
            }
            Self::TopologySpread { key, .. } => format!("a topology spread constraint over {key}"),
            same => same.to_string(),
        }
    }
}

/// What a result of a simulation shows.
impl Serialize for Exclusion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Exclusion", 3)?;
        fields.serialize_field("what", &self.kind())?;
        fields.serialize_field("text", &self.to_string())?;
        fields.serialize_field("fromPps", &self.from_pps())?;
        fields.end()
    }
}

impl fmt::Display for RequiredBy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Affinity => f.write_str("the Pod"),
            Self::RecordedState => f.write_str("the Pod's recorded state"),
            Self::FormerState => f.write_str("the Pod's former recorded state"),
            Self::NodeSelector => f.write_str("the Pod's nodeSelector"),
            Self::Claim(claim) => write!(f, "the volume of the Pod's claim {claim}"),
        }
    }
}

/// In words that follow the Pod's name and a colon.
impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::OtherScheduler => {
                f.write_str("it names another scheduler, whose rules are not known here")
            }
            Self::Volumes => f.write_str(
                "where its volumes are is not simulated: a persistent volume may keep it on a node \
                 or in a zone",
            ),
            Self::Claim(claim) => write!(
                f,
                "the volume of its claim {claim} is not known, or the claim is not bound"
            ),
            Self::VolumeLimits => f.write_str(
                "how many volumes a node takes, and claims that are ReadWriteOncePod, are not \
                 simulated",
            ),
            Self::PodAffinityFields => f.write_str(
                "namespaceSelector, matchLabelKeys and mismatchLabelKeys of Pod affinity are not \
                 simulated",
            ),
            Self::AntiAffinityOfOthers => f.write_str(
                "a Pod that runs may keep it away, by labels of namespaces, which are not known",
            ),
            Self::Field(field) => write!(f, "its {field} is not simulated"),
            Self::Preemption => {
                f.write_str("Pods of lower priority may be evicted for it, which is not simulated")
            }
        }
    }
}

/// What a requirement asks for, in words that follow "requires".
fn required(operator: &str, wanted: &[String]) -> String {
    match (operator, wanted) {
        ("In", [value]) => quoted_if_empty(value).to_owned(),
        ("In", _) => format!("one of {}", wanted.join(", ")),
        ("NotIn", [value]) => format!("another value than {}", quoted_if_empty(value)),
        ("NotIn", _) => format!("none of {}", wanted.join(", ")),
        ("Exists", _) => "this label".to_owned(),
        ("DoesNotExist", _) => "that it is absent".to_owned(),
        ("Gt", [value]) => format!("more than {value}"),
        ("Lt", [value]) => format!("less than {value}"),
        _ => format!("{operator} {}", wanted.join(", ")),
    }
}

/// An empty value would be invisible in a sentence.
fn quoted_if_empty(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

fn amount(resource: &str, amount: i64) -> String {
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY | "ephemeral-storage" => {
            let units = [
                (1_i64 << 40, "Ti"),
                (1 << 30, "Gi"),
                (1 << 20, "Mi"),
                (1 << 10, "Ki"),
            ];
            let unit = units
                .into_iter()
                .find(|(size, _)| amount != 0 && amount % size == 0);
            unit.map_or_else(
                || amount.to_string(),
                |(size, unit)| format!("{}{unit}", amount / size),
            )
        }
        _ => amount.to_string(),
    }
}

impl Serialize for Caveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

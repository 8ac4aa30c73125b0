//! Commands that change something.

use clap::{ArgGroup, Args, ValueEnum};

use super::{AllNamespaces, Consent, value};

/// The arguments of `move`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("where").multiple(false))]
#[command(group = ArgGroup::new("which").required(true).multiple(false))]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Move {
    /// The Pods. Several are moved one after the other.
    #[arg(value_name = "POD", group = "which", num_args = 1.., value_parser = value::pod)]
    pub pods: Vec<String>,
    /// All Pods that run on this node, or belong there and cannot come back. The node may be gone. Pods that no node can take are
    /// named, and stay.
    #[arg(long, value_name = "NODE", group = "which", value_parser = value::name)]
    pub node: Option<String>,
    /// With --node: the Pods of all namespaces.
    #[arg(short = 'A', long, requires = "node", conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// To this node.
    #[arg(long, value_name = "NODE", group = "where", value_parser = value::name)]
    pub to: Option<String>,
    /// To any node that the scheduler chooses, also the present one. The Pod keeps its other recorded values, such as a required zone.
    #[arg(long, group = "where")]
    pub anywhere: bool,
    /// With --anywhere: to a node with any value of this label, such as zone. Give the whole key if several end with it. May be
    /// repeated.
    #[arg(long, value_name = "KEY", requires = "anywhere")]
    pub any: Vec<String>,
    /// Do not bring its recorded annotations back, such as a fixed IP address.
    #[arg(long)]
    pub drop_annotations: bool,
    /// Go on although no node can take a Pod now, or other Pods of its workload are not Ready or recorded. Pods that this command has
    /// moved are waited for all the same.
    #[arg(long)]
    pub force: bool,
    /// How long to wait for a new Pod to get a node, and, before a Ready Pod is evicted, for the others of its workload.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = value::duration)]
    pub timeout: std::time::Duration,
    /// Consent.
    #[command(flatten)]
    pub consent: Consent,
}

/// The arguments of `forget`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(false))]
pub struct Forget {
    /// The Pods.
    #[arg(value_name = "POD", group = "which", num_args = 1.., value_parser = value::pod)]
    pub pods: Vec<String>,
    /// All states that were recorded on this node.
    #[arg(long, value_name = "NODE", group = "which", value_parser = value::name)]
    pub node: Option<String>,
    /// Namespaces.
    #[command(flatten)]
    pub all: AllNamespaces,
    /// Consent.
    #[command(flatten)]
    pub consent: Consent,
}

/// The arguments of `pin`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("what").required(true).multiple(true))]
pub struct Pin {
    /// The workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    /// A node label whose value the Pod requires again: zone (any node of its zone will do), hostname (its own node only),
    /// region, or any key. Until a node with this value can take it, it is Pending. May be repeated.
    #[arg(long, value_name = "KEY", group = "what")]
    pub required: Vec<String>,
    /// A node label whose value the Pod prefers: zone, hostname, region, or any key. If no node with this value can take it, it
    /// starts elsewhere. zone,hostname is one preference for nodes that have both values. Several of them, or a weight from 1 to
    /// 100 (hostname=50) need --object.
    #[arg(long, value_name = "KEY[=WEIGHT]", group = "what")]
    pub preferred: Vec<String>,
    /// An annotation that the Pod gets back, such as a fixed IP address. With =PodIPsCSV or =PodIPsJSON, the Pod's addresses are
    /// recorded if it does not have the annotation. May be repeated.
    #[arg(long, value_name = "KEY[=SOURCE]", group = "what")]
    pub annotation: Vec<String>,
    /// How long a state is kept.
    #[arg(long, value_name = "POLICY", value_enum)]
    pub retention: Option<Retention>,
    /// What happens to states that were recorded on a deleted node.
    #[arg(long, value_name = "POLICY", value_enum)]
    pub on_node_deletion: Option<OnNodeDeletion>,
    /// Write a PersistentPodState instead of annotations. One that a user has written is changed in any case.
    #[arg(long)]
    pub object: bool,
    /// Consent.
    #[command(flatten)]
    pub consent: Consent,
}

/// How long a state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Retention {
    /// Until the workload is scaled down or deleted.
    WhenScaled,
    /// Until the workload is deleted.
    WhenDeleted,
    /// Also after the workload is gone.
    Retain,
}

/// What happens to states that were recorded on a deleted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum OnNodeDeletion {
    /// They are kept.
    Keep,
    /// They are dropped after a grace period.
    Forget,
}

/// The arguments of `unpin`.
#[derive(Args, Clone, Debug)]
pub struct Unpin {
    /// The workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    /// Consent.
    #[command(flatten)]
    pub consent: Consent,
}

//! The examples at the end of each help.

pub(super) const STATUS: &str = "\
Examples:
  # The Pods of one StatefulSet, with all columns
  kubectl pps status db -o wide
  # All namespaces
  kubectl pps status -A
  # Again every two seconds, while a rollout or a drain goes on
  watch kubectl pps status db";

pub(super) const EXPLAIN: &str = "\
Examples:
  # Why is db-0 Pending, or why is it where it is?
  kubectl pps explain db-0";

pub(super) const SIMULATE: &str = "\
Examples:
  # Where do the Pods go if node-2 is drained?
  kubectl pps simulate --drain node-2 -A
  # The same for a zone, asked for one StatefulSet
  kubectl pps simulate --zone-down zone-a db
  # What does a change do when it is rolled out?
  kubectl pps simulate --spec db.yaml";

pub(super) const MOVE: &str = "\
Examples:
  # Which nodes could take db-0?
  kubectl pps move db-0
  # Show what a move to node-2 does, and do nothing
  kubectl pps move db-0 --to node-2 --dry-run
  # The node is lost: let its Pods start wherever the scheduler puts them
  kubectl pps move --node node-2 --anywhere -A";

pub(super) const FORGET: &str = "\
Examples:
  # One Pod that does not run: its successor may start on any node
  kubectl pps forget db-0
  # All that is recorded on a node that does not come back
  kubectl pps forget --node node-2 -A";

pub(super) const PIN: &str = "\
Examples:
  # Each Pod returns to its zone, whichever node there takes it
  kubectl pps pin db --required zone
  # Each Pod returns to its node, or waits for it
  kubectl pps pin db --required hostname
  # Its zone for sure, its node if it can take the Pod
  kubectl pps pin db --required zone --preferred hostname";

pub(super) const UNPIN: &str = "\
Examples:
  # Keep a copy of what is recorded, then end it
  kubectl pps export db -f db.yaml
  kubectl pps unpin db";

pub(super) const CHECK: &str = "\
Examples:
  # Is anything wrong? Are states recorded and injected?
  kubectl pps check
  # The sidecar is installed under another name
  kubectl pps check -n tools --sidecar pps";

pub(super) const EXPORT: &str = "\
Examples:
  # All PersistentPodStates of the cluster
  kubectl pps export -A -f backup.yaml";

pub(super) const IMPORT: &str = "\
Examples:
  # Show what it would write, and write nothing
  kubectl pps import backup.yaml --dry-run
  # Into another cluster, whose nodes have other names
  kubectl pps import backup.yaml --drop-key kubernetes.io/hostname";

pub(super) const TRY: &str = "\
Examples:
  # What would the Pods of these files get?
  kubectl pps try statefulset.yaml pps.yaml
  # What would they get from what the cluster has recorded?
  kubectl get sts,pps -o yaml | kubectl pps try -";

pub(super) const COMPLETION: &str = "\
Examples:
  # kubectl-pps in bash, until the shell ends
  source <(kubectl-pps completion bash)
  # kubectl pps, in every shell that completes kubectl
  kubectl pps completion kubectl > ~/bin/kubectl_complete-pps
  chmod +x ~/bin/kubectl_complete-pps";

pub(super) const VERSION: &str = "\
Examples:
  # For programs
  kubectl pps version -o json";

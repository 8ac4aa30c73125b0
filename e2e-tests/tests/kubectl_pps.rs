//! `kubectl pps` on a real control plane: what each command answers, and that Pods really move.
//!
//! The scenarios of a test share one cluster; each has its own namespace and Nodes.

mod answers;
mod command_line;
mod explain;
mod files;
mod forget;
mod move_keeps;
mod move_pod;
mod move_several;
mod picture;
mod rights;
mod simulate;
mod status;

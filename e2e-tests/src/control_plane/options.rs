//! What can be set before a control plane starts.

use std::{net::Ipv4Addr, time::Duration};

use super::credentials::User;

/// The names of the programs, as the supervisor uses them.
pub mod program {
    /// The store.
    pub const ETCD: &str = "etcd";
    /// The API server.
    pub const API_SERVER: &str = "kube-apiserver";
    /// The controllers.
    pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
    /// The scheduler.
    pub const SCHEDULER: &str = "kube-scheduler";
}

/// How to start a control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// Users besides the administrator.
    pub users: Vec<User>,
    /// Whether to write an audit log of the metadata of all requests.
    pub audit_log: bool,
    /// Further flags of the API server.
    pub api_server_flags: Vec<String>,
    /// Further flags of the controller manager.
    pub controller_manager_flags: Vec<String>,
    /// Where the API server listens. If kubelets can reach that address, Pods have service
    /// accounts, and Nodes whose kubelet is silent lose their Pods.
    pub address: Ipv4Addr,
    /// Whether to start the controller manager and the scheduler, too.
    pub controllers: bool,
    /// How long the start may take.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            users: Vec::new(),
            audit_log: false,
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
            address: Ipv4Addr::LOCALHOST,
            controllers: true,
            timeout: Duration::from_mins(3),
        }
    }
}

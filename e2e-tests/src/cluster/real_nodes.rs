//! Real nodes: kubelet, kube-proxy and containerd, in namespaces of this machine.
//!
//! A node is a network, mount and process namespace (`node.sh`); killing its first process is a
//! loss of power. All nodes of a cluster are ports of one bridge, on which the API server and the
//! registry listen. This machine reaches their Pods' addresses. An IPAM plugin (`ipam.sh`) honours
//! [`IP_ANNOTATION`], or Calico's does.

mod calico;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use nix::unistd::geteuid;

pub use self::calico::ip_annotation;
use super::kubelet::{IP_ANNOTATION, NO_RESERVATION};
use crate::{
    control_plane::{ADMIN, ControlPlane},
    programs::Group,
    registry::Registry,
    report,
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};

/// The image of the containers that tests run: `BusyBox`.
pub const IMAGE: &str = "e2e.local/busybox:1";
/// The image of a database: Redis.
pub const DATABASE: &str = "e2e.local/redis:1";
/// How many clusters can have real nodes at the same time.
const NETWORKS: u8 = 32;
/// How long a node may take. A kubelet that is too early for its Node tries again after up to two
/// minutes.
const TIMEOUT: Duration = Duration::from_mins(4);

/// Whether real nodes can run here. If not, reports the test as skipped.
pub fn available(test: &str) -> bool {
    let missing = missing();
    if let Some(remedy) = &missing {
        report::skipped(test, remedy);
    }
    missing.is_none()
}

/// What to do before real nodes can run here; None if they can.
pub fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("run it as root: nodes are namespaces of this machine".to_owned());
    }
    let namespaces = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "true"])
        .status();
    if !namespaces.is_ok_and(|status| status.success()) {
        return Some("run it where `unshare --net --mount --pid --fork` works".to_owned());
    }
    let found = ["kubelet", "kube-proxy"]
        .iter()
        .try_for_each(|name| Group::Kubernetes.program(name).map(drop));
    found
        .is_err()
        .then(|| "add kubelet and kube-proxy to KUBEBUILDER_ASSETS to run it".to_owned())
}

/// The bridge of a cluster. `node.sh` makes it and says what the variables mean.
pub(super) struct Network {
    index: u8,
    script: PathBuf,
    env: Vec<(String, String)>,
}

impl Network {
    /// Makes the bridge. No other process can make one of that name: that reserves its addresses.
    pub(super) fn create(supervisor: &Supervisor) -> Result<Self> {
        let folder = supervisor.folder();
        let script = folder.join("node.sh");
        fs::write(&script, include_str!("real_nodes/node.sh"))?;
        fs::write(folder.join("ipam.sh"), include_str!("real_nodes/ipam.sh"))?;
        let programs = Group::Kubernetes.folder()?.display().to_string();
        let tools = Group::System.program("node/image.tar")?;
        let tools = tools.parent().context("no folder")?.canonicalize()?;
        let mut refusal = None;
        for index in 0..NETWORKS {
            let env = variables([
                ("INDEX", index.to_string()),
                ("CLUSTER", folder.display().to_string()),
                ("PROGRAMS", programs.clone()),
                ("TOOLS", tools.display().to_string()),
                ("HOME", folder.display().to_string()),
                ("IMAGE", IMAGE.to_owned()),
                ("IP_ANNOTATION", IP_ANNOTATION.to_owned()),
                ("NO_RESERVATION", NO_RESERVATION.to_owned()),
                ("CALICO_CNI", calico::plugin()),
            ]);
            let network = Self {
                index,
                script: script.clone(),
                env,
            };
            match network.run(&["network"]) {
                Ok(()) => return Ok(network),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.context("no networks")?)
    }

    /// The address of this machine, where the API server listens.
    pub(super) fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.index * 8, 1)
    }

    /// The addresses of a node's Pods.
    fn subnet(&self, number: u8) -> String {
        format!("198.18.{}.0/24", self.index * 8 + number)
    }

    fn run(&self, args: &[&str]) -> Result<()> {
        let mut script = Command::new("sh");
        let output = script
            .arg(&self.script)
            .args(args)
            .envs(self.env.clone())
            .stdin(Stdio::null())
            .output()?;
        ensure!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// How to start a node.
    fn spec(&self, control_plane: &ControlPlane, number: u8, count: u8) -> Result<Spec> {
        let own = variables([
            ("NUMBER", number.to_string()),
            ("COUNT", count.to_string()),
            ("SUBNET", self.subnet(number)),
            (
                "KUBECONFIG",
                control_plane.kubeconfig_for(ADMIN)?.display().to_string(),
            ),
        ]);
        let env = [self.env.clone(), own].concat();
        let script = self.script.display().to_string();
        let args = [
            "--net",
            "--mount",
            "--propagation",
            "private",
            "sh",
            &script,
            "start",
        ];
        Ok(Spec {
            name: format!("real-{number}"),
            program: "/usr/bin/unshare".into(),
            args: args.map(str::to_owned).into(),
            env,
        })
    }
}

/// The real nodes of a cluster: `real-1` in `zone-1`, and so on.
pub struct RealNodes {
    supervisor: Arc<Supervisor>,
    network: Network,
    specs: BTreeMap<String, Spec>,
    api: Api<Node>,
}

impl RealNodes {
    /// Starts that many nodes and waits until they are Ready.
    pub(super) async fn start(
        control_plane: &ControlPlane,
        network: Network,
        count: u8,
    ) -> Result<Self> {
        ensure!(count < 8, "a cluster has addresses for 7 nodes");
        if !calico::plugin().is_empty() {
            let subnets =
                (1..=count).map(|number| (format!("real-{number}"), network.subnet(number)));
            calico::configure(&control_plane.client(), subnets.collect()).await?;
        }
        let specs = (1..=count).map(|number| {
            let spec = network.spec(control_plane, number, count)?;
            anyhow::Ok((spec.name.clone(), spec))
        });
        let nodes = Self {
            supervisor: control_plane.supervisor().clone(),
            specs: specs.collect::<Result<_>>()?,
            network,
            api: Api::all(control_plane.client()),
        };
        for name in nodes.names() {
            nodes.power_on(name)?;
        }
        for name in nodes.names() {
            nodes.wait_ready(name, true).await?;
        }
        Ok(nodes)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.specs.keys().map(String::as_str)
    }

    /// The address of this machine in their network.
    pub fn address(&self) -> Ipv4Addr {
        self.network.address()
    }

    /// Lets containerd pull from that registry what images name as `name/…`.
    pub fn mirror(&self, name: &str, registry: &Registry) -> Result<()> {
        let folder = self.supervisor.folder().join("registries").join(name);
        fs::create_dir_all(&folder)?;
        let (host, authority) = (registry.host(), registry.ca());
        let hosts = authority.map_or(format!("[host.\"http://{host}\"]\n"), |authority| {
            format!(
                "[host.\"https://{host}\"]\nca = \"{}\"\n",
                authority.display()
            )
        });
        Ok(fs::write(
            folder.join("hosts.toml"),
            format!("server = \"https://{name}\"\n{hosts}"),
        )?)
    }

    /// The node loses power: everything on it ends at once.
    pub async fn power_off(&self, node: &str) -> Result<()> {
        self.supervisor.kill(node).await.map(drop)
    }

    /// Starts a node that has no power. Its disk has kept everything.
    pub fn power_on(&self, node: &str) -> Result<()> {
        let spec = self
            .specs
            .get(node)
            .with_context(|| format!("no node {node}"))?;
        self.supervisor.spawn(spec.clone()).map(drop)
    }

    /// Powers a node off and on.
    pub async fn reboot(&self, node: &str) -> Result<()> {
        self.power_off(node).await?;
        self.power_on(node)
    }

    /// Unplugs the node from the network.
    pub fn disconnect(&self, node: &str) -> Result<()> {
        self.network.run(&["port", node, "down"])
    }

    /// Plugs it in again.
    pub fn connect(&self, node: &str) -> Result<()> {
        self.network.run(&["port", node, "up"])
    }

    /// Waits until a Node is Ready, or is not.
    pub async fn wait_ready(&self, node: &str, ready: bool) -> Result<()> {
        let what = format!("{node} to be {}", if ready { "Ready" } else { "missed" });
        let waited = wait_for(&what, TIMEOUT, async || {
            let read = self.api.get(node).await?;
            let conditions = read
                .status
                .unwrap_or_default()
                .conditions
                .unwrap_or_default();
            let now = conditions
                .iter()
                .any(|one| one.type_ == "Ready" && one.status == "True");
            Ok(Progress::when(now == ready, (), format!("{conditions:?}")))
        });
        waited.await.with_context(|| self.log(node, "kubelet"))
    }

    /// The end of what a program of a node wrote: `kubelet`, `containerd` or `kube-proxy`.
    pub fn log(&self, node: &str, program: &str) -> String {
        let path = self
            .supervisor
            .folder()
            .join(format!("{node}/{program}.log"));
        let text = fs::read_to_string(path).unwrap_or_default();
        text[text.floor_char_boundary(text.len().saturating_sub(3000))..].to_owned()
    }

    /// The processes of a Pod, by its UID, without the one that holds its namespaces.
    pub fn processes(&self, pod_uid: &str) -> Result<Vec<u32>> {
        let of_pod = |pid: &u32| {
            let read =
                |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            read("cgroup").contains(pod_uid) && !read("cmdline").starts_with("/bin/sleep")
        };
        Ok(all_processes()?.into_iter().filter(of_pod).collect())
    }
}

fn all_processes() -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

fn variables<const COUNT: usize>(all: [(&str, String); COUNT]) -> Vec<(String, String)> {
    all.map(|(key, value)| (key.to_owned(), value)).into()
}

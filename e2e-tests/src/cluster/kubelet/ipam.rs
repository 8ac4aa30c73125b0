//! Addresses from the real `host-local` IPAM plugin, one range per Node.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

/// Runs `host-local` as a container runtime runs a CNI plugin.
pub struct Ipam {
    plugin: PathBuf,
    folder: PathBuf,
    /// The index of each Node, in the order of their first requests.
    nodes: Mutex<BTreeMap<String, u16>>,
}

#[derive(Deserialize)]
struct Answer {
    ips: Vec<AnswerIp>,
}

#[derive(Deserialize)]
struct AnswerIp {
    address: String,
}

impl Ipam {
    /// `plugin` is the executable. It keeps its assignments in `folder`.
    pub fn new(plugin: PathBuf, folder: &Path) -> Self {
        Self { plugin, folder: folder.join("ipam"), nodes: Mutex::default() }
    }

    /// The range of a Node: 10.16.0.0/20 for the first Node, 10.16.16.0/20 for the next. A Node that is
    /// deleted and made again keeps its range.
    pub fn subnet(&self, node: &str) -> String {
        let index = self.index(node);
        format!("10.{}.{}.0/20", 16 + index / 16, index % 16 * 16)
    }

    /// Assigns an address to a Pod: the wanted one if it is in the Node's range and free, else the next one.
    /// host-local cycles through the range, so the next one is not the one that was freed last.
    pub async fn add(&self, node: &str, pod_uid: &str, wanted: Option<&str>) -> Result<Vec<String>> {
        if let Some(wanted) = wanted {
            if let Ok(addresses) = self.run("ADD", node, pod_uid, Some(wanted)).await {
                return Ok(addresses);
            }
            // A failed attempt may have left an assignment.
            self.delete(node, pod_uid).await?;
        }
        self.run("ADD", node, pod_uid, None).await
    }

    /// Releases the Pod's addresses, if it has any.
    pub async fn delete(&self, node: &str, pod_uid: &str) -> Result<()> {
        self.run("DEL", node, pod_uid, None).await.map(drop)
    }

    fn index(&self, node: &str) -> u16 {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u16::try_from(nodes.len()).unwrap_or(u16::MAX);
        *nodes.entry(node.to_owned()).or_insert(next)
    }

    fn config(&self, node: &str) -> Value {
        let ranges = json!([[{"subnet": self.subnet(node)}]]);
        json!({"cniVersion": "0.4.0", "name": node, "type": "simulated",
            "ipam": {"type": "host-local", "dataDir": self.folder, "ranges": ranges}})
    }

    async fn run(
        &self,
        command: &str,
        node: &str,
        pod_uid: &str,
        wanted: Option<&str>,
    ) -> Result<Vec<String>> {
        let mut args = "IgnoreUnknown=1".to_owned();
        if let Some(wanted) = wanted {
            write!(args, ";IP={wanted}")?;
        }
        let mut process = Command::new(&self.plugin)
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", pod_uid)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_NETNS", format!("/var/run/netns/{pod_uid}"))
            .env("CNI_PATH", self.plugin.parent().unwrap_or(Path::new("/")))
            .env("CNI_ARGS", args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", self.plugin.display()))?;
        let mut stdin = process.stdin.take().context("no stdin")?;
        stdin.write_all(self.config(node).to_string().as_bytes()).await?;
        drop(stdin);
        let output = tokio::time::timeout(Duration::from_secs(20), process.wait_with_output())
            .await
            .context("host-local hangs")??;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("host-local {command} on {node}: {} {}", text.trim(), said.trim());
        }
        if command == "DEL" {
            return Ok(Vec::new());
        }
        let answer: Answer = serde_json::from_str(&text).context("host-local's answer")?;
        Ok(answer.ips.into_iter().map(|ip| bare(&ip.address)).collect())
    }
}

fn bare(address: &str) -> String {
    address.split('/').next().unwrap_or_default().to_owned()
}

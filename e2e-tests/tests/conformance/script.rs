//! A run of `hack/conformance.sh`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pps_e2e::{
    cluster::{Cluster, real_nodes},
    control_plane::ADMIN,
    plugin::search_path,
    programs::Group,
    report,
    repository::repository_file,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The release that the script installs, and its namespace.
pub(super) const NAME: &str = "pps-conformance";
/// The namespace of its workload.
pub(super) const WORKLOADS: &str = "pps-conformance-workloads";
/// Longer than a whole run takes on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(8);
const PAUSE: Duration = Duration::from_millis(100);

/// How to run the script.
pub(super) struct Script {
    kubeconfig: PathBuf,
    variables: Vec<(&'static str, String)>,
    arguments: Vec<&'static str>,
}

/// A script that runs. It is killed when this is dropped.
pub(super) struct Run {
    child: Child,
    printed: Arc<Mutex<String>>,
    readers: [JoinHandle<()>; 2],
}

/// What a run has printed, and its exit code.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) printed: String,
}

impl Script {
    /// With the rights of the administrator, and images that real nodes have.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self::with(&cluster.control_plane.kubeconfig_for(ADMIN).unwrap())
    }

    /// With that kubeconfig.
    pub(super) fn with(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            variables: vec![
                ("IMAGE", real_nodes::IMAGE.to_owned()),
                ("PATIENCE", "100".to_owned()),
            ],
            arguments: Vec::new(),
        }
    }

    /// With a variable.
    pub(super) fn set(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// With what was pushed to a registry without TLS.
    pub(super) fn with_registry(self, host: &str) -> Self {
        self.set("REGISTRY", host).argument("--plain-http")
    }

    pub(super) fn argument(mut self, argument: &'static str) -> Self {
        self.arguments.push(argument);
        self
    }

    pub(super) fn start(&self) -> Run {
        let folders = [Group::Kubernetes, Group::Publish].map(|group| group.folder().unwrap());
        let mut command = Command::new(repository_file("hack/conformance.sh"));
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("KUBECONFIG", &self.kubeconfig)
            // What a killed script leaves is deleted with the cluster.
            .env("TMPDIR", self.kubeconfig.parent().unwrap())
            .env("PATH", search_path(&folders).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let printed = Arc::default();
        let readers = [
            read(child.stdout.take().unwrap(), &printed),
            read(child.stderr.take().unwrap(), &printed),
        ];
        Run {
            child,
            printed,
            readers,
        }
    }

    /// Runs it to its end.
    pub(super) async fn run(&self) -> Ended {
        self.start().end().await
    }

    /// A step fails; the reason is shown.
    pub(super) async fn fails_at(&self, step: &str, reason: &str) {
        let Ended { code, printed } = self.run().await;
        assert!(code.is_some_and(|code| code != 0), "{printed}");
        assert!(printed.contains(&format!("failed: {step}")), "{printed}");
        assert!(printed.contains(reason), "{reason}: {printed}");
        let last = printed.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: failed: "), "{printed}");
    }

    /// It ends without a change, and says why.
    pub(super) async fn is_refused(&self, why: &str) {
        let ended = self.run().await;
        assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
        let last = ended.printed.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: "), "{}", ended.printed);
        assert!(last.contains(why), "{why:?} is not in {last}");
        assert!(!ended.printed.contains("passed: "), "{}", ended.printed);
    }
}

impl Run {
    /// Waits until it has printed a text.
    pub(super) async fn has_printed(&mut self, text: &str) {
        let started = Instant::now();
        while !self.printed().contains(text) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && started.elapsed() < TIMEOUT,
                "it does not print {text:?}:\n{}",
                self.printed()
            );
            sleep(PAUSE).await;
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let id = self.child.id().unwrap();
        kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
    }

    pub(super) async fn end(mut self) -> Ended {
        let status = timeout(TIMEOUT, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("it does not end:\n{}", self.printed()));
        for reader in &mut self.readers {
            // A command that outlives its killed script holds the pipe.
            let _ = timeout(Duration::from_secs(2), reader).await;
        }
        Ended {
            code: status.unwrap().code(),
            printed: self.printed(),
        }
    }

    fn printed(&self) -> String {
        self.printed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Appends all lines of an output.
fn read(
    output: impl AsyncRead + Send + Unpin + 'static,
    printed: &Arc<Mutex<String>>,
) -> JoinHandle<()> {
    let printed = printed.clone();
    let mut lines = BufReader::new(output).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            report::note(&line);
            let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
            printed.push_str(&line);
            printed.push('\n');
        }
    })
}

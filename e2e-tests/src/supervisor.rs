//! The programs of one cluster. None of them outlives the test.
//!
//! They are children of a small supervisor process (`src/bin/supervise.rs`), which kills them and
//! removes their folder as soon as this process ends, however it ends.

#[allow(unreachable_pub, reason = "the supervisor program includes the file")]
mod protocol;

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use nix::{
    sys::signal::Signal,
    unistd::{geteuid, getpid},
};
pub use protocol::{ProcessStatus, Spec};
use protocol::{Request, Response};

use crate::wait::{Progress, wait_for};

/// Environment variable that names the supervisor's executable.
const EXECUTABLE_ENV: &str = "PPS_E2E_SUPERVISE";
const EXECUTABLE: &str = "pps-e2e-supervise";

/// Owns the processes and the folder of one cluster.
pub struct Supervisor {
    folder: PathBuf,
    pipe: Mutex<Pipe>,
}

struct Pipe {
    process: Child,
    requests: Option<ChildStdin>,
    responses: BufReader<ChildStdout>,
}

impl Supervisor {
    /// Starts the supervisor process and makes the cluster's folder. Also removes folders whose
    /// supervisor was killed.
    ///
    /// With `PPS_E2E_KEEP=1` in the environment the folder is kept, and its path is printed at the
    /// end.
    pub fn start() -> Result<Self> {
        let executable = find_executable()?;
        let mut process = Command::new(&executable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C reaches only the test. The supervisor notices that the test has ended.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", executable.display()))?;
        let requests = process.stdin.take();
        let responses = process
            .stdout
            .take()
            .context("the supervisor has no stdout")?;
        let mut pipe = Pipe {
            process,
            requests,
            responses: BufReader::new(responses),
        };
        let keep = env::var("PPS_E2E_KEEP").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
        match pipe.ask(&Request::Open { root: root(), keep })? {
            Response::Opened(folder) => Ok(Self {
                folder,
                pipe: Mutex::new(pipe),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// The cluster's folder, with logs, keys and data. It is removed at the end.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program. Its output is appended to `<name>.log` in the folder.
    pub fn spawn(&self, spec: Spec) -> Result<ProcessStatus> {
        self.status_of(&Request::Start(spec))
    }

    /// Sends a signal to the named program and its process group.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<ProcessStatus> {
        self.status_of(&Request::Signal {
            name: name.to_owned(),
            signal: signal as i32,
        })
    }

    /// The status of the named program.
    pub fn status(&self, name: &str) -> Result<ProcessStatus> {
        self.status_of(&Request::Status {
            name: name.to_owned(),
        })
    }

    /// Waits until the named program has ended.
    pub async fn wait_exit(&self, name: &str, timeout: Duration) -> Result<ProcessStatus> {
        wait_for(&format!("{name} to end"), timeout, async || {
            let status = self.status(name)?;
            Ok(if status.running {
                Progress::Waiting(format!(
                    "running as process {}",
                    status.pid.unwrap_or_default()
                ))
            } else {
                Progress::Done(status)
            })
        })
        .await
    }

    /// Sends SIGKILL to the named program and waits until it has ended.
    pub async fn kill(&self, name: &str) -> Result<ProcessStatus> {
        self.signal(name, Signal::SIGKILL)?;
        self.wait_exit(name, Duration::from_mins(1)).await
    }

    /// The file with the named program's output.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// The named program's output so far.
    pub fn log(&self, name: &str) -> String {
        fs::read(self.log_path(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of the named program's output.
    pub fn log_tail(&self, name: &str, lines: usize) -> String {
        let log = self.log(name);
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Kills everything and removes the folder. Dropping does the same.
    pub fn close(&self) -> Result<()> {
        let mut pipe = self.pipe();
        if pipe.requests.is_none() {
            return Ok(());
        }
        let said = pipe.ask(&Request::Close);
        pipe.requests = None;
        pipe.process
            .wait()
            .context("cannot wait for the supervisor")?;
        match said? {
            Response::Closed => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn status_of(&self, request: &Request) -> Result<ProcessStatus> {
        match self.pipe().ask(request)? {
            Response::Status(status) => Ok(status),
            other => Err(unexpected(&other)),
        }
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Pipe {
    fn ask(&mut self, request: &Request) -> Result<Response> {
        let requests = self.requests.as_mut().context("the cluster is closed")?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        requests
            .write_all(&line)
            .and_then(|()| requests.flush())
            .context("the supervisor is gone")?;
        let mut answer = String::new();
        if self.responses.read_line(&mut answer)? == 0 {
            bail!("the supervisor ended without an answer");
        }
        match serde_json::from_str(&answer).with_context(|| format!("supervisor: {answer}"))? {
            Response::Failed(message) => Err(anyhow!(message)),
            response => Ok(response),
        }
    }
}

fn unexpected(response: &Response) -> anyhow::Error {
    anyhow!("unexpected answer of the supervisor: {response:?}")
}

/// The parent of all cluster folders of this user.
fn root() -> PathBuf {
    env::temp_dir().join(format!("pps-e2e-{}", geteuid()))
}

/// The supervisor's executable: from the environment, or beside this one's target folder.
fn find_executable() -> Result<PathBuf> {
    for name in [EXECUTABLE_ENV, "CARGO_BIN_EXE_pps-e2e-supervise"] {
        if let Some(path) = env::var_os(name) {
            return Ok(path.into());
        }
    }
    beside_current_exe(EXECUTABLE).ok_or_else(|| {
        anyhow!(
            "{EXECUTABLE} is not built: cargo build -p pps-e2e --bins (or set {EXECUTABLE_ENV})"
        )
    })
}

/// Finds a program in the folder of this executable or in one of the two folders above it, where
/// cargo puts the binaries of the workspace.
pub(crate) fn beside_current_exe(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    own.ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// A name that is unique on this machine.
pub(crate) fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{prefix}-{}-{}",
        getpid(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

//! Runs `kubectl-pps`, as kubectl does for `kubectl pps`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::supervisor::beside_current_exe;

const EXECUTABLE: &str = "kubectl-pps";
const TIMEOUT: Duration = Duration::from_mins(3);

/// What a command answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The exit code.
    pub exit_code: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Answer {
    /// The output as JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))
    }
}

/// The plugin, with the rights of one user.
#[derive(Clone, Debug)]
pub struct Plugin {
    kubeconfig: Option<PathBuf>,
    /// Runs the plugin; without it, the plugin is run itself.
    kubectl: Option<PathBuf>,
}

impl Plugin {
    /// One that uses this kubeconfig.
    pub fn new(kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            kubeconfig: Some(kubeconfig.into()),
            kubectl: None,
        }
    }

    /// One without a cluster.
    pub fn without_cluster() -> Self {
        Self {
            kubeconfig: None,
            kubectl: None,
        }
    }

    /// One that this kubectl finds on the `PATH` and runs.
    #[must_use]
    pub fn run_by(self, kubectl: impl Into<PathBuf>) -> Self {
        Self {
            kubectl: Some(kubectl.into()),
            ..self
        }
    }

    /// Runs a command, without a terminal and without input.
    pub async fn run(&self, args: &[&str]) -> Result<Answer> {
        self.run_with(args, "").await
    }

    /// Runs a command with this input.
    pub async fn run_with(&self, args: &[&str], input: &str) -> Result<Answer> {
        let mut child = self.start(args)?;
        let mut stdin = child.stdin.take().context("no input")?;
        // A command that reads no input may end before.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        finish(child, args).await
    }

    /// Starts a command, which is killed when it is dropped.
    pub fn start(&self, args: &[&str]) -> Result<Child> {
        let mut words = self.words()?.into_iter();
        let mut command = Command::new(words.next().context("no program")?);
        self.prepare(&mut command)?.args(words).args(args);
        Ok(command.spawn()?)
    }

    /// Runs a command on a terminal of so many columns, on which somebody types this.
    pub async fn run_on_terminal(
        &self,
        args: &[&str],
        columns: u16,
        typed: &str,
    ) -> Result<Answer> {
        let mut child = self.start_on_terminal(args, columns)?;
        let mut stdin = child.stdin.take().context("no input")?;
        stdin.write_all(typed.as_bytes()).await?;
        // It stays open: the end of the input would end the terminal.
        let answer = finish(child, args).await;
        drop(stdin);
        answer
    }

    /// Runs a command on a terminal, and answers its question with yes once something else has
    /// happened.
    pub async fn run_while(
        &self,
        args: &[&str],
        meanwhile: impl Future<Output = ()>,
    ) -> Result<Answer> {
        const QUESTION: &str = "[y/N] ";
        let mut child = self.start_on_terminal(args, 80)?;
        let mut stdin = child.stdin.take().context("no input")?;
        let mut stdout = child.stdout.take().context("no output")?;
        let mut shown = Vec::new();
        let seen = async {
            while !String::from_utf8_lossy(&shown).contains(QUESTION) {
                if stdout.read_buf(&mut shown).await? == 0 {
                    bail!(
                        "it does not show {QUESTION:?}: {}",
                        String::from_utf8_lossy(&shown)
                    );
                }
            }
            Ok(())
        };
        timeout(TIMEOUT, seen)
            .await
            .with_context(|| format!("it does not show {QUESTION:?}"))??;
        meanwhile.await;
        stdin.write_all(b"y\n").await?;
        let (rest, answer) = tokio::join!(stdout.read_to_end(&mut shown), finish(child, args));
        rest?;
        drop(stdin);
        Ok(Answer {
            stdout: String::from_utf8_lossy(&shown).into_owned(),
            ..answer?
        })
    }

    /// Starts a command on a terminal of so many columns.
    fn start_on_terminal(&self, args: &[&str], columns: u16) -> Result<Child> {
        let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let program = self.words()?;
        let program = program.iter().map(|word| word.to_string_lossy());
        let args = args.iter().map(|&arg| arg.into());
        let words: Vec<String> = program.chain(args).map(|word| quote(&word)).collect();
        let shell = format!(
            "stty cols {columns} rows 50 -echo; exec {}",
            words.join(" ")
        );
        let mut command = Command::new("script");
        self.prepare(&mut command)?
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .args(["--quiet", "--return", "--command", &shell, "/dev/null"]);
        command.spawn().context("script (Debian: bsdutils)")
    }

    /// The program, and what comes before its arguments.
    fn words(&self) -> Result<Vec<OsString>> {
        Ok(match &self.kubectl {
            Some(kubectl) => vec![kubectl.into(), "pps".into()],
            None => vec![executable()?.into()],
        })
    }

    fn prepare<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command> {
        let command = command
            .env_clear()
            .env("PATH", search_path(&[folder()?])?)
            .env("HOME", "/nonexistent")
            .envs(
                self.kubeconfig
                    .as_deref()
                    .map(|path: &Path| ("KUBECONFIG", path)),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }
}

async fn finish(child: Child, args: &[&str]) -> Result<Answer> {
    let Ok(output) = timeout(TIMEOUT, child.wait_with_output()).await else {
        bail!("kubectl pps {} does not end", args.join(" "));
    };
    let output = output?;
    Ok(Answer {
        exit_code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The program.
pub fn executable() -> Result<PathBuf> {
    beside_current_exe(EXECUTABLE)
        .with_context(|| format!("{EXECUTABLE} is not built: cargo build --bin {EXECUTABLE}"))
}

/// The folder that has to be on the `PATH` so that kubectl finds the plugin.
pub fn folder() -> Result<PathBuf> {
    Ok(executable()?
        .parent()
        .context("the plugin is in no folder")?
        .to_owned())
}

/// The `PATH` of this process, with these folders before all others.
pub fn search_path(first: &[PathBuf]) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(
        first.iter().cloned().chain(env::split_paths(&path)),
    )?)
}

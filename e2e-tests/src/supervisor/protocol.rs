//! The protocol between the harness and its supervisor process: one JSON object per line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A program to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The name in later requests and of the log file.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables, in addition to the supervisor's own.
    pub env: Vec<(String, String)>,
}

/// A request to the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Remove what dead supervisors left in `root` and make a folder there.
    Open {
        /// The parent of all cluster folders.
        root: PathBuf,
        /// Keep the folder at the end.
        keep: bool,
    },
    /// Start a program. No program of that name may be running.
    Start(Spec),
    /// Send a signal to a program and its process group.
    Signal {
        /// The program.
        name: String,
        /// The signal's number.
        signal: i32,
    },
    /// Report whether a program is running and how it ended.
    Status {
        /// The program.
        name: String,
    },
    /// Kill everything, run the folder's program `cleanup` if it has one, and remove the folder.
    Close,
}

/// The status of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStatus {
    /// The process id of the last start.
    pub pid: Option<u32>,
    /// Whether it has not ended.
    pub running: bool,
    /// The exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// The supervisor's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    /// The folder of this cluster.
    Opened(PathBuf),
    /// The status of the program.
    Status(ProcessStatus),
    /// Everything is stopped and removed.
    Closed,
    /// The request failed.
    Failed(String),
}

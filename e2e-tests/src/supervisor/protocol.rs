//! What the harness and its supervisor process say to each other: one JSON object per line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A program to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The name that later requests use; also the name of the log file.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables, on top of the supervisor's own.
    pub env: Vec<(String, String)>,
}

/// What the supervisor is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Sweep what dead supervisors left in `root` and make a folder there.
    Open {
        /// Where the folders of all clusters are.
        root: PathBuf,
        /// Leave the folder behind at the end.
        keep: bool,
    },
    /// Start a program. One of that name must not be running.
    Start(Spec),
    /// Send a signal to a program and to all that it started.
    Signal {
        /// The program.
        name: String,
        /// The signal's number.
        signal: i32,
    },
    /// Is it running, and how did it end?
    Status {
        /// The program.
        name: String,
    },
    /// Kill everything and remove the folder.
    Close,
}

/// How a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStatus {
    /// The process id of the last start.
    pub pid: Option<u32>,
    /// It has not ended.
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
    /// How the program is now.
    Status(ProcessStatus),
    /// Everything is gone.
    Closed,
    /// It did not work.
    Failed(String),
}

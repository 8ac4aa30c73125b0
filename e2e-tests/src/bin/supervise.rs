//! Runs the programs of one test cluster and outlives the test just long enough to clean up.
//!
//! Requests come as JSON lines on stdin. When stdin ends, because the test ended in whatever way,
//! this process kills everything that it started and removes the cluster's folder. If this process
//! itself is killed, the kernel kills its children (`PDEATHSIG`), and the next supervisor removes
//! the folder, whose lock is free then.

#[path = "../supervisor/protocol.rs"]
#[allow(unreachable_pub, reason = "the library includes the file")]
mod protocol;

use std::{
    collections::BTreeMap,
    env, fs,
    fs::File,
    io::{self, BufRead, Write},
    os::unix::{
        fs::MetadataExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill, killpg},
        wait::{Id, WaitPidFlag, waitid, waitpid},
    },
    unistd::{Pid, getpid, getppid},
};
use protocol::{ProcessStatus, Request, Response, Spec};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let outcome = match args.next().as_deref() {
        Some("exec") => exec(args),
        _ => serve(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pps-e2e-supervise: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process by the program in the arguments, which dies with the process that started
/// it.
fn exec(mut args: impl Iterator<Item = String>) -> io::Result<()> {
    let parent = args
        .next()
        .and_then(|pid| pid.parse().ok())
        .map(Pid::from_raw);
    let program = args
        .next()
        .ok_or_else(|| io::Error::other("exec PARENT PROGRAM [ARG]..."))?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if Some(getppid()) != parent {
        return Err(io::Error::other("the supervisor is gone"));
    }
    Err(Command::new(&program).args(args).exec())
}

fn serve() -> io::Result<()> {
    prctl::set_child_subreaper(true)?;
    let mut world = World::default();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let response = match serde_json::from_str(&line) {
            Ok(Request::Close) => {
                world.close();
                Response::Closed
            }
            Ok(request) => world
                .handle(request)
                .unwrap_or_else(|error| Response::Failed(error.to_string())),
            Err(error) => Response::Failed(format!("cannot understand {line}: {error}")),
        };
        let mut out = io::stdout().lock();
        let written = serde_json::to_writer(&mut out, &response).map_err(io::Error::from);
        if written
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
            .is_err()
        {
            break;
        }
    }
    world.close();
    Ok(())
}

#[derive(Default)]
struct World {
    folder: Option<PathBuf>,
    /// Held while the folder is in use.
    lock: Option<File>,
    keep: bool,
    children: BTreeMap<String, (Child, Option<ExitStatus>)>,
}

impl World {
    fn handle(&mut self, request: Request) -> io::Result<Response> {
        match request {
            Request::Open { root, keep } => self.open(&root, keep),
            Request::Start(spec) => self.start(&spec),
            Request::Signal { name, signal } => {
                let signal = Signal::try_from(signal)?;
                let (child, ended) = self.child(&name)?;
                if ended.is_none() {
                    killpg(pid_of(child), signal)?;
                    if signal == Signal::SIGSTOP {
                        // Threads keep running until each has received the signal.
                        let stopped =
                            WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
                        waitid(Id::Pid(pid_of(child)), stopped)?;
                    }
                }
                self.status(&name)
            }
            Request::Status { name } => self.status(&name),
            Request::Close => Ok(Response::Closed),
        }
    }

    fn open(&mut self, root: &Path, keep: bool) -> io::Result<Response> {
        let _gate = enter(root)?;
        sweep(root);
        let folder = root.join(format!("cluster-{}", getpid()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        if keep {
            File::create(folder.join("keep"))?;
        }
        self.folder = Some(folder.clone());
        self.lock = Some(lock);
        self.keep = keep;
        Ok(Response::Opened(folder))
    }

    fn start(&mut self, spec: &Spec) -> io::Result<Response> {
        let folder = self
            .folder
            .clone()
            .ok_or_else(|| io::Error::other("no folder is open"))?;
        if matches!(self.child(&spec.name), Ok((_, None))) {
            return Err(io::Error::other(format!(
                "{} is running already",
                spec.name
            )));
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join(format!("{}.log", spec.name)))?;
        // This program, even if a build has replaced its file.
        let child = Command::new("/proc/self/exe")
            .arg("exec")
            .arg(getpid().to_string())
            .arg(&spec.program)
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        self.children.insert(spec.name.clone(), (child, None));
        self.status(&spec.name)
    }

    /// The named child, and how it ended if it did.
    fn child(&mut self, name: &str) -> io::Result<&mut (Child, Option<ExitStatus>)> {
        let entry = self.children.get_mut(name);
        let entry = entry.ok_or_else(|| io::Error::other(format!("{name} was never started")))?;
        if entry.1.is_none() {
            entry.1 = entry.0.try_wait()?;
        }
        Ok(entry)
    }

    fn status(&mut self, name: &str) -> io::Result<Response> {
        let (child, ended) = self.child(name)?;
        Ok(Response::Status(ProcessStatus {
            pid: Some(child.id()),
            running: ended.is_none(),
            code: ended.and_then(|status| status.code()),
            signal: ended.and_then(|status| status.signal()),
        }))
    }

    fn close(&mut self) {
        for (child, ended) in self.children.values() {
            if ended.is_none() {
                let _ = killpg(pid_of(child), Signal::SIGKILL);
            }
        }
        reap_everything();
        self.children.clear();
        let Some(folder) = self.folder.take() else {
            return;
        };
        if self.keep {
            clean_up(&folder);
            eprintln!("kept: {}", folder.display());
        } else {
            remove(&folder);
        }
        self.lock = None;
        if let Some(root) = folder.parent() {
            leave(root);
        }
    }
}

/// Locks the common folder: only one process at a time makes or removes folders in it.
fn enter(root: &Path) -> io::Result<File> {
    let path = root.join("lock");
    loop {
        match fs::create_dir_all(root) {
            // It was there, and the last supervisor to leave has removed it since.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && fs::symlink_metadata(root).is_err() =>
            {
                continue;
            }
            made => made?,
        }
        let gate = match File::create(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            gate => gate?,
        };
        gate.lock()?;
        // The last supervisor to leave removes the lock file, and another one may have made a new
        // file since.
        if fs::metadata(&path)
            .is_ok_and(|there| gate.metadata().is_ok_and(|ours| ours.ino() == there.ino()))
        {
            return Ok(gate);
        }
    }
}

/// Removes the common folder if no other supervisor has a folder in it.
fn leave(root: &Path) {
    let Ok(_gate) = enter(root) else { return };
    let is_last = fs::read_dir(root).is_ok_and(|entries| entries.count() == 1);
    if is_last && fs::remove_file(root.join("lock")).is_ok() {
        let _ = fs::remove_dir(root);
    }
}

fn clean_up(folder: &Path) {
    let program = folder.join("cleanup");
    if program.exists()
        && let Err(error) = Command::new("/bin/sh")
            .arg(&program)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
    {
        eprintln!("{}: {error}", program.display());
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().unwrap_or(i32::MAX))
}

/// Kills and reaps every descendant, including those that left their process group: as subreaper
/// this process inherits orphans.
fn reap_everything() {
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(status) if status.pid().is_some() => {}
            _ => {
                for child in own_children() {
                    let _ = kill(child, Signal::SIGKILL);
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

fn own_children() -> Vec<Pid> {
    let own = getpid().to_string();
    let parent_of = |stat: &str| {
        Some(
            stat.rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .to_owned(),
        )
    };
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            (parent_of(&stat)? == own).then(|| Pid::from_raw(pid))
        })
        .collect()
}

/// Removes the folders of killed supervisors, whose locks are free.
fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for folder in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        let stale = match File::open(folder.join("lock")) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if stale && !folder.join("keep").exists() {
            remove(&folder);
        }
    }
}

/// Removes a folder, and before that what only its own program `cleanup` can remove. Retries,
/// because an ending process may create files meanwhile.
fn remove(folder: &Path) {
    clean_up(folder);
    for _ in 0..50 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                thread::sleep(Duration::from_millis(20));
            }
            _ => return,
        }
    }
}

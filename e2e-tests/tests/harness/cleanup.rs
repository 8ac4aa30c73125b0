//! No process or folder is left behind, however a test ends.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pps_e2e::{
    cluster::{Cluster, real_nodes},
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};
use tokio::io::{AsyncBufReadExt, BufReader};

const HOLD: &str = "PPS_E2E_TEST_HOLD";

/// Processes whose command line contains the folder or whose working directory is in it.
fn processes(folder: &Path) -> Vec<String> {
    let mentions = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let inside =
            fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        (inside || line.contains(folder.to_str().unwrap())).then_some(line)
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| mentions(&entry))
        .collect()
}

async fn wait_until_nothing_is_left(folder: &Path) {
    wait_for(
        "processes and folder to be gone",
        Duration::from_mins(2),
        async || {
            let left = processes(folder);
            Ok(Progress::when(
                left.is_empty() && !folder.exists(),
                (),
                format!("{}: {left:#?}", folder.display()),
            ))
        },
    )
    .await
    .unwrap();
}

/// The bridge of real nodes, if the cluster has one, and the number of this interface.
fn bridge(folder: &Path) -> Option<(String, String)> {
    let cleanup = fs::read_to_string(folder.join("cleanup")).ok()?;
    let name = cleanup.split_whitespace().last()?.to_owned();
    let index = interface_index(&name);
    assert!(!index.is_empty(), "{name}");
    Some((name, index))
}

fn interface_index(name: &str) -> String {
    fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).unwrap_or_default()
}

/// Not a test: the next test runs this in a child process, which it kills.
#[tokio::test]
#[ignore = "the child process of another test"]
async fn child_process_that_holds_a_cluster() {
    if env::var_os(HOLD).is_none() {
        return;
    }
    let real = u8::from(real_nodes::available(
        "that a killed test leaves no real node",
    ));
    let cluster = Cluster::builder()
        .without_crd()
        .nodes(1, 1)
        .real_nodes(real)
        .start()
        .await
        .unwrap();
    println!("\nfolder={}", cluster.control_plane.folder().display());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn killed_test_leaves_no_process_and_no_folder() {
    let mut test = tokio::process::Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "harness::cleanup::child_process_that_holds_a_cluster",
            "--nocapture",
        ])
        .env(HOLD, "1")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let folder = tokio::time::timeout(Duration::from_mins(1), async {
        loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("the child process ended too early");
            if let Some(folder) = line.strip_prefix("folder=") {
                return PathBuf::from(folder);
            }
        }
    })
    .await
    .unwrap();
    let before = processes(&folder);
    assert!(before.len() >= 4, "{before:#?}");

    let bridge = bridge(&folder);
    test.kill().await.unwrap();
    wait_until_nothing_is_left(&folder).await;
    // Another test may have made one of the same name.
    let (name, index) = bridge.unwrap_or_default();
    assert!(
        index.is_empty() || interface_index(&name) != index,
        "{name} is left"
    );
}

#[tokio::test]
async fn next_supervisor_removes_what_a_killed_one_left() {
    let sleeper = |name: &str, script: &str| Spec {
        name: name.to_owned(),
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: Vec::new(),
    };
    // Other tests start supervisors at the same time, and each of those would clean up, too.
    let own = Supervisor::start().unwrap();
    let start = || Supervisor::start_in(own.folder().join("root")).unwrap();
    let supervisor = start();
    let folder = supervisor.folder().to_owned();
    let status = supervisor
        .spawn(sleeper("sleeper", "exec sleep 600"))
        .unwrap();
    let child = Pid::from_raw(status.pid.unwrap().try_into().unwrap());
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    let parent: i32 = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();

    kill(Pid::from_raw(parent), Signal::SIGKILL).unwrap();
    wait_for("the orphan to die", Duration::from_mins(2), async || {
        let left = processes(&folder);
        Ok(Progress::when(left.is_empty(), (), format!("{left:?}")))
    })
    .await
    .unwrap();
    assert!(folder.exists());
    let next = start();
    assert!(!folder.exists(), "an unlocked folder must be removed");

    // A child that leaves its process group and session is also killed.
    next.spawn(sleeper("runaway", "setsid sleep 600 & exec sleep 600"))
        .unwrap();
    let next_folder = next.folder().to_owned();
    wait_for("both to run", Duration::from_mins(2), async || {
        let all = processes(&next_folder)
            .into_iter()
            .filter(|line| line.starts_with("sleep 600"))
            .count();
        Ok(Progress::when(all == 2, (), all))
    })
    .await
    .unwrap();
    drop(next);
    wait_until_nothing_is_left(&next_folder).await;
}

#[tokio::test]
async fn signals_programs_and_reports_their_exit() {
    let supervisor = Supervisor::start().unwrap();
    let script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done";
    let spec = Spec {
        name: "program".to_owned(),
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: Vec::new(),
    };
    let up = async |times: usize| {
        wait_for("the program to be up", Duration::from_mins(2), async || {
            let log = supervisor.log("program");
            // The shell may also log that its sleep was terminated.
            Ok(Progress::when(
                log.lines().filter(|line| *line == "up").count() == times,
                (),
                log,
            ))
        })
        .await
        .unwrap();
    };
    supervisor.spawn(spec.clone()).unwrap();
    up(1).await;
    assert!(
        supervisor
            .spawn(spec.clone())
            .unwrap_err()
            .to_string()
            .contains("running already")
    );
    supervisor.signal("program", Signal::SIGTERM).unwrap();
    let status = supervisor
        .wait_exit("program", Duration::from_secs(10))
        .await
        .unwrap();
    assert_eq!(
        (status.running, status.code, status.signal),
        (false, Some(7), None)
    );

    supervisor.spawn(spec).unwrap();
    up(2).await;
    let status = supervisor.kill("program").await.unwrap();
    assert_eq!(
        (status.running, status.code, status.signal),
        (false, None, Some(9))
    );
    assert!(
        supervisor
            .status("nobody")
            .unwrap_err()
            .to_string()
            .contains("never started")
    );
}

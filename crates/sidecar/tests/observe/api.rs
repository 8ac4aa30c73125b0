//! An API server that sends what a real one never would, and the sidecar in front of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

/// What is answered to one request.
pub(crate) enum Answer {
    Body(u16, String),
    /// A body with these headers.
    Encoded(u16, &'static str, Vec<u8>),
    /// A watch with these headers, which sends these bytes. The connection is cut when the sender
    /// is gone.
    EncodedWatch(&'static str, Receiver<Vec<u8>>),
    /// The lines of a watch, which stays open.
    Watch(Receiver<String>),
    /// A watch in which nothing happens, and which the API server ends after this time.
    WatchUntil(Duration),
}

impl Answer {
    /// A page of a list at this version.
    pub(crate) fn list(version: u64, items: &[String], token: &str) -> Self {
        let items = items.join(",");
        Self::Body(
            200,
            format!(
                r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{items}]}}"#
            ),
        )
    }

    /// A watch in which nothing happens.
    pub(crate) fn silence() -> Self {
        Self::Watch(mpsc::channel().1)
    }
}

pub(crate) struct Api {
    address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Api {
    /// Answers with what the function makes of the method and the path with its query.
    pub(crate) fn start(answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer) = (seen.clone(), answer.clone());
                thread::spawn(move || drop(serve(stream.unwrap(), &seen, &*answer)));
            }
        });
        Self { address, requests }
    }

    /// Waits until this many requests contain all of these words.
    pub(crate) fn wait_for_requests(&self, count: usize, words: &[&str]) {
        wait_for(&format!("{count} requests with {words:?}"), || {
            self.count(words) >= count
        });
    }

    pub(crate) fn count(&self, words: &[&str]) -> usize {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|request| words.iter().all(|word| request.contains(word)))
            .count()
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &(dyn Fn(&str, &str) -> Answer + Send + Sync),
) -> std::io::Result<()> {
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut head = String::new();
        if input.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let (mut line, mut length, mut asked_for) = (String::new(), 0, String::new());
        while input.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            // What is asked for is recorded like the rest of the request.
            if line.to_ascii_lowercase().starts_with("accept") {
                asked_for.push_str(line.trim());
                asked_for.push(' ');
            }
            line.clear();
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        let mut words = head.split(' ');
        let (method, path) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        seen.lock().unwrap().push(format!(
            "{method} {path} {asked_for}{}",
            String::from_utf8_lossy(&body)
        ));
        match answer(method, path) {
            Answer::Body(code, body) => {
                write!(
                    output,
                    "HTTP/1.1 {code} X\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )?;
            }
            Answer::Encoded(code, headers, body) => {
                write!(
                    output,
                    "HTTP/1.1 {code} X\r\n{headers}\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                )?;
                output.write_all(&body)?;
            }
            Answer::EncodedWatch(headers, pieces) => {
                write!(
                    output,
                    "HTTP/1.1 200 OK\r\n{headers}\r\nTransfer-Encoding: chunked\r\n\r\n"
                )?;
                output.flush()?;
                while let Ok(piece) = pieces.recv() {
                    write!(output, "{:x}\r\n", piece.len())?;
                    output.write_all(&piece)?;
                    write!(output, "\r\n")?;
                    output.flush()?;
                }
                return Ok(());
            }
            Answer::WatchUntil(time) => {
                write!(
                    output,
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                )?;
                output.flush()?;
                thread::sleep(time);
                write!(output, "0\r\n\r\n")?;
            }
            Answer::Watch(lines) => {
                write!(
                    output,
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                )?;
                output.flush()?;
                while let Ok(line) = lines.recv() {
                    write!(output, "{:x}\r\n{line}\n\r\n", line.len() + 1)?;
                    output.flush()?;
                }
                loop {
                    thread::park();
                }
            }
        }
        output.flush()?;
    }
}

/// The sidecar. It is killed when it is dropped.
pub(crate) struct Sidecar {
    process: Child,
    admin: SocketAddr,
    log: Arc<Mutex<String>>,
    kubeconfig: PathBuf,
}

impl Sidecar {
    pub(crate) fn start(api: &Api, args: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kubeconfig =
            std::env::temp_dir().join(format!("pps-observe-{}-{number}", std::process::id()));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", api.address)}}],
            "users": [{"name": "u", "user": {}}],
        });
        fs::write(&kubeconfig, config.to_string()).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_pps-sidecar"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(["--admin-address", "127.0.0.1:0", "--namespace-selector="])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::<Mutex<String>>::default();
        let (lines, written) = (
            BufReader::new(process.stderr.take().unwrap()).lines(),
            log.clone(),
        );
        let (sender, started) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let address = serde_json::from_str::<Value>(&line)
                    .ok()
                    .and_then(|entry| entry["address"].as_str()?.parse().ok());
                if let Some(address) = address {
                    let _ = sender.send(address);
                }
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let admin = started
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("{}", log.lock().unwrap()));
        Self {
            process,
            admin,
            log,
            kubeconfig,
        }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The body that the admin server answers with.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The most memory that it has had so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1024
    }

    pub(crate) fn wait_ready(&self) {
        wait_for(&format!("readiness: {}", self.get("/readyz")), || {
            self.get("/readyz").starts_with("ok")
        });
    }

    /// Waits until the process has ended, and returns its exit code.
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn wait_for_log(&self, text: &str) {
        wait_for(&format!("{text:?} in the log"), || {
            self.log().contains(text)
        });
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_file(&self.kubeconfig));
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

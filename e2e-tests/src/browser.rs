//! A real Chromium, driven by WebDriver, that shows a folder of static files.
//!
//! A test opens pages, clicks and types as a user does. [`Browser::close`] fails if the page wrote
//! an error into the console, if a request was not answered with a file, or if the browser asked
//! any other server for anything.

mod log;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, anyhow, ensure};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use pps_web::{Request, Server};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::log::GetLog;
pub use self::log::LogEntry;
use crate::control_plane::free_port;
use crate::repository::repository_file;
use crate::supervisor::{Spec, Supervisor};
use crate::wait::{Progress, wait_for};

/// A Chromium takes some hundred megabytes and keeps a processor busy while it starts.
static RUNNING: Semaphore = Semaphore::const_new(2);
const DRIVER: &str = "chromedriver";
/// The first one that is installed is used. The shell has no window to draw and starts in half the
/// time.
const BROWSERS: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];
const TIMEOUT: Duration = Duration::from_secs(30);

/// The built playground: `PPS_PLAYGROUND`, else `target/playground` in the repository.
pub fn playground() -> PathBuf {
    env::var_os("PPS_PLAYGROUND")
        .map_or_else(|| repository_file("target/playground"), PathBuf::from)
}

/// A browser with one window, and a server of static files.
pub struct Browser {
    client: Client,
    server: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    console: Mutex<Vec<LogEntry>>,
    opened: AtomicU32,
    supervisor: Supervisor,
    _permit: SemaphorePermit<'static>,
}

impl Browser {
    /// Starts a browser, and a server for the built playground.
    pub async fn start() -> Result<Self> {
        let folder = playground();
        ensure!(
            folder.join("engine/pps_playground.js").exists(),
            "{} has no built playground: run make playground",
            folder.display()
        );
        Self::start_with(&folder).await
    }

    /// Starts a browser, and a server for any folder.
    pub async fn start_with(folder: &Path) -> Result<Self> {
        let permit = RUNNING.acquire().await?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server =
            Server::start(folder, address, move |request| lock(&seen).push(request))?.address();
        let supervisor = Supervisor::start()?;
        let port = free_port()?;
        let (driver, chromium) = (program(&["chromedriver"])?, program(&BROWSERS)?);
        let args = vec![format!("--port={port}"), "--allowed-ips=127.0.0.1".into()];
        supervisor.spawn(Spec {
            name: DRIVER.into(),
            program: driver,
            args,
            env: Vec::new(),
        })?;
        let capabilities = capabilities(&chromium, &supervisor.folder().join("chromium"));
        let url = format!("http://127.0.0.1:{port}");
        let started = wait_for("a browser window", TIMEOUT * 2, || async {
            // A driver that is not there yet, and a Chromium that took too long on a busy machine.
            let client = ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities.clone())
                .connect(&url)
                .await?;
            Ok(Progress::Done(client))
        });
        let client = started
            .await
            .with_context(|| supervisor.log_tail(DRIVER, 20))?;
        Ok(Self {
            client,
            server,
            requests,
            console: Mutex::default(),
            opened: AtomicU32::default(),
            supervisor,
            _permit: permit,
        })
    }

    /// The URL of a path on the server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.server, path.trim_start_matches('/'))
    }

    /// Opens a path of the server and waits until the page is loaded. The query differs each time:
    /// a browser does not load a page again if only the fragment of its URL differs.
    pub async fn open(&self, path: &str) -> Result<()> {
        let (page, fragment) = path.split_once('#').unwrap_or((path, ""));
        let count = self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(self
            .client
            .goto(&self.url(&format!("{page}?{count}#{fragment}")))
            .await?)
    }

    /// Sets the size of what the page sees: its width and height in CSS pixels.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await
            .map(drop)
    }

    /// Sets what the page learns about the user's wishes: `("prefers-color-scheme", "dark")`.
    pub async fn prefer(&self, feature: &str, value: &str) -> Result<()> {
        let features = json!({"features": [{"name": feature, "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", features)
            .await
            .map(drop)
    }

    /// Calls a method of Chromium's DevTools protocol.
    pub async fn devtools(&self, method: &str, parameters: Value) -> Result<Value> {
        let command = log::DevTools {
            method: method.to_owned(),
            parameters,
        };
        self.client
            .issue_cmd(command)
            .await
            .with_context(|| format!("{method} failed"))
    }

    /// The element of a CSS selector, as soon as there is one.
    pub async fn find(&self, selector: &str) -> Result<Element> {
        let found = self
            .client
            .wait()
            .at_most(TIMEOUT)
            .for_element(Locator::Css(selector))
            .await;
        found.with_context(|| format!("there is no {selector}"))
    }

    /// Clicks on an element, as soon as there is one that can be clicked.
    pub async fn click(&self, selector: &str) -> Result<()> {
        self.retry(selector, async || {
            Ok(self.find(selector).await?.click().await?)
        })
        .await
    }

    /// Replaces the text of a field, and tells the page as typing does. For long texts: typing them
    /// takes seconds.
    pub async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        self.find(selector).await?;
        let script = "const field = document.querySelector(arguments[0]); field.focus(); \
                      field.value = arguments[1];
            field.dispatchEvent(new Event('input', {bubbles: true})); field.dispatchEvent(new \
                      Event('change', {bubbles: true}));";
        self.script(script, vec![json!(selector), json!(text)])
            .await
            .map(drop)
    }

    /// Types into an element, one key after the other.
    pub async fn type_into(&self, selector: &str, text: &str) -> Result<()> {
        Ok(self.find(selector).await?.send_keys(text).await?)
    }

    /// Presses keys where the focus is: text, or `&Key::Tab.to_string()`.
    pub async fn keys(&self, keys: &str) -> Result<()> {
        Ok(self.client.active_element().await?.send_keys(keys).await?)
    }

    /// Presses one key where the focus is.
    pub async fn press(&self, key: Key) -> Result<()> {
        self.keys(&char::from(key).to_string()).await
    }

    /// The text of an element, as the page shows it.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let script = "return document.querySelector(arguments[0]).innerText;";
        let text = self.script(script, vec![json!(selector)]).await;
        let text = text.with_context(|| format!("there is no {selector}"))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an element's text contains a text.
    pub async fn wait_for_text(&self, selector: &str, text: &str) -> Result<()> {
        let (selector, text) = (json!(selector), json!(text));
        self.wait_until(&format!(
            "document.querySelector({selector})?.innerText.includes({text}) ?? false"
        ))
        .await
    }

    /// Waits until a JavaScript expression is true. The page looks, not this process: each command
    /// keeps driver and browser busy.
    pub async fn wait_until(&self, expression: &str) -> Result<()> {
        let look = format!(
            "const until = performance.now() + 2000; let seen;
             while ((seen = await ({expression})) !== true && performance.now() < until)
                 await new Promise((done) => setTimeout(done, 10));
             return seen;"
        );
        wait_for(expression, TIMEOUT, || async {
            let seen = self.script(&look, Vec::new()).await?;
            Ok(Progress::when(seen == true, (), seen))
        })
        .await
    }

    /// The value of a JavaScript expression; of a promise, what it resolves to.
    pub async fn evaluate(&self, expression: &str) -> Result<Value> {
        self.script(&format!("return await ({expression});"), Vec::new())
            .await
    }

    /// Runs the body of an async JavaScript function with `arguments`, and returns what it returns.
    pub async fn script(&self, body: &str, arguments: Vec<Value>) -> Result<Value> {
        let script = format!(
            "const done = arguments[arguments.length - 1]; const given = [...arguments].slice(0, \
             -1);
             (async function () {{ {body} }}).apply(null, given).then(
                 (value) => done({{value}}), (error) => done({{error: String(error && error.stack \
             || error)}}));"
        );
        let answer = self.client.execute_async(&script, arguments).await?;
        match answer.get("error") {
            Some(error) => Err(anyhow!("{}", error.as_str().unwrap_or_default())),
            None => Ok(answer.get("value").cloned().unwrap_or_default()),
        }
    }

    /// Saves a picture of the window.
    pub async fn screenshot(&self, file: &Path) -> Result<()> {
        let picture = self.client.screenshot().await?;
        fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))
    }

    /// What the page and the browser wrote into the console since the browser was started.
    pub async fn console(&self) -> Result<Vec<LogEntry>> {
        let new: Vec<LogEntry> =
            serde_json::from_value(self.client.issue_cmd(GetLog("browser")).await?)?;
        let mut console = lock(&self.console);
        console.extend(new);
        Ok(console.clone())
    }

    /// The requests that the server has answered.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// The URLs that the page asked for since this was last called: also those that reached no
    /// server.
    pub async fn requested_urls(&self) -> Result<Vec<String>> {
        let entries: Vec<LogEntry> =
            serde_json::from_value(self.client.issue_cmd(GetLog("performance")).await?)?;
        Ok(entries.iter().filter_map(LogEntry::requested_url).collect())
    }

    /// Ends the browser.
    ///
    /// # Errors
    ///
    /// If the console has an error, a request was not answered with a file, or another server was
    /// asked for something.
    pub async fn close(self) -> Result<()> {
        let errors: Vec<LogEntry> = self
            .console()
            .await?
            .into_iter()
            .filter(LogEntry::is_error)
            .collect();
        let refused: Vec<Request> = self
            .requests()
            .into_iter()
            .filter(|request| request.status != 200)
            .collect();
        let own = self.url("");
        let is_foreign = |url: &String| {
            !url.starts_with(&own)
                && !["data:", "blob:", "about:", "chrome:"]
                    .iter()
                    .any(|scheme| url.starts_with(scheme))
        };
        let foreign: Vec<String> = self
            .requested_urls()
            .await?
            .into_iter()
            .filter(is_foreign)
            .collect();
        self.client.close().await?;
        self.supervisor.close()?;
        ensure!(errors.is_empty(), "the console has errors: {errors:#?}");
        ensure!(refused.is_empty(), "requests were refused: {refused:#?}");
        ensure!(foreign.is_empty(), "other servers were asked: {foreign:#?}");
        Ok(())
    }

    /// An element may be replaced, or covered by something that moves away, between two commands.
    async fn retry(&self, what: &str, action: impl AsyncFn() -> Result<()>) -> Result<()> {
        let mut pauses = [50, 100, 200, 400, 800, 1600].into_iter();
        loop {
            match (action().await, pauses.next()) {
                (Ok(()), _) => return Ok(()),
                (Err(error), None) => {
                    return Err(error.context(format!("{what} cannot be clicked")));
                }
                (Err(_), Some(pause)) => tokio::time::sleep(Duration::from_millis(pause)).await,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn capabilities(chromium: &Path, profile: &Path) -> Map<String, Value> {
    let mut args: Vec<String> = [
        "--headless=new",
        "--disable-gpu",
        // The engine answers in milliseconds: to optimise it takes longer than it runs.
        "--js-flags=--liftoff-only",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
        "--disable-extensions",
        "--disable-sync",
        "--metrics-recording-only",
        "--hide-scrollbars",
        // What moves is drawn sixty times a second. The test of what moves asks for it.
        "--force-prefers-reduced-motion",
        "--lang=en-US",
        "--window-size=1280,900",
        // Nothing leaves this machine, whatever the page or the browser tries.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ]
    .map(str::to_owned)
    .into();
    args.push(format!("--user-data-dir={}", profile.display()));
    // Chromium's sandbox does not work for root, and in many containers it does not work at all.
    if nix::unistd::geteuid().is_root() {
        args.push("--no-sandbox".into());
    }
    // The driver looks for the shell's first page only under this name.
    let name = if chromium.ends_with(BROWSERS[0]) {
        "chrome-headless-shell"
    } else {
        "chrome"
    };
    let capabilities = json!({
        "browserName": name,
        "goog:chromeOptions": {"binary": chromium, "args": args, "perfLoggingPrefs": {"enableNetwork": true, "enablePage": false}},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "timeouts": {"script": 60_000},
    });
    capabilities.as_object().cloned().unwrap_or_default()
}

/// The first of these programs on the `PATH`.
fn program(names: &[&str]) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut candidates = names
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
    let found = candidates.find(|candidate| candidate.is_file());
    found.with_context(|| {
        format!(
            "{} is not on the PATH: run make browser, or install Debian's chromium and \
             chromium-driver",
            names[0]
        )
    })
}

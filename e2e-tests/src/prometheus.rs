//! A real Prometheus, which collects metrics of a cluster and answers queries, and its `promtool`.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    control_plane::{ADMIN, Binaries, ControlPlane, free_port},
    http,
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};

const NAME: &str = "prometheus";

/// Runs `promtool` in a folder.
pub fn promtool(folder: &Path, arguments: &[&str]) -> Result<Output> {
    let program = Binaries::find_one("promtool")?;
    let output = Command::new(&program).current_dir(folder).args(arguments).output();
    output.with_context(|| format!("cannot run {}", program.display()))
}

/// A running Prometheus.
pub struct Prometheus {
    supervisor: Arc<Supervisor>,
    address: String,
}

impl Prometheus {
    /// Starts it. It collects the metrics of the API server, and those of the sidecars, each with a name
    /// and an address.
    pub async fn start(
        control_plane: &ControlPlane,
        sidecars: &[(String, String)],
        interval: Duration,
    ) -> Result<Self> {
        let folder = control_plane.folder().join(NAME);
        fs::create_dir_all(&folder)?;
        let authority = folder.join("ca.crt");
        fs::write(&authority, control_plane.authority())?;
        let api_server = control_plane.url().trim_start_matches("https://");
        let sidecar =
            |(name, address): &(String, String)| json!({"targets": [address], "labels": {"instance": name}});
        let targets: Vec<Value> = sidecars.iter().map(sidecar).collect();
        let interval = format!("{}ms", interval.as_millis());
        // JSON is valid YAML.
        let config = json!({
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": [
                {"job_name": "pps-sidecar", "static_configs": targets},
                {"job_name": "apiserver", "scheme": "https", "static_configs": [{"targets": [api_server]}],
                    "authorization": {"credentials": control_plane.token_of(ADMIN)?},
                    "tls_config": {"ca_file": authority}},
            ],
        });
        let file = folder.join("prometheus.yml");
        fs::write(&file, config.to_string())?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let args = vec![
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address={address}"),
        ];
        let supervisor = control_plane.supervisor().clone();
        let program = Binaries::find_one(NAME)?;
        supervisor.spawn(Spec { name: NAME.to_owned(), program, args, env: Vec::new() })?;
        let prometheus = Self { supervisor, address };
        prometheus.wait_until_all_are_up(sidecars.len() + 1).await?;
        Ok(prometheus)
    }

    async fn wait_until_all_are_up(&self, targets: usize) -> Result<()> {
        wait_for("Prometheus to collect metrics of all", Duration::from_mins(2), async || {
            if !self.supervisor.status(NAME)?.running {
                return Ok(Progress::Done(false));
            }
            let answer = self.get("/api/v1/query", &[("query", "sum(up)")]).await?;
            let up = answer["result"][0]["value"][1].as_str().unwrap_or_default();
            Ok(Progress::when(up == targets.to_string(), true, format!("{up} of {targets}")))
        })
        .await
        .and_then(|is_running| if is_running { Ok(()) } else { bail!("Prometheus ended") })
        .with_context(|| self.supervisor.log_tail(NAME, 20))
    }

    /// The series of an expression between two times, in Unix seconds, as Prometheus answers them.
    pub async fn query_range(
        &self,
        expression: &str,
        start: i64,
        end: i64,
        step: Duration,
    ) -> Result<Vec<Value>> {
        let (start, end) = (start.to_string(), end.to_string());
        let step = step.as_secs_f64().to_string();
        let arguments = [("query", expression), ("start", &start), ("end", &end), ("step", &step)];
        let mut answer =
            self.get("/api/v1/query_range", &arguments).await.with_context(|| expression.to_owned())?;
        Ok(serde_json::from_value(answer["result"].take())?)
    }

    async fn get(&self, path: &str, arguments: &[(&str, &str)]) -> Result<Value> {
        let mut target = format!("{path}?");
        for (name, value) in arguments {
            let _ = write!(target, "{name}={}&", percent_encoded(value));
        }
        let (status, body) = http::get(&self.address, &target).await?;
        let mut answer: Value =
            serde_json::from_str(&body).with_context(|| format!("Prometheus answers {status} {body}"))?;
        if answer["status"] != "success" {
            bail!("Prometheus answers {status}: {}", answer["error"]);
        }
        Ok(answer["data"].take())
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

//! What the recorders have stored, as etcd's watch shows it. Neither of the two is asked, and the API server does not
//! notice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where the API server stores the PPS.
pub(super) const OBJECTS: &str = "/registry/apps.kruise.io/persistentpodstates/";

pub(super) fn etcd_client(url: &str) -> Result<Client> {
    Ok(Client::try_from(Config::new(url.parse()?))?)
}

/// Deletes all keys that begin with a prefix.
pub(super) async fn delete_all(etcd: &Client, prefix: &str) -> Result<()> {
    let body = serde_json::to_vec(&range(prefix))?;
    let _: Value = etcd.request(Request::post("/v3/kv/deleterange").body(body)?).await?;
    Ok(())
}

fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({"key": BASE64_STANDARD.encode(prefix), "range_end": BASE64_STANDARD.encode(end)})
}

/// The number of recorded Pods and of writes of each PPS, by its namespace and name.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    objects: HashMap<String, Stored>,
    /// When the last change was seen.
    pub(super) at: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    states: usize,
    writes: u64,
}

impl Seen {
    /// How many Pods are recorded in the objects whose namespace and name begin with this.
    pub(super) fn states(&self, prefix: &str) -> usize {
        self.of(prefix).map(|stored| stored.states).sum()
    }

    /// How often the objects were written, without their creation.
    pub(super) fn writes(&self, prefix: &str) -> u64 {
        self.of(prefix).map(|stored| stored.writes).sum()
    }

    fn of<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Stored> {
        self.objects.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(_, stored)| stored)
    }
}

/// Follows etcd's watch until it is dropped.
pub(super) struct Records {
    seen: watch::Receiver<Seen>,
    task: JoinHandle<()>,
}

impl Records {
    pub(super) async fn follow(etcd: &Client) -> Result<Self> {
        let mut create = range(OBJECTS);
        // What was written before does not matter.
        create["progress_notify"] = false.into();
        let body = serde_json::to_vec(&json!({"create_request": create}))?;
        let stream = etcd.request_stream(Request::post("/v3/watch").body(body)?).await?;
        let mut lines = stream.lines();
        let first = lines.try_next().await?.context("etcd ended the watch")?;
        ensure!(first.contains("created"), "etcd refused the watch: {first}");
        let (sender, seen) = watch::channel(Seen { objects: HashMap::new(), at: Instant::now() });
        let task = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.try_next().await {
                if let Err(error) = apply(&sender, &line) {
                    eprintln!("  cannot read etcd's watch: {error:#}");
                }
            }
        });
        Ok(Self { seen, task })
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until as many Pods are recorded. Returns when the last of them was seen, none after the time limit.
    pub(super) async fn wait(&self, prefix: &str, states: usize, limit: Duration) -> Result<Option<Instant>> {
        let mut seen = self.seen.clone();
        let waited = tokio::time::timeout(limit, seen.wait_for(|seen| seen.states(prefix) >= states)).await;
        match waited {
            Ok(Ok(seen)) => Ok(Some(seen.at)),
            Ok(Err(_)) => bail!("etcd's watch ended"),
            Err(_) => Ok(None),
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn apply(sender: &watch::Sender<Seen>, line: &str) -> Result<()> {
    let at = Instant::now();
    let mut message: Value = serde_json::from_str(line)?;
    let mut changes = Vec::new();
    for event in message["result"]["events"].as_array_mut().into_iter().flatten() {
        let text = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
        let key = String::from_utf8(text(&event["kv"]["key"])?)?;
        let name = key.strip_prefix(OBJECTS).unwrap_or(&key).to_owned();
        if event["type"] == "DELETE" {
            changes.push((name, None));
            continue;
        }
        let object: Value = serde_json::from_slice(&text(&event["kv"]["value"])?)?;
        let version = event["kv"]["version"].as_str().unwrap_or_default().parse().unwrap_or(1_u64);
        changes.push((name, Some(Stored { states: recorded(&object["status"]), writes: version - 1 })));
    }
    sender.send_modify(|seen| {
        for (name, stored) in changes {
            match stored {
                Some(stored) => seen.objects.insert(name, stored),
                None => seen.objects.remove(&name),
            };
        }
        seen.at = at;
    });
    Ok(())
}

/// The number of Pods in a status, in either form. In the compact form, the first word of a bucket is its number of
/// Pods.
fn recorded(status: &Value) -> usize {
    let buckets = status["packed"]["buckets"].as_object();
    let first = |bucket: &Value| bucket.as_str()?.split_whitespace().next()?.parse::<usize>().ok();
    let packed: usize = buckets.into_iter().flatten().filter_map(|(_, bucket)| first(bucket)).sum();
    packed + status["podStates"].as_object().map_or(0, serde_json::Map::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_status_are_counted() {
        let plain = json!({"podStates": {"db-0": {}, "db-1": {}}});
        let packed = json!({"packed": {"buckets": {"ordinals-0": "3 db-* node-*\n", "hash-2": "1 x y\n"}}});
        assert_eq!([recorded(&plain), recorded(&packed), recorded(&Value::Null)], [2, 4, 0]);
    }

    #[test]
    fn a_range_ends_behind_its_prefix() {
        assert_eq!(range("/a/")["range_end"], BASE64_STANDARD.encode("/a0"));
    }
}

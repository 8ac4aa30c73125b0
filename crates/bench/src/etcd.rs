//! etcd behind the API server. Objects are written into it directly: creating a hundred thousand
//! Pods through the API server would take longer than all measurements. And its watch shows what a
//! recorder has stored, without asking the recorder or the API server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, stream};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where the API server stores PPS objects, below `/registry/`.
pub(crate) const OBJECTS: &str = "apps.kruise.io/persistentpodstates/";
/// How many objects one transaction writes; etcd accepts at most 128.
const BATCH_SIZE: usize = 100;

/// An object, and its key below `/registry/`.
pub(crate) struct StoredObject {
    pub(crate) key: String,
    pub(crate) value: Value,
}

pub(crate) struct Etcd(Client);

impl Etcd {
    pub(crate) fn new(url: &str) -> Result<Self> {
        Ok(Self(Client::try_from(Config::new(url.parse()?))?))
    }

    /// Writes objects by their keys.
    pub(crate) async fn put_all(
        &self,
        mut objects: impl Iterator<Item = StoredObject>,
    ) -> Result<()> {
        let batches = std::iter::from_fn(|| {
            let batch: Vec<_> = objects.by_ref().take(BATCH_SIZE).collect();
            (!batch.is_empty()).then_some(batch)
        });
        let puts = batches.map(|batch| self.put(batch));
        stream::iter(puts)
            .buffer_unordered(4)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    async fn put(&self, batch: Vec<StoredObject>) -> Result<()> {
        let body = json!({"success": batch.iter().map(put_request).collect::<Vec<_>>()});
        let response: Value = self.0.request(request("/v3/kv/txn", &body)?).await?;
        ensure!(
            response["succeeded"] == true,
            "etcd refused a transaction: {response}"
        );
        Ok(())
    }

    /// Deletes all keys that begin with a prefix.
    pub(crate) async fn delete_all(&self, prefix: &str) -> Result<()> {
        let _: Value = self
            .0
            .request(request("/v3/kv/deleterange", &range(prefix))?)
            .await?;
        Ok(())
    }

    /// Follows the changes of PPS objects from now on.
    pub(crate) async fn follow(&self) -> Result<Records> {
        let request = request("/v3/watch", &json!({"create_request": range(OBJECTS)}))?;
        let mut lines = self.0.request_stream(request).await?.lines();
        let first = lines.try_next().await?.context("etcd ended the watch")?;
        ensure!(first.contains("created"), "etcd refused the watch: {first}");
        let (sender, stored) = watch::channel(Stored {
            objects: HashMap::new(),
            at: Instant::now(),
        });
        let task = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.try_next().await {
                if let Err(error) = apply(&sender, &line) {
                    eprintln!("  cannot read etcd's watch: {error:#}");
                }
            }
        });
        Ok(Records { stored, task })
    }
}

fn put_request(StoredObject { key, value }: &StoredObject) -> Value {
    let key = BASE64_STANDARD.encode(format!("/registry/{key}"));
    json!({"requestPut": {"key": key, "value": BASE64_STANDARD.encode(value.to_string())}})
}

fn request(path: &str, body: &Value) -> Result<Request<Vec<u8>>> {
    Ok(Request::post(path).body(serde_json::to_vec(body)?)?)
}

fn range(prefix: &str) -> Value {
    let key = format!("/registry/{prefix}");
    let mut end = key.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({"key": BASE64_STANDARD.encode(key), "range_end": BASE64_STANDARD.encode(end)})
}

/// What is stored, as etcd's watch shows it until this is dropped.
pub(crate) struct Records {
    stored: watch::Receiver<Stored>,
    task: JoinHandle<()>,
}

struct Stored {
    /// By namespace and name.
    objects: HashMap<String, StoredPps>,
    /// When the last change was seen.
    at: Instant,
}

struct StoredPps {
    /// The number of recorded Pods.
    states: usize,
    /// The number of writes, without the creation.
    writes: u64,
}

impl Stored {
    fn of(&self, namespace: &str) -> impl Iterator<Item = &StoredPps> {
        self.objects
            .iter()
            .filter(move |(key, _)| key.split('/').next() == Some(namespace))
            .map(|(_, stored)| stored)
    }

    fn states(&self, namespace: &str) -> usize {
        self.of(namespace).map(|pps| pps.states).sum()
    }
}

impl Records {
    /// How often the objects of a namespace were written, without their creation.
    pub(crate) fn writes(&self, namespace: &str) -> u64 {
        self.stored
            .borrow()
            .of(namespace)
            .map(|pps| pps.writes)
            .sum()
    }

    /// Waits until so many Pods are recorded. Returns when the last of them was seen, none after
    /// the time limit.
    pub(crate) async fn wait(
        &self,
        namespace: &str,
        states: usize,
        limit: Duration,
    ) -> Result<Option<Instant>> {
        let mut stored = self.stored.clone();
        let all = stored.wait_for(|stored| stored.states(namespace) >= states);
        match tokio::time::timeout(limit, all).await {
            Ok(Ok(stored)) => return Ok(Some(stored.at)),
            Ok(Err(_)) => bail!("etcd's watch ended"),
            Err(_) => {}
        }
        let recorded = self.stored.borrow().states(namespace);
        eprintln!("    after {limit:?}, {recorded} of {states} Pods are recorded in {namespace}");
        Ok(None)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn apply(sender: &watch::Sender<Stored>, line: &str) -> Result<()> {
    let at = Instant::now();
    let mut message: Value = serde_json::from_str(line)?;
    let mut changes = Vec::new();
    for event in message["result"]["events"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let key = String::from_utf8(decode(&event["kv"]["key"])?)?;
        let name = key
            .trim_start_matches("/registry/")
            .trim_start_matches(OBJECTS)
            .to_owned();
        let stored = if event["type"] == "DELETE" {
            None
        } else {
            let object: Value = serde_json::from_slice(&decode(&event["kv"]["value"])?)?;
            let version = event["kv"]["version"]
                .as_str()
                .unwrap_or_default()
                .parse()
                .unwrap_or(1_u64);
            Some(StoredPps {
                states: recorded(&object["status"]),
                writes: version - 1,
            })
        };
        changes.push((name, stored));
    }
    sender.send_modify(|known| {
        for (name, stored) in changes {
            match stored {
                Some(stored) => known.objects.insert(name, stored),
                None => known.objects.remove(&name),
            };
        }
        known.at = at;
    });
    Ok(())
}

fn decode(value: &Value) -> Result<Vec<u8>> {
    Ok(BASE64_STANDARD.decode(value.as_str().unwrap_or_default())?)
}

/// The number of Pods in a status, in either form. In the compact form, the first word of a bucket
/// is its number of Pods.
fn recorded(status: &Value) -> usize {
    let buckets = status["packed"]["buckets"].as_object();
    let packed: usize = buckets
        .into_iter()
        .flatten()
        .filter_map(|(_, bucket)| bucket.as_str()?.split_whitespace().next())
        .filter_map(|number| number.parse::<usize>().ok())
        .sum();
    packed
        + status["podStates"]
            .as_object()
            .map_or(0, serde_json::Map::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_status_are_counted() {
        let plain = json!({"podStates": {"db-0": {}, "db-1": {}}});
        let packed =
            json!({"packed": {"buckets": {"ordinals-0": "3 db-* node-*\n", "hash-2": "1 x y\n"}}});
        assert_eq!(
            [recorded(&plain), recorded(&packed), recorded(&Value::Null)],
            [2, 4, 0]
        );
    }

    #[test]
    fn a_range_ends_behind_its_prefix() {
        assert_eq!(
            range("a/")["range_end"],
            BASE64_STANDARD.encode("/registry/a0")
        );
    }
}

//! What the sidecar reads of the same objects in JSON and in protobuf, as a real API server encodes
//! them: random objects, which no API server would accept but which one may have stored, in a list
//! and in a watch.

mod objects;

use std::{collections::BTreeMap, fmt::Debug, hash::Hash, slice, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::BodyExt;
use hyper::{Request, header};
use kube::{Client, Config, client::Body};
use pps_e2e::{
    control_plane::{ControlPlane, Options},
    supervisor::Supervisor,
};
use pps_recorder::{
    decide::index::Index,
    facts::{NamespacedName, interest::Interest, store::Update},
};
use pps_sidecar::observe::wire::{
    self, Encoded, Encoding, Event, Events, Item, Malformed, Message, Page,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::objects::{node, pod, stateful_set};
use crate::support::{TIMEOUT, random::Random};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
/// How many objects of each kind.
const OBJECTS: u64 = 150;
/// Replaced by bytes that are no UTF-8, which only a client that writes protobuf can store.
const TO_BREAK: &str = "REPLACED";

#[tokio::test]
async fn json_and_protobuf_show_the_same_facts() {
    let supervisor = Arc::new(Supervisor::start().unwrap());
    // The controllers would change or delete these objects.
    let options = Options {
        controllers: false,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(supervisor, options).await.unwrap();
    let client = control_plane.client();
    let etcd = Client::try_from(Config::new(control_plane.etcd_url().parse().unwrap())).unwrap();
    let mut random = Random::of("json_and_protobuf_show_the_same_facts");
    let mut make = |prefix: &str, object: fn(&mut Random, u64) -> Value| -> Vec<(String, Value)> {
        (0..OBJECTS)
            .map(|index| (format!("{prefix}{index}"), object(&mut random, index)))
            .collect()
    };
    let mut stored = || {
        [
            make("pods/default/p", pod),
            make("minions/n", node),
            make("statefulsets/default/s", stateful_set),
        ]
    };
    let (before, [new_pods, new_nodes, new_workloads]) = (stored(), stored());
    for batch in before.iter().flat_map(|objects| objects.chunks(100)) {
        put(&etcd, batch).await;
    }
    store_invalid_text(&client).await;

    let interest = interest();
    let pods = compare((&client, &etcd, &new_pods), "/api/v1/pods", "", |object| {
        wire::read_pod(object, &interest)
    });
    let facts: Vec<_> = pods.await.into_values().map(|item| item.fact).collect();
    // The objects are so various that the comparison means something.
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    let count = |is_so: fn(&pps_recorder::facts::PodFact) -> bool| {
        facts.iter().filter(|fact| is_so(fact)).count()
    };
    let expected = [
        count(|fact| fact.ready),
        count(|fact| !fact.ready),
        count(|fact| fact.ready_since.is_some()),
        count(|fact| fact.terminating),
        count(|fact| fact.exempt),
        count(|fact| fact.pending.is_some()),
        count(|fact| {
            fact.pending
                .as_ref()
                .is_some_and(|pending| !pending.required_affinity.is_empty())
        }),
        count(|fact| fact.node.is_some()),
        count(|fact| fact.ips.len() > 1),
        count(|fact| fact.annotations.len() > 1),
        count(|fact| {
            fact.annotations
                .iter()
                .any(|(_, value)| value.contains('\u{fffd}'))
        }),
    ];
    assert!(expected.iter().all(|count| *count > 0), "{expected:?}");
    let nodes = compare(
        (&client, &etcd, &new_nodes),
        "/api/v1/nodes",
        "PartialObjectMetadata",
        |object| wire::read_node(object, &interest),
    );
    assert!(
        nodes
            .await
            .into_values()
            .any(|item| item.fact.is_some_and(|fact| !fact.labels.is_empty()))
    );
    let workloads = compare(
        (&client, &etcd, &new_workloads),
        "/apis/apps/v1/statefulsets",
        "",
        wire::read_stateful_set,
    );
    let replicas: std::collections::BTreeSet<_> = workloads
        .await
        .into_values()
        .filter_map(|item| item.fact?.demand.replicas())
        .collect();
    assert!(replicas.len() > 2, "{replicas:?}");
    assert_refused_version_is_readable(&client, &etcd).await;
}

/// Compares a list in both encodings, and the events of a watch in which these objects replace
/// others, and some are deleted. Returns the items of the list.
async fn compare<K, F>(
    (client, etcd, changes): (&Client, &Client, &[(String, Value)]),
    path: &str,
    as_: &str,
    read: impl Fn(Encoded<'_>) -> Result<Item<K, F>, Malformed>,
) -> BTreeMap<String, Item<K, F>>
where
    K: Debug + Eq + Hash + PartialEq + ToString,
    F: Debug + PartialEq,
{
    let read = |object: Encoded<'_>| read(object).unwrap();
    let mut lists = Vec::new();
    let mut version = String::new();
    for encoding in [JSON, PROTOBUF] {
        let list_kind = if as_.is_empty() {
            String::new()
        } else {
            format!("{as_}List")
        };
        let message = get(client, path, encoding, &list_kind).await;
        assert_eq!(
            matches!(message, Message::Protobuf(_)),
            encoding == PROTOBUF,
            "{path}"
        );
        let page = Page::read(&message).unwrap();
        version = page.resource_version;
        let items = page.items.into_iter().map(&read);
        lists.push(
            items
                .map(|item| (item.key.to_string(), item))
                .collect::<BTreeMap<_, _>>(),
        );
    }
    let protobuf = lists.pop().unwrap();
    let json = lists.pop().unwrap();
    for (key, item) in &json {
        assert_eq!(protobuf.get(key), Some(item), "{path} {key}");
    }
    assert!(
        json.len() as u64 >= OBJECTS && protobuf.len() == json.len(),
        "{path}: {}",
        protobuf.len()
    );

    let mut watches =
        [JSON, PROTOBUF].map(|encoding| Watch::new(client, path, (encoding, as_), &version));
    let deletions = changes
        .iter()
        .skip(changes.len() - 9)
        .map(|(key, _)| deletion(key));
    let requests: Vec<Value> = changes.iter().map(replacement).chain(deletions).collect();
    for portion in requests.chunks(50) {
        // Each gets a version of its own, from which a watch can go on.
        for request in portion {
            commit(etcd, slice::from_ref(request)).await;
        }
        for watch in &mut watches {
            watch.read(portion.len(), &read).await;
        }
    }
    let [json_events, protobuf_events] = watches.map(|watch| watch.seen);
    for (json, protobuf) in json_events.iter().zip(&protobuf_events) {
        assert_eq!(json, protobuf, "{path}");
    }
    json
}

/// A watch, and what it has seen: whether an object was written or deleted, and the object.
struct Watch<'a, K, F> {
    client: &'a Client,
    path: &'a str,
    encoding: (&'a str, &'a str),
    version: String,
    stream: Option<(Events, Body)>,
    seen: Vec<(bool, Item<K, F>)>,
}

impl<'a, K, F> Watch<'a, K, F> {
    fn new(client: &'a Client, path: &'a str, encoding: (&'a str, &'a str), version: &str) -> Self {
        Self {
            client,
            path,
            encoding,
            version: version.to_owned(),
            stream: None,
            seen: Vec::new(),
        }
    }

    /// Reads so many events. The API server ends the watch of a client that does not keep up, as on
    /// a busy machine.
    async fn read(&mut self, count: usize, read: &impl Fn(Encoded<'_>) -> Item<K, F>) {
        let (count, mut ends) = (self.seen.len() + count, 0);
        while self.seen.len() < count {
            let (events, body) = match &mut self.stream {
                Some(stream) => stream,
                none => {
                    none.insert(open(self.client, self.path, self.encoding, &self.version).await)
                }
            };
            let Some(Ok(frame)) = timeout(TIMEOUT, body.frame()).await.unwrap() else {
                ends += 1;
                assert!(ends < 20, "{}: the watch ends again and again", self.path);
                self.stream = None;
                continue;
            };
            events.push(&frame.into_data().unwrap_or_default());
            while let Some(event) = events.next_event().unwrap() {
                let (is_applied, object) = match Event::read(&event).unwrap() {
                    Event::Applied(object) => (true, object),
                    Event::Deleted(object) => (false, object),
                    Event::Bookmark(_) => continue,
                    Event::Error { code, message } => panic!("{code} {message}"),
                };
                let item = read(object);
                item.resource_version.clone_into(&mut self.version);
                self.seen.push((is_applied, item));
            }
        }
        assert_eq!(self.seen.len(), count, "{}", self.path);
    }
}

async fn open(
    client: &Client,
    path: &str,
    (encoding, as_): (&str, &str),
    version: &str,
) -> (Events, Body) {
    let query = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=600");
    let (encoding, body) = send(client, &query, encoding, as_).await;
    (Events::new(encoding, 1 << 20), body)
}

/// etcd has forgotten the earlier versions. The API server has no cache of Events that would know
/// them.
async fn assert_refused_version_is_readable(client: &Client, etcd: &Client) {
    let version = Page::read(&get(client, "/api/v1/events", JSON, "").await)
        .unwrap()
        .resource_version;
    let body = json!({"revision": version, "physical": true})
        .to_string()
        .into_bytes();
    let request = Request::post("/v3/kv/compaction").body(body).unwrap();
    etcd.request::<Value>(request).await.unwrap();
    let path = "/api/v1/events?watch=true&resourceVersion=1";
    let (encoding, mut body) = send(client, path, PROTOBUF, "").await;
    let mut events = Events::new(encoding, 1 << 20);
    let event = loop {
        let frame = timeout(TIMEOUT, body.frame())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        events.push(&frame.into_data().unwrap_or_default());
        if let Some(event) = events.next_event().unwrap() {
            break event;
        }
    };
    let event = Event::read(&event).unwrap();
    assert!(matches!(event, Event::Error { code: 410, .. }), "{event:?}");
}

async fn send(client: &Client, path: &str, encoding: &str, as_: &str) -> (Encoding, Body) {
    let as_ = if as_.is_empty() {
        String::new()
    } else {
        format!(";as={as_};g=meta.k8s.io;v=v1")
    };
    let request = Request::get(path)
        .header(header::ACCEPT, format!("{encoding}{as_}"))
        .body(Body::empty());
    let response = client.send(request.unwrap()).await.unwrap();
    assert!(
        response.status().is_success(),
        "{path}: {}",
        response.status()
    );
    let content_type = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let is_protobuf = content_type.is_some_and(|value| value.starts_with(PROTOBUF));
    (
        if is_protobuf {
            Encoding::Protobuf
        } else {
            Encoding::Json
        },
        response.into_body(),
    )
}

async fn get(client: &Client, path: &str, encoding: &str, as_: &str) -> Message {
    let (encoding, body) = send(client, path, encoding, as_).await;
    Message::new(encoding, body.collect().await.unwrap().to_bytes().to_vec())
}

/// The keys that the objects may have.
fn interest() -> Interest {
    let interest = Interest::default();
    let mut index = Index::new(interest.clone());
    let object = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone", "example.com/rack"]},
            "persistentPodAnnotations": [{"key": "ip"}, {"key": "example.com/x"}],
        },
    });
    let item = wire::read_pps(Encoded::Json(&object.to_string())).unwrap();
    index.apply_objects(Update::Begin(0));
    let key: NamespacedName = item.key;
    index.apply_objects(Update::Apply(key, item.fact.unwrap()));
    interest
}

/// Gives the first Pods an annotation that is no UTF-8.
async fn store_invalid_text(client: &Client) {
    for index in 0..5 {
        let path = format!("/api/v1/namespaces/default/pods/p{index}");
        let Message::Protobuf(mut bytes) = get(client, &path, PROTOBUF, "").await else {
            panic!("no protobuf")
        };
        let Some(at) = bytes
            .windows(TO_BREAK.len())
            .position(|window| window == TO_BREAK.as_bytes())
        else {
            panic!("the Pod has no annotation")
        };
        bytes[at..at + TO_BREAK.len()].copy_from_slice(b"a\xff\xfeb\xf0\x9f\xc0z");
        let request = Request::put(path)
            .header(header::CONTENT_TYPE, PROTOBUF)
            .body(Body::from(bytes))
            .unwrap();
        let response = client.send(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert!(
            head.status.is_success(),
            "{}",
            String::from_utf8_lossy(&body)
        );
    }
}

async fn put(etcd: &Client, batch: &[(String, Value)]) {
    commit(etcd, &batch.iter().map(replacement).collect::<Vec<_>>()).await;
}

fn replacement((key, value): &(String, Value)) -> Value {
    let key = BASE64_STANDARD.encode(format!("/registry/{key}"));
    json!({"requestPut": {"key": key, "value": BASE64_STANDARD.encode(value.to_string())}})
}

fn deletion(key: &str) -> Value {
    json!({"requestDeleteRange": {"key": BASE64_STANDARD.encode(format!("/registry/{key}"))}})
}

async fn commit(etcd: &Client, requests: &[Value]) {
    let body = json!({"success": requests});
    let request = Request::post("/v3/kv/txn")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    let response: Value = etcd.request(request).await.unwrap();
    assert_eq!(response["succeeded"], true, "{response}");
}

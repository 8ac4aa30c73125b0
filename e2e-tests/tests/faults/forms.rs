//! Objects move between `podStates` and the compact form, while something fails.

use std::{collections::BTreeMap, env, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use pps_core::packed::COMPACT_FROM;
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    manifests,
    recorded::recorded_states,
    repository::repository_file,
    sidecar::{NAMESPACE, Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::network::Network;
use crate::{
    scenarios::openkruise,
    support::{HOSTNAME, IP_ANNOTATION, Pool, Random, TIMEOUT, ZONE, homes, note, places},
};

/// So many states of Pods that do not exist make an object large.
const OTHERS: usize = COMPACT_FROM + 20;
const PATIENCE: Duration = Duration::from_mins(4);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    Compact,
}

impl Form {
    fn of(status: &Value) -> Self {
        if status["packed"].is_null() { Self::Plain } else { Self::Compact }
    }

    fn flag(self) -> Vec<String> {
        let value = if self == Self::Plain { "never" } else { "auto" };
        vec![format!("--compact-states={value}")]
    }
}

/// The states of an object, each as the policy reads it.
async fn states(pool: &Pool<'_>, name: &str) -> BTreeMap<String, Value> {
    recorded_states(&pool.pps(name).await.unwrap().data["status"]).unwrap()
}

/// Restores states of Pods that do not exist, so that the object is large. Returns all its states.
async fn enlarge(pool: &Pool<'_>, name: &str) -> BTreeMap<String, Value> {
    let api = pool.cluster.pps_api(pool.namespace);
    let keep = Patch::Merge(json!({"spec": {"persistentPodStateRetentionPolicy": "WhenDeleted"}}));
    api.patch(name, &PatchParams::default(), &keep).await.unwrap();
    let state = json!({"nodeName": "node-x", "nodeTopologyLabels": {ZONE: "zone-x", HOSTNAME: "node-x"}});
    let others: serde_json::Map<String, Value> =
        (1000..1000 + OTHERS).map(|number| (format!("{name}-{number}"), state.clone())).collect();
    let status = Patch::Merge(json!({"status": {"podStates": others}}));
    api.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    states(pool, name).await
}

/// Waits until an object has this form and no entry of the other one, and returns its states.
async fn moved(pool: &Pool<'_>, name: &str, form: Form) -> BTreeMap<String, Value> {
    wait_for(&format!("{name} to be {form:?}"), PATIENCE, async || {
        let pps = pool.pps(name).await?;
        let status = &pps.data["status"];
        let is_moved = Form::of(status) == form && (form == Form::Plain || status["podStates"].is_null());
        Ok(Progress::when(is_moved, recorded_states(status)?, status["conditions"].to_string()))
    })
    .await
    .unwrap()
}

/// Whoever reads an object at any moment sees every state: the sidecar is killed again and again while objects move over
/// and back, and answers get lost.
pub(crate) async fn keeps_every_state_despite_kills_and_lost_answers(network: &Network) {
    const SETS: [(&str, u32); 3] = [("web-a", 4), ("web-b", 6), ("web-c", 3)];
    let rounds = env::var("PPS_E2E_KILLS").map_or(16, |count| count.parse().unwrap());
    let cluster = &network.cluster;
    let pool = Pool::new(cluster, "forms", 4, 2).await;
    for (name, replicas) in SETS {
        let set = pool.stateful_set(name, replicas).persistent(ZONE, HOSTNAME, IP_ANNOTATION);
        cluster.create_stateful_set(&set).await.unwrap();
    }
    let mut expected = BTreeMap::new();
    for (name, replicas) in SETS {
        cluster.wait_ready(pool.namespace, name, replicas as usize, PATIENCE).await.unwrap();
        pool.recorded_within(name, name, PATIENCE).await;
        expected.insert(name, enlarge(&pool, name).await);
        moved(&pool, name, Form::Compact).await;
    }
    network.sidecar().kill().await.unwrap();

    let mut random = Random::of("kills while objects move");
    let (mut seen, mut form) = (BTreeMap::new(), Form::Compact);
    let check = async || {
        let mut forms = Vec::new();
        for (name, states_before) in &expected {
            let status = &pool.pps(name).await.unwrap().data["status"];
            assert_eq!(&recorded_states(status).unwrap(), states_before, "{name}: {status}");
            forms.push(Form::of(status));
        }
        forms
    };
    for round in 0..rounds {
        form = if form == Form::Compact { Form::Plain } else { Form::Compact };
        network.proxy.slow_down(Duration::from_millis(random.below(60)));
        let sidecar = start(network, form, round).await;
        // Reads while it moves them, too. It dies when so many have moved, or a moment later.
        let deadly = usize::try_from(random.below(3)).unwrap();
        let watching = async {
            while check().await.iter().filter(|one| **one == form).count() < deadly {}
            let loses_answers = random.below(3) == 0;
            if loses_answers {
                network.proxy.swallow();
            }
            tokio::time::sleep(Duration::from_millis(random.below(if deadly == 0 { 1500 } else { 30 })))
                .await;
        };
        let _ = tokio::time::timeout(TIMEOUT, watching).await;
        sidecar.kill().await.unwrap();
        network.proxy.mend();
        let forms = check().await;
        let there = forms.iter().filter(|one| **one == form).count();
        *seen.entry(there).or_insert(0) += 1;
        if there == forms.len() {
            continue;
        }
        // Half of the time, the next process finds them half moved.
        if random.below(2) == 0 {
            let sidecar = start(network, form, 1000 + round).await;
            sidecar.wait_leading(TIMEOUT).await.unwrap();
            for (name, _) in SETS {
                moved(&pool, name, form).await;
            }
            sidecar.kill().await.unwrap();
            check().await;
        }
    }
    note(&format!("{rounds} kills; objects that had moved at each: {seen:?}"));
    network.proxy.slow_down(Duration::ZERO);
    let last = start(network, Form::Compact, 9999).await;
    for (name, _) in SETS {
        assert_eq!(moved(&pool, name, Form::Compact).await, expected[name]);
    }
    last.terminate(TIMEOUT).await.unwrap();
}

/// Starts a sidecar that soon leads.
async fn start(network: &Network, form: Form, number: u32) -> Sidecar {
    let leases: Api<Lease> = Api::namespaced(network.cluster.client(), NAMESPACE);
    // Waiting until it expires would take longer than everything else.
    let _ = leases.delete("pps-sidecar", &DeleteParams::default()).await;
    let kubeconfig = Some(network.proxy.kubeconfig(&network.cluster.control_plane, SIDECAR).unwrap());
    let name = format!("pps-sidecar-{number}");
    let options = SidecarOptions { name, kubeconfig, args: form.flag(), ..SidecarOptions::default() };
    network.cluster.run_sidecar(options).unwrap()
}

/// This product's definition as it was before there was a compact form.
fn former_definition() -> Value {
    let mut definition = ours();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
        assert!(status.as_object_mut().unwrap().remove("packed").is_some());
    }
    definition
}

fn ours() -> Value {
    manifests::read(&repository_file("deploy/base/crd.yaml")).unwrap().remove(0)
}

async fn put_definition(cluster: &Cluster, definition: &Value) {
    cluster.apply_objects(std::slice::from_ref(definition)).await.unwrap();
}

/// Waits, too, until the API server uses it. A sidecar that runs sees the change earlier, and is to cope with that; one that
/// starts later sees no change.
async fn use_definition(cluster: &Cluster, definition: &Value) {
    put_definition(cluster, definition).await;
    let has_packed = definition.to_string().contains(r#""packed""#);
    wait_for("the definition to be in use", TIMEOUT, async || {
        let explained = cluster.control_plane.kubectl(&["explain", "persistentpodstates.status"]).await?;
        Ok(Progress::when(explained.contains("packed") == has_packed, (), explained))
    })
    .await
    .unwrap();
}

/// A new sidecar takes over from the present one.
async fn restart(cluster: &mut Cluster, name: &str, form: Form) {
    cluster.sidecar().unwrap().terminate(TIMEOUT).await.unwrap();
    let options = SidecarOptions { name: name.to_owned(), args: form.flag(), ..SidecarOptions::default() };
    cluster.start_sidecar(options).await.unwrap();
    cluster.sidecar().unwrap().wait_leading(TIMEOUT).await.unwrap();
}

/// The way of a cluster: the definition and the form of before, the new ones, and back, to OpenKruise's definition. In between
/// Pods are created again, and return to their nodes.
pub(crate) async fn upgrades_and_goes_back() {
    let former = pps_e2e::scratch::Scratch::file("former.yaml", former_definition().to_string()).unwrap();
    let cluster = Cluster::builder().crd(former.path()).product();
    let mut cluster = cluster.start().await.unwrap();
    let namespace = "moving";
    let replicas: usize = 110;
    let before = {
        let pool = Pool::new(&cluster, namespace, 6, 2).await;
        let set = pool.stateful_set("web", u32::try_from(replicas).unwrap());
        let set = set.persistent(HOSTNAME, ZONE, IP_ANNOTATION);
        cluster.create_stateful_set(&set).await.unwrap();
        cluster.wait_ready(namespace, "web", replicas, PATIENCE).await.unwrap();
        assert_eq!(pool.recorded_within("web", "web", PATIENCE).await.len(), replicas);
        let before = enlarge(&pool, "web").await;
        assert_eq!(
            (before.len(), moved(&pool, "web", Form::Plain).await),
            (replicas + OTHERS, before.clone())
        );
        before
    };
    // Some Pods return to their nodes, in whatever form their states are.
    let return_home = async |cluster: &Cluster, pods: &[&str]| {
        let pool = Pool { cluster, namespace };
        let former = cluster.pods(namespace, "web").await.unwrap();
        pool.load_all(homes(&former).values()).await;
        let again = pool.recreate("web", pods).await;
        assert_eq!(places(&again), places(&former));
        wait_for("the states to be as before", PATIENCE, async || {
            let now = recorded_states(&pool.pps("web").await?.data["status"])?;
            Ok(Progress::when(now == before, (), format!("{} states", now.len())))
        })
        .await
        .unwrap();
    };

    put_definition(&cluster, &ours()).await;
    let pool = Pool { cluster: &cluster, namespace };
    assert_eq!(moved(&pool, "web", Form::Compact).await, before);
    return_home(&cluster, &["web-0", "web-99", "web-100", "web-109"]).await;
    assert_eq!(states(&pool, "web").await, before);

    restart(&mut cluster, "never", Form::Plain).await;
    let pool = Pool { cluster: &cluster, namespace };
    assert_eq!(moved(&pool, "web", Form::Plain).await, before);
    let openkruises = openkruise::definition();
    let openkruises = manifests::read(openkruises.path()).unwrap().remove(0);
    put_definition(&cluster, &openkruises).await;
    return_home(&cluster, &["web-1", "web-101"]).await;
    assert_eq!(states(&pool, "web").await, before);

    // The wrong order: that definition is put over compact objects.
    use_definition(&cluster, &ours()).await;
    restart(&mut cluster, "auto", Form::Compact).await;
    let pool = Pool { cluster: &cluster, namespace };
    assert_eq!(moved(&pool, "web", Form::Compact).await, before);
    put_definition(&cluster, &openkruises).await;
    wait_for("the states to be back", PATIENCE, async || {
        let states = cluster.pod_states(namespace, "web").await?;
        Ok(Progress::when(states == before, (), format!("{} states", states.len())))
    })
    .await
    .unwrap();
    return_home(&cluster, &["web-2", "web-102"]).await;
    let status = pool.pps("web").await.unwrap().data["status"].clone();
    let fields: Vec<&String> = status.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["observedGeneration", "podStates"]);
    put_definition(&cluster, &ours()).await;
    assert_eq!(moved(&pool, "web", Form::Compact).await, before);

    // A client that knows neither the compact form nor its other fields updates the whole status.
    let mut erased = pool.pps("web").await.unwrap();
    let known = json!({"nodeName": "node-y"});
    erased.data["status"] = json!({"observedGeneration": 1, "podStates": {"web-1000": known}});
    let api = cluster.pps_api(namespace);
    api.replace_status("web", &PostParams::default(), &erased).await.unwrap();
    let back = moved(&pool, "web", Form::Compact).await;
    assert_eq!((back.len(), &back["web-1000"]), (before.len(), &known));
    assert_eq!(back["web-7"], before["web-7"]);
    assert!(pool.pps("web").await.unwrap().data["status"]["targetUID"].is_string());
}

//! Objects move between `podStates` and the compact form, while something fails.

use std::{collections::BTreeMap, env, time::Duration};

use kube::api::{Patch, PatchParams};
use pps_core::packed::COMPACT_FROM;
use pps_e2e::{
    cluster::SIDECAR,
    recorded::recorded_states,
    sidecar::{Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::network::Network;
use crate::support::{HOSTNAME, IP_ANNOTATION, Pool, Random, TIMEOUT, ZONE, note};

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
        if status["packed"].is_null() {
            Self::Plain
        } else {
            Self::Compact
        }
    }

    fn flags(self) -> Vec<String> {
        let value = if self == Self::Plain { "never" } else { "auto" };
        // A killed sidecar would hold the Lease for longer than everything else takes.
        vec![
            format!("--compact-states={value}"),
            "--leader-election=false".to_owned(),
        ]
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
    api.patch(name, &PatchParams::default(), &keep)
        .await
        .unwrap();
    let state =
        json!({"nodeName": "node-x", "nodeTopologyLabels": {ZONE: "zone-x", HOSTNAME: "node-x"}});
    let others: serde_json::Map<String, Value> = (1000..1000 + OTHERS)
        .map(|number| (format!("{name}-{number}"), state.clone()))
        .collect();
    let status = Patch::Merge(json!({"status": {"podStates": others}}));
    api.patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
    states(pool, name).await
}

/// Waits until an object has this form and no entry of the other one, and returns its states.
async fn moved(pool: &Pool<'_>, name: &str, form: Form) -> BTreeMap<String, Value> {
    wait_for(&format!("{name} to be {form:?}"), PATIENCE, async || {
        let pps = pool.pps(name).await?;
        let status = &pps.data["status"];
        let is_moved =
            Form::of(status) == form && (form == Form::Plain || status["podStates"].is_null());
        Ok(Progress::when(
            is_moved,
            recorded_states(status)?,
            status["conditions"].to_string(),
        ))
    })
    .await
    .unwrap()
}

/// Whoever reads an object at any moment sees every state: the sidecar is killed again and again
/// while objects move over and back, and answers get lost.
pub(crate) async fn keeps_every_state_despite_kills_and_lost_answers(network: &Network<'_>) {
    const SETS: [(&str, u32); 3] = [("web-a", 2), ("web-b", 3), ("web-c", 1)];
    let rounds = env::var("PPS_E2E_KILLS").map_or(4, |count| count.parse().unwrap());
    let cluster = network.cluster;
    let pool = Pool::new(cluster, "forms", 4, 2).await;
    for (name, replicas) in SETS {
        let set = pool
            .stateful_set(name, replicas)
            .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
        cluster.create_stateful_set(&set).await.unwrap();
    }
    let mut expected = BTreeMap::new();
    for (name, replicas) in SETS {
        cluster
            .wait_ready(pool.namespace, name, replicas as usize, PATIENCE)
            .await
            .unwrap();
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
            assert_eq!(
                &recorded_states(status).unwrap(),
                states_before,
                "{name}: {status}"
            );
            forms.push(Form::of(status));
        }
        forms
    };
    for round in 0..rounds {
        form = if form == Form::Compact {
            Form::Plain
        } else {
            Form::Compact
        };
        // Of four rounds, the second and the third lose answers, one in each direction. Before
        // both, another process has moved all objects, so that all have yet to move. The one after
        // the second round takes over what lost answers have left.
        let (loses_answers, is_finished) = (matches!(round % 4, 1 | 2), round % 4 < 2);
        // An answer on its way when the sidecar dies takes longer than the sidecar lives, and is
        // lost, too.
        let delay = if loses_answers { 100 } else { random.below(60) };
        network.proxy.slow_down(Duration::from_millis(delay));
        let sidecar = start(network, form, round);
        // Reads while it moves them, too. It dies when so many have moved, or a moment later.
        let deadly = if loses_answers {
            1
        } else {
            usize::try_from(random.below(3)).unwrap()
        };
        let watching = async {
            while check().await.iter().filter(|one| **one == form).count() < deadly {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            if loses_answers {
                network.proxy.swallow();
            }
            tokio::time::sleep(Duration::from_millis(random.below(if deadly == 0 {
                1500
            } else {
                30
            })))
            .await;
        };
        tokio::time::timeout(PATIENCE, watching)
            .await
            .expect("the sidecar moves objects");
        sidecar.kill().await.unwrap();
        network.proxy.mend();
        let forms = check().await;
        let there = forms.iter().filter(|one| **one == form).count();
        *seen.entry(there).or_insert(0) += 1;
        if is_finished {
            let sidecar = start(network, form, 1000 + round);
            sidecar.wait_leading(TIMEOUT).await.unwrap();
            for (name, _) in SETS {
                moved(&pool, name, form).await;
            }
            sidecar.kill().await.unwrap();
            check().await;
        }
    }
    note(&format!(
        "{rounds} kills; objects that had moved at each: {seen:?}"
    ));
    network.proxy.slow_down(Duration::ZERO);
    let last = start(network, Form::Compact, 9999);
    for (name, _) in SETS {
        assert_eq!(moved(&pool, name, Form::Compact).await, expected[name]);
    }
    last.terminate(TIMEOUT).await.unwrap();
}

/// Starts a sidecar that moves objects to this form.
fn start(network: &Network<'_>, form: Form, number: u32) -> Sidecar {
    let kubeconfig = Some(
        network
            .proxy
            .kubeconfig(&network.cluster.control_plane, SIDECAR)
            .unwrap(),
    );
    let name = format!("pps-sidecar-{number}");
    let options = SidecarOptions {
        name,
        kubeconfig,
        args: form.flags(),
        ..SidecarOptions::default()
    };
    network.cluster.run_sidecar(options).unwrap()
}

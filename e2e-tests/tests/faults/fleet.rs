//! Several StatefulSets with randomly replaced Pods.

use std::{collections::BTreeMap, time::Duration};

use kube::api::DeleteParams;
use pps_e2e::cluster::{Cluster, PodInfo};
use serde_json::Value;

use crate::support::{HOSTNAME, IP_ANNOTATION, Pool, Random, TIMEOUT, ZONE};

/// StatefulSets `web-a`, `web-b`, …, each with a generated object of its name. Without the policy,
/// replaced Pods start on any node, so that the recorded states change.
pub(crate) struct Fleet<'a> {
    pub(crate) pool: Pool<'a>,
    sets: BTreeMap<String, u32>,
}

impl<'a> Fleet<'a> {
    /// `sets` StatefulSets of `replicas` Pods on six nodes in three zones. All Pods are Ready and
    /// recorded.
    pub(crate) async fn new(
        cluster: &'a Cluster,
        namespace: &'static str,
        sets: u8,
        replicas: u32,
    ) -> Self {
        let pool = Pool::new(cluster, namespace, 6, 3).await;
        let sets =
            (b'a'..b'a' + sets).map(|letter| (format!("web-{}", char::from(letter)), replicas));
        let fleet = Self {
            pool,
            sets: sets.collect(),
        };
        for (name, replicas) in &fleet.sets {
            let set = pool
                .stateful_set(name, *replicas)
                .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
            cluster.create_stateful_set(&set).await.unwrap();
        }
        fleet.ready().await;
        fleet.end_state().await;
        fleet
    }

    pub(crate) fn sets(&self) -> Vec<String> {
        self.sets.keys().cloned().collect()
    }

    /// The number of wanted Pods.
    pub(crate) fn pods(&self) -> usize {
        self.sets.values().map(|replicas| *replicas as usize).sum()
    }

    /// Waits until all Pods are Ready.
    pub(crate) async fn ready(&self) {
        for (name, replicas) in &self.sets {
            self.pool.ready(name, *replicas as usize).await;
        }
    }

    /// Waits until the recorded states match the cluster.
    pub(crate) async fn end_state(&self) {
        super::end_state::end_state(self.pool.cluster, self.pool.namespace, self.pods()).await;
    }

    /// Deletes `count` random Pods without waiting.
    pub(crate) async fn delete_some(
        &self,
        random: &mut Random,
        count: usize,
    ) -> Vec<(String, PodInfo)> {
        let mut all = Vec::new();
        for set in self.sets.keys() {
            let pods = self
                .pool
                .cluster
                .pods(self.pool.namespace, set)
                .await
                .unwrap();
            all.extend(
                pods.into_values()
                    .filter(|pod| !pod.terminating)
                    .map(|pod| (set.clone(), pod)),
            );
        }
        let api = self.pool.cluster.pods_api(self.pool.namespace);
        let mut deleted = Vec::new();
        for _ in 0..count.min(all.len()) {
            let chosen = usize::try_from(random.below(all.len() as u64)).unwrap();
            let (set, pod) = all.swap_remove(chosen);
            api.delete(&pod.name, &DeleteParams::default())
                .await
                .unwrap();
            deleted.push((set, pod));
        }
        deleted
    }

    /// Deletes `count` random Pods and waits until their replacements are Ready.
    pub(crate) async fn replace_some(&self, random: &mut Random, count: usize) {
        let deleted = self.delete_some(random, count).await;
        for (set, replicas) in &self.sets {
            let replicas = *replicas as usize;
            let old: Vec<&String> = deleted
                .iter()
                .filter(|(one, _)| one == set)
                .map(|(_, pod)| &pod.uid)
                .collect();
            let cluster = self.pool.cluster;
            let what = format!("{} Pods of {set} to be replaced", old.len());
            let new = |pod: &PodInfo| pod.ready && !old.contains(&&pod.uid);
            cluster
                .wait_for_pods(self.pool.namespace, set, &what, TIMEOUT, |pods| {
                    pods.len() == replicas && pods.values().all(new)
                })
                .await
                .unwrap();
        }
    }

    /// Replaces `count` Pods of one set, one or two at a time, with pauses.
    pub(crate) async fn churn(&self, set: &str, count: usize) {
        let mut random = Random::of(&format!("{}/{set}", self.pool.namespace));
        let mut left = count;
        while left > 0 {
            let replicas = u64::from(self.sets[set]);
            let (first, step) = (random.below(replicas), 1 + random.below(replicas - 1));
            let mut names = vec![
                format!("{set}-{first}"),
                format!("{set}-{}", (first + step) % replicas),
            ];
            names.truncate(left.min(1 + usize::try_from(random.below(2)).unwrap()));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            self.pool.recreate(set, &names).await;
            left -= names.len();
            tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        }
    }

    pub(crate) async fn scale(&mut self, set: &str, replicas: u32) {
        self.pool.scale(set, replicas).await;
        self.sets.insert(set.to_owned(), replicas);
    }

    /// Deletes a set with its Pods and makes another one of the same name.
    pub(crate) async fn recreate_set(&mut self, set: &str, replicas: u32) {
        let cluster = self.pool.cluster;
        cluster
            .delete_stateful_set(self.pool.namespace, set, false)
            .await
            .unwrap();
        let gone = cluster.wait_for_pods(
            self.pool.namespace,
            set,
            "no Pods",
            TIMEOUT,
            BTreeMap::is_empty,
        );
        gone.await.unwrap();
        let new = self
            .pool
            .stateful_set(set, replicas)
            .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
        cluster.create_stateful_set(&new).await.unwrap();
        self.sets.insert(set.to_owned(), replicas);
    }

    /// Moves a random node to another zone.
    pub(crate) async fn relabel(&self, random: &mut Random) {
        let node = format!("{}-{}", self.pool.namespace, random.below(6));
        let zone = format!("{}-moved-{}", self.pool.namespace, random.below(1000));
        self.pool
            .cluster
            .nodes
            .label(&node, ZONE, Some(&zone))
            .await
            .unwrap();
    }

    /// The recorded states, by object.
    pub(crate) async fn states(&self) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut states = BTreeMap::new();
        for set in self.sets.keys() {
            states.insert(set.clone(), self.pool.states(set).await);
        }
        states
    }
}

//! `forget` under a definition that hides states; [`super::move_several`] has its other scenario.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams};
use pps_core::{
    PodState,
    packed::{Row, write_bucket},
};
use pps_e2e::{
    cluster::Cluster,
    manifests,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::move_pod::run;
use crate::behaviour::openkruise;
use crate::support::{HOSTNAME, Pool, TIMEOUT, required};

pub(super) async fn states_that_a_definition_hides_are_not_lost(cluster: &Cluster) {
    cluster.namespace("hidden").await.unwrap();
    let pool = Pool {
        cluster,
        namespace: "hidden",
    };
    pool.object("db", &required("db", &[HOSTNAME])).await;
    let states: BTreeMap<String, PodState> = (0..30)
        .map(|ordinal| {
            (
                format!("db-{ordinal}"),
                PodState {
                    node_name: "node-1".into(),
                    ..PodState::default()
                },
            )
        })
        .collect();
    let rows: Vec<Row<'_>> = states
        .iter()
        .map(|(pod, state)| Row::of(pod, state))
        .collect();
    let packed = json!({"version": 1, "buckets": {"ordinals-0": write_bucket(&rows)}});
    let write = async |status: Value| {
        let patch = Patch::Merge(json!({"status": status}));
        cluster
            .pps_api("hidden")
            .patch_status("db", &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    write(json!({"packed": packed})).await;
    // Another client has recorded a Pod beside the compact form.
    write(json!({"podStates": {"db-40": {"nodeName": "node-2"}}})).await;

    // The API server goes on with the old definition for a moment.
    let replace = async |definition: Value, shown: usize| {
        manifests::apply(&cluster.client(), &[definition])
            .await
            .unwrap();
        wait_for(
            &format!("the definition to show {shown} states"),
            TIMEOUT,
            async || {
                let now = cluster.pod_states("hidden", "db").await?.len();
                Ok(Progress::when(now == shown, (), now))
            },
        )
        .await
        .unwrap();
    };
    let theirs = openkruise::definition();
    // It hides those in the compact form.
    replace(manifests::read(theirs.path()).unwrap().remove(0), 1).await;
    let refused = run(&pool, &["forget", "db-40", "--yes"]).await;
    assert_eq!(refused.exit_code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("hides status.packed"),
        "{refused:?}"
    );
    assert!(
        refused
            .stderr
            .contains("apply this product's definition first"),
        "{refused:?}"
    );

    // Nothing is lost.
    replace(
        manifests::read(&repository_file("deploy/base/crd.yaml"))
            .unwrap()
            .remove(0),
        31,
    )
    .await;
    // Under a definition that shows the compact form, what the managed fields say of it does no
    // harm.
    let dropped = run(&pool, &["forget", "db-40", "--yes"]).await;
    assert_eq!(dropped.exit_code, 0, "{dropped:?}");
    assert_eq!(pool.states("db").await.len(), 30);
    write(json!({"packed": null, "podStates": {"db-0": {"nodeName": "node-1"}}})).await;
    let dropped = run(&pool, &["forget", "db-0", "--yes"]).await;
    assert_eq!(dropped.exit_code, 0, "{dropped:?}");
}

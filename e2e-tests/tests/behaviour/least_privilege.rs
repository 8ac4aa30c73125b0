//! Each permission of the sidecar is needed: without it one feature fails, and works again once it
//! is granted again.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    sidecar::{NAMESPACE, Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{
    custom_kinds, openkruise,
    permissions::{self, Grant},
};
use crate::support::{HOSTNAME, Pool, TIMEOUT, homes, note, required, spec_for, wait_for_review};

const KEY: &str = "example.io/round";
const OTHER_KEY: &str = "example.io/other";
/// How long to check that a feature keeps failing.
const WHILE: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) fn sidecar() -> SidecarOptions {
    // With leader election, a killed sidecar would hold the Lease for a while.
    let args = [
        "--leader-election=false",
        "--node-grace-period=1s",
        "--evict-pending-pods",
    ];
    SidecarOptions {
        args: args.map(str::to_owned).into(),
        ..SidecarOptions::default()
    }
}

/// What the sidecar does, and cannot do without certain permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feature {
    /// Complete its initial lists.
    BecomeReady,
    /// Watch a workload of OpenKruise.
    WatchOpenKruise,
    /// Record a change of a Pod.
    Record,
    /// Generate an object for an annotated workload.
    Generate,
    /// Change that object once the annotations change.
    ChangeGenerated,
    /// Delete that object once the annotation is removed.
    DeleteGenerated,
    /// Publish Events.
    PublishEvents,
    /// Forget what was recorded on a deleted node.
    Forget,
    /// Evict a Pod that waits for a deleted node.
    Evict,
    /// Win the election.
    Lead,
    /// Detect OpenKruise's manager.
    DetectManager,
}

/// The number of permissions without which the sidecar does not become ready; each has a user
/// without it.
const READS: usize = 14;

fn reader(number: usize) -> String {
    format!("reader-{number}")
}

pub(crate) fn users() -> impl Iterator<Item = String> {
    (0..READS).map(reader)
}

/// Those without which the sidecar does not become ready, and the others.
fn reads_and_others() -> (Vec<Grant>, Vec<Grant>) {
    permissions::grants()
        .into_iter()
        .partition(|grant| feature_of(grant) == Feature::BecomeReady)
}

fn feature_of(((group, resource, verb), names): &Grant) -> Feature {
    match (group.as_str(), resource.as_str(), verb.as_str()) {
        ("apps.kruise.io", "statefulsets", _) => Feature::WatchOpenKruise,
        ("", "nodes", "get") => Feature::Forget,
        ("", "pods/eviction", "create") => Feature::Evict,
        ("apps.kruise.io", "persistentpodstates", "create") => Feature::Generate,
        ("apps.kruise.io", "persistentpodstates", "patch") => Feature::ChangeGenerated,
        ("apps.kruise.io", "persistentpodstates", "delete") => Feature::DeleteGenerated,
        ("apps.kruise.io", "persistentpodstates/status", "patch") => Feature::Record,
        ("events.k8s.io", "events", "create") => Feature::PublishEvents,
        ("coordination.k8s.io", "leases", "get") if names[0] == openkruise::LEASE => {
            Feature::DetectManager
        }
        ("coordination.k8s.io", "leases", _) => Feature::Lead,
        (_, _, "list" | "watch") => Feature::BecomeReady,
        other => {
            panic!("no feature needs {other:?}: add the feature here, or remove the permission")
        }
    }
}

/// Those with the same number are revoked together. None of their features needs the right of
/// another, and none of them changes what another one uses.
fn round_of(grant: &Grant) -> usize {
    match (feature_of(grant), grant.0.2.as_str()) {
        (Feature::Generate | Feature::Forget, _)
        | (Feature::WatchOpenKruise, "list")
        | (Feature::Lead, "get") => 0,
        (Feature::ChangeGenerated | Feature::Evict, _)
        | (Feature::WatchOpenKruise, "watch")
        | (Feature::Lead, "create") => 1,
        (Feature::DeleteGenerated | Feature::Record, _) | (Feature::Lead, "update") => 2,
        (Feature::PublishEvents | Feature::DetectManager, _) => 3,
        other => {
            panic!("{other:?} is in no round: add it to one with whose features it shares nothing")
        }
    }
}

/// Runs a sidecar for each permission to read, which lacks only this one. None of them may write.
pub(crate) async fn is_not_ready_without_any_one_permission_to_read(cluster: &Cluster) {
    let (reads, _) = reads_and_others();
    assert_eq!(reads.len(), READS, "{reads:?}");
    let grant = async |number: usize, missing: Option<&Grant>| {
        let rules = reads
            .iter()
            .filter(|grant| Some(*grant) != missing)
            .map(rule);
        let object = |kind: &str, rest: Value| {
            let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": reader(number)}});
            json_patch::merge(&mut object, &rest);
            object
        };
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reader(number)});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader(number)});
        let objects = [
            object("ClusterRole", json!({"rules": rules.collect::<Vec<_>>()})),
            object(
                "ClusterRoleBinding",
                json!({"roleRef": role, "subjects": [subject]}),
            ),
        ];
        cluster.apply_objects(&objects).await.unwrap();
    };
    let mut sidecars = Vec::new();
    for (number, missing) in reads.iter().enumerate() {
        grant(number, Some(missing)).await;
        wait_for_permission(cluster, &reader(number), &reads[(number + 1) % READS], true).await;
        let options = SidecarOptions {
            user: reader(number),
            name: reader(number),
            ..sidecar()
        };
        sidecars.push(cluster.run_sidecar(options).unwrap());
    }
    let is_ready = async |sidecar: &Sidecar| {
        sidecar
            .get("/readyz")
            .await
            .is_ok_and(|(code, _)| code == 200)
    };
    for (number, missing) in reads.iter().enumerate() {
        let user = reader(number);
        wait_for(
            &format!("{user} to be refused without {missing:?}"),
            TIMEOUT,
            async || {
                Ok(Progress::when(
                    refused(cluster, &user, missing) > 0,
                    (),
                    "no request was refused",
                ))
            },
        )
        .await
        .unwrap();
    }
    tokio::time::sleep(WHILE).await;
    for (sidecar, missing) in sidecars.iter().zip(&reads) {
        assert!(
            !is_ready(sidecar).await,
            "the sidecar is ready without {missing:?}"
        );
    }
    for number in 0..READS {
        grant(number, None).await;
    }
    for sidecar in &sidecars {
        sidecar.wait_ready(TIMEOUT).await.unwrap();
        sidecar.kill().await.unwrap();
    }
}

/// A rule that grants exactly this.
fn rule(((group, resource, verb), names): &Grant) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names})
}

/// Waits until the API server applies a change of a role.
async fn wait_for_permission(
    cluster: &Cluster,
    user: &str,
    ((group, resource, verb), names): &Grant,
    expected: bool,
) {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb,
        "name": names[0], "namespace": if resource == "leases" { NAMESPACE } else { "" }});
    wait_for_review(cluster, user, &attributes, expected).await;
}

pub(crate) async fn fails_visibly_without_any_other_permission(cluster: &Cluster) {
    let stage = Stage::set(cluster).await;
    let (_, others) = reads_and_others();
    assert!(others.len() > 10, "{others:?}");
    let mut revoked = 0;
    for number in 0..=3 {
        let round: Vec<Grant> = others
            .iter()
            .filter(|grant| round_of(grant) == number)
            .cloned()
            .collect();
        revoked += round.len();
        let has_manager = round
            .iter()
            .any(|grant| feature_of(grant) == Feature::DetectManager);
        tokio::select! {
            () = stage.without(&round) => {}
            () = openkruise::renew(cluster), if has_manager => {}
        }
    }
    assert_eq!(
        revoked,
        others.len(),
        "some rights are in a round that is not run, and were never revoked"
    );
}

/// A permission that is revoked.
struct Trial<'a> {
    grant: &'a Grant,
    feature: Feature,
    /// What the feature uses, another one for each permission.
    text: String,
    /// The node that a Pod has to leave.
    old_node: String,
    /// How many requests were refused before.
    refused_before: usize,
}

struct Stage<'a> {
    pool: Pool<'a>,
    /// Nodes that the scenario deletes.
    shrinking: Pool<'a>,
    /// A sidecar with leader election. It runs only for [`Feature::Lead`].
    elector: Sidecar,
}

impl<'a> Stage<'a> {
    async fn set(cluster: &'a Cluster) -> Self {
        let pool = Pool::new(cluster, "each-right", 1, 1).await;
        let shrinking = Pool::new(cluster, "each-right-shrinking", 3, 1).await;
        let more = json!({"persistentPodAnnotations": [{"key": KEY}]});
        pool.object("home", &spec_for("home", &more)).await;
        cluster
            .run_stateful_set(&pool.stateful_set("home", 1))
            .await
            .unwrap();
        let mut forgetting = required("gone", &[HOSTNAME]);
        forgetting["nodeDeletionPolicy"] = "Forget".into();
        shrinking.object("gone", &forgetting).await;
        cluster
            .run_stateful_set(&shrinking.stateful_set("gone", 1))
            .await
            .unwrap();
        cluster
            .create_stateful_set(&pool.stateful_set("made", 0))
            .await
            .unwrap();
        custom_kinds::define(cluster, &custom_kinds::openkruise()).await;
        let mut other = spec_for("other", &more);
        other["targetRef"]["apiVersion"] = "apps.kruise.io/v1beta1".into();
        pool.object("other", &other).await;
        shrinking.recorded("gone", "gone").await;
        let options = SidecarOptions {
            name: "elector".to_owned(),
            ..SidecarOptions::default()
        };
        let elector = cluster.run_sidecar(options).unwrap();
        elector.kill().await.unwrap();
        Self {
            pool,
            shrinking,
            elector,
        }
    }

    /// Revokes permissions, checks that the feature of each fails, and grants the permissions
    /// again.
    async fn without(&self, round: &[Grant]) {
        let cluster = self.pool.cluster;
        let sidecar = cluster.sidecar().unwrap();
        sidecar.kill().await.unwrap();
        self.grant(|grant| !round.contains(grant)).await;
        let mut before = Vec::new();
        for grant in round {
            wait_for_permission(cluster, SIDECAR, grant, false).await;
            if feature_of(grant) == Feature::Lead {
                self.prepare_lease(&grant.0.2).await;
            }
            before.push(refused(cluster, SIDECAR, grant));
        }
        sidecar.start_again().unwrap();
        if round.iter().any(|grant| feature_of(grant) == Feature::Lead) {
            self.elector.start_again().unwrap();
        }
        let mut trials = Vec::new();
        for (grant, refused_before) in round.iter().zip(before) {
            let (feature, (group, resource, verb)) = (feature_of(grant), &grant.0);
            let text = format!("{group}-{}-{verb}", resource.replace('/', "-"));
            let old_node = self.trigger(feature, &text).await;
            trials.push(Trial {
                grant,
                feature,
                text,
                old_node,
                refused_before,
            });
        }

        for trial in &trials {
            self.wait_until_refused(trial).await;
            self.wait_for(trial, false).await;
        }
        let end = tokio::time::Instant::now() + WHILE;
        while tokio::time::Instant::now() < end {
            for trial in &trials {
                assert!(
                    !self.works(trial).await,
                    "{:?} works without {:?}",
                    trial.feature,
                    trial.grant
                );
            }
            tokio::time::sleep(WHILE / 10).await;
        }
        for trial in &trials {
            self.expect_report(trial).await;
        }

        self.grant(|_| true).await;
        for trial in &trials {
            wait_for_permission(cluster, SIDECAR, trial.grant, true).await;
            if trial.feature == Feature::PublishEvents {
                // Refused Events are not retried, so cause another one.
                self.annotate(&malformed(&format!("again-{}", trial.text)))
                    .await;
            }
        }
        for trial in &trials {
            self.wait_for(trial, true).await;
            if trial.feature == Feature::DetectManager {
                self.expect_report_of_manager().await;
            }
        }
        for trial in &trials {
            self.clean_up(trial.feature).await;
            let (_, resource, verb) = &trial.grant.0;
            note(&format!(
                "{verb} {resource}: {:?} fails without it",
                trial.feature
            ));
        }
    }

    async fn wait_until_refused(&self, trial: &Trial<'_>) {
        let what = format!(
            "a request of {:?} to be refused without {:?}",
            trial.feature, trial.grant
        );
        wait_for(&what, TIMEOUT, async || {
            let refused = refused(self.pool.cluster, SIDECAR, trial.grant);
            Ok(Progress::when(
                refused > trial.refused_before,
                (),
                "no request was refused",
            ))
        })
        .await
        .unwrap();
    }

    /// Waits for what the sidecar reports about the refusal. Without the right to watch one kind it
    /// is Ready.
    async fn expect_report(&self, trial: &Trial<'_>) {
        let log_has = async |message: &str, detail: &str| {
            wait_for(&format!("{message:?} in the log"), TIMEOUT, async || {
                let log = self.pool.cluster.sidecar()?.log();
                let line = log
                    .lines()
                    .rfind(|line| line.contains(message))
                    .unwrap_or_default();
                Ok(Progress::when(
                    line.contains(detail) && line.contains("403"),
                    (),
                    line,
                ))
            })
            .await
            .unwrap();
        };
        match trial.feature {
            Feature::Forget => {
                log_has("cannot confirm that a node does not exist", &trial.old_node).await;
            }
            Feature::Evict => {
                log_has(
                    "cannot evict a Pod that waits for a node that does not exist",
                    "gone-0",
                )
                .await;
                let message = self.shrinking.event("gone", "PodNotEvicted").await;
                assert!(
                    message.contains("gone-0") && message.contains("403"),
                    "{message}"
                );
            }
            // Other kinds are recorded without it.
            Feature::WatchOpenKruise => {
                self.pool
                    .cluster
                    .sidecar()
                    .unwrap()
                    .wait_ready(TIMEOUT)
                    .await
                    .unwrap();
            }
            _ => {}
        }
    }

    /// Waits for the Event which says that OpenKruise's manager writes the same objects. Without
    /// this right, the sidecar cannot know that.
    async fn expect_report_of_manager(&self) {
        let system = Pool {
            cluster: self.pool.cluster,
            namespace: "kruise-system",
        };
        let message = system.event(openkruise::LEASE, "ConflictingRecorder").await;
        assert!(message.contains("--recorder openkruise"), "{message}");
    }

    /// Grants the sidecar exactly these permissions.
    async fn grant(&self, wanted: impl Fn(&Grant) -> bool) {
        let mut roles = permissions::roles();
        for role in &mut roles {
            let rules = permissions::of_role(role)
                .into_iter()
                .filter(|grant| wanted(grant));
            role["rules"] = rules.map(|grant| rule(&grant)).collect::<Vec<_>>().into();
        }
        self.pool.cluster.apply_objects(&roles).await.unwrap();
    }

    /// Makes a Lease without a holder, or none if the sidecar is to create it.
    async fn prepare_lease(&self, verb: &str) {
        let leases: Api<Lease> = Api::namespaced(self.pool.cluster.client(), NAMESPACE);
        let _ = leases.delete("pps-sidecar", &DeleteParams::default()).await;
        if verb != "create" {
            let lease = json!({"metadata": {"name": "pps-sidecar"}, "spec": {}});
            leases
                .create(
                    &PostParams::default(),
                    &serde_json::from_value(lease).unwrap(),
                )
                .await
                .unwrap();
        }
    }

    /// Triggers a feature. Returns the node that a Pod has to leave.
    async fn trigger(&self, feature: Feature, text: &str) -> String {
        let pool = &self.pool;
        match feature {
            Feature::BecomeReady => unreachable!("each has a sidecar of its own"),
            Feature::Lead | Feature::DetectManager => {}
            Feature::WatchOpenKruise => self.scale_openkruise(pool_replicas(text)).await,
            Feature::Record => pool.annotate_pod("home-0", &json!({KEY: text})).await,
            Feature::Generate => self.annotate(KEY).await,
            Feature::ChangeGenerated => {
                self.annotate(KEY).await;
                pool.wait_for_object("made", "the object to be made", TIMEOUT, |_| true)
                    .await;
                self.annotate(&format!("{KEY},{OTHER_KEY}")).await;
            }
            Feature::DeleteGenerated => {
                self.annotate(KEY).await;
                pool.wait_for_object("made", "the object to be made", TIMEOUT, |_| true)
                    .await;
                self.remove_annotation().await;
            }
            Feature::PublishEvents => self.annotate(&malformed(text)).await,
            Feature::Forget | Feature::Evict => {
                let pool = &self.shrinking;
                let node = homes(&pool.ready("gone", 1).await)["gone-0"].clone();
                pool.cluster.nodes.delete(&node).await.unwrap();
                pool.cluster
                    .delete_pods(pool.namespace, "gone", &["gone-0"])
                    .await
                    .unwrap();
                return node;
            }
        }
        String::new()
    }

    async fn works(&self, trial: &Trial<'_>) -> bool {
        let (pool, text, old_node) = (&self.pool, trial.text.as_str(), trial.old_node.as_str());
        match trial.feature {
            Feature::BecomeReady => unreachable!("each has a sidecar of its own"),
            Feature::Lead => self.elector.leads().await.unwrap_or_default(),
            Feature::DetectManager => {
                let other = pool
                    .cluster
                    .sidecar()
                    .unwrap()
                    .metric("persistentpodstate_conflicting_recorder")
                    .await;
                other.unwrap_or_default() == Some(1.0)
            }
            Feature::WatchOpenKruise => {
                // Without the watch permission the kind is only listed repeatedly.
                let watching =
                    r#"persistentpodstate_watch_up{resource="statefulsets.apps.kruise.io"}"#;
                let watching = pool
                    .cluster
                    .sidecar()
                    .unwrap()
                    .metric(watching)
                    .await
                    .unwrap_or_default();
                let desired = pool.pps("other").await.unwrap().data["status"]["desired"].clone();
                watching == Some(1.0) && desired == pool_replicas(text)
            }
            Feature::Record => pool
                .states("home")
                .await
                .get("home-0")
                .is_some_and(|state| state["annotations"][KEY] == text),
            Feature::Generate => pool.pps("made").await.is_ok(),
            Feature::ChangeGenerated => {
                let pps = pool.pps("made").await.unwrap();
                pps.data["spec"]["persistentPodAnnotations"]
                    .as_array()
                    .is_some_and(|keys| keys.len() == 2)
            }
            Feature::DeleteGenerated => pool
                .cluster
                .pps_api(pool.namespace)
                .get_opt("made")
                .await
                .unwrap()
                .is_none(),
            Feature::PublishEvents => self.has_event(text).await,
            Feature::Forget => {
                let states = self.shrinking.states("gone").await;
                states
                    .get("gone-0")
                    .is_none_or(|state| state["nodeName"] != old_node)
            }
            Feature::Evict => {
                let pods = pool
                    .cluster
                    .pods(self.shrinking.namespace, "gone")
                    .await
                    .unwrap();
                pods.get("gone-0")
                    .is_some_and(|pod| pod.ready && pod.node.as_deref() != Some(old_node))
            }
        }
    }

    async fn wait_for(&self, trial: &Trial<'_>, expected: bool) {
        wait_for(
            &format!("{:?} {} to be {expected}", trial.feature, trial.text),
            TIMEOUT,
            async || {
                Ok(Progress::when(
                    self.works(trial).await == expected,
                    (),
                    "not yet",
                ))
            },
        )
        .await
        .unwrap();
    }

    /// Cleans up for the next permissions.
    async fn clean_up(&self, feature: Feature) {
        match feature {
            Feature::Lead => drop(self.elector.kill().await.unwrap()),
            Feature::Generate | Feature::ChangeGenerated | Feature::PublishEvents => {
                self.remove_annotation().await;
                self.pool.wait_until_no_object("made").await;
            }
            Feature::Forget | Feature::Evict => {
                self.shrinking.ready("gone", 1).await;
                self.shrinking.recorded("gone", "gone").await;
            }
            _ => {}
        }
    }

    /// Annotates the workload so that an object is generated that keeps these annotations.
    async fn annotate(&self, kept: &str) {
        let annotations = json!({"kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": HOSTNAME,
            "kruise.io/persistent-pod-annotations": kept});
        self.pool.annotate("made", &annotations).await;
    }

    async fn remove_annotation(&self) {
        self.pool
            .annotate(
                "made",
                &json!({"kruise.io/auto-generate-persistent-pod-state": null}),
            )
            .await;
    }

    async fn scale_openkruise(&self, replicas: u32) {
        let workload = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
            "metadata": {"namespace": self.pool.namespace, "name": "other"}, "spec": {"replicas": replicas}});
        self.pool.cluster.apply_objects(&[workload]).await.unwrap();
    }

    async fn has_event(&self, text: &str) -> bool {
        let events: Api<Event> = Api::namespaced(self.pool.cluster.client(), self.pool.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        events.items.iter().any(|event| {
            event
                .message
                .as_ref()
                .is_some_and(|message| message.contains(text))
        })
    }
}

/// An invalid annotation, about which the sidecar publishes an Event.
fn malformed(text: &str) -> String {
    format!("example.io/a=Invalid-{text}")
}

/// Another number for each permission.
fn pool_replicas(text: &str) -> u32 {
    if text.ends_with("list") { 3 } else { 4 }
}

/// How many requests of a user the API server has refused because this permission was missing.
fn refused(cluster: &Cluster, user: &str, ((group, resource, verb), names): &Grant) -> usize {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let is_of = |event: &&Value| {
        let object = &event["objectRef"];
        event["verb"] == verb.as_str()
            && object["resource"] == resource
            && object["apiGroup"].as_str().unwrap_or_default() == group
            && object["subresource"].as_str().unwrap_or_default() == subresource
            && (resource != "leases" || names.is_null() || object["name"] == names[0])
    };
    permissions::forbidden(cluster, user)
        .iter()
        .filter(is_of)
        .count()
}

//! Each right of the sidecar is needed: without it something is not done, and once it is given back it is.

use k8s_openapi::api::{authorization::v1::SubjectAccessReview, coordination::v1::Lease, core::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, SIDECAR, repository_file},
    manifests,
    sidecar::{NAMESPACE, Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{
    custom_kinds, openkruise,
    rights::{self, Grant},
};
use crate::support::{HOSTNAME, Pool, TIMEOUT, homes, note, required, spec_for};

const KEY: &str = "example.io/round";
/// How long it is watched that something is not done.
const WHILE: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) fn sidecar() -> SidecarOptions {
    // Whoever is killed would hold the Lease for a while.
    let args = ["--leader-election=false", "--node-grace-period=1s"];
    SidecarOptions { args: args.map(str::to_owned).into(), ..SidecarOptions::default() }
}

/// Something that the sidecar does, and cannot do without some right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// To know the cluster.
    Know,
    /// To follow a workload of OpenKruise.
    Follow,
    /// To record what has changed of a Pod.
    Record,
    /// To make an object for an annotated workload.
    Generate,
    /// To delete that object when the annotation goes.
    Remove,
    /// To tell something.
    Tell,
    /// To forget what was recorded on a node that is gone.
    Forget,
    /// To let a Pod go that waits for that node.
    Release,
    /// To win the election.
    Lead,
    /// To notice OpenKruise's manager.
    Notice,
}

fn errand_of(((group, resource, verb), names): &Grant) -> Errand {
    match (group.as_str(), resource.as_str(), verb.as_str()) {
        ("apps.kruise.io", "statefulsets", _) => Errand::Follow,
        ("", "nodes", "get") => Errand::Forget,
        ("", "pods", "delete") => Errand::Release,
        ("apps.kruise.io", "persistentpodstates", "create" | "patch") => Errand::Generate,
        ("apps.kruise.io", "persistentpodstates", "delete") => Errand::Remove,
        ("apps.kruise.io", "persistentpodstates/status", "patch") => Errand::Record,
        ("events.k8s.io", "events", "create") => Errand::Tell,
        ("coordination.k8s.io", "leases", "get") if names[0] == openkruise::LEASE => Errand::Notice,
        ("coordination.k8s.io", "leases", _) => Errand::Lead,
        (_, _, "list" | "watch") => Errand::Know,
        other => panic!("what is {other:?} for? It needs an errand here, or has to go"),
    }
}

pub(crate) async fn without_it_something_is_not_done(cluster: &Cluster) {
    let stage = Stage::set(cluster).await;
    let granted = rights::grants();
    assert!(granted.len() > 20, "{granted:?}");
    for grant in &granted {
        tokio::select! {
            () = stage.without(grant) => {}
            () = openkruise::renew(cluster), if errand_of(grant) == Errand::Notice => {}
        }
    }
}

struct Stage<'a> {
    pool: Pool<'a>,
    /// With Nodes that are deleted.
    shrinking: Pool<'a>,
    /// The sidecar that takes part in elections. It runs only when that is the errand.
    elector: Sidecar,
}

impl<'a> Stage<'a> {
    async fn set(cluster: &'a Cluster) -> Self {
        let pool = Pool::new(cluster, "each-right", 1, 1).await;
        let shrinking = Pool::new(cluster, "each-right-shrinking", 3, 1).await;
        let more = json!({"persistentPodAnnotations": [{"key": KEY}]});
        pool.object("home", &spec_for("home", &more)).await;
        cluster.run_stateful_set(&pool.stateful_set("home", 1)).await.unwrap();
        let mut forgetting = required("gone", &[HOSTNAME]);
        forgetting["nodeDeletionPolicy"] = "Forget".into();
        shrinking.object("gone", &forgetting).await;
        cluster.run_stateful_set(&shrinking.stateful_set("gone", 1)).await.unwrap();
        cluster.create_stateful_set(&pool.stateful_set("made", 0)).await.unwrap();
        custom_kinds::define(cluster, &custom_kinds::openkruise()).await;
        let mut other = spec_for("other", &more);
        other["targetRef"]["apiVersion"] = "apps.kruise.io/v1beta1".into();
        pool.object("other", &other).await;
        shrinking.recorded("gone", "gone").await;
        let options = SidecarOptions { name: "elector".to_owned(), ..SidecarOptions::default() };
        let elector = cluster.run_sidecar(options).unwrap();
        elector.kill().await.unwrap();
        Self { pool, shrinking, elector }
    }

    /// Takes the right away and sees what is not done, then gives it back.
    async fn without(&self, grant: &Grant) {
        let (errand, (right, _)) = (errand_of(grant), grant);
        let cluster = self.pool.cluster;
        cluster.sidecar().unwrap().kill().await.unwrap();
        self.give(|other| other != grant).await;
        self.wait_for_right(grant, false).await;
        let text = format!("{}-{}-{}", right.0, right.1.replace('/', "-"), right.2);
        if errand == Errand::Lead {
            self.prepare_lease(&right.2).await;
        }
        let refused_before = refused(cluster, grant);
        if errand == Errand::Lead { &self.elector } else { cluster.sidecar().unwrap() }
            .start_again()
            .unwrap();
        let old_node = self.begin(errand, &text).await;

        wait_for(&format!("{right:?} to be missed for {errand:?}"), TIMEOUT, async || {
            let refused = refused(cluster, grant);
            Ok(Progress::when(refused > refused_before, (), "it was not asked for"))
        })
        .await
        .unwrap();
        self.wait_for(errand, &text, &old_node, false).await;
        let end = tokio::time::Instant::now() + WHILE;
        while tokio::time::Instant::now() < end {
            assert!(!self.done(errand, &text, &old_node).await, "{errand:?} is done without {right:?}");
            tokio::time::sleep(WHILE / 10).await;
        }

        self.give(|_| true).await;
        self.wait_for_right(grant, true).await;
        if errand == Errand::Tell {
            // No work waits for an Event, so that one that could not be published is not tried again.
            self.ask(&malformed(&format!("anew-{text}"))).await;
        }
        self.wait_for(errand, &text, &old_node, true).await;
        self.end(errand).await;
        note(&format!("{} {}: without it no {errand:?}", right.2, right.1));
    }

    /// Gives the sidecar these rights and no others.
    async fn give(&self, wanted: impl Fn(&Grant) -> bool) {
        let mut roles = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
        roles.retain(|role| {
            role["metadata"]["name"] == "pps-sidecar"
                && (role["kind"] == "ClusterRole" || role["kind"] == "Role")
        });
        for role in &mut roles {
            let rules = rights::of_role(role).into_iter().filter(|grant| wanted(grant));
            let rules: Vec<Value> = rules
                .map(|((group, resource, verb), names)| {
                    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names})
                })
                .collect();
            role["rules"] = rules.into();
        }
        self.pool.cluster.apply_objects(&roles).await.unwrap();
    }

    /// Waits until the API server goes by it.
    async fn wait_for_right(&self, ((group, resource, verb), names): &Grant, expected: bool) {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb,
            "name": names[0], "namespace": if resource == "leases" { NAMESPACE } else { "" }});
        let review = json!({"spec": {"user": SIDECAR, "resourceAttributes": attributes}});
        let review = serde_json::from_value(review).unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(self.pool.cluster.client());
        wait_for(&format!("{verb} {resource} to be {expected}"), TIMEOUT, async || {
            let allowed = reviews.create(&PostParams::default(), &review).await?.status;
            let allowed = allowed.is_some_and(|status| status.allowed);
            Ok(Progress::when(allowed == expected, (), "not yet"))
        })
        .await
        .unwrap();
    }

    /// A Lease that nobody holds; none at all if it is to be made.
    async fn prepare_lease(&self, verb: &str) {
        let leases: Api<Lease> = Api::namespaced(self.pool.cluster.client(), NAMESPACE);
        let _ = leases.delete("pps-sidecar", &DeleteParams::default()).await;
        if verb != "create" {
            let lease = json!({"metadata": {"name": "pps-sidecar"}, "spec": {}});
            leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
        }
    }

    /// Gives cause for an errand. Says on which node a Pod was that has to leave it.
    async fn begin(&self, errand: Errand, text: &str) -> String {
        let pool = &self.pool;
        match errand {
            Errand::Know | Errand::Lead | Errand::Notice => {}
            Errand::Follow => self.follow(pool_replicas(text)).await,
            Errand::Record => pool.annotate_pod("home-0", &json!({KEY: text})).await,
            Errand::Generate => self.ask(KEY).await,
            Errand::Remove => {
                self.ask(KEY).await;
                pool.wait_for_object("made", "the object to be made", TIMEOUT, |_| true).await;
                self.ask_no_more().await;
            }
            Errand::Tell => self.ask(&malformed(text)).await,
            Errand::Forget | Errand::Release => {
                let pool = &self.shrinking;
                let node = homes(&pool.ready("gone", 1).await)["gone-0"].clone();
                pool.cluster.nodes.delete(&node).await.unwrap();
                pool.cluster.delete_pods(pool.namespace, "gone", &["gone-0"]).await.unwrap();
                return node;
            }
        }
        String::new()
    }

    async fn done(&self, errand: Errand, text: &str, old_node: &str) -> bool {
        let pool = &self.pool;
        match errand {
            Errand::Know => {
                pool.cluster.sidecar().unwrap().get("/readyz").await.is_ok_and(|(code, _)| code == 200)
            }
            Errand::Lead => self.elector.leads().await.unwrap_or_default(),
            Errand::Notice => {
                let other =
                    pool.cluster.sidecar().unwrap().metric("persistentpodstate_conflicting_recorder").await;
                other.unwrap_or_default() == Some(1.0)
            }
            Errand::Follow => {
                // Without a watch it is listed again and again, which is not to follow it.
                let watching = r#"persistentpodstate_watch_up{kind="statefulsets.apps.kruise.io"}"#;
                let watching = pool.cluster.sidecar().unwrap().metric(watching).await.unwrap_or_default();
                let desired = pool.pps("other").await.unwrap().data["status"]["desired"].clone();
                watching == Some(1.0) && desired == pool_replicas(text)
            }
            Errand::Record => {
                pool.states("home").await.get("home-0").is_some_and(|state| state["annotations"][KEY] == text)
            }
            Errand::Generate => pool.pps("made").await.is_ok(),
            Errand::Remove => pool.cluster.pps_api(pool.namespace).get_opt("made").await.unwrap().is_none(),
            Errand::Tell => self.is_told(text).await,
            Errand::Forget => {
                let states = self.shrinking.states("gone").await;
                states.get("gone-0").is_none_or(|state| state["nodeName"] != old_node)
            }
            Errand::Release => {
                let pods = pool.cluster.pods(self.shrinking.namespace, "gone").await.unwrap();
                pods.get("gone-0").is_some_and(|pod| pod.ready && pod.node.as_deref() != Some(old_node))
            }
        }
    }

    async fn wait_for(&self, errand: Errand, text: &str, old_node: &str, expected: bool) {
        wait_for(&format!("{errand:?} {text} to be {expected}"), TIMEOUT, async || {
            Ok(Progress::when(self.done(errand, text, old_node).await == expected, (), "not yet"))
        })
        .await
        .unwrap();
    }

    /// Leaves nothing behind for the next errand.
    async fn end(&self, errand: Errand) {
        match errand {
            Errand::Lead => drop(self.elector.kill().await.unwrap()),
            Errand::Generate | Errand::Tell => {
                self.ask_no_more().await;
                self.pool.wait_until_no_object("made").await;
            }
            Errand::Forget | Errand::Release => {
                self.shrinking.ready("gone", 1).await;
                self.shrinking.recorded("gone", "gone").await;
            }
            _ => {}
        }
    }

    /// Has the workload ask for an object that keeps these annotations.
    async fn ask(&self, kept: &str) {
        let annotations = json!({"kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": HOSTNAME,
            "kruise.io/persistent-pod-annotations": kept});
        self.pool.annotate("made", &annotations).await;
    }

    async fn ask_no_more(&self) {
        self.pool.annotate("made", &json!({"kruise.io/auto-generate-persistent-pod-state": null})).await;
    }

    async fn follow(&self, replicas: u32) {
        let workload = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
            "metadata": {"namespace": self.pool.namespace, "name": "other"}, "spec": {"replicas": replicas}});
        self.pool.cluster.apply_objects(&[workload]).await.unwrap();
    }

    async fn is_told(&self, text: &str) -> bool {
        let events: Api<Event> = Api::namespaced(self.pool.cluster.client(), self.pool.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        events.items.iter().any(|event| event.message.as_ref().is_some_and(|message| message.contains(text)))
    }
}

/// An annotation that is told of.
fn malformed(text: &str) -> String {
    format!("example.io/a=Told-{text}")
}

/// Another number for each right.
fn pool_replicas(text: &str) -> u32 {
    if text.ends_with("list") { 3 } else { 4 }
}

/// How often the API server has refused a request for want of this right.
fn refused(cluster: &Cluster, ((group, resource, verb), names): &Grant) -> usize {
    // What a server-side apply makes is refused as what was asked: a patch.
    let verb = if verb == "create" && resource == "persistentpodstates" { "patch" } else { verb };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let is_of = |event: &&Value| {
        let object = &event["objectRef"];
        event["responseStatus"]["code"] == 403
            && event["verb"] == verb
            && object["resource"] == resource
            && object["apiGroup"].as_str().unwrap_or_default() == group
            && object["subresource"].as_str().unwrap_or_default() == subresource
            && (resource != "leases" || names.is_null() || object["name"] == names[0])
    };
    rights::requests(cluster).iter().filter(is_of).count()
}

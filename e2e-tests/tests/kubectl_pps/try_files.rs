//! `try`: files without a cluster, and what a cluster shows, whose answer a real Pod confirms.

use std::fmt::Write;

use kube::api::ListParams;
use pps_e2e::{
    cluster::Cluster,
    plugin::{Answer, Plugin},
    scratch::Scratch,
};
use serde_json::{Value, json};

use crate::support::{HOSTNAME, IP_ANNOTATION, Pool, ZONE};

const STATEFUL_SET: &str = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
";

const PPS: &str = "\
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
status:
  podStates:
    db-1: {nodeName: node-1, nodeTopologyLabels: {topology.kubernetes.io/zone: a}}
";

const SHOWN: &str = "\
Pod db-0 (FILE:1, StatefulSet db): nothing is injected: PersistentPodState db has recorded nothing of it
Pod db-1 (FILE:1, StatefulSet db): PersistentPodState db injects required: topology.kubernetes.io/zone
--- Pod db-1, as it is created
+++ Pod db-1, as it is stored
@@ -2,6 +2,8 @@
 kind: Pod
 metadata:
   name: db-1
+  annotations:
+    kruise.io/injected-persistent-pod-state: db
   generateName: db-
   labels:
     app: db
@@ -17,6 +19,15 @@
     controller: true
     uid: \"00000000-0000-4000-8000-000000000001\"
 spec:
+  affinity:
+    nodeAffinity:
+      requiredDuringSchedulingIgnoredDuringExecution:
+        nodeSelectorTerms:
+        - matchExpressions:
+          - key: topology.kubernetes.io/zone
+            operator: In
+            values:
+            - a
   containers:
   - name: db
     image: postgres
PersistentPodState db (-:1): accepted
2 Pods: 1 gets its recorded state, 1 starts without one
";

async fn try_files(args: &[&str], input: &str) -> Answer {
    Plugin::without_cluster().run_with(&[&["try"], args].concat(), input).await.unwrap()
}

fn assert_exit(answer: &Answer, code: i32) {
    assert_eq!(answer.exit_code, code, "{}\n{}", answer.stdout, answer.stderr);
}

#[tokio::test]
async fn shows_what_would_be_injected_into_pods_of_files() {
    let file = Scratch::file("stateful set.yaml", STATEFUL_SET).unwrap();
    let path = file.path().to_str().unwrap();
    let answer = try_files(&[path, "-"], PPS).await;
    assert_exit(&answer, 0);
    assert_eq!(answer.stdout, SHOWN.replace("FILE", path).replace("(-:1)", "(standard input:1)"));
    assert_eq!(answer.stderr, "");
    let coloured = try_files(&[path, "-", "--color", "always"], PPS).await;
    assert!(coloured.stdout.contains("\u{1b}[32m+  affinity:\u{1b}[0m\n"), "{}", coloured.stdout);

    let answer = try_files(&[path, "-", "-o", "json"], PPS).await;
    let answers = answer.json().unwrap();
    assert_eq!(answers["attempts"][1]["injected"], "required: topology.kubernetes.io/zone");
    assert!(answers["attempts"][1]["object"]["spec"]["affinity"].is_object(), "{answers}");
    let answer = try_files(&[path, "-", "-o", "yaml"], PPS).await;
    assert!(answer.stdout.contains("persistentPodState: db\n"), "{}", answer.stdout);
}

#[tokio::test]
async fn refuses_wrong_objects_and_unreadable_files_with_their_places() {
    let wrong = PPS.replace("[topology.kubernetes.io/zone]}\n", "[a, \"b c\"]}\n");
    let answer = try_files(&["-"], &wrong).await;
    assert_exit(&answer, 1);
    assert!(
        answer
            .stdout
            .contains("standard input:6:54: error: spec.requiredPersistentTopology.nodeTopologyKeys[1]"),
        "{}",
        answer.stdout
    );
    let folder = Scratch::folder("folder").unwrap();
    let file = |name: &str, content: &[u8]| Scratch::file(name, content).unwrap();
    let mut large = String::from("a: 1\n");
    while large.len() < 5 << 20 {
        let _ = writeln!(large, "# {}", "x".repeat(1000));
    }
    let files = [
        (file("binary", b"\x7fELF\0\0"), "binary file"),
        (file("latin1.yaml", b"kind: P\xf6d"), "line 1 is not UTF-8"),
        (file("large.yaml", large.as_bytes()), "split it into several files"),
        (file("tab.yaml", b"a:\n\tb: 1\n"), "indent with spaces, not with tabs"),
        (file("deep.yaml", "[".repeat(100_000).as_bytes()), "nested more than 64 deep"),
    ];
    for (file, text) in files.iter().map(|(file, text)| (file.path(), *text)).chain([
        (folder.path(), "this is a directory: name the files in it"),
        (folder.path().join("none.yaml").as_path(), "none.yaml: "),
    ]) {
        let path = file.to_str().unwrap();
        let answer = try_files(&[path], "").await;
        assert_exit(&answer, 2);
        let shown = answer.stdout + &answer.stderr;
        assert!(shown.contains(text) && shown.contains(path), "{shown}");
    }
    assert_exit(&try_files(&["-", "-"], "").await, 2);
    assert_exit(&try_files(&[], "").await, 2);
    // As Windows writes them.
    let windows = format!("\u{feff}{STATEFUL_SET}---\n{PPS}").replace('\n', "\r\n");
    let utf16: Vec<u8> = windows.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for content in [windows.as_bytes(), &utf16] {
        let file = file("windows.yaml", content);
        let answer = try_files(&[file.path().to_str().unwrap()], "").await;
        assert_exit(&answer, 0);
        assert!(answer.stdout.contains("1 gets its recorded state"), "{}", answer.stdout);
    }
}

/// What `try` says of objects that were read from a cluster is what the webhook then does.
#[tokio::test]
async fn says_what_the_cluster_then_does() {
    let cluster = Cluster::builder().product().start().await.unwrap();
    let pool = Pool::new(&cluster, "tried", 2, 2).await;
    let web = pool.stateful_set("web", 2).persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    let pps = cluster.pps_api(pool.namespace).list(&ListParams::default()).await.unwrap();
    let mut stateful_set =
        serde_json::to_value(cluster.stateful_sets(pool.namespace).get("web").await.unwrap()).unwrap();
    stateful_set["apiVersion"] = "apps/v1".into();
    stateful_set["kind"] = "StatefulSet".into();
    let items: Vec<Value> =
        [stateful_set].into_iter().chain(pps.iter().map(|pps| serde_json::to_value(pps).unwrap())).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let answers = try_files(&["-", "-o", "json"], &list).await.json().unwrap();
    assert_eq!(answers["problems"], json!([]), "{answers}");
    pool.recreate("web", &["web-0", "web-1"]).await;
    for (index, name) in ["web-0", "web-1"].into_iter().enumerate() {
        let (told, real) = (&answers["attempts"][index]["object"], pool.pod_json(name).await);
        assert_eq!(told["metadata"]["name"], name);
        assert_eq!(told["spec"]["affinity"], real["spec"]["affinity"]);
        assert_eq!(
            told["metadata"]["annotations"][IP_ANNOTATION],
            real["metadata"]["annotations"][IP_ANNOTATION]
        );
    }
}

//! The documents: the API server and the policy accept their examples, and their links have
//! targets.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::Cluster,
    kubewarden::stand_in::{PolicyModule, WebhookOptions},
    manifests, report,
    repository::{policy_path, repository_file},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::TIMEOUT;

/// The kinds whose examples are tried.
const NAMESPACED: [&str; 2] = ["PersistentPodState", "StatefulSet"];
const CLUSTER_WIDE: [&str; 1] = ["ClusterRole"];
/// The minimum number of examples of each kind, so that none is overlooked.
const LEAST: [(&str, usize); 2] = [("PersistentPodState", 5), ("StatefulSet", 1)];

#[tokio::test]
async fn api_server_and_policy_accept_every_example() {
    let mut cluster = Cluster::builder().deployed_rights().start().await.unwrap();
    let module = PolicyModule::load_file(&policy_path()).unwrap();
    cluster
        .start_webhook(module, WebhookOptions::default())
        .await
        .unwrap();

    let mut tried: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for (line, yaml) in blocks(&text, "yaml") {
            let at = format!("{}:{line}", path.display());
            let objects = match manifests::parse(&yaml) {
                Ok(objects) => objects,
                Err(error) => {
                    wrong.push(format!("{at}: {error:#}"));
                    continue;
                }
            };
            for object in objects {
                let kind = object["kind"].as_str().unwrap_or_default().to_owned();
                if object["apiVersion"].is_string()
                    && (NAMESPACED.contains(&kind.as_str())
                        || CLUSTER_WIDE.contains(&kind.as_str()))
                {
                    wrong.extend(
                        refusal(&cluster, &object)
                            .await
                            .map(|refusal| format!("{at}: {refusal}")),
                    );
                    *tried.entry(kind).or_default() += 1;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (kind, least) in LEAST {
        assert!(tried.get(kind) >= Some(&least), "{kind}: {tried:?}");
    }
}

/// What docs/local-volumes.md says of Kubernetes' own policies.
#[tokio::test]
async fn a_mutating_admission_policy_gives_back_a_required_topology() {
    let cluster = Cluster::builder().start().await.unwrap();
    let client = cluster.client();
    let served = client.list_api_group_resources("admissionregistration.k8s.io/v1");
    let served = served.await.unwrap().resources;
    if !served
        .iter()
        .any(|one| one.kind == "MutatingAdmissionPolicy")
    {
        report::skipped(
            "the example of a MutatingAdmissionPolicy",
            "run the tests on Kubernetes 1.36 or newer",
        );
        return;
    }
    let file = repository_file("docs/examples/mutating-admission-policy.yaml");
    let example = manifests::read(&file).unwrap();
    cluster.apply_objects(&example).await.unwrap();
    cluster
        .apply_objects(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop",
                "labels": {"persistent-pod-state/injection": "enabled"}}}),
            json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
                "metadata": {"name": "states", "namespace": "shop"},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
                    "requiredPersistentTopology": {"nodeTopologyKeys": ["zone", "unrecorded"]},
                },
            }),
        ])
        .await
        .unwrap();
    let state = json!({"status": {"podStates": {"db-0": {"nodeTopologyLabels": {"zone": "a"}}}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(state));
    let recorded = cluster.pps_api("shop");
    recorded
        .patch_status("states", &params, &patch)
        .await
        .unwrap();

    let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let expression =
        |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let zone = expression("zone", "a");
    for (own, expected) in [
        (None, json!([{"matchExpressions": [zone]}])),
        (
            Some(json!([
                {"matchExpressions": [expression("disk", "ssd")]},
                {"matchFields": [expression("metadata.name", "node-1")]},
            ])),
            json!([
                {"matchExpressions": [expression("disk", "ssd"), zone]},
                {"matchExpressions": [zone], "matchFields": [expression("metadata.name", "node-1")]},
            ]),
        ),
    ] {
        let pod = |name: &str| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": {"statefulset.kubernetes.io/pod-name": name},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db",
                        "uid": "1", "controller": true}]},
                "spec": {"containers": [{"name": "a", "image": "a"}]}});
            if let Some(own) = &own {
                pod["spec"]["affinity"] = required(own.clone());
            }
            serde_json::from_value::<DynamicObject>(pod).unwrap()
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let pods: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "shop", &resource);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        // The API server takes a new policy up within seconds.
        wait_for("the policy to be in force", TIMEOUT, async || {
            let affinity = pods.create(&dry, &pod("db-0")).await?.data["spec"]["affinity"].take();
            Ok(Progress::when(
                affinity == required(expected.clone()),
                (),
                affinity,
            ))
        })
        .await
        .unwrap();
        let unrecorded = pods.create(&dry, &pod("db-1")).await.unwrap();
        let unchanged = own.clone().map_or(Value::Null, required);
        assert_eq!(unrecorded.data["spec"]["affinity"], unchanged);
    }
}

/// Why an example is not accepted unchanged: the API server or the policy refuses it, or a field is
/// dropped.
async fn refusal(cluster: &Cluster, example: &Value) -> Option<String> {
    let object: DynamicObject = match serde_json::from_value(example.clone()) {
        Ok(object) => object,
        Err(error) => return Some(error.to_string()),
    };
    let types = object.types.clone().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
    let api: Api<DynamicObject> = if CLUSTER_WIDE.contains(&types.kind.as_str()) {
        Api::all_with(cluster.client(), &resource)
    } else {
        let namespace = object
            .metadata
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        Api::namespaced_with(cluster.client(), &namespace, &resource)
    };
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api.create(&dry, &object).await {
        Err(error) => Some(error.to_string()),
        Ok(taken) => {
            let taken = serde_json::to_value(taken).unwrap();
            lost(example, &taken, "").map(|field| format!("{field} is dropped"))
        }
    }
}

/// The first field of an example that was not stored.
fn lost(example: &Value, taken: &Value, path: &str) -> Option<String> {
    match (example, taken) {
        (Value::Object(example), Value::Object(taken)) => {
            example.iter().find_map(|(key, value)| {
                lost(
                    value,
                    taken.get(key).unwrap_or(&Value::Null),
                    &format!("{path}.{key}"),
                )
            })
        }
        (Value::Array(example), Value::Array(taken)) if example.len() == taken.len() => example
            .iter()
            .zip(taken)
            .enumerate()
            .find_map(|(index, (example, taken))| {
                lost(example, taken, &format!("{path}[{index}]"))
            }),
        _ => (example != taken).then(|| path.to_owned()),
    }
}

#[test]
fn detects_fields_that_the_api_server_drops() {
    let example = serde_json::json!({"spec": {"keys": ["a", {"b": 1}]}});
    let more = serde_json::json!({"spec": {"keys": ["a", {"b": 1, "c": 2}]}, "status": {}});
    assert_eq!(lost(&example, &more, ""), None);
    let less = serde_json::json!({"spec": {"keys": ["a", {}]}});
    assert_eq!(
        lost(&example, &less, ""),
        Some(".spec.keys[1].b".to_owned())
    );
}

#[test]
fn links_have_existing_targets() {
    let documents = documents();
    let anchors: BTreeMap<PathBuf, BTreeSet<String>> = documents
        .iter()
        .map(|(path, text)| (absolute(path), anchors(text)))
        .collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in &documents {
        for link in links(text).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (file, anchor) = link
                .split_once('#')
                .map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let target = match file {
                "" => absolute(path),
                file => absolute(&path.parent().unwrap().join(file)),
            };
            let there = target.exists()
                && anchor.is_none_or(|anchor| {
                    anchors
                        .get(&target)
                        .is_some_and(|known| known.contains(anchor))
                });
            if !there {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these links have no target:\n{}",
        wrong.join("\n")
    );
    assert!(count >= 20, "only {count} links were found");
}

#[test]
fn links_and_anchors_are_read_as_github_reads_them() {
    let text = "# A `b` c\n## What to do …\n### … an object is full\n## A b c\n[x](y.md#z) \
                `[no](no)` ![i](i.png)\n```sh\n# no heading [no](no)\n```\n[two\nlines](#a)";
    assert_eq!(links(text), ["y.md#z", "i.png", "#a"]);
    let expected = ["a-b-c", "what-to-do-", "-an-object-is-full", "a-b-c-1"];
    assert_eq!(
        anchors(text),
        expected.into_iter().map(str::to_owned).collect()
    );
    assert_eq!(
        blocks(
            "a\n```yaml\nb: 1\n```\n- c\n  ```yaml\n  d:\n    e: 2\n  ```\n",
            "yaml"
        ),
        [(2, "b: 1\n".to_owned()), (6, "d:\n  e: 2\n".to_owned()),]
    );
}

/// All Markdown files of the repository, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut documents = Vec::new();
    let mut folders = vec![repository_file("")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // Skip build output and dependencies.
            if name.starts_with('.') || name.starts_with("target") || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                documents.push((path, text));
            }
        }
    }
    assert!(documents.len() >= 6, "{documents:?}");
    documents.sort();
    documents
}

/// A path without `..`, whether it exists or not.
fn absolute(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The lines of a text with their numbers and, within a fence, its language and indentation.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, Option<(&str, usize)>)> {
    let mut fence: Option<(&str, usize)> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let bare = line.trim_start();
        if let Some(language) = bare.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some((language.trim(), line.len() - bare.len())),
            };
            return None;
        }
        Some((index + 1, line, fence))
    })
}

/// The fenced blocks of a language without indentation, each with the line number of its fence.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, usize, String)> = Vec::new();
    for (number, line, fence) in lines(text) {
        let Some((_, indent)) = fence.filter(|(name, _)| *name == language) else {
            continue;
        };
        let line = line.get(indent..).unwrap_or_default();
        match blocks.last_mut() {
            Some((_, last, block)) if *last + 1 == number => {
                *last = number;
                block.push_str(line);
                block.push('\n');
            }
            _ => blocks.push((number - 1, number, format!("{line}\n"))),
        }
    }
    blocks
        .into_iter()
        .map(|(first, _, block)| (first, block))
        .collect()
}

/// The targets of the links of a text.
fn links(text: &str) -> Vec<String> {
    let mut prose = String::new();
    for (_, line, _) in lines(text).filter(|(_, _, fence)| fence.is_none()) {
        // Skip code, which is every second part.
        prose.extend(line.split('`').step_by(2));
        prose.push('\n');
    }
    let after = prose.split("](").skip(1);
    after
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// The anchors of a text's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line, fence) in lines(text) {
        let title = line.trim_start_matches('#');
        if fence.is_some() || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor: String = kept
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let twins = (1..).map(|number| format!("{anchor}-{number}"));
        let free = [anchor.clone()]
            .into_iter()
            .chain(twins)
            .find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

//! The examples of a document that can be opened in the playground.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};
use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::links::{events, line_at};
use crate::share::fragment;

/// An example: a fenced block with a StatefulSet or a PersistentPodState.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// The line of its fence.
    pub line: usize,
    /// The objects of the block and of the cluster around them, as YAML. Line numbers of the block stay the same.
    pub objects: String,
    /// The Pod that is deleted after the workloads were created.
    pub pod: String,
    /// A node that is cordoned at first, so that the Pod starts elsewhere.
    pub cordoned: Option<&'static str>,
    end: usize,
    indent: usize,
}

impl Example {
    /// The state of the playground, as JSON: the workloads are created. Then a node is uncordoned that the scheduler would
    /// choose for the Pod, and the Pod is deleted: without a recorded state it starts on that node.
    pub fn scenario(&self) -> String {
        let mut actions = vec![json!({"do": "rollOut"})];
        actions.extend(self.cordoned.map(|node| json!({"do": "uncordon", "node": node})));
        actions.push(json!({"do": "deletePod", "pod": self.pod}));
        let scenario =
            json!({"version": 1, "objects": self.objects, "settings": "", "actions": actions, "done": 1});
        scenario.to_string()
    }
}

/// Adds a link that opens the playground below each example. `playground` is its address relative to the page.
pub fn add_links(markdown: &str, playground: &str) -> Result<String> {
    let mut linked = markdown.to_owned();
    for example in find(markdown)?.into_iter().rev() {
        let fragment = fragment(&example.scenario())?;
        let link = format!(
            "\n\n{:indent$}<a class=\"open-in-playground\" href=\"{playground}#{fragment}\">Open in the playground</a>\n",
            "",
            indent = example.indent
        );
        linked.insert_str(example.end, &link);
    }
    Ok(linked)
}

/// The examples of a document, in their order.
pub fn find(markdown: &str) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    let mut block: Option<(String, String)> = None;
    for (event, range) in events(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                block = Some((language.into_string(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, code)) = &mut block {
                    code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((language, code)) = block.take() else { continue };
                let line = line_at(markdown, range.start);
                let start_of_line = markdown[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
                for yaml in texts(&language, &code) {
                    let completed = complete(&yaml).with_context(|| format!("the block at line {line}"))?;
                    if let Some(Completed { objects, pod, cordoned }) = completed {
                        let indent = range.start - start_of_line;
                        examples.push(Example { line, objects, pod, cordoned, end: range.end, indent });
                    }
                }
            }
            _ => {}
        }
    }
    Ok(examples)
}

/// The YAML texts of a block: all of it, or what a command of a shell reads.
fn texts(language: &str, code: &str) -> Vec<String> {
    match language {
        "yaml" => vec![code.to_owned()],
        "sh" | "console" => {
            let mut texts = Vec::new();
            let mut lines = code.lines();
            while let Some(line) = lines.next() {
                if let Some((_, end)) = line.split_once("kubectl apply -f - <<") {
                    let end = end.trim().trim_matches('\'');
                    texts.push(
                        lines
                            .by_ref()
                            .take_while(|line| *line != end)
                            .fold(String::new(), |text, line| text + line + "\n"),
                    );
                }
            }
            texts
        }
        _ => Vec::new(),
    }
}

/// The fields of an object that matter here.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Object {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    target_ref: Option<Reference>,
    required_persistent_topology: Topology,
    preferred_persistent_topology: Vec<Preferred>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Topology {
    node_topology_keys: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Preferred {
    preference: Topology,
}

const PPS: &str = "PersistentPodState";
const STATEFUL_SET: &str = "StatefulSet";
/// The annotations of a workload that name labels of Nodes.
const TOPOLOGY_ANNOTATIONS: [&str; 2] =
    ["kruise.io/required-persistent-topology", "kruise.io/preferred-persistent-topology"];

#[derive(Debug, PartialEq, Eq)]
struct Completed {
    objects: String,
    pod: String,
    cordoned: Option<&'static str>,
}

/// Completes the objects of a block so that the playground shows a cluster: the workload that a PersistentPodState
/// names, and Nodes with the labels that it names. Returns nothing for a block without an object to show.
fn complete(yaml: &str) -> Result<Option<Completed>> {
    let mut objects = Vec::new();
    for document in yaml_serde::Deserializer::from_str(yaml) {
        let value = Value::deserialize(document)?;
        let kind = value["kind"].as_str();
        if kind.is_some_and(|kind| [PPS, STATEFUL_SET, "Node"].contains(&kind))
            && value["apiVersion"].is_string()
        {
            objects.push(serde_json::from_value::<Object>(value)?);
        }
    }
    // An alias names another PPS. It governs nothing by itself.
    let is_alias = |object: &Object| object.spec.target_ref.as_ref().is_some_and(|target| target.kind == PPS);
    if !objects.iter().any(|object| [PPS, STATEFUL_SET].contains(&object.kind.as_str()) && !is_alias(object))
    {
        return Ok(None);
    }
    let mut completed = yaml.to_owned();
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for object in &objects {
        let topologies =
            object.spec.preferred_persistent_topology.iter().map(|preferred| &preferred.preference);
        keys.extend(
            topologies
                .chain([&object.spec.required_persistent_topology])
                .flat_map(|topology| topology.node_topology_keys.iter().map(String::as_str)),
        );
        let annotated = TOPOLOGY_ANNOTATIONS.iter().filter_map(|key| object.metadata.annotations.get(*key));
        keys.extend(annotated.flat_map(|keys| keys.split(',')).map(str::trim).filter(|key| !key.is_empty()));
        let Some(target) = &object.spec.target_ref else { continue };
        let is_target = |other: &Object| {
            other.kind == target.kind
                && other.metadata.name == target.name
                && other.metadata.namespace == object.metadata.namespace
                && group(&other.api_version) == group(&target.api_version)
        };
        if !is_alias(object) && !objects.iter().any(is_target) {
            completed.push_str(&workload(target, object.metadata.namespace.as_deref()));
        }
    }
    let has_nodes = objects.iter().any(|object| object.kind == "Node");
    if !has_nodes {
        completed.push_str(&nodes(&keys));
    }
    let named = objects.iter().find_map(|object| match &object.spec.target_ref {
        Some(target) => Some(&target.name),
        None => (object.kind == STATEFUL_SET).then_some(&object.metadata.name),
    });
    let pod = format!("{}-0", named.map_or("", String::as_str));
    Ok(Some(Completed { objects: completed, pod, cordoned: (!has_nodes).then_some(CORDONED) }))
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn workload(target: &Reference, namespace: Option<&str>) -> String {
    let Reference { api_version, kind, name } = target;
    let namespace = namespace.map(|namespace| format!("\n  namespace: {namespace}")).unwrap_or_default();
    format!(
        "---
apiVersion: {api_version}
kind: {kind}
metadata:
  name: {name}{namespace}
spec:
  replicas: 3
  serviceName: {name}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
      - name: {name}
        image: registry.k8s.io/pause:3.10
"
    )
}

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

/// The first node by name, which the simulated scheduler takes of several best.
const CORDONED: &str = "node-1";

/// Six Nodes in three zones. The first one is cordoned. Other labels have one value for each zone.
fn nodes(keys: &BTreeSet<&str>) -> String {
    let mut nodes = String::new();
    for number in 1..=6 {
        let zone = (number + 1) / 2;
        let mut labels =
            format!("    {HOSTNAME}: node-{number}\n    {REGION}: region-1\n    {ZONE}: zone-{zone}\n");
        for key in keys.iter().filter(|key| ![HOSTNAME, ZONE, REGION].contains(key)) {
            let name = key.rsplit('/').next().unwrap_or(key);
            // Writing to a string does not fail.
            let _ = writeln!(labels, "    {key}: {name}-{zone}");
        }
        let name = format!("node-{number}");
        let spec = if name == CORDONED { "spec: {unschedulable: true}\n" } else { "" };
        let _ = write!(
            nodes,
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels:\n{labels}{spec}status:\n  allocatable: {{pods: \"10\"}}\n"
        );
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: &str = "apiVersion: apps.kruise.io/v1alpha1\nkind: PersistentPodState\nmetadata: {name: db, namespace: a}\nspec:\n  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}\n  requiredPersistentTopology: {nodeTopologyKeys: [example.io/rack]}\n";

    fn objects(yaml: &str) -> Vec<Value> {
        let documents = yaml_serde::Deserializer::from_str(yaml);
        documents.map(|document| Value::deserialize(document).unwrap()).collect()
    }

    fn completed(yaml: &str) -> String {
        complete(yaml).unwrap().unwrap().objects
    }

    fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
        objects.iter().filter(|object| object["kind"] == kind).collect()
    }

    #[test]
    fn a_pps_alone_gets_its_workload_and_nodes_with_its_labels() {
        let text = completed(DB);
        assert!(text.starts_with(DB));
        let objects = objects(&text);
        let workloads = of_kind(&objects, STATEFUL_SET);
        assert_eq!(workloads.len(), 1);
        assert_eq!(workloads[0]["metadata"], json!({"name": "db", "namespace": "a"}));
        let nodes = of_kind(&objects, "Node");
        assert_eq!(nodes.len(), 6);
        assert_eq!(nodes[2]["metadata"]["labels"]["example.io/rack"], "rack-2");
        assert_eq!(nodes[2]["metadata"]["labels"][ZONE], "zone-2");
        assert_eq!((&nodes[0]["spec"]["unschedulable"], &nodes[1]["spec"]), (&json!(true), &Value::Null));
    }

    #[test]
    fn objects_that_the_block_has_are_not_added() {
        let both = format!(
            "{DB}---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db, namespace: a}}\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: n}}\n"
        );
        assert_eq!(completed(&both), both);
        assert_eq!(complete(&both).unwrap().unwrap().cordoned, None);
        // Another group, another workload.
        let other = format!(
            "{DB}---\napiVersion: apps.kruise.io/v1beta1\nkind: StatefulSet\nmetadata: {{name: db, namespace: a}}\n"
        );
        assert_eq!(of_kind(&objects(&completed(&other)), STATEFUL_SET).len(), 2);
    }

    #[test]
    fn the_annotations_of_a_workload_name_labels_too() {
        let annotated = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\n  annotations:\n    kruise.io/required-persistent-topology: rack, topology.kubernetes.io/zone\n";
        let objects = objects(&completed(annotated));
        assert_eq!(of_kind(&objects, "Node")[0]["metadata"]["labels"]["rack"], "rack-1");
    }

    #[test]
    fn blocks_without_an_object_to_show_have_no_link() {
        let alias = "apiVersion: a/v1\nkind: PersistentPodState\nmetadata: {name: x}\nspec: {targetRef: {apiVersion: a/v1, kind: PersistentPodState, name: db}}\n";
        for yaml in ["metadata: {annotations: {a: b}}\n", "kind: StatefulSet\n", "- a\n", "", alias] {
            assert_eq!(complete(yaml).unwrap(), None, "{yaml}");
        }
        let page = format!("```text\n{DB}```\n\n    {DB}\n");
        assert_eq!(add_links(&page, "p").unwrap(), page);
    }

    #[test]
    fn links_stand_below_their_blocks_also_in_lists() {
        let indented = DB.trim_end().replace('\n', "\n  ");
        let page = format!("- a\n\n  ```yaml\n  {indented}\n  ```\n\nb\n");
        let linked = add_links(&page, "../playground/").unwrap();
        let found = find(&page).unwrap();
        assert_eq!((found.len(), found[0].line, found[0].pod.as_str()), (1, 3, "db-0"));
        assert!(
            linked.contains("  ```\n\n  <a class=\"open-in-playground\" href=\"../playground/#"),
            "{linked}"
        );
    }

    #[test]
    fn what_a_command_applies_is_an_example() {
        let page = format!("```sh\nkubectl apply -f - <<'END'\n{DB}END\nkubectl get pps\n```\n");
        let found = find(&page).unwrap();
        assert!(found[0].objects.starts_with(DB) && !found[0].objects.contains("kubectl"));
    }

    #[test]
    fn a_block_that_is_not_yaml_is_reported_with_its_line() {
        let error = format!("{:#}", find("a\n\n```yaml\nkind: [\n```\n").unwrap_err());
        assert!(error.starts_with("the block at line 3: "), "{error}");
    }
}

//! The examples of a document that can be opened in the playground.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::links::{events, line_at};

/// An example: a fenced block with a StatefulSet or a PersistentPodState.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    pub line: usize,
    /// The objects of the block and of the cluster around them.
    cluster: Cluster,
    end: usize,
    indent: usize,
}

impl Example {
    /// The state of the playground, as JSON: the workloads are created. Then a node is uncordoned
    /// that the scheduler would choose for the Pod, and the Pod is deleted: without a recorded
    /// state it starts on that node.
    pub fn scenario(&self) -> String {
        let Cluster {
            objects,
            pod,
            has_nodes,
        } = &self.cluster;
        let mut actions = vec![
            json!({"do": "rollOut"}),
            json!({"do": "deletePod", "pod": pod}),
        ];
        if !has_nodes {
            actions.insert(1, json!({"do": "uncordon", "node": CORDONED}));
        }
        json!({"version": 1, "objects": objects, "settings": "", "actions": actions, "done": 1})
            .to_string()
    }
}

/// Adds a link that opens the playground below each example. `playground` is its address relative
/// to the page.
pub fn add_links(markdown: &str, playground: &str) -> Result<String> {
    let mut linked = markdown.to_owned();
    for example in find(markdown)?.into_iter().rev() {
        let fragment = fragment(&example.scenario())?;
        let link = format!(
            "\n\n{:indent$}<a class=\"open-in-playground\" href=\"{playground}#{fragment}\">Open \
             in the playground</a>\n",
            "",
            indent = example.indent
        );
        linked.insert_str(example.end, &link);
    }
    Ok(linked)
}

/// The longest fragment that the page reads.
const MAX_DATA: usize = 64 * 1024;

/// The fragment of a link to the playground: the scenario's JSON, compressed (raw DEFLATE), in
/// base64url. `playground/js/link.js` describes the format.
fn fragment(scenario: &str) -> Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(scenario.as_bytes())?;
    let data = URL_SAFE_NO_PAD.encode(encoder.finish()?);
    ensure!(
        data.len() <= MAX_DATA,
        "the example is too long for a link: it needs {} characters",
        data.len()
    );
    Ok(format!("scenario={data}"))
}

/// The examples of a document, in their order.
pub fn find(markdown: &str) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    let mut block: Option<Block> = None;
    for (event, range) in events(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                block = Some(Block {
                    language: language.into_string(),
                    code: String::new(),
                });
            }
            Event::Text(text) => {
                if let Some(block) = &mut block {
                    block.code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some(block) = block.take() else {
                    continue;
                };
                let line = line_at(markdown, range.start);
                let indent = indent_at(markdown, range.start);
                for yaml in block.texts() {
                    let cluster =
                        complete(&yaml).with_context(|| format!("the block at line {line}"))?;
                    examples.extend(cluster.map(|cluster| Example {
                        line,
                        cluster,
                        end: range.end,
                        indent,
                    }));
                }
            }
            _ => {}
        }
    }
    Ok(examples)
}

/// The number of characters before this position in its line.
fn indent_at(markdown: &str, position: usize) -> usize {
    let line_start = markdown[..position]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    position - line_start
}

/// A fenced block.
struct Block {
    language: String,
    code: String,
}

impl Block {
    /// The YAML texts of the block: all of it, or the input of `kubectl apply` in a shell.
    fn texts(&self) -> Vec<String> {
        match self.language.as_str() {
            "yaml" => vec![self.code.clone()],
            "sh" | "console" => inputs_of_apply(&self.code),
            _ => Vec::new(),
        }
    }
}

fn inputs_of_apply(code: &str) -> Vec<String> {
    let mut inputs = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if let Some((_, end)) = line.split_once("kubectl apply -f - <<") {
            let end = end.trim().trim_matches('\'');
            let read = lines.by_ref().take_while(|line| *line != end);
            inputs.push(read.flat_map(|line| [line, "\n"]).collect());
        }
    }
    inputs
}

const PPS: &str = "PersistentPodState";
const STATEFUL_SET: &str = "StatefulSet";

#[derive(Debug, PartialEq, Eq)]
struct Cluster {
    /// YAML. The line numbers of the block stay the same.
    objects: String,
    /// The Pod that is deleted after the workloads were created.
    pod: String,
    /// Whether the block itself has Nodes.
    has_nodes: bool,
}

/// Completes the objects of a block so that the playground shows a cluster: the workload that a
/// PersistentPodState names, and Nodes with the labels that it names. Returns nothing for a block
/// without an object to show.
fn complete(yaml: &str) -> Result<Option<Cluster>> {
    let documents = yaml_serde::Deserializer::from_str(yaml).map(Value::deserialize);
    let mut objects = documents.collect::<Result<Vec<Value>, _>>()?;
    // An alias names another PPS. It governs nothing by itself.
    objects.retain(|object| {
        object["apiVersion"].is_string() && object["spec"]["targetRef"]["kind"] != PPS
    });
    let Some(first) = objects.iter().find_map(workload_name) else {
        return Ok(None);
    };
    let pod = format!("{first}-0");
    let mut completed = yaml.to_owned();
    for object in objects.iter().filter(|object| object["kind"] == PPS) {
        if !objects.iter().any(|other| is_target(other, object)) {
            let namespace = object["metadata"]["namespace"].as_str();
            completed.push_str(&workload(&object["spec"]["targetRef"], namespace));
        }
    }
    let has_nodes = objects.iter().any(|object| object["kind"] == "Node");
    if !has_nodes {
        completed.push_str(&nodes(&objects.iter().flat_map(topology_keys).collect()));
    }
    Ok(Some(Cluster {
        objects: completed,
        pod,
        has_nodes,
    }))
}

/// The name of the workload that an object is, or is for.
fn workload_name(object: &Value) -> Option<&str> {
    match object["kind"].as_str()? {
        PPS => Some(text(&object["spec"]["targetRef"]["name"])),
        STATEFUL_SET => Some(text(&object["metadata"]["name"])),
        _ => None,
    }
}

/// Whether an object is the workload that a PersistentPodState names.
fn is_target(object: &Value, pps: &Value) -> bool {
    let target = &pps["spec"]["targetRef"];
    object["kind"] == target["kind"]
        && object["metadata"]["name"] == target["name"]
        && object["metadata"]["namespace"] == pps["metadata"]["namespace"]
        && group(&object["apiVersion"]) == group(&target["apiVersion"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn group(api_version: &Value) -> &str {
    text(api_version)
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// The labels of Nodes that a PersistentPodState or a workload's annotations name.
fn topology_keys(object: &Value) -> Vec<&str> {
    let spec = &object["spec"];
    let preferred = items(&spec["preferredPersistentTopology"]).map(|term| &term["preference"]);
    let specified = preferred
        .chain([&spec["requiredPersistentTopology"]])
        .flat_map(|topology| items(&topology["nodeTopologyKeys"]))
        .map(text);
    let annotations = &object["metadata"]["annotations"];
    let annotated = [
        "kruise.io/required-persistent-topology",
        "kruise.io/preferred-persistent-topology",
    ]
    .into_iter()
    .flat_map(|annotation| text(&annotations[annotation]).split(','))
    .map(str::trim)
    .filter(|key| !key.is_empty());
    specified.chain(annotated).collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn workload(target: &Value, namespace: Option<&str>) -> String {
    let api_version = text(&target["apiVersion"]);
    let kind = text(&target["kind"]);
    let name = text(&target["name"]);
    let namespace = namespace
        .map(|namespace| format!("\n  namespace: {namespace}"))
        .unwrap_or_default();
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
        let mut labels = format!(
            "    {HOSTNAME}: node-{number}\n    {REGION}: region-1\n    {ZONE}: zone-{zone}\n"
        );
        for key in keys
            .iter()
            .filter(|key| ![HOSTNAME, ZONE, REGION].contains(key))
        {
            let name = key.rsplit('/').next().unwrap_or(key);
            // Writing to a string does not fail.
            let _ = writeln!(labels, "    {key}: {name}-{zone}");
        }
        let name = format!("node-{number}");
        let spec = if name == CORDONED {
            "spec: {unschedulable: true}\n"
        } else {
            ""
        };
        let _ = write!(
            nodes,
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  \
             labels:\n{labels}{spec}status:\n  allocatable: {{pods: \"10\"}}\n"
        );
    }
    nodes
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;

    use super::*;

    const DB: &str = "apiVersion: apps.kruise.io/v1alpha1\nkind: PersistentPodState\nmetadata: \
                      {name: db, namespace: a}\nspec:\n  targetRef: {apiVersion: apps/v1, kind: \
                      StatefulSet, name: db}\n  requiredPersistentTopology: {nodeTopologyKeys: \
                      [example.io/rack]}\n";

    fn objects(yaml: &str) -> Vec<Value> {
        let documents = yaml_serde::Deserializer::from_str(yaml);
        documents
            .map(|document| Value::deserialize(document).unwrap())
            .collect()
    }

    fn completed(yaml: &str) -> String {
        complete(yaml).unwrap().unwrap().objects
    }

    fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
        objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .collect()
    }

    #[test]
    fn a_pps_alone_gets_its_workload_and_nodes_with_its_labels() {
        let text = completed(DB);
        assert!(text.starts_with(DB));
        let objects = objects(&text);
        let workloads = of_kind(&objects, STATEFUL_SET);
        assert_eq!(workloads.len(), 1);
        assert_eq!(
            workloads[0]["metadata"],
            json!({"name": "db", "namespace": "a"})
        );
        let nodes = of_kind(&objects, "Node");
        assert_eq!(nodes.len(), 6);
        assert_eq!(nodes[2]["metadata"]["labels"]["example.io/rack"], "rack-2");
        assert_eq!(nodes[2]["metadata"]["labels"][ZONE], "zone-2");
        assert_eq!(
            (&nodes[0]["spec"]["unschedulable"], &nodes[1]["spec"]),
            (&json!(true), &Value::Null)
        );
    }

    #[test]
    fn objects_that_the_block_has_are_not_added() {
        let both = format!(
            "{DB}---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db, namespace: \
             a}}\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: n}}\n"
        );
        assert_eq!(completed(&both), both);
        assert!(complete(&both).unwrap().unwrap().has_nodes);
        // Another group, another workload.
        let other = format!(
            "{DB}---\napiVersion: apps.kruise.io/v1beta1\nkind: StatefulSet\nmetadata: {{name: \
             db, namespace: a}}\n"
        );
        assert_eq!(of_kind(&objects(&completed(&other)), STATEFUL_SET).len(), 2);
    }

    #[test]
    fn the_annotations_of_a_workload_name_labels_too() {
        let annotated = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\n  \
                         annotations:\n    kruise.io/required-persistent-topology: rack, \
                         topology.kubernetes.io/zone\n";
        let objects = objects(&completed(annotated));
        assert_eq!(
            of_kind(&objects, "Node")[0]["metadata"]["labels"]["rack"],
            "rack-1"
        );
    }

    #[test]
    fn blocks_without_an_object_to_show_have_no_link() {
        let alias = "apiVersion: a/v1\nkind: PersistentPodState\nmetadata: {name: x}\nspec: \
                     {targetRef: {apiVersion: a/v1, kind: PersistentPodState, name: db}}\n";
        for yaml in [
            "metadata: {annotations: {a: b}}\n",
            "kind: StatefulSet\n",
            "- a\n",
            "",
            alias,
        ] {
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
        assert_eq!(
            (found.len(), found[0].line, found[0].cluster.pod.as_str()),
            (1, 3, "db-0")
        );
        assert!(
            linked.contains("  ```\n\n  <a class=\"open-in-playground\" href=\"../playground/#"),
            "{linked}"
        );
    }

    #[test]
    fn what_a_command_applies_is_an_example() {
        let page = format!("```sh\nkubectl apply -f - <<'END'\n{DB}END\nkubectl get pps\n```\n");
        let found = find(&page).unwrap();
        assert!(
            found[0].cluster.objects.starts_with(DB)
                && !found[0].cluster.objects.contains("kubectl")
        );
    }

    #[test]
    fn a_block_that_is_not_yaml_is_reported_with_its_line() {
        let error = format!("{:#}", find("a\n\n```yaml\nkind: [\n```\n").unwrap_err());
        assert!(error.starts_with("the block at line 3: "), "{error}");
    }

    #[test]
    fn a_fragment_is_the_compressed_scenario() {
        let scenario = r#"{"version":1,"objects":"…"}"#;
        let fragment = fragment(scenario).unwrap();
        let packed = URL_SAFE_NO_PAD
            .decode(fragment.strip_prefix("scenario=").unwrap())
            .unwrap();
        let mut text = String::new();
        DeflateDecoder::new(packed.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, scenario);
    }

    #[test]
    fn what_the_page_would_not_read_is_refused() {
        // Does not compress: each letter depends on all before it.
        let mut state = 1_u32;
        let mut letters = String::new();
        for _ in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            letters.push(char::from(b'a' + u8::try_from((state >> 24) % 26).unwrap()));
        }
        let error = fragment(&letters).unwrap_err().to_string();
        assert!(
            error.starts_with("the example is too long for a link"),
            "{error}"
        );
    }
}

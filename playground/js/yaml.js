// @ts-check
/** Objects for the examples and for links from documents, as YAML. */

/** Two Nodes in each of three zones.
 * @param {boolean} [sized] say how large they are: the first Node of a zone is larger, so the scheduler prefers it */
export function nodes(sized = false) {
  return [1, 2, 3, 4, 5, 6].map((number) => node(`node-${number}`, "aabbcc"[number - 1]) + (sized ? size(number % 2 === 1) : "")).join("---\n");
}

/** @param {boolean} isLarge */
function size(isLarge) {
  return `status:
  allocatable: {cpu: "${isLarge ? 32 : 8}", memory: ${isLarge ? 128 : 32}Gi, pods: "110"}
`;
}

/** @param {string} name @param {string} zone */
export function node(name, zone) {
  return `apiVersion: v1
kind: Node
metadata:
  name: ${name}
  labels:
    kubernetes.io/hostname: ${name}
    topology.kubernetes.io/zone: ${zone}
`;
}

/** A StatefulSet that runs: its Pods are on node-2, node-4 and node-6.
 * @param {string} name @param {string} [directory] of the node, with the Pod’s data */
export function running(name, directory) {
  const volumes = directory === undefined ? "" : `\n      volumes: [{name: data, hostPath: {path: ${directory}}}]`;
  const sized = statefulSet(name, { pod: volumes, requests: '\n        resources: {requests: {cpu: "2", memory: 8Gi}}' });
  return documents(sized, ...[0, 1, 2].map((ordinal) => pod(name, ordinal)));
}

/** @param {string} workload @param {number} ordinal */
function pod(workload, ordinal) {
  return `apiVersion: v1
kind: Pod
metadata:
  name: ${workload}-${ordinal}
  labels: {app: ${workload}}
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: ${workload}, controller: true}]
spec: {nodeName: node-${2 * ordinal + 2}}
status:
  podIP: 10.20.${ordinal}.7
  conditions: [{type: Ready, status: "True"}]
`;
}

/**
 * @param {string} name
 * @param {{apiVersion?: string, namespace?: string, pod?: string, requests?: string}} options `pod`: lines for the Pod's spec; `requests`: for its container
 */
export function statefulSet(name, { apiVersion = "apps/v1", namespace = "", pod = "", requests = "" } = {}) {
  return `apiVersion: ${apiVersion}
kind: StatefulSet
metadata:
  name: ${name}${namespace === "" ? "" : `\n  namespace: ${namespace}`}
spec:
  replicas: 3
  serviceName: ${name}
  selector:
    matchLabels: {app: ${name}}
  template:
    metadata:
      labels: {app: ${name}}
    spec:${pod}
      containers:
      - name: ${name}
        image: registry.k8s.io/pause:3.10${requests}
`;
}

/** @param {...string} objects */
export function documents(...objects) {
  return objects.join("---\n");
}

/** The first object of a kind in a text.
 * @param {string} objects @param {string} kind @returns {string} "" if there is none */
export function findDocument(objects, kind) {
  const found = objects.split(/^---.*$/m).find((part) => part.split("\n").some((line) => line.trimEnd() === `kind: ${kind}`));
  return found === undefined ? "" : found.replace(/^\n/, "");
}

/**
 * Adds what a document's example leaves out, so that it can be tried: Nodes, and the StatefulSets that its PersistentPodStates
 * name. It looks at lines; what the engine cannot read stays as it is and is reported there.
 * @param {string} objects @returns {string}
 */
export function complete(objects) {
  const parts = objects.split(/^---.*$/m);
  const has = (/** @type {RegExp} */ pattern) => parts.some((part) => pattern.test(part));
  const targets = parts.filter((part) => /^kind: PersistentPodState\b/m.test(part)).flatMap(target);
  const missing = targets.filter(({ kind, name }) => kind === "StatefulSet" && !parts.some((part) => /^kind: StatefulSet\b/m.test(part) && nameOf(part) === name));
  const added = [...new Map(missing.map((item) => [item.name, item])).values()].map(({ apiVersion, name, namespace }) => statefulSet(name, { apiVersion, namespace }));
  if (!has(/^kind: Node\b/m)) added.push(nodes());
  if (added.length === 0) return objects;
  const start = objects.trim() === "" ? [] : [objects.replace(/\n*$/, "\n")];
  return documents(...start, ...added);
}

/** The workload whose Pods a reader of the document looks at first.
 * @param {string} objects @returns {string|undefined} */
export function firstWorkload(objects) {
  const parts = objects.split(/^---.*$/m);
  const targets = parts.filter((part) => /^kind: PersistentPodState\b/m.test(part)).flatMap(target);
  return targets[0]?.name ?? parts.filter((part) => /^kind: StatefulSet\b/m.test(part)).map(nameOf)[0];
}

/** The name of an object.
 * @param {string} part @returns {string|undefined} */
export function nameOf(part) {
  const lines = part.split("\n");
  const start = lines.findIndex((line) => line.startsWith("metadata:"));
  if (start < 0) return undefined;
  const read = (/** @type {string} */ line) => /\bname:\s*["']?([\w.-]{1,253})/.exec(line)?.[1];
  if (lines[start].includes("{")) return read(lines[start]);
  const first = lines.slice(start + 1).find((line) => line.trim() !== "") ?? "";
  const indent = first.slice(0, first.length - first.trimStart().length);
  for (const line of lines.slice(start + 1)) {
    if (line.startsWith(`${indent}name:`)) return read(line);
    if (line.trim() !== "" && !line.startsWith(" ")) return undefined;
  }
  return undefined;
}

/** @param {string} part */
function target(part) {
  const block = /^ *targetRef:(.*(?:\n(?: {4,}.*| *))*)/m.exec(part)?.[1] ?? "";
  const field = (/** @type {string} */ name) => new RegExp(`\\b${name}:\\s*["']?([\\w./-]+)`).exec(block)?.[1];
  const [apiVersion, kind, name] = [field("apiVersion"), field("kind"), field("name")];
  return apiVersion && kind && name ? [{ apiVersion, kind, name, namespace: /^  namespace: *([\w-]+) *$/m.exec(part)?.[1] ?? "" }] : [];
}

//! Import circles in a graph of files.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// For each file, the files that it imports, each with one path that imports it.
pub(crate) type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Files that each import the next one; the last one imports the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle(Vec<Import>);

#[derive(Debug, PartialEq, Eq)]
struct Import {
    from: String,
    to: String,
    path: String,
}

impl Circle {
    /// The files in the order of the imports.
    pub(crate) fn files(&self) -> Vec<&str> {
        self.0.iter().map(|import| import.from.as_str()).collect()
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Import { from, to, path } in &self.0 {
            writeln!(f, "{from} imports {to} by `{path}`")?;
        }
        Ok(())
    }
}

/// Circles that have no import in common, the shortest first. Without their imports, the graph has no circle.
pub(crate) fn circles(mut graph: Graph) -> Vec<Circle> {
    let mut circles = Vec::new();
    while let Some(circle) = shortest_circle(&graph) {
        for import in &circle.0 {
            graph.get_mut(&import.from).unwrap().remove(&import.to);
        }
        circles.push(circle);
    }
    circles
}

fn shortest_circle(graph: &Graph) -> Option<Circle> {
    graph.keys().filter_map(|file| circle_through(graph, file)).min_by_key(|circle| circle.0.len())
}

/// The shortest path from a file back to itself.
fn circle_through(graph: &Graph, start: &str) -> Option<Circle> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for (next, _) in graph.get(file).into_iter().flatten() {
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    let mut imports = Vec::new();
    let mut to = start;
    loop {
        let from = *came_from.get(to)?;
        imports.push(Import { from: from.into(), to: to.into(), path: graph[from][to].clone() });
        if from == start {
            break;
        }
        to = from;
    }
    imports.reverse();
    Some(Circle(imports))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(imports: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in imports {
            graph.entry((*from).into()).or_default().insert((*to).into(), format!("crate::{to}"));
        }
        graph
    }

    #[test]
    fn finds_nothing_in_a_graph_without_circles() {
        assert_eq!(circles(graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])), []);
    }

    #[test]
    fn finds_each_circle_and_prints_its_imports() {
        let found = circles(graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "c"), ("d", "e")]));
        let files: Vec<Vec<&str>> = found.iter().map(Circle::files).collect();
        assert_eq!(files, [vec!["c", "d"], vec!["a", "b", "c"]]);
        assert_eq!(found[0].to_string(), "c imports d by `crate::d`\nd imports c by `crate::c`\n");
    }
}

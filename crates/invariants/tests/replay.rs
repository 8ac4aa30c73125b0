//! The inputs that fuzzing has kept and those from which it starts, passed to the same checks.
//!
//! They are fixed, so that a run can be repeated as is. `make fuzz` looks for new ones; its
//! findings are replayed from `fuzz/corpus`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use pps_invariants::TARGETS;

fn replay(inputs: impl IntoIterator<Item = (String, String, Vec<u8>)>) -> usize {
    let mut count = 0;
    let mut broken = Vec::new();
    for (target, name, bytes) in inputs {
        let (_, check) = TARGETS
            .into_iter()
            .find(|(known, _)| *known == target)
            .unwrap();
        if catch_unwind(|| check(&bytes)).is_err() {
            broken.push(format!("{target}/{name}"));
        }
        count += 1;
    }
    assert!(
        broken.is_empty(),
        "these inputs violate an invariant, as printed above: {broken:?}"
    );
    count
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn inputs_kept_by_fuzzing_violate_no_invariant() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let kept = files(&corpus).into_iter().flat_map(|target| {
        files(&target)
            .into_iter()
            .map(move |path| (name(&target), name(&path), fs::read(&path).unwrap()))
    });
    assert!(replay(kept) >= TARGETS.len());
}

#[test]
fn golden_corpus_violates_no_invariant() {
    let seeds = pps_invariants::seeds::seeds().unwrap();
    assert!(
        replay(
            seeds
                .into_iter()
                .map(|(target, name, bytes)| (target.to_owned(), name, bytes))
        ) >= 100
    );
}

//! What `status` and `explain` answer about a cluster, as people see it and as programs read it.
//!
//! The answers are in `tests/golden`. `UPDATE=1 cargo test -p kubectl-pps --test questions` writes
//! them again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may"
)]

#[path = "questions/explain.rs"]
mod explain;
#[path = "questions/hostile.rs"]
mod hostile;
#[path = "questions/lost.rs"]
mod lost;
#[path = "questions/moves.rs"]
mod moves;
#[path = "questions/status.rs"]
mod status;
#[path = "questions/unread.rs"]
mod unread;
#[path = "questions/unwell.rs"]
mod unwell;
#[path = "questions/world.rs"]
mod world;

/// Compares an answer with its golden file.
fn assert_golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{name}: UPDATE=1 writes it again");
}

/// Asserts that no line is wider than a terminal, but for commands, which are never broken.
fn assert_fits(text: &str, width: usize) {
    let plain = text.replace('\u{1b}', "\n\u{1b}");
    for line in plain.lines().filter(|line| !line.contains("kubectl ")) {
        assert!(
            line.chars().count() <= width,
            "{line:?} is wider than {width} in:\n{text}"
        );
    }
}

//! The commands that documents show exist: each `kubectl pps …` is read as the plugin reads it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may"
)]

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use kubectl_pps::args::Cli;

const START: &str = "kubectl pps ";
/// This is made from the command line itself, with placeholders of its own.
const REFERENCE: &str = "docs/reference/kubectl-pps.md";
/// What ends a command within a line: a comment, another command, or the end of what a document
/// quotes.
const ENDS: [&str; 8] = [" #", " |", " >", " &&", ";", "`", "\"", ")"];
/// Words that stand for something, where it must not be any name.
const VALUES: [(&str, &str); 3] = [
    ("DURATION", "5m"),
    ("KIND/NAME", "statefulset/db"),
    ("$home", "node-1"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// All Markdown files of the repository.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") && name != "node_modules" {
                documents(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Each command of a text, without `kubectl pps`. In prose, only what is marked as code is one.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let mut is_code = false;
    let mut commands = Vec::new();
    for line in joined.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let parts = line.split(START).collect::<Vec<_>>();
        for pair in parts.windows(2) {
            let is_quoted = pair[0].ends_with('`');
            if is_code || is_quoted {
                let end = ENDS
                    .iter()
                    .filter_map(|end| pair[1].find(end))
                    .min()
                    .unwrap_or(pair[1].len());
                commands.push(pair[1][..end].trim().to_owned());
            }
        }
    }
    commands
}

/// What is wrong with a command; none if the plugin reads it.
fn mistake(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    if words.is_empty() || words.contains(&"…") {
        return None;
    }
    if let [name] = words[..] {
        // Prose also names a command without what it needs.
        let known = Cli::command().find_subcommand(name).is_some() || name.starts_with('-');
        return (!known).then(|| format!("there is no command {name}"));
    }
    let value = |word: &str| {
        let known = VALUES
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, value)| (*value).to_owned());
        let is_placeholder = word.chars().all(|c| c.is_ascii_uppercase());
        known.unwrap_or_else(|| {
            if is_placeholder {
                word.to_lowercase()
            } else {
                word.to_owned()
            }
        })
    };
    let words = ["kubectl-pps".to_owned()]
        .into_iter()
        .chain(words.into_iter().map(value));
    match Cli::try_parse_from(words) {
        Ok(_) => None,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn commands_that_documents_show_exist() {
    let root = repository();
    let mut files = Vec::new();
    documents(&root, &mut files);
    files.sort();
    let mut count = 0;
    let mut wrong = Vec::new();
    for file in &files {
        if file.ends_with(REFERENCE) {
            continue;
        }
        for command in commands(&fs::read_to_string(file).unwrap()) {
            count += 1;
            let at = file.strip_prefix(&root).unwrap().display();
            wrong.extend(
                mistake(&command).map(|mistake| format!("{at}: {START}{command}\n{mistake}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        count >= 30,
        "only {count} commands were found in {} files",
        files.len()
    );
}

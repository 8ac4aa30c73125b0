//! The commands of a page: blocks of `sh`, which are scripts, and of `console`, with prompts and
//! output.
//!
//! Comments before a block, which readers do not see, say how it is run: `<!-- not run: WHY -->`,
//! `<!-- scene: NAME -->` for what has to be the case.

use std::{fs, mem::take};

use pps_e2e::repository::repository_file;

/// A page with commands.
pub(crate) struct Page {
    /// Its path from the root of the repository.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
}

/// Commands that belong together.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// The line of its first fence.
    pub(crate) line: usize,
    pub(crate) not_run: Option<String>,
    pub(crate) scene: Option<String>,
    pub(crate) commands: Vec<Command>,
}

/// What is entered, and what is printed.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Prints what the page does not show.
    Script(String),
    /// Prints these lines.
    Prompt(String, Vec<String>),
}

impl Command {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Script(text) | Self::Prompt(text, _) => text,
        }
    }
}

impl Page {
    /// Reads a page.
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(repository_file(path)).unwrap();
        Self {
            path: path.to_owned(),
            blocks: blocks(&text),
        }
    }
}

pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut next = Block::default();
    let mut language = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("```") {
            if language.take().is_some() {
                if !next.commands.is_empty() {
                    blocks.push(take(&mut next));
                }
            } else {
                language = Some(name);
                next.line = index + 1;
            }
        } else if let Some(language) = language {
            match language {
                "sh" => push_script(&mut next.commands, line),
                "console" => push_console(&mut next.commands, line),
                _ => {}
            }
        } else if let Some(comment) = line
            .strip_prefix("<!-- ")
            .and_then(|line| line.strip_suffix(" -->"))
        {
            match comment.split_once(": ") {
                Some(("not run", why)) => next.not_run = Some(why.to_owned()),
                Some(("scene", name)) => next.scene = Some(name.to_owned()),
                _ => {}
            }
        }
    }
    blocks
}

fn push_script(commands: &mut Vec<Command>, line: &str) {
    match commands.last_mut() {
        Some(Command::Script(script)) => {
            script.push('\n');
            script.push_str(line);
        }
        _ => commands.push(Command::Script(line.to_owned())),
    }
}

fn push_console(commands: &mut Vec<Command>, line: &str) {
    if let Some(command) = line.strip_prefix("$ ") {
        commands.push(Command::Prompt(command.to_owned(), Vec::new()));
        return;
    }
    let Some(Command::Prompt(command, output)) = commands.last_mut() else {
        panic!("a command comes first: {line}")
    };
    if output.is_empty() && is_continued(command) {
        command.push('\n');
        command.push_str(line);
    } else {
        output.push(line.to_owned());
    }
}

/// Whether the shell asks for another line.
fn is_continued(command: &str) -> bool {
    command.ends_with(['\\', '|']) || !command.matches('\'').count().is_multiple_of(2)
}

#[test]
fn pages_are_parsed_into_scripts_and_prompts() {
    let text = "# T\n<!-- not run: kind -->\n```sh\na\nb\n```\n```yaml\nx: 1\n```\n<!-- scene: s -->\n```console\n$ c |\n    d 'e\n  f'\n1\n$ \
                g\n```\n";
    let prompt = |command: &str, output: &[&str]| {
        Command::Prompt(
            command.to_owned(),
            output.iter().map(|&line| line.to_owned()).collect(),
        )
    };
    let commands = vec![prompt("c |\n    d 'e\n  f'", &["1"]), prompt("g", &[])];
    assert_eq!(
        blocks(text),
        [
            Block {
                line: 3,
                not_run: Some("kind".into()),
                commands: vec![Command::Script("a\nb".into())],
                ..Block::default()
            },
            Block {
                line: 11,
                scene: Some("s".into()),
                commands,
                ..Block::default()
            },
        ]
    );
}

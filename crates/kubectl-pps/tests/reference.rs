//! The man page and `docs/reference/kubectl-pps.md` say what the command line says. `UPDATE=1`
//! writes them again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may"
)]

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use clap::{Arg, Command, CommandFactory};
use kubectl_pps::args::Cli;

const DOCUMENT: &str = "docs/reference/kubectl-pps.md";
/// What follows is generated.
const MARK: &str = "<!-- What follows is made from the command line: UPDATE=1 cargo test -p \
                    kubectl-pps --test reference -->\n";

fn command() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

fn own_options(command: &Command) -> Vec<&Arg> {
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    command
        .get_arguments()
        .filter(is_shown)
        .filter(|arg| !arg.is_global_set())
        .collect()
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    usage.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

fn about(command: &Command) -> String {
    sentence(
        &command
            .get_long_about()
            .or_else(|| command.get_about())
            .unwrap_or_default()
            .to_string(),
    )
}

/// clap removes the full stop of a text's end.
fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with('.') {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// The examples of a command, without their title.
fn examples(command: &Command) -> String {
    let text = command.get_after_help().unwrap_or_default().to_string();
    let lines = text
        .lines()
        .skip(1)
        .map(|line| line.strip_prefix("  ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn help(arg: &Arg) -> String {
    let mut text = sentence(
        &arg.get_long_help()
            .or_else(|| arg.get_help())
            .unwrap_or_default()
            .to_string(),
    );
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " Default: {}.", defaults.join(", "));
    }
    text.replace('\n', " ")
}

fn name(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    match arg.get_short() {
        Some(short) => format!("-{short}, {arg}"),
        None => arg.to_string(),
    }
}

/// Text in Markdown, in which `<` and `|` have a meaning.
fn plain(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
}

fn options(text: &mut String, options: &[&Arg]) {
    if options.is_empty() {
        return;
    }
    text.push_str("\n| | |\n|---|---|\n");
    for arg in options {
        let _ = writeln!(
            text,
            "| `{}` | {} |",
            name(arg).replace('|', "\\|"),
            plain(&help(arg))
        );
    }
}

fn markdown() -> String {
    let command = command();
    let mut text = String::new();
    for sub in subcommands(&command) {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n```text\n{}\n```\n",
            sub.get_name(),
            plain(&about(sub)),
            usage(sub)
        );
        options(&mut text, &own_options(sub));
        let _ = write!(text, "\n```text\n{}\n```\n", examples(sub));
    }
    text.push_str("\n## Options of all commands\n");
    let global: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .collect();
    options(&mut text, &global);
    text
}

fn man_page() -> String {
    let command = command();
    // clap_mangen leaves out the text of an option that `-h` does not show.
    let shown = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let man = clap_mangen::Man::new(shown).section("1");
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    let mut page = String::from_utf8(page).unwrap();
    page.push_str(".SH COMMANDS\n");
    for sub in subcommands(&command) {
        let mut shown = sub.clone();
        // Those of all commands are said once.
        for arg in sub.get_arguments().filter(|arg| {
            arg.is_global_set() || ["help", "version"].contains(&arg.get_id().as_str())
        }) {
            shown = shown.mut_arg(arg.get_id().as_str(), |arg| arg.hide(true));
        }
        let has_options = !own_options(&shown).is_empty();
        let man = clap_mangen::Man::new(shown.after_help(""));
        let mut section = Vec::new();
        man.render_description_section(&mut section).unwrap();
        man.render_synopsis_section(&mut section).unwrap();
        if has_options {
            man.render_options_section(&mut section).unwrap();
        }
        let section = String::from_utf8(section).unwrap();
        let _ = writeln!(page, ".SS {}", sub.get_name());
        for line in section.lines() {
            match line {
                ".SH DESCRIPTION" | ".ie \\n(.g .ds Aq \\(aq" | ".el .ds Aq '" => {}
                ".SH SYNOPSIS" | ".SH OPTIONS" => page.push_str(".PP\n"),
                line => {
                    page.push_str(line);
                    page.push('\n');
                }
            }
        }
        page.push_str(".PP\nExamples:\n.PP\n.nf\n");
        for line in examples(sub).lines() {
            let _ = writeln!(page, "{}", line.replace('\\', "\\e").replace('-', "\\-"));
        }
        page.push_str(".fi\n");
    }
    page
}

fn is_up_to_date(path: &str, text: &str) -> bool {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../..", path].iter().collect();
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, text).unwrap();
    }
    fs::read_to_string(&path).unwrap_or_default() == text
}

#[test]
fn the_document_says_what_the_command_line_says() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../..", DOCUMENT]
        .iter()
        .collect();
    let document = fs::read_to_string(path).unwrap();
    let (by_hand, _) = document
        .split_once(MARK)
        .expect("the line before the reference is lost");
    let document = format!("{by_hand}{MARK}{}", markdown());
    assert!(
        is_up_to_date(DOCUMENT, &document),
        "{DOCUMENT} is out of date: UPDATE=1 cargo test -p kubectl-pps --test reference"
    );
}

#[test]
fn the_man_page_says_what_the_command_line_says() {
    assert!(
        is_up_to_date("crates/kubectl-pps/kubectl-pps.1", &man_page()),
        "crates/kubectl-pps/kubectl-pps.1 is out of date: UPDATE=1 cargo test -p kubectl-pps \
         --test reference"
    );
}

//! A shell in which the commands of a page are entered one after the other, as a reader does.

use std::{
    ffi::OsString,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command as Process},
    time::{sleep, timeout},
};

use super::page::Command;
use crate::docs_kwctl::is_output;

/// How long a command may take, and how long what it prints may take to be what the page shows.
const PATIENCE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(500);
/// Commands that only read, and so may be run again until they print what the page shows.
const QUESTIONS: [&str; 6] = [
    "kubectl get ",
    "kubectl describe ",
    "kubectl pps status",
    "kubectl pps explain ",
    "kubectl pps simulate ",
    "kubectl pps check",
];
/// Those that end with 1 if they find something that is not well.
const PLUGIN: &str = "kubectl pps ";
/// The line after the output of a command, before its exit code.
const END: &str = "--- end of the output, with exit code ";

/// A running shell.
pub(crate) struct Shell {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Texts of the pages, and what stands for them here.
    replacements: Vec<(String, String)>,
}

impl Shell {
    /// Starts a shell in a folder, with further variables.
    pub(crate) async fn start(
        folder: &Path,
        variables: &[(&str, OsString)],
        replacements: Vec<(String, String)>,
    ) -> Self {
        let mut process = Process::new("bash");
        process.arg("--norc").current_dir(folder).kill_on_drop(true);
        process.envs(variables.iter().map(|(name, value)| (name, value)));
        process.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut shell = Self {
            _child: child,
            input,
            output,
            replacements,
        };
        shell.enter("exec 2>&1\nset -o pipefail").await;
        shell
    }

    /// Runs a command, and returns what is wrong with what it does.
    pub(crate) async fn run(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Script(script) => {
                // Not in this shell: it would end with the first error.
                let quoted = self.replace(script).replace('\'', r"'\''");
                let (printed, code) = self
                    .enter(&format!("bash -euo pipefail -c '{quoted}'"))
                    .await;
                if code == 0 {
                    Ok(())
                } else {
                    Err(format!("{script}\nends with {code}:\n{printed}"))
                }
            }
            Command::Prompt(prompt, expected) => self.run_until(prompt, expected).await,
        }
    }

    /// Runs a command, if it only reads again and again, until it prints what is expected.
    async fn run_until(&mut self, command: &str, expected: &[String]) -> Result<(), String> {
        let started = Instant::now();
        let expected: Vec<String> = expected.iter().map(|line| squeeze(line)).collect();
        let only_reads = QUESTIONS.iter().any(|start| command.starts_with(start));
        let may_end_with_1 = only_reads && command.starts_with(PLUGIN);
        loop {
            let (printed, code) = self.enter(&self.replace(command)).await;
            let lines: Vec<String> = printed.lines().map(squeeze).collect();
            let is_as_shown = is_output(&borrowed(&lines), &borrowed(&expected));
            let is_good = code == 0 || (code == 1 && may_end_with_1);
            if is_good && (is_as_shown || expected.is_empty()) {
                return Ok(());
            }
            if !only_reads || started.elapsed() > PATIENCE {
                let expected = expected.join("\n");
                return Err(format!(
                    "$ {command}\n{printed}\n(exit code {code}) instead of\n\n{expected}\n"
                ));
            }
            sleep(PAUSE).await;
        }
    }

    fn replace(&self, command: &str) -> String {
        let start = command.to_owned();
        self.replacements
            .iter()
            .fold(start, |command, (from, to)| command.replace(from, to))
    }

    /// Enters a command. Returns what it prints, and its exit code.
    async fn enter(&mut self, command: &str) -> (String, i32) {
        // What follows in the input is not for the command.
        let text = if command.starts_with("exec ") {
            command.to_owned()
        } else {
            format!("{{ {command}\n}} </dev/null")
        };
        self.input
            .write_all(format!("{text}\necho \"\n{END}$?\"\n").as_bytes())
            .await
            .unwrap();
        self.input.flush().await.unwrap();
        let mut printed: Vec<String> = Vec::new();
        loop {
            let line = timeout(PATIENCE, self.output.next_line()).await;
            let line =
                line.unwrap_or_else(|_| panic!("{text}\ndoes not end:\n{}", printed.join("\n")));
            let line = line
                .unwrap()
                .unwrap_or_else(|| panic!("{text}\nends the shell"));
            if let Some(code) = line.strip_prefix(END) {
                // The line before is the end of the last one.
                if printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                return (printed.join("\n"), code.parse().unwrap());
            }
            printed.push(line);
        }
    }
}

fn borrowed(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

/// The line with single blanks: the width of a column depends on names.
fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_shell_keeps_variables_and_reports_what_is_wrong() {
    let folder = std::env::temp_dir();
    let mut shell = Shell::start(&folder, &[], vec![("here".into(), "there".into())]).await;
    let prompt = |command: &str, output: &[&str]| {
        Command::Prompt(
            command.to_owned(),
            output.iter().map(|&line| line.to_owned()).collect(),
        )
    };
    shell.run(&prompt("a=1", &[])).await.unwrap();
    shell
        .run(&prompt(
            "echo  $a  here; echo error >&2",
            &["1 there", "error"],
        ))
        .await
        .unwrap();
    shell
        .run(&prompt("printf 'no end'", &["no …"]))
        .await
        .unwrap();
    shell
        .run(&Command::Script("b='2 3'\ncat <<END\n$b\nEND".into()))
        .await
        .unwrap();
    assert!(
        shell
            .run(&Command::Script("false\ntrue".into()))
            .await
            .is_err()
    );
    assert!(
        shell
            .run(&Command::Script("echo $unset".into()))
            .await
            .is_err()
    );
    assert!(
        shell
            .run(&prompt("echo other", &["text"]))
            .await
            .unwrap_err()
            .contains("instead of")
    );
    assert!(shell.run(&prompt("false", &[])).await.is_err());
    // Stands for the plugin, which ends with 1 where a Pod is Pending, and where it does not do
    // what is asked.
    shell
        .run(&prompt("kubectl() { echo it is Pending; return 1; }", &[]))
        .await
        .unwrap();
    shell
        .run(&prompt("kubectl pps explain db-0", &["it is Pending"]))
        .await
        .unwrap();
    assert!(
        shell
            .run(&prompt("kubectl pps move db-0 --anywhere", &[]))
            .await
            .is_err()
    );
}

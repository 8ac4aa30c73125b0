//! Completion: scripts for shells, and the answers that kubectl asks for.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;

/// kubectl runs this program of the PATH when it completes `kubectl pps`.
const FOR_KUBECTL: &str = include_str!("../../kubectl_complete-pps");

/// The script for a shell, or for kubectl.
pub fn script(shell: &str) -> String {
    let Ok(shell) = shell.parse::<Shell>() else { return FOR_KUBECTL.to_owned() };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kubectl-pps", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// What kubectl reads: a candidate in each line, and last a number that says whether the shell may complete
/// file names (0) or not (4).
pub fn candidates(words: &[String]) -> String {
    let mut root = Cli::command();
    root.build();
    let (last, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let mut command = &root;
    let mut value_of = None;
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            let is_meant = |arg: &&clap::Arg| {
                arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
                    || arg.get_short().is_some_and(|short| *word == format!("-{short}"))
            };
            value_of = command.get_arguments().find(is_meant).filter(|arg| arg.get_action().takes_values());
        } else if let Some(sub) = command.find_subcommand(word) {
            command = sub;
        }
    }
    let values = |arg: &clap::Arg| -> Vec<String> {
        let values = arg.get_possible_values();
        values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned()).collect()
    };
    let visible = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let mut may_be_file = false;
    let found: Vec<String> = if let Some(arg) = value_of {
        may_be_file = is_path(arg);
        values(arg)
    } else if last.starts_with('-') {
        visible().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect()
    } else {
        let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let subs = subs.map(|sub| sub.get_name().to_owned());
        may_be_file = visible().any(|arg| arg.is_positional() && is_path(arg));
        subs.chain(visible().filter(|arg| arg.is_positional()).flat_map(values)).collect()
    };
    let mut lines: String =
        found.iter().filter(|one| one.starts_with(last)).map(|one| one.to_owned() + "\n").collect();
    lines.push_str(if may_be_file { ":0\n" } else { ":4\n" });
    lines
}

fn is_path(arg: &clap::Arg) -> bool {
    arg.get_value_parser().type_id() == std::any::TypeId::of::<std::path::PathBuf>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &[&str]) -> String {
        candidates(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn kubectl_is_told_commands_options_and_values() {
        assert!(complete(&[""]).contains("status\n"), "{}", complete(&[""]));
        assert!(!complete(&[""]).contains("complete\n"));
        assert_eq!(complete(&["stat"]), "status\n:4\n");
        assert_eq!(complete(&["status", "--all"]), "--all-namespaces\n:4\n");
        assert_eq!(complete(&["status", "-o", "j"]), "json\n:4\n");
        assert_eq!(complete(&["-n", "prod", "completion", "po"]), "powershell\n:4\n");
        assert_eq!(complete(&["move", "db-0", "--any"]), "--anywhere\n--any\n:4\n");
        assert_eq!(complete(&["export", "-f", "st"]), ":0\n");
        assert_eq!(complete(&["import", ""]), ":0\n");
        assert_eq!(complete(&["nonsense", "\u{1b}"]), ":4\n");
        assert!(complete(&[]).contains("explain\n"));
    }

    #[test]
    fn each_shell_has_a_script() {
        for shell in ["bash", "zsh", "fish", "powershell", "kubectl"] {
            let script = script(shell);
            assert!(script.contains("kubectl-pps"), "{shell}");
        }
    }
}

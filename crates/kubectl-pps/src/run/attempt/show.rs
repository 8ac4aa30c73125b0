//! The answers as text.

use std::fmt::Write;

use crate::decide::attempt::{Answers, Attempt, Problem};
use crate::print::{Role, Style, printable};

/// Each object with what was done to it, then what is wrong with the files, and a summary.
pub(super) fn show(answers: &Answers, style: &Style) -> String {
    let mut text = String::new();
    for attempt in &answers.attempts {
        text.push_str(&show_attempt(attempt, answers, style));
    }
    for problem in &answers.problems {
        let (word, role) = if problem.is_error { ("error:", Role::Bad) } else { ("warning:", Role::Warning) };
        let place = format!("{}:{}:{}:", problem.file, problem.line, problem.column);
        let place = style.paint(Role::Strong, &printable(&place));
        let _ = writeln!(text, "{place} {} {}", style.paint(role, word), printable(&problem.message));
    }
    for note in &answers.notes {
        text.push_str(&style.note(note));
        text.push('\n');
    }
    if !answers.attempts.is_empty() {
        text.push_str(&summary(answers));
    }
    text
}

fn show_attempt(attempt: &Attempt, answers: &Answers, style: &Style) -> String {
    let Attempt { kind, name, file, line, .. } = attempt;
    let what = style.paint(Role::Strong, &printable(&format!("{kind} {name}")));
    let origin = match &attempt.made_from {
        Some(workload) => format!("{file}:{line}, {workload}"),
        None => format!("{file}:{line}"),
    };
    let origin = style.paint(Role::Dim, &printable(&format!("({origin})")));
    let (verdict, role) = verdict(attempt, answers);
    let mut text = format!("{what} {origin}: {}\n", style.paint(role, &printable(&verdict)));
    for warning in &attempt.warnings {
        let _ = writeln!(text, "  {} {}", style.paint(Role::Warning, "warning:"), printable(warning));
    }
    if let Some(after) = &attempt.object {
        let titles = [format!("{kind} {name}, as it is created"), format!("{kind} {name}, as it is stored")];
        text.push_str(&style.difference(&attempt.before, after, [&titles[0], &titles[1]]));
    }
    text
}

fn verdict(attempt: &Attempt, answers: &Answers) -> (String, Role) {
    if let Some(refusal) = &attempt.refusal {
        // The lines below say it with its place.
        let is_told = |one: &Problem| one.file == attempt.file && refusal.message.contains(&one.message);
        if answers.problems.iter().any(is_told) {
            return (format!("refused ({})", refusal.code), Role::Bad);
        }
        return (format!("refused ({}): {}", refusal.code, refusal.message), Role::Bad);
    }
    if let (Some(pps), Some(injected)) = (&attempt.persistent_pod_state, &attempt.injected) {
        return (format!("PersistentPodState {pps} injects {injected}"), Role::Good);
    }
    match &attempt.unchanged {
        Some(why) => (format!("nothing is injected: {why}"), Role::Warning),
        None => ("accepted".into(), Role::Good),
    }
}

/// `3 Pods: 2 get their recorded state, 1 starts without one`
fn summary(answers: &Answers) -> String {
    let pods: Vec<&Attempt> = answers.attempts.iter().filter(|attempt| attempt.kind == "Pod").collect();
    let refused = answers.attempts.iter().filter(|attempt| attempt.refusal.is_some()).count();
    let injected = pods.iter().filter(|pod| pod.injected.is_some()).count();
    let without = pods.iter().filter(|pod| pod.unchanged.is_some()).count();
    let counted = |count: usize, one: &str, many: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
    };
    let mut parts = Vec::new();
    if !pods.is_empty() {
        parts.push(format!(
            "{}: {}, {}",
            counted(pods.len(), "Pod", "Pods"),
            counted(injected, "gets its recorded state", "get their recorded state"),
            counted(without, "starts without one", "start without one")
        ));
    }
    if refused > 0 {
        parts.push(counted(refused, "object is refused", "objects are refused"));
    }
    if parts.is_empty() { String::new() } else { parts.join("; ") + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::attempt::{Source, attempt};

    fn shown(text: &str) -> String {
        let sources = [Source { name: "a.yaml".into(), text: text.into() }];
        show(&attempt(&sources, None, "default"), &Style::PLAIN)
    }

    #[test]
    fn what_is_refused_is_said_once_and_with_its_place() {
        let text = "\
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: db}
  preferredPersistentTopology:
  - weight: 0
    preference: {nodeTopologyKeys: [a]}
";
        let expected = "\
PersistentPodState db (a.yaml:1): refused (422)
a.yaml:5:36: error: spec.targetRef.kind is \"Deployment\": its Pods do not keep their names; use a kind whose re-created Pods do, such as StatefulSet
a.yaml:7:5: error: spec.preferredPersistentTopology[0].weight is 0: use a whole number from 1 to 100
1 object is refused
";
        assert_eq!(shown(text), expected);
        assert_eq!(
            shown("apiVersion: v1\nkind: Service\n---\na: 1\n"),
            "\
a.yaml:4:1: error: this is no Kubernetes object: it needs apiVersion, kind and metadata
note: left out: 1 Service; only Pods, StatefulSets and PersistentPodStates are tried
note: nothing was tried: the files need a Pod, a StatefulSet or a PersistentPodState
"
        );
    }

    #[test]
    fn nothing_of_a_file_reaches_the_terminal_as_a_command() {
        let hostile = r#"{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": {"name": "\u001b[2J"},
            "spec": {"\u001b]0;x\u0007": "\u009b2J", "targetRef": {"kind": "\u202eX\u001b[31m"}}}"#;
        let pod = hostile.replace("apps.kruise.io/v1alpha1", "v1").replace("PersistentPodState", "Pod");
        let service = hostile.replace("PersistentPodState", "\\u001b[1mThing");
        for text in [hostile, &pod, &service] {
            let shown = shown(text);
            assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
        }
    }
}

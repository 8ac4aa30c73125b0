//! Commands that an answer names: they reach the cluster and the namespace of the answer.

/// The longest list of names in one command: a longer line would be cut.
const MAX_LENGTH: usize = 240;

/// Names in portions that fit into one command each.
pub fn portions<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut portions: Vec<Vec<&str>> = Vec::new();
    let mut length = MAX_LENGTH;
    for name in names {
        length += name.len() + 1;
        if let Some(last) = portions.last_mut().filter(|_| length <= MAX_LENGTH) {
            last.push(name);
        } else {
            portions.push(vec![name]);
            length = name.len();
        }
    }
    portions
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The namespace that commands need not name.
    pub own_namespace: Option<String>,
    /// The flags that name the cluster and the user.
    pub flags: Vec<Flag>,
}

/// A flag of kubectl, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub value: String,
}

impl CommandLine {
    /// `kubectl pps VERB`, with what reaches this namespace.
    pub fn pps(&self, words: &str, namespace: &str) -> String {
        format!(
            "kubectl pps {words}{}{}",
            self.within(namespace),
            self.cluster()
        )
    }

    /// `kubectl pps check`, which looks for the sidecar in a namespace of its own.
    pub fn check(&self) -> String {
        format!("kubectl pps check{}", self.cluster())
    }

    /// `kubectl VERB` about something in a namespace.
    pub fn kubectl_in(&self, words: &str, namespace: &str) -> String {
        format!(
            "kubectl {words}{}{}",
            self.within(namespace),
            self.cluster()
        )
    }

    /// `kubectl VERB` about something without a namespace.
    pub fn kubectl(&self, words: &str) -> String {
        format!("kubectl {words}{}", self.cluster())
    }

    fn within(&self, namespace: &str) -> String {
        let is_own = self.own_namespace.as_deref() == Some(namespace);
        if is_own {
            String::new()
        } else {
            format!(" -n {namespace}")
        }
    }

    /// The flags that name the cluster.
    pub fn cluster(&self) -> String {
        let mut words = String::new();
        for Flag { name, value } in &self.flags {
            words = words + " --" + name + " " + &quoted(value);
        }
        words
    }
}

/// A word that a shell reads as this text.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@:~".contains(c);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_need_several_commands() {
        let names: Vec<String> = (0..100)
            .map(|number| format!("prometheus-k8s-{number}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = portions(&names);
        assert_eq!(all.concat(), names);
        assert!(
            all.len() > 5
                && all
                    .iter()
                    .all(|portion| portion.join(" ").len() <= MAX_LENGTH),
            "{all:?}"
        );
        assert_eq!(portions(&["a", "b"]), [["a", "b"]]);
        assert_eq!(portions(&[]), [[""; 0]; 0]);
    }

    #[test]
    fn a_command_reaches_the_namespace_and_cluster_of_the_answer() {
        let own = CommandLine {
            own_namespace: Some("shop".into()),
            ..CommandLine::default()
        };
        assert_eq!(own.pps("explain db-0", "shop"), "kubectl pps explain db-0");
        assert_eq!(
            own.pps("explain db-0", "other"),
            "kubectl pps explain db-0 -n other"
        );
        let flags = vec![
            Flag {
                name: "context",
                value: "my cluster".into(),
            },
            Flag {
                name: "kubeconfig",
                value: "a/b".into(),
            },
        ];
        let named = CommandLine {
            own_namespace: None,
            flags,
        };
        let command = "kubectl uncordon n --context 'my cluster' --kubeconfig a/b";
        assert_eq!(named.kubectl("uncordon n"), command);
        assert_eq!(own.check(), "kubectl pps check");
        assert_eq!(
            named.check(),
            "kubectl pps check --context 'my cluster' --kubeconfig a/b"
        );
    }
}

//! How the sidecar is set up: as the check's flags say, else as its Deployment says, else its defaults.

use super::objects::{Container, Deployment};
use super::settings::{Recorder, Settings};

/// Who records, and with which ConfigMap and Leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Which program records.
    pub recorder: Recorder,
    /// The name of the sidecar's Lease. None without leader election.
    pub lease: Option<String>,
    /// The namespace of the ConfigMap that lists custom kinds.
    pub config_namespace: String,
    /// The namespace of OpenKruise's Lease.
    pub openkruise_namespace: String,
}

impl Default for Recording {
    fn default() -> Self {
        Self::of(&Settings::default(), None)
    }
}

impl Recording {
    /// How the sidecar of this Deployment is set up, if there is one.
    pub fn of(settings: &Settings, sidecar: Option<&Deployment>) -> Self {
        let container = sidecar.and_then(|sidecar| sidecar.spec.template.spec.containers.first());
        let found = |flag: &str, variable: &str| container.and_then(|one| setting(one, flag, variable));
        let config_namespace =
            settings.config_namespace.clone().or_else(|| found("config-namespace", "PPS_CONFIG_NAMESPACE"));
        let config_namespace = config_namespace.unwrap_or_else(|| "kruise-system".into());
        let openkruise_namespace = settings
            .openkruise_namespace
            .clone()
            .or_else(|| found("openkruise-namespace", "PPS_OPENKRUISE_NAMESPACE"));
        let recorder = match found("recorder", "PPS_RECORDER").as_deref() {
            Some("openkruise") => Recorder::OpenKruise,
            _ => Recorder::Own,
        };
        let elects = found("leader-election", "").as_deref() != Some("false");
        let lease = settings.lease.clone().or_else(|| found("lease-name", ""));
        Self {
            recorder: settings.recorder.unwrap_or(recorder),
            lease: settings
                .elects_leader
                .unwrap_or(elects)
                .then(|| lease.unwrap_or_else(|| settings.sidecar.clone())),
            openkruise_namespace: openkruise_namespace.unwrap_or_else(|| config_namespace.clone()),
            config_namespace,
        }
    }
}

/// A setting of a container, from its arguments (`--flag=value`, `--flag value`) or else its environment.
fn setting(container: &Container, flag: &str, variable: &str) -> Option<String> {
    let flag = format!("--{flag}");
    let args = &container.args;
    let in_args = args.iter().enumerate().rev().find_map(|(index, arg)| match arg.strip_prefix(&flag)? {
        "" => args.get(index + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    });
    let in_env = || {
        let found = container.env.iter().find(|one| !variable.is_empty() && one["name"] == variable)?;
        found["value"].as_str().map(str::to_owned)
    };
    in_args.or_else(in_env).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn recording(settings: &Settings, container: &Value) -> Recording {
        let deployment = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        Recording::of(settings, Some(&serde_json::from_value(deployment).unwrap()))
    }

    #[test]
    fn flags_take_precedence_over_the_deployment_and_this_over_defaults() {
        let defaults = Recording::default();
        assert_eq!(recording(&Settings::default(), &json!({})), defaults);
        assert_eq!((defaults.recorder, defaults.lease.as_deref()), (Recorder::Own, Some("pps-sidecar")));
        let container = json!({"args": ["--recorder", "openkruise", "--lease-name=mine", "--leader-election=true"],
            "env": [{"name": "PPS_CONFIG_NAMESPACE", "value": "own"}, {"name": "PPS_RECORDER", "value": "self"}]});
        let found = recording(&Settings::default(), &container);
        assert_eq!((found.recorder, found.lease.as_deref()), (Recorder::OpenKruise, Some("mine")));
        assert_eq!((found.config_namespace.as_str(), found.openkruise_namespace.as_str()), ("own", "own"));
        let settings = Settings {
            recorder: Some(Recorder::Own),
            elects_leader: Some(false),
            openkruise_namespace: Some("k".into()),
            ..Settings::default()
        };
        let found = recording(&settings, &container);
        assert_eq!(
            (found.recorder, found.lease, found.openkruise_namespace.as_str()),
            (Recorder::Own, None, "k")
        );
        let found =
            recording(&Settings::default(), &json!({"args": ["--leader-election=false", "--recorder"]}));
        assert_eq!((found.recorder, found.lease), (Recorder::Own, None));
    }
}

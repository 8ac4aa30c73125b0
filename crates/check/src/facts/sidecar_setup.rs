//! How the sidecar is set up, as its Deployment shows.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;

use crate::settings::{Recorder, Settings};

/// How the sidecar is set up: as the check's flags say, else as its Deployment says, else its
/// defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SidecarSetup {
    pub(crate) recorder: Recorder,
    /// The only namespace that it records; all if there is none.
    pub(crate) namespace: Option<String>,
    /// The name of the sidecar's Lease. None without leader election.
    pub(crate) lease: Option<String>,
    /// The namespace of the ConfigMap that lists custom kinds.
    pub(crate) config_namespace: String,
    /// The namespace of OpenKruise's Lease.
    pub(crate) openkruise_namespace: String,
    pub(crate) evicts_pending_pods: bool,
}

impl Default for SidecarSetup {
    fn default() -> Self {
        Self::of(&Settings::default(), None)
    }
}

impl SidecarSetup {
    /// How the sidecar of this Deployment is set up, if there is one.
    pub(crate) fn of(settings: &Settings, sidecar: Option<&Deployment>) -> Self {
        let flags = ContainerFlags {
            container: sidecar.and_then(container),
        };
        let recorder = match flags.get("recorder").as_deref() {
            Some("openkruise") => Recorder::OpenKruise,
            _ => Recorder::Own,
        };
        let elects_leader = settings
            .leader_election
            .unwrap_or(flags.get("leader-election").as_deref() != Some("false"));
        let lease = flags
            .get("lease-name")
            .unwrap_or_else(|| settings.sidecar.clone());
        let config_namespace = settings
            .config_namespace
            .clone()
            .or_else(|| flags.get("config-namespace"))
            .unwrap_or_else(|| "kruise-system".into());
        let openkruise_namespace = settings
            .openkruise_namespace
            .clone()
            .or_else(|| flags.get("openkruise-namespace"))
            .unwrap_or_else(|| config_namespace.clone());
        Self {
            recorder: settings.recorder.unwrap_or(recorder),
            namespace: flags.get("namespace"),
            lease: elects_leader.then_some(lease),
            config_namespace,
            openkruise_namespace,
            evicts_pending_pods: flags.is_set("evict-pending-pods"),
        }
    }

    /// Whether two sidecars may record the same objects.
    pub(crate) fn shares_objects_with(&self, other: &Self) -> bool {
        match (&self.namespace, &other.namespace) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
    }
}

/// The first container of a Deployment's Pods.
pub(crate) fn container(deployment: &Deployment) -> Option<&Container> {
    deployment.spec.template.spec.as_ref()?.containers.first()
}

/// The sidecar's flags, as its container sets them.
struct ContainerFlags<'a> {
    container: Option<&'a Container>,
}

impl ContainerFlags<'_> {
    /// The value of a flag: from the arguments, else from the environment. None if it is empty.
    fn get(&self, flag: &str) -> Option<String> {
        let container = self.container?;
        flag_in_arguments(container, flag)
            .or_else(|| flag_in_environment(container, flag))
            .filter(|value| !value.is_empty())
    }

    /// Whether a switch is on, which needs no value.
    fn is_set(&self, flag: &str) -> bool {
        let alone = format!("--{flag}");
        let mut args = self
            .container
            .and_then(|one| one.args.as_ref())
            .into_iter()
            .flatten();
        args.any(|arg| *arg == alone) || self.get(flag).as_deref() == Some("true")
    }
}

/// `--flag=value` or `--flag value`. The last of several counts.
fn flag_in_arguments(container: &Container, flag: &str) -> Option<String> {
    let flag = format!("--{flag}");
    let args = container.args.as_deref().unwrap_or_default();
    let mut from_the_last = args.iter().enumerate().rev();
    from_the_last.find_map(|(index, arg)| match arg.strip_prefix(&flag)? {
        "" => args.get(index + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    })
}

/// `PPS_FLAG`.
fn flag_in_environment(container: &Container, flag: &str) -> Option<String> {
    let variable = format!("PPS_{}", flag.to_uppercase().replace('-', "_"));
    let mut all = container.env.iter().flatten();
    all.find(|one| one.name == variable)?.value.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn setup(settings: &Settings, container: &Value) -> SidecarSetup {
        let deployment =
            json!({"spec": {"selector": {}, "template": {"spec": {"containers": [container]}}}});
        SidecarSetup::of(settings, Some(&serde_json::from_value(deployment).unwrap()))
    }

    #[test]
    fn flags_take_precedence_over_the_deployment_and_this_over_defaults() {
        let defaults = SidecarSetup::default();
        assert_eq!(setup(&Settings::default(), &json!({"name": "c"})), defaults);
        assert_eq!(
            (defaults.recorder, defaults.lease.as_deref()),
            (Recorder::Own, Some("pps-sidecar"))
        );
        let container = json!({"name": "c",
            "args": ["--recorder", "openkruise", "--lease-name=mine", "--leader-election=true"],
            "env": [{"name": "PPS_CONFIG_NAMESPACE", "value": "own"}, {"name": "PPS_RECORDER", "value": "self"}]});
        let found = setup(&Settings::default(), &container);
        assert_eq!(
            (found.recorder, found.lease.as_deref()),
            (Recorder::OpenKruise, Some("mine"))
        );
        assert_eq!(
            (
                found.config_namespace.as_str(),
                found.openkruise_namespace.as_str()
            ),
            ("own", "own")
        );
        let settings = Settings {
            recorder: Some(Recorder::Own),
            leader_election: Some(false),
            openkruise_namespace: Some("k".into()),
            ..Settings::default()
        };
        let found = setup(&settings, &container);
        assert_eq!((found.recorder, found.lease), (Recorder::Own, None));
        assert_eq!(found.openkruise_namespace, "k");
        for (container, expected) in [
            (json!({"name": "c"}), false),
            (
                json!({"name": "c", "args": ["--evict-pending-pods", "--log=info"]}),
                true,
            ),
            (
                json!({"name": "c", "args": ["--evict-pending-pods=false"]}),
                false,
            ),
            (
                json!({"name": "c", "env": [{"name": "PPS_EVICT_PENDING_PODS", "value": "true"}]}),
                true,
            ),
        ] {
            let found = setup(&Settings::default(), &container);
            assert_eq!(found.evicts_pending_pods, expected, "{container}");
        }
    }
}

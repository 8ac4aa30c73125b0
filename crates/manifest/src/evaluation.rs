//! What the policy says: to one request, about an object, and about its settings.

use std::fmt;

use persistent_pod_state_policy::settings::SettingsError;
use persistent_pod_state_policy::{Host, Settings, ValidationResponse, admit};
use pps_core::AnnotationRules;
use pps_core::protect::warn_of_label;
use serde_json::{Value, json};

use crate::yaml::{self, Document, Place, Positions, YamlError};

/// Something that is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Where, in the text.
    pub place: Place,
    /// The field, such as `spec.preferredPersistentTopology[1].weight`; empty if it is not about a field.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Flaw {
    /// About a field of a document.
    pub fn of(positions: &Positions, field: &str, message: impl Into<String>) -> Self {
        Self { place: positions.find(field), field: field.to_owned(), message: message.into() }
    }
}

impl From<YamlError> for Flaw {
    fn from(YamlError { place, message }: YamlError) -> Self {
        Self { place, field: String::new(), message }
    }
}

/// What the policy says about a PersistentPodState itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it refuses it; empty if it does not.
    pub flaws: Vec<Flaw>,
    /// What it warns of.
    pub warnings: Vec<String>,
}

/// Answers a request of PolicyServer, `{"request": …, "settings": …}`, by the policy's own code. What is no request gets an
/// answer as well: a refusal.
pub fn answer(payload: &str, host: &dyn Host) -> ValidationResponse {
    admit(payload.as_bytes(), host)
}

/// Answers the creation of an object in a namespace by the policy's own code. `object` is JSON.
pub fn answer_creation(
    object: &Value,
    namespace: &str,
    settings: &Value,
    host: &dyn Host,
) -> ValidationResponse {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let request = json!({
        "uid": "00000000-0000-4000-8000-000000000000",
        "kind": {"group": group, "version": version, "kind": object["kind"]},
        "operation": "CREATE",
        "namespace": namespace,
        "name": object["metadata"]["name"],
        "userInfo": {"username": "kubernetes-admin"},
        "object": object,
    });
    answer(&json!({"request": request, "settings": settings}).to_string(), host)
}

/// Reviews a PersistentPodState that is created, by the rules of the policy.
pub fn review(document: &Document, rules: &AnnotationRules) -> Verdict {
    let Document { value, positions } = document;
    let review = pps_core::validate::review(value, None, rules);
    let flaws = review.violations.iter().map(|one| Flaw::of(positions, &one.path, one.to_string())).collect();
    Verdict { flaws, warnings: review.warnings.into_iter().chain(warn_of_label(value)).collect() }
}

/// Why settings cannot be used. Displays everything that is wrong at once.
#[derive(Clone, Debug)]
pub enum SettingsFault {
    /// They are not YAML.
    Unreadable(YamlError),
    /// The policy refuses them.
    Refused {
        /// Everything that is wrong.
        error: SettingsError,
        /// Where the settings are in their text.
        positions: Positions,
    },
}

impl SettingsFault {
    /// Everything that is wrong, each with its place.
    pub fn flaws(&self) -> Vec<Flaw> {
        match self {
            Self::Unreadable(error) => vec![error.clone().into()],
            Self::Refused { error: SettingsError::Fields(errors), positions } => errors
                .iter()
                .map(|error| {
                    let field = error.path.strip_prefix("settings.").unwrap_or(&error.path);
                    Flaw::of(positions, field, error.to_string())
                })
                .collect(),
            Self::Refused { error, positions } => vec![Flaw::of(positions, "", error.to_string())],
        }
    }
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Refused { error, .. } => error.fmt(f),
        }
    }
}

/// Reads the policy's settings, which are YAML or JSON, and what they say. An empty text means the defaults.
///
/// # Errors
///
/// Everything that is wrong with them.
pub fn read_settings(text: &str) -> Result<(Value, Settings), SettingsFault> {
    let Document { value, positions } = yaml::parse_one(text).map_err(SettingsFault::Unreadable)?;
    match Settings::parse(&value.to_string()) {
        Ok(settings) => Ok((value, settings)),
        Err(error) => Err(SettingsFault::Refused { error, positions }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct EmptyCluster;

    impl Host for EmptyCluster {
        fn call(&self, _: &str, operation: &str, _: &str) -> Result<String, String> {
            Err(format!("{operation} was called"))
        }
    }

    #[test]
    fn flaws_of_an_object_are_where_its_fields_are() {
        let text = "\
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: db}
  requiredPersistentTopology:
    nodeTopologyKeys:
    - topology.kubernetes.io/zone
    - a b
  preferredPersistentTopology:
  - weight: 1000
    preference: {nodeTopologyKeys: [failure-domain.beta.kubernetes.io/zone]}
";
        let document = yaml::parse_one(text).unwrap();
        let verdict = review(&document, &AnnotationRules::default());
        let places: Vec<(usize, &str)> =
            verdict.flaws.iter().map(|flaw| (flaw.place.line, flaw.field.as_str())).collect();
        assert_eq!(
            places,
            [
                (5, "spec.targetRef.kind"),
                (9, "spec.requiredPersistentTopology.nodeTopologyKeys[1]"),
                (11, "spec.preferredPersistentTopology[0].weight"),
            ]
        );
        assert!(verdict.flaws[2].message.contains("use a whole number from 1 to 100"), "{verdict:?}");
        assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
    }

    #[test]
    fn flaws_of_settings_are_where_their_fields_are() {
        let flaws = |text: &str| read_settings(text).unwrap_err().flaws();
        let found = flaws("# none\nannotations:\n  allow:\n  - a\n  - b*c\nlookup: 1\n");
        let places: Vec<(usize, &str)> =
            found.iter().map(|flaw| (flaw.place.line, flaw.field.as_str())).collect();
        assert_eq!(places, [(5, "annotations.allow[1]"), (6, "lookup")]);
        assert_eq!(flaws("- 1\n").len(), 1);
        assert_eq!(flaws("a: [\n")[0].place.line, 2);
        assert_eq!(read_settings("").unwrap().1, Settings::default());
    }

    #[test]
    fn the_policy_answers_whatever_is_asked() {
        assert_eq!(answer("", &EmptyCluster).code, Some(400));
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        assert!(answer_creation(&pod, "shop", &Value::Null, &EmptyCluster).accepted);
        assert!(answer_creation(&Value::Null, "", &Value::Null, &EmptyCluster).accepted);
    }
}

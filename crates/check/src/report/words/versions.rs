//! The words about the versions of Kubernetes and Kubewarden.

use super::Words;
use crate::facts::Facts;
use crate::finding::VersionDiagnosis as D;
use crate::rules::OLDEST;

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    let kubernetes = facts
        .kubernetes
        .known()
        .map_or("", |version| version.text.as_str());
    match diagnosis {
        D::KubernetesSupported => Words::seen(kubernetes),
        D::KubernetesTooOld => Words::seen(kubernetes).advise(format!(
            "update it to {OLDEST} or newer, the oldest that is supported"
        )),
        D::KubewardenInstalled => {
            Words::seen("its definitions have all fields that the policies use")
        }
        D::KubewardenMissing { kinds } => {
            Words::seen(format!("no definition of {}", kinds.join(" and "))).advise(
                "install Kubewarden first: helm charts kubewarden-crds, kubewarden-controller, \
                 kubewarden-defaults",
            )
        }
        D::KubewardenTooOld { missing_fields } => Words::seen(format!(
            "its definition does not have {}",
            missing_fields.join(", ")
        ))
        .advise("update Kubewarden to 1.20 or newer, first its chart kubewarden-crds"),
    }
}

//! The words about the sidecar and other recorders.

use super::{Words, some_of};
use crate::facts::{Facts, LEASE_SECONDS};
use crate::finding::{Leaderless, RecorderDiagnosis as D, Replicas};

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    let namespace = &facts.settings.namespace;
    match diagnosis {
        D::SidecarAvailable(replicas) => Words::seen(available_sidecars(*replicas)),
        D::SidecarNotAvailable(replicas) => {
            let consequence = if replicas.available == 0 {
                ", so nothing is recorded"
            } else {
                ""
            };
            Words::seen(available_sidecars(*replicas) + consequence)
                .advise("/readyz of a Pod says what it waits for")
                .run(format!("kubectl describe pods -n {namespace}"))
        }
        D::SidecarMissing { lease_holder: None } => {
            Words::seen("does not exist, so nothing is recorded").advise(
                "apply it (kubectl apply -k, or helm upgrade), or name its namespace with \
                 --namespace",
            )
        }
        D::SidecarMissing {
            lease_holder: Some(holder),
        } => Words::seen(format!(
            "does not exist, but {holder} renews its Lease and records"
        ))
        .advise(
            "name the sidecar's Deployment with --sidecar and --namespace, if the process is not \
             outside the cluster",
        ),
        D::SidecarForbidden { rights } => {
            Words::seen(format!("its ServiceAccount may not {}", some_of(rights))).advise(
                "apply the roles and bindings of this version again (deploy/base/rbac.yaml, \
                 chart: rbac.create)",
            )
        }
        D::FallbackForbidden { rights } => {
            let lacks = if rights.is_empty() {
                "it runs without --evict-pending-pods".to_owned()
            } else {
                format!("its ServiceAccount may not {}", some_of(rights))
            };
            Words::seen(format!(
                "PersistentPodStates have fallbackAfterSeconds, and {lacks}: Pods keep their places"
            ))
            .advise(
                "add the components evict-pending-pods and read-volumes (chart: \
                 sidecar.evictPendingPods and sidecar.readVolumes)",
            )
        }
        D::LeaderActive { pod } => Words::seen(format!("{pod} leads")),
        D::LeaderMissing { why, sidecar } => {
            Words::seen(format!("{}, so nothing is recorded", no_leader(why)))
                .run(format!("kubectl logs -n {namespace} deployment/{sidecar}"))
        }
        D::SecondInstallation { deployments } => Words::seen(format!(
            "another sidecar runs, which may record the same objects: {}",
            some_of(deployments)
        ))
        .advise("delete one of the two installations"),
        D::ConflictingRecorder { manager } => Words::seen(format!(
            "OpenKruise's manager {manager} runs and writes the same objects"
        ))
        .advise(
            "install the overlay openkruise (chart: sidecar.recorder=openkruise), or remove \
             OpenKruise's manager",
        ),
        D::RecorderMissing => Words::seen(
            "OpenKruise's manager is to record, but does not renew its Lease: nothing is recorded",
        )
        .advise(
            "start OpenKruise's manager, or install without the overlay openkruise (chart: \
             sidecar.recorder=self)",
        ),
    }
}

fn available_sidecars(Replicas { available, wanted }: Replicas) -> String {
    format!("{available} of {wanted} sidecars are available")
}

fn no_leader(why: &Leaderless) -> String {
    match why {
        Leaderless::NoLease => "does not exist".to_owned(),
        Leaderless::Free => "nobody holds it".to_owned(),
        Leaderless::Silent { holder } => {
            format!("{holder} holds it, but did not renew it for {LEASE_SECONDS} s")
        }
    }
}

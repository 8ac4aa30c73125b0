//! Whether somebody records: whether the holder of a Lease renews it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use pps_api::Limits;
use tokio::time::{Instant, sleep_until};

use super::{TIMING, Timing, read_sidecars};
use crate::facts::{Facts, LeaseReads, Read, Right, SidecarSetup};
use crate::reader::Reader;
use crate::report::words;
use crate::rules;
use crate::settings::Recorder;

/// The sidecar's Lease, and that of OpenKruise's manager.
pub(super) struct Leases {
    at: Instant,
    own: Read<Option<LeaseSpec>>,
    openkruise: Read<Option<LeaseSpec>>,
}

impl Leases {
    pub(super) async fn read(reader: &Reader, facts: &Facts) -> Self {
        let at = Instant::now();
        let own = async {
            match &facts.setup.lease {
                Some(name) => read_lease(reader, &facts.settings.namespace, name).await,
                None => Read::Unknown,
            }
        };
        let openkruise = read_lease(reader, &facts.setup.openkruise_namespace, "kruise-manager");
        let (own, openkruise) = tokio::join!(own, openkruise);
        Self {
            at,
            own,
            openkruise,
        }
    }
}

async fn read_lease(reader: &Reader, namespace: &str, name: &str) -> Read<Option<LeaseSpec>> {
    let lease = reader.get_one::<Lease>(Some(namespace), name).await;
    lease.map(|lease| lease.spec)
}

/// Reads the Leases again and again, until each is renewed. One that nobody renews is waited for:
/// that of the recorder for its whole duration, another for as long as a holder takes between two
/// renewals.
pub(super) async fn compare(reader: &Reader, facts: &mut Facts, first: &Leases, timing: &Timing) {
    loop {
        let second = Leases::read(reader, facts).await;
        facts.lease = pair(&first.own, second.own);
        facts.openkruise_lease = pair(&first.openkruise, second.openkruise);
        let is_missed = is_recorder_missed(facts);
        let wait = if is_missed {
            timing.lease_duration
        } else {
            timing.lease_interval
        };
        let all_renewed = !is_silent(&facts.lease) && !is_silent(&facts.openkruise_lease);
        if all_renewed || second.at >= first.at + wait {
            return;
        }
        if reader.time_left().is_zero() {
            if is_missed {
                // Nobody has seen whether it is renewed.
                let right = Right::new("get", "coordination.k8s.io", "leases");
                *recorder_lease(facts) =
                    reader.failed(Some(right), "no time is left to see whether it is renewed");
            }
            return;
        }
        sleep_until(second.at + (timing.lease_interval / 10).min(reader.time_left())).await;
    }
}

/// Whether nobody has renewed the Lease of the recorder that should record.
fn is_recorder_missed(facts: &Facts) -> bool {
    match facts.setup.recorder {
        Recorder::Own => is_silent(&facts.lease) && !facts.settings.is_before(),
        Recorder::OpenKruise => is_silent(&facts.openkruise_lease),
    }
}

fn recorder_lease(facts: &mut Facts) -> &mut Read<LeaseReads> {
    match facts.setup.recorder {
        Recorder::Own => &mut facts.lease,
        Recorder::OpenKruise => &mut facts.openkruise_lease,
    }
}

/// Whether the holder of a Lease has not renewed it yet.
fn is_silent(reads: &Read<LeaseReads>) -> bool {
    let reads = reads.known();
    reads.is_some_and(|reads| reads.holder().is_some() && reads.living_holder().is_none())
}

/// Two reads of one Lease. A Lease that has just appeared has no first read, so its holder counts
/// as living.
fn pair(first: &Read<Option<LeaseSpec>>, second: Read<Option<LeaseSpec>>) -> Read<LeaseReads> {
    match first {
        Read::Unknown => Read::Unknown,
        Read::Absent => second.map(|second| LeaseReads {
            first: None,
            second,
        }),
        Read::Known(first) => second.map(|second| LeaseReads {
            first: first.clone(),
            second,
        }),
    }
}

/// A recorder whose Lease nobody renews, so that nothing is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The Lease: `Lease shop/pps-sidecar`.
    pub subject: String,
    /// What is wrong with it.
    pub seen: String,
}

/// Whether the recorder of a namespace, or of all, is silent. What may not be read, or is found
/// under no name that is certain, is not called silent.
pub async fn silent_recorder(
    client: &Client,
    namespace: Option<&str>,
    limits: Limits,
) -> Option<Silence> {
    let reader = Reader::new(client.clone(), limits, TIMING.total);
    silent_within(reader, namespace, &TIMING).await
}

pub(super) async fn silent_within(
    reader: Reader,
    of: Option<&str>,
    timing: &Timing,
) -> Option<Silence> {
    let mut facts = Facts::default();
    read_sidecars(&reader, &mut facts).await;
    if let (Read::Known(all), Some(asked)) = (&mut facts.sidecars, of) {
        all.retain(|one| {
            let recorded = SidecarSetup::of(&facts.settings, Some(one)).namespace;
            recorded.is_none_or(|recorded| recorded == asked)
        });
    }
    // It may be installed under another name.
    if facts.own_sidecar().is_none()
        && let Some([only]) = facts.sidecars.items()
    {
        let only = only.metadata.clone();
        facts.settings.namespace = only.namespace.unwrap_or_default();
        facts.settings.sidecar = only.name.unwrap_or_default();
    }
    facts.setup = SidecarSetup::of(&facts.settings, facts.own_sidecar());
    let first = Leases::read(&reader, &facts).await;
    let recorders = if facts.setup.recorder == Recorder::Own {
        &first.own
    } else {
        &first.openkruise
    };
    let has_name =
        facts.own_sidecar().is_some() || facts.sidecars.items().is_some_and(<[_]>::is_empty);
    let is_unclear = match recorders {
        Read::Known(lease) => !looks_renewed(lease.as_ref(), timing.lease_duration),
        other => other.is_absent() && has_name,
    };
    if is_unclear {
        compare(&reader, &mut facts, &first, timing).await;
    }
    let finding = rules::silent_recorder(&facts)?;
    let seen = words(&facts, &finding).seen;
    Some(Silence {
        subject: finding.subject,
        seen,
    })
}

/// Whether the Lease was renewed a moment ago by this machine's clock. Another clock may be wrong,
/// so that a no proves nothing.
fn looks_renewed(lease: Option<&LeaseSpec>, within: Duration) -> bool {
    let renewed = lease.and_then(|lease| lease.renew_time.as_ref());
    renewed.is_some_and(|time| Timestamp::now().duration_since(time.0).unsigned_abs() <= within)
}

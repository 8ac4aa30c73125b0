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
        let get = async |namespace: &str, name: Option<&str>| match name {
            Some(name) => reader
                .get_one::<Lease>(Some(namespace), name)
                .await
                .map(|lease| lease.spec),
            None => Read::Unknown,
        };
        let (own, openkruise) = tokio::join!(
            get(&facts.settings.namespace, facts.setup.lease.as_deref()),
            get(&facts.setup.openkruise_namespace, Some("kruise-manager")),
        );
        Self {
            at,
            own,
            openkruise,
        }
    }
}

/// Reads the Leases again and again, until each is renewed. One that nobody renews is waited for:
/// that of the recorder for its whole duration, another for as long as a holder takes between two
/// renewals.
pub(super) async fn compare(reader: &Reader, facts: &mut Facts, first: &Leases, timing: &Timing) {
    loop {
        let second = Leases::read(reader, facts).await;
        facts.lease = pair(&first.own, second.own);
        facts.openkruise_lease = pair(&first.openkruise, second.openkruise);
        let is_silent = [&facts.lease, &facts.openkruise_lease].map(|reads| {
            let is_held =
                |reads: &LeaseReads| reads.holder().is_some() && reads.living_holder().is_none();
            reads.known().is_some_and(is_held)
        });
        let (is_missed, recorder) = match facts.setup.recorder {
            Recorder::Own => (
                is_silent[0] && !facts.settings.is_before(),
                &mut facts.lease,
            ),
            Recorder::OpenKruise => (is_silent[1], &mut facts.openkruise_lease),
        };
        let wait = if is_missed {
            timing.lease_duration
        } else {
            timing.lease_interval
        };
        if is_silent == [false; 2] || second.at >= first.at + wait {
            return;
        }
        if reader.time_left().is_zero() {
            if is_missed {
                // Nobody has seen whether it is renewed.
                let right = Right::new("get", "coordination.k8s.io", "leases");
                *recorder =
                    reader.failed(Some(right), "no time is left to see whether it is renewed");
            }
            return;
        }
        sleep_until(second.at + (timing.lease_interval / 10).min(reader.time_left())).await;
    }
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
        let recorded = |one: &_| SidecarSetup::of(&facts.settings, Some(one)).namespace;
        all.retain(|one| recorded(one).is_none_or(|recorded| recorded == asked));
    }
    // It may be installed under another name.
    if facts.own_sidecar().is_none()
        && let Some([only]) = facts.sidecars.items()
    {
        let (namespace, name) = (only.metadata.namespace.clone(), only.metadata.name.clone());
        facts.settings.namespace = namespace.unwrap_or_default();
        facts.settings.sidecar = name.unwrap_or_default();
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

//! Whether somebody records: only what shows that.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use super::reader::{Limits, Reader};
use super::{TIMING, Timing, compare_leases, own_sidecar, read_leases, read_sidecars};
use crate::facts::{Facts, LeaseSpec, Read, Recorder, Recording};

/// Reads the Lease of whoever records, and again if it looks as if nobody renewed it. What may not be read, or is found under
/// no name that is certain, stays unknown.
pub async fn gather_recorder(client: &Client) -> Facts {
    gather_within(client, &TIMING).await
}

pub(super) async fn gather_within(client: &Client, timing: &Timing) -> Facts {
    let reader = Reader::new(client.clone(), Limits::CHECK, Instant::now() + timing.total);
    let mut facts = Facts::default();
    facts.sidecars = read_sidecars(&reader, &facts.settings).await;
    // It may be installed under another name.
    if let (None, Some([only])) = (own_sidecar(&facts), facts.sidecars.items()) {
        facts.settings.namespace.clone_from(&only.metadata.namespace);
        facts.settings.sidecar.clone_from(&only.metadata.name);
    }
    facts.recording = Recording::of(&facts.settings, own_sidecar(&facts));
    let first_read = Instant::now();
    let first = read_leases(&reader, &facts).await;
    let recorders = match facts.recording.recorder {
        Recorder::Own => &first.0,
        Recorder::OpenKruise => &first.1,
    };
    let has_name = own_sidecar(&facts).is_some() || facts.sidecars.items().is_some_and(<[_]>::is_empty);
    let is_unclear = match recorders {
        Read::Known(lease) => !looks_renewed(lease.as_ref(), timing.lease_duration),
        other => other.is_absent() && has_name,
    };
    if is_unclear {
        (facts.lease, facts.openkruise_lease) =
            compare_leases(&reader, &facts, first, first_read, timing).await;
    }
    facts
}

/// Whether the Lease was renewed a moment ago by this machine's clock. Another clock may be wrong, so that a no proves nothing.
fn looks_renewed(lease: Option<&LeaseSpec>, within: Duration) -> bool {
    let renewed = lease.and_then(|lease| lease.renew_time.as_ref()?.parse::<Timestamp>().ok());
    renewed.is_some_and(|time| Timestamp::now().duration_since(time).unsigned_abs() <= within)
}

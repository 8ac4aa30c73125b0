//! The status of a PPS, with its states in either form.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::recording::RECORDING;
use pps_core::packed::{Damaged, check_version};
use pps_core::pps::{Condition, Packed, null_as_default};
use serde::Deserialize;

use super::states::States;

/// The status of a PPS, with compactly stored states. See [`pps_core::pps::Status`] for the fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PpsStatus {
    pub observed_generation: Option<i64>,
    /// The states of both forms together.
    #[serde(deserialize_with = "null_as_default")]
    pub pod_states: States,
    /// None once its states are among the others.
    pub(crate) packed: Option<Packed>,
    #[serde(skip)]
    pub form: Form,
    /// What the API server says of who has written the compact form. If one has and the API server does not
    /// show it, the definition may hide it.
    #[serde(skip)]
    pub packed_claim: PackedClaim,
    #[serde(rename = "targetUID")]
    pub target_uid: Option<String>,
    pub recorded: Option<i32>,
    pub desired: Option<i32>,
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Plain,
    /// They are in `packed`, except those that another writer has put into `podStates`, where they take
    /// precedence: of these Pods.
    Compact(BTreeSet<Arc<str>>),
    /// The object had the compact form, and the API server no longer shows it: the definition prunes it, or a
    /// client that does not know it has erased it. Only the states of these Pods are in `podStates`, and the
    /// others nowhere but in memory.
    Pruned(BTreeSet<Arc<str>>),
}

/// Whether some client has written the compact form and none has removed it, as the managed fields say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedClaim {
    #[default]
    No,
    /// It is so; under a definition without the compact form, also after it was removed.
    Yes,
    /// They say nothing of the status. The API server drops those of an object that would be too large with
    /// them, and they do not come back.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredForm {
    Plain,
    Compact,
}

impl StoredForm {
    pub fn of(form: &Form) -> Self {
        if form.is_compact() { Self::Compact } else { Self::Plain }
    }
}

impl Form {
    /// The Pods whose states are in `podStates` beside others that are not.
    pub fn overlaid(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Self::Plain => None,
            Self::Compact(pods) | Self::Pruned(pods) => Some(pods),
        }
    }

    pub fn is_compact(&self) -> bool {
        matches!(self, Self::Compact(_))
    }
}

impl PpsStatus {
    /// Adds the states of the compact form to the others.
    pub(super) fn unpack(&mut self) -> Result<(), Damaged> {
        if let Some(packed) = self.packed.take() {
            check_version(Some(packed.version.into()))?;
            let states = States::read_buckets(&packed.buckets)?;
            self.form = Form::Compact(self.pod_states.nodes().map(|(pod, _)| pod.clone()).collect());
            self.pod_states.add_missing(&states);
        }
        Ok(())
    }

    /// The object has this form now, since the sidecar has written it.
    pub fn follow_form(&mut self, form: Form) {
        // Under a definition without the compact form, the API server may go on to say that it was written.
        if form == Form::Plain && self.form != Form::Plain {
            self.packed_claim = PackedClaim::Yes;
        }
        self.form = form;
    }

    /// Whether the definition may hide states that nobody here has seen: some client may have written the
    /// compact form, and the API server shows no state at all. Where it shows some, a write has passed that
    /// definition, which has ended whatever was hidden.
    pub fn may_hide_states(&self) -> bool {
        let was_written = || self.observed_generation.is_some() || !self.conditions.is_empty();
        let may_be_compact = match self.packed_claim {
            PackedClaim::No => false,
            PackedClaim::Yes => true,
            PackedClaim::Unknown => was_written(),
        };
        may_be_compact && self.form == Form::Plain && self.pod_states.is_empty()
    }

    /// Takes over the states that were known before, if the API server hides them: the object had the compact
    /// form, no client has removed it, and it is not shown. Only where the definition `shows_packed` can a
    /// client be seen to remove it. A client that does not know the form removes it with everything else that
    /// it does not know.
    pub fn restore(&mut self, known: &Self, shows_packed: bool) {
        if self.form != Form::Plain {
            return;
        }
        let is_hidden = match (&known.form, self.packed_claim) {
            // They are nowhere else.
            (Form::Pruned(_), _) => true,
            (Form::Compact(_), claim) => {
                claim == PackedClaim::Yes || !shows_packed || self.lacks_own_fields()
            }
            (Form::Plain, PackedClaim::Yes) => known.packed_claim != PackedClaim::Yes,
            (Form::Plain, _) => false,
        };
        if !is_hidden {
            return;
        }
        let shown = self.pod_states.nodes().map(|(pod, _)| pod.clone()).collect();
        if self.pod_states.add_missing(&known.pod_states) {
            self.form = Form::Pruned(shown);
            self.target_uid = self.target_uid.take().or_else(|| known.target_uid.clone());
        }
    }

    /// Whether all fields are missing that only this product's clients write, as after a full update by
    /// another client.
    fn lacks_own_fields(&self) -> bool {
        self.target_uid.is_none()
            && self.recorded.is_none()
            && self.conditions.iter().all(|condition| condition.type_ != RECORDING)
    }
}

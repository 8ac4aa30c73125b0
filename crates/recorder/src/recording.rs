//! The condition of type Recording.

use pps_core::Reason;
use pps_core::pps::Condition;

/// The type of the condition that the sidecar sets.
pub const RECORDING: &str = "Recording";

/// Characters of a condition's message that are written. A node can lack thousands of keys with
/// long names, and the API server refuses a status with a message beyond [its
/// limit](pps_core::limits::MAX_CONDITION_MESSAGE_LENGTH).
const MAX_MESSAGE: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Its status: whether states are recorded as the spec asks for.
    pub ok: bool,
    pub reason: Reason,
    pub message: String,
}

impl Recording {
    /// States are recorded as the spec asks for.
    pub(crate) fn fine(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            ok: true,
            reason,
            message: message.into(),
        }
    }

    /// Something keeps states from being recorded, or from being of use.
    pub(crate) fn not(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            reason,
            message: message.into(),
        }
    }
}

/// The conditions with this one added or replaced, or none if it is already among them. Conditions
/// of other types are unchanged. `now` is in the format of RFC 3339 and becomes the transition time
/// only if the condition's status changes.
pub fn with_recording(
    conditions: &[Condition],
    recording: &Recording,
    generation: Option<i64>,
    now: &str,
) -> Option<Vec<Condition>> {
    let status = if recording.ok { "True" } else { "False" };
    let before = conditions
        .iter()
        .find(|condition| condition.type_ == RECORDING);
    let since = before
        .filter(|before| before.status == status)
        .map(|before| before.last_transition_time.as_str());
    let condition = Condition {
        type_: RECORDING.into(),
        status: status.into(),
        reason: recording.reason.as_str().into(),
        message: recording.message.chars().take(MAX_MESSAGE).collect(),
        last_transition_time: since.unwrap_or(now).into(),
        observed_generation: generation,
    };
    if before == Some(&condition) {
        return None;
    }
    let others = conditions
        .iter()
        .filter(|condition| condition.type_ != RECORDING)
        .cloned();
    Some(others.chain([condition]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_the_transition_time_only_when_the_status_changes() {
        let other_type = Condition {
            type_: "Theirs".into(),
            ..Condition::default()
        };
        let good = Recording {
            ok: true,
            reason: Reason::AllRecorded,
            message: "fine".into(),
        };
        let first =
            with_recording(std::slice::from_ref(&other_type), &good, Some(1), "t1").unwrap();
        assert_eq!(
            (&first[0], first[1].last_transition_time.as_str()),
            (&other_type, "t1")
        );
        assert_eq!(with_recording(&first, &good, Some(1), "t2"), None);

        let other_words = Recording {
            message: "still fine".into(),
            ..good
        };
        assert_eq!(
            with_recording(&first, &other_words, Some(1), "t2").unwrap()[1].last_transition_time,
            "t1"
        );

        let long = Recording {
            message: "é".repeat(100_000),
            ..other_words
        };
        assert_eq!(
            with_recording(&[], &long, None, "t").unwrap()[0]
                .message
                .chars()
                .count(),
            MAX_MESSAGE
        );

        let bad = Recording {
            ok: false,
            reason: Reason::WorkloadNotFound,
            message: "gone".into(),
        };
        let turned = with_recording(&first, &bad, Some(1), "t3").unwrap();
        assert_eq!(
            (turned.len(), turned[1].last_transition_time.as_str()),
            (2, "t3")
        );
    }
}

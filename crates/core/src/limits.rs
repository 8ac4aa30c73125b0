//! The limits on everything that a user or the sidecar writes. The schema, the validation, the plan
//! and the sidecar use the same numbers. Each is far above what real use needs.

/// Keys in one topology term.
pub const MAX_TOPOLOGY_KEYS: usize = 64;
/// Preferred topology terms in one PPS.
pub const MAX_PREFERRED_TERMS: usize = 64;
/// Annotations that one PPS persists.
pub const MAX_ANNOTATIONS: usize = 128;
/// The least number of seconds that a Pod waits for its recorded place: a node that restarts, or a
/// busy scheduler, is no reason to give a place up.
pub const MIN_FALLBACK_SECONDS: u32 = 30;
/// The largest number of seconds that a Pod waits for its recorded place: four hours.
pub const MAX_FALLBACK_SECONDS: u32 = 14_400;
/// Characters in a label or annotation key: a prefix of 253, a slash, and a name of 63.
pub const MAX_KEY_LENGTH: usize = 317;
/// Characters in the name of an object.
pub const MAX_NAME_LENGTH: usize = 253;
/// Characters in an API version: a group of 253, a slash, and a version of 63.
pub const MAX_API_VERSION_LENGTH: usize = 317;
/// Characters in a kind.
pub const MAX_KIND_LENGTH: usize = 63;
/// Entries in `podStates`. The size below which an object is kept is reached long before.
pub const MAX_POD_STATES: usize = 100_000;
/// Characters in one bucket of the compact form. The size below which an object is kept is reached
/// before.
pub const MAX_BUCKET_LENGTH: usize = 2 * 1024 * 1024;
/// Bytes of all names, keys and values in the states of one object in the compact form, written
/// out.
pub const MAX_UNPACKED_LENGTH: usize = 32 * MAX_BUCKET_LENGTH;
/// Node labels in one entry: one for each key that a spec can name.
pub const MAX_RECORDED_LABELS: usize = MAX_TOPOLOGY_KEYS * (1 + MAX_PREFERRED_TERMS);
/// Characters in the value of a label.
pub const MAX_LABEL_VALUE_LENGTH: usize = 63;
/// Characters in the value of an annotation: the API server takes as much, in bytes, for all keys
/// and values of an object.
pub const MAX_ANNOTATION_VALUE_LENGTH: usize = 256 * 1024;
/// Characters in the audit annotation that lists what was injected.
pub const MAX_AUDIT_LENGTH: usize = 1024;
/// Characters in a UID.
pub const MAX_UID_LENGTH: usize = 128;
/// Conditions of one PPS.
pub const MAX_CONDITIONS: usize = 32;
/// Characters in the type of a condition. This limit and the next two are those of Kubernetes' own
/// conditions.
pub const MAX_CONDITION_TYPE_LENGTH: usize = 316;
/// Characters in the reason of a condition.
pub const MAX_REASON_LENGTH: usize = 1024;
/// Characters in the message of a condition.
pub const MAX_CONDITION_MESSAGE_LENGTH: usize = 32 * 1024;
/// Errors or warnings that one answer lists. It says how many more there are.
pub const MAX_MESSAGES: usize = 20;
/// Characters of another program's or parser's reason that a message repeats: it may hold a value.
pub const MAX_REPEATED_REASON: usize = 400;
/// Items in a list of a Pod's required node affinity, together with what is injected: its terms,
/// and the expressions in a term. A topology is added to each term, after a comparison with each of
/// its expressions.
pub const MAX_POD_ITEMS: usize = 128;
/// Preferred terms of a Pod, together with those that are injected. Each of these is compared with
/// all.
pub const MAX_POD_PREFERENCES: usize = 1000;
/// The most bytes that the API server takes as the note of an Event.
pub const MAX_NOTE_LENGTH: usize = 1024;
/// Terms, expressions and values of a Pending Pod's required node affinity, in all, that the
/// sidecar keeps and compares with the nodes. The policy injects one expression with one value for
/// each required key into each term. Anybody can write a Pod that looks like one of the policy's,
/// and what is kept takes more memory than what is sent.
pub const MAX_KEPT_AFFINITY_ITEMS: usize = 256;
/// Bytes of all keys and values of that affinity.
pub const MAX_KEPT_AFFINITY_BYTES: usize = 16 * 1024;

/// Says that a list is too long; `None` if it is not.
pub fn describe_excess(length: usize, max: usize) -> Option<[String; 2]> {
    (length > max).then(|| [format!("a list of {length}"), format!("list at most {max}")])
}

/// The messages, at most [`MAX_MESSAGES`] of them, and how many more there are.
pub fn shorten_list(mut messages: Vec<String>) -> Vec<String> {
    if let Some(more) = messages
        .len()
        .checked_sub(MAX_MESSAGES)
        .filter(|more| *more > 0)
    {
        messages.truncate(MAX_MESSAGES);
        messages.push(format!("and {more} more"));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_messages_ends_with_the_number_of_the_others() {
        let list = |count: usize| shorten_list(vec!["wrong".into(); count]);
        assert_eq!(list(20), vec!["wrong"; 20]);
        assert_eq!(list(21).len(), 21);
        assert_eq!(list(21)[20], "and 1 more");
        assert_eq!(list(900)[20], "and 880 more");
        assert!(list(0).is_empty());
    }
}

//! What the policy's messages say.

/// Why the policy refuses an object, without its name, and the field that the reason begins with:
/// `PersistentPodState db is refused: spec.targetRef is …`.
pub fn reason_of(message: &str) -> (Option<String>, &str) {
    let reason = message.split_once(" is refused: ").map_or(message, |(_, reason)| reason);
    (field_in(reason), reason)
}

/// The field that a message of the policy begins with.
pub(crate) fn field_in(message: &str) -> Option<String> {
    let first = message.split([' ', ':']).next()?;
    let is_field = first == "spec" || first.starts_with("spec.") || first.starts_with("metadata.");
    is_field.then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_begins_with_its_field() {
        let message = "PersistentPodState db is refused: spec.targetRef is missing; add it";
        let reason = "spec.targetRef is missing; add it";
        assert_eq!(reason_of(message), (Some("spec.targetRef".to_owned()), reason));
        assert_eq!(reason_of("no, it is not"), (None, "no, it is not"));
    }
}

//! The ways in which installations are wrong. `contained` shows which Pods each of them delays, and
//! `check` that the check names it.

/// What is wrong, and the code of the finding that names it.
pub(crate) const CAUSES: [(&str, &str); 9] = [
    ("wrong ServiceAccount", "LookupForbidden"),
    ("missing right", "LookupForbidden"),
    ("module that cannot be pulled", "ModuleNotFound"),
    ("overlay applied later", "PolicyServerImmutable"),
    ("PolicyServer stopped", "PolicyServerNotReady"),
    (
        "PolicyServer stopped, namespace of the StatefulSet without PPS not labelled",
        "PolicyServerNotReady",
    ),
    ("PolicyServer hangs", "PolicyServerNotReady"),
    ("registry that needs us", "PolicyServerNotReady"),
    ("definition deleted", "DefinitionMissing"),
];

/// The code of the finding that names it.
pub(crate) fn code_of(way: &str) -> &'static str {
    let cause = CAUSES.iter().find(|(cause, _)| *cause == way);
    cause
        .unwrap_or_else(|| panic!("no finding names it: {way}"))
        .1
}

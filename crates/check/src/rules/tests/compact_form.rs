//! A definition that does not keep the compact form of states.

use serde_json::json;

use super::fixture::{earlier_release, healthy, object, of, packed_object, with};
use super::severities;
use crate::facts::{Facts, Objects, Phase, Read, Recorder};
use crate::finding::Severity;

/// Only states that nobody can see are in danger; before an installation its definition brings them back.
#[test]
fn a_definition_without_the_compact_form_is_an_error_if_it_hides_states() {
    let code = "DefinitionWithoutCompactForm";
    let with_object = |facts: Facts, object: serde_json::Value| {
        with(facts, |facts| {
            facts.objects = Read::Known(Objects { listed: vec![of(object)], more: 0 });
        })
    };
    let packed = packed_object();
    let mut moved_back = packed.clone();
    moved_back["status"]["podStates"] = json!({"w-0": {"nodeName": "n"}});
    assert_eq!(severities(&with_object(healthy(), packed.clone()), code), []);
    assert_eq!(
        severities(&with_object(earlier_release(), object("shop", "True")), code),
        [Severity::Warning]
    );
    assert_eq!(severities(&with_object(earlier_release(), moved_back.clone()), code), [Severity::Warning]);
    assert_eq!(severities(&with_object(earlier_release(), packed.clone()), code), [Severity::Error]);
    let is_before = |mut facts: Facts| {
        facts.settings.phase = Phase::Before;
        facts
    };
    assert_eq!(
        severities(&is_before(with_object(earlier_release(), packed.clone())), code),
        [Severity::Warning]
    );

    // OpenKruise's definition may be there on purpose, but must not hide states either.
    let openkruise = || {
        let mut facts = earlier_release();
        let Read::Known(definition) = &mut facts.definition else { panic!() };
        for version in &mut definition.spec.versions {
            version.schema["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({"targetRef": {}});
        }
        facts.recording.recorder = Recorder::OpenKruise;
        facts
    };
    assert_eq!(severities(&with_object(openkruise(), moved_back), code), []);
    assert_eq!(severities(&with_object(openkruise(), packed), code), [Severity::Error]);
}

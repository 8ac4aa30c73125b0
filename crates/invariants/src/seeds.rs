//! The inputs from which fuzzing starts: the golden corpus, in the form that each target reads.

use anyhow::Result;
use serde_json::Value;

use crate::answer::{ERROR, SEPARATOR};
use crate::request::STRUCTURED;

const ANNOTATED: &str = r#"{
    "metadata": {"annotations": {
        "kruise.io/required-persistent-topology": " zone , rack,,zone",
        "kruise.io/required-persistent-topology-fallback-after-seconds": " 600",
        "kruise.io/preferred-persistent-topology": "kubernetes.io/hostname",
        "kruise.io/persistent-pod-annotations": "x, y = PodIPsJSON,z=PodIPsCSV,q=Bogus"
    }},
    "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}},
    "status": {
        "podStates": {"web-0": {"nodeName": "n"}, "web-01": {"annotations": {"x": ""}}},
        "conditions": [
            {"type": "Theirs", "status": "True", "reason": "R", "lastTransitionTime": "t"},
            {"type": "Recording", "status": "False", "reason": "R", "lastTransitionTime": "t"}
        ]
    }
}"#;

/// Texts of the bucket `ordinals-0`.
const BUCKETS: [(&str, &str); 5] = [
    (
        "bucket",
        "2 web-* node-* label:zone=eu-1* label:host=* annotation:ip=10.0.*\n0 37 a = 0.17\n12 4 b \
         other -\n",
    ),
    ("bucket-with-escapes", "1 web-* %\n0 %25\n1 %C3%A9\n"),
    (
        "bucket-of-equal-values",
        "2 web-* node-1 label:zone=a annotation:ip=*%0A\n0 % % 1\n3 % - %\n",
    ),
    ("bucket-with-a-repeated-pod", "2 web-* n\n0 %\n0 %\n"),
    ("bucket-with-a-pod-of-another", "2 web-* n\n0 %\n100 %\n"),
];

/// The target, name and bytes of each seed.
pub fn seeds() -> Result<Vec<(&'static str, String, Vec<u8>)>> {
    let mut seeds = vec![("pps", "workload-annotations".to_owned(), ANNOTATED.into())];
    seeds.extend(crate::observed::seeds());
    for seed in 0..8 {
        seeds.push(("request", format!("structured-{seed}"), structured(seed)));
    }
    for (name, text) in BUCKETS {
        seeds.push((
            "packed",
            name.to_owned(),
            [b"\x10", text.as_bytes()].concat(),
        ));
    }
    for case in pps_corpus::cases()? {
        let mut add =
            |target, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));
        add(
            "request",
            &case.name,
            case.payload().to_string().into_bytes(),
        );
        add(
            "settings",
            &case.name,
            case.settings.to_string().into_bytes(),
        );
        for (index, object) in case.objects.iter().enumerate() {
            add(
                "pps",
                &format!("{}-{index}", case.name),
                object.to_string().into_bytes(),
            );
        }
        let calls = case.expected.host_calls.iter().flatten();
        let answers: Vec<Vec<u8>> = calls
            .map(|(operation, call)| answer(&case, operation, call))
            .collect();
        if !answers.is_empty() {
            let mut bytes = vec![b'0'];
            bytes.extend(answers.join(&SEPARATOR));
            add("answer", &case.name, bytes);
        }
    }
    Ok(seeds)
}

/// Pseudo-random bytes from which a request is generated. The same number gives the same bytes.
fn structured(seed: u32) -> Vec<u8> {
    let mut state = seed;
    let bytes = (0..600).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    [STRUCTURED].into_iter().chain(bytes).collect()
}

fn answer(case: &pps_corpus::Case, operation: &str, call: &Value) -> Vec<u8> {
    let mut request = call.clone();
    request["namespace"] = case.request["namespace"].clone();
    match case.host().call(operation, &request.to_string()) {
        Ok(answer) => answer.into_bytes(),
        Err(error) => [&[ERROR], error.as_bytes()].concat(),
    }
}

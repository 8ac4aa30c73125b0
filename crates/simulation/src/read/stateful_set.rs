//! What the API server checks of a StatefulSet, and what the simulation leaves out of it.

use pps_core::shorten;
use pps_scheduler::fields::list;
use serde_json::{Value, json};

use super::check::{Findings, strings};
use crate::finding::Finding;

const NUMBERS: [&str; 3] = [
    "replicas",
    "ordinals.start",
    "updateStrategy.rollingUpdate.partition",
];
const UNSIMULATED: [&str; 7] = [
    "minReadySeconds",
    "updateStrategy.rollingUpdate.maxUnavailable",
    "updateStrategy.rollingUpdate.podUpdatePolicy",
    "updateStrategy.rollingUpdate.paused",
    "updateStrategy.rollingUpdate.unorderedUpdate",
    "scaleStrategy",
    "lifecycle",
];

pub(super) fn check(object: &Value, findings: &mut Findings) {
    let spec = &object["spec"];
    let status = &object["status"];
    if status["currentRevision"] != status["updateRevision"] {
        let message = "its rolling update is not finished: all its Pods count as updated";
        findings.push(Finding::warning("status.currentRevision", message));
    }
    if !spec.is_object() {
        findings.push(Finding::wrong("spec", spec, "set selector and template"));
        return;
    }
    let mut check = SpecCheck { spec, findings };
    for path in NUMBERS {
        check.number(path);
    }
    check.choice("podManagementPolicy", ["OrderedReady", "Parallel"]);
    check.choice("updateStrategy.type", ["RollingUpdate", "OnDelete"]);
    check.template();
    check.selector();
    for field in ["labels", "annotations"] {
        let path = format!("template.metadata.{field}");
        strings(&format!("spec.{path}"), check.at(&path), check.findings);
    }
    for path in UNSIMULATED {
        check.unsimulated(path);
    }
}

/// Checks fields of a spec by their paths below it.
struct SpecCheck<'a> {
    spec: &'a Value,
    findings: &'a mut Findings,
}

impl<'a> SpecCheck<'a> {
    fn at(&self, path: &str) -> &'a Value {
        path.split('.')
            .fold(self.spec, |value, field| &value[field])
    }

    fn wrong(&mut self, path: &str, remedy: &str) {
        let finding = Finding::wrong(&format!("spec.{path}"), self.at(path), remedy);
        self.findings.push(finding);
    }

    fn number(&mut self, path: &str) {
        let value = self.at(path);
        if !value.is_null() && !value.is_u64() {
            self.wrong(path, "use 0 or a larger whole number");
        }
    }

    fn choice(&mut self, path: &str, allowed: [&str; 2]) {
        let value = self.at(path);
        if !value.is_null() && allowed.iter().all(|allowed| value != allowed) {
            self.wrong(path, &format!("use {}", allowed.join(" or ")));
        }
    }

    fn template(&mut self) {
        if !self.at("template.spec").is_object() {
            self.wrong("template.spec", "describe the Pods, with their containers");
        }
        let metadata = self.at("template.metadata");
        if !metadata.is_null() && !metadata.is_object() {
            self.wrong("template.metadata", "use a map");
        }
    }

    fn selector(&mut self) {
        let wanted = self.at("selector.matchLabels");
        let labels = self.at("template.metadata.labels");
        if let Some(wanted) = wanted.as_object() {
            let mut wanted = wanted.iter();
            if let Some((key, value)) = wanted.find(|(key, value)| labels[*key] != **value) {
                let field = format!("spec.selector.matchLabels.{}", shorten(key));
                let remedy = "the labels of spec.template.metadata.labels must match the selector";
                self.findings.push(Finding::wrong(&field, value, remedy));
            }
            return;
        }
        let mut expressions = list(self.at("selector.matchExpressions"));
        if expressions.next().is_none() || !wanted.is_null() {
            self.wrong(
                "selector.matchLabels",
                "use the labels of spec.template.metadata.labels",
            );
        }
    }

    /// Warns of a field that is set to something that the simulation leaves out.
    fn unsimulated(&mut self, path: &str) {
        let value = self.at(path);
        let harmless = [
            Value::Null,
            json!(false),
            json!({}),
            json!(0),
            json!("ReCreate"),
        ];
        let is_one = path.ends_with("maxUnavailable") && *value == 1;
        if !is_one && !harmless.contains(value) {
            let field = format!("spec.{path}");
            let message = format!(
                "{field} is not simulated: Pods are created again one at a time, and each is \
                 Ready at once"
            );
            self.findings.push(Finding::warning(field, message));
        }
    }
}

//! Which conditions about a namespace's label are out of date.

use std::collections::BTreeSet;

use pps_check::read::Right;
use pps_check::reader::Reader;
use pps_core::DEFAULT_NAMESPACE_SELECTOR;
use serde_json::Value;

use crate::snapshot::{Pps, Snapshot};

/// Drops each condition that says that a namespace lacks the label which it has by now. While the
/// sidecar is stopped, as in an emergency, nobody else corrects it. Without the right to read
/// namespaces, and with another selector than the default, the condition counts.
pub(super) async fn drop_outdated_conditions(reader: &Reader, snapshot: &mut Snapshot) {
    if !snapshot.pps.iter().any(asks_for_label) {
        return;
    }
    let name = |namespace: &Value| namespace["metadata"]["name"].as_str().map(str::to_owned);
    let enabled: BTreeSet<String> = if let Some(one) = snapshot.namespaces.one() {
        let right = Right::new("get", "", "namespaces").named(one);
        let path = format!("/api/v1/namespaces/{one}");
        let read = reader.get::<Value>(right, &path).await;
        let read = read.into_known().filter(is_labelled);
        read.as_ref().and_then(name).into_iter().collect()
    } else {
        let right = Right::new("list", "", "namespaces");
        let selector = DEFAULT_NAMESPACE_SELECTOR;
        let read = reader.list_as(right, "/api/v1/namespaces", selector, |one| name(&one));
        let (names, _) = read.await.into_known().unwrap_or_default();
        names.into_iter().collect()
    };
    for pps in &mut snapshot.pps {
        if asks_for_label(pps) && enabled.contains(pps.namespace()) {
            pps.forget_recording();
        }
    }
}

/// Whether the condition names the command that sets the label.
fn asks_for_label(pps: &Pps) -> bool {
    let command = format!(" {DEFAULT_NAMESPACE_SELECTOR} ");
    !pps.is_enabled()
        && pps
            .recording()
            .is_some_and(|recording| recording.message.contains(&command))
}

fn is_labelled(namespace: &Value) -> bool {
    DEFAULT_NAMESPACE_SELECTOR
        .split_once('=')
        .is_some_and(|(key, value)| namespace["metadata"]["labels"][key] == value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::read::reader;
    use crate::cluster::tests::serve;
    use crate::snapshot::Namespaces;

    /// Whether the object counts as in scope, where the API server answers this for namespaces.
    async fn is_enabled(namespaces: Namespaces, message: &str, answer: (u16, Value)) -> bool {
        let client = serve(move |request| {
            assert!(request.starts_with("GET /api/v1/namespaces"), "{request}");
            answer.clone()
        });
        let pps = json!({"metadata": {"name": "db", "namespace": "shop"}, "status": {"conditions": [
            {"type": "Recording", "status": "False", "reason": "NamespaceNotEnabled", "message": message}]}});
        let mut snapshot = Snapshot::empty(namespaces);
        snapshot.pps = vec![Pps::read(pps).unwrap()];
        drop_outdated_conditions(&reader(&client), &mut snapshot).await;
        snapshot.pps[0].is_enabled()
    }

    #[tokio::test]
    async fn a_label_that_was_set_since_counts_more_than_the_condition() {
        let command =
            format!("kubectl label namespace shop {DEFAULT_NAMESPACE_SELECTOR} --overwrite");
        let (key, value) = DEFAULT_NAMESPACE_SELECTOR.split_once('=').unwrap();
        let labelled = |value: &str| json!({"metadata": {"name": "shop", "labels": {key: value}}});
        let one = || Namespaces::One("shop".to_owned());
        assert!(is_enabled(one(), &command, (200, labelled(value))).await);
        assert!(!is_enabled(one(), &command, (200, labelled("disabled"))).await);
        assert!(
            !is_enabled(
                one(),
                &command,
                (403, json!({"kind": "Status", "code": 403}))
            )
            .await
        );
        let list = json!({"kind": "NamespaceList", "metadata": {"resourceVersion": "1"}, "items": [labelled(value)]});
        assert!(is_enabled(Namespaces::All, &command, (200, list)).await);
        // The label alone does not decide then.
        let other =
            format!("change the labels so that they match {DEFAULT_NAMESPACE_SELECTOR},a=b");
        assert!(!is_enabled(one(), &other, (200, labelled(value))).await);
    }
}

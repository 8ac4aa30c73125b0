//! Whether a namespace exists.

use kube::Client;
use pps_check::facts::{Read, Right};
use pps_check::gather::reader::{Limits, Reader};
use serde_json::Value;
use tokio::time::Instant;

use super::read::LIMITS;
use crate::Failure;
use crate::decide::similar::similar;

/// Fails if the API server says that there is no such namespace. Without the right to read it nothing is known, and nothing
/// said.
pub(super) async fn require(client: &Client, namespace: &str) -> Result<(), Failure> {
    // The names are a hint, for which one page is enough.
    let limits = Limits { objects: LIMITS.page, ..LIMITS };
    let reader = Reader::new(client.clone(), limits, Instant::now() + LIMITS.request);
    let right = Right::new("get", "", "namespaces").named(namespace);
    if !reader.exists(right, &format!("/api/v1/namespaces/{namespace}")).await.is_absent() {
        return Ok(());
    }
    let take = |object: Value| object["metadata"]["name"].as_str().map(str::to_owned);
    let listed = reader.list_as(Right::new("list", "", "namespaces"), "/api/v1/namespaces", "", take).await;
    let names = match &listed {
        Read::Known((names, _)) => names.as_slice(),
        Read::Absent | Read::Unknown => &[],
    };
    Err(unknown(namespace, names))
}

fn unknown(namespace: &str, names: &[String]) -> Failure {
    let near = similar(namespace, names.iter().map(String::as_str));
    let hint = if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
    Failure::Usage(format!("there is no namespace {namespace}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_does_not_exist_is_refused_with_similar_names() {
        let names = ["default", "shop", "web"].map(str::to_owned);
        let failure = unknown("shpo", &names);
        assert_eq!(
            (failure.exit_code(), failure.to_string()),
            (2, "there is no namespace shpo; similar names: shop".into())
        );
        assert_eq!(unknown("shpo", &[]).to_string(), "there is no namespace shpo");
    }
}

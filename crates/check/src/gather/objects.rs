//! The lists and objects that the check reads in several places.

use serde_json::Value;

use super::reader::{Reader, is_name};
use crate::facts::{Definition, Deployment, Metadata, Pod, Read, Right};

impl Reader {
    pub(super) async fn definition(&self, name: &str) -> Read<Definition> {
        let right = Right::new("get", "apiextensions.k8s.io", "customresourcedefinitions").named(name);
        self.get(right, &format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")).await
    }

    /// The Deployments of all namespaces with these labels. Whoever may create a Deployment can give it any label.
    pub(super) async fn deployments(&self, selector: &str) -> Read<Vec<Deployment>> {
        self.list(Right::new("list", "apps", "deployments"), "/apis/apps/v1/deployments", selector).await
    }

    /// The Deployments of a namespace with these labels.
    pub(super) async fn deployments_in(&self, namespace: &str, selector: &str) -> Read<Vec<Deployment>> {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        self.list(Right::new("list", "apps", "deployments").within(namespace), &path, selector).await
    }

    /// The Pods of a namespace with these labels.
    pub(super) async fn pods(&self, namespace: &str, selector: &str) -> Read<Vec<Pod>> {
        if !is_name(namespace) {
            return Read::Absent;
        }
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.list(Right::new("list", "", "pods").within(namespace), &path, selector).await
    }

    /// The namespaces and their labels.
    pub(super) async fn namespaces(&self) -> Read<Vec<Metadata>> {
        let found = self.list::<Value>(Right::new("list", "", "namespaces"), "/api/v1/namespaces", "").await;
        let read = |one: Value| serde_json::from_value(one["metadata"].clone()).unwrap_or_default();
        found.map(|all| all.into_iter().map(read).collect())
    }
}

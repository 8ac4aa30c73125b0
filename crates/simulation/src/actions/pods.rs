//! Actions about Pods.

use crate::cluster::{Cluster, Pod};
use crate::finding::{Finding, unknown};
use crate::settle::delete;

fn existing<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Pod, Finding> {
    cluster.pods.get(name).ok_or_else(|| unknown("Pod", name, cluster.pods.names()))
}

pub(super) fn delete_pod(cluster: &mut Cluster, name: &str) -> Result<(), Finding> {
    existing(cluster, name)?;
    delete(cluster, name, "is deleted by a user");
    Ok(())
}

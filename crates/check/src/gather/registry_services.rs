//! Whether the modules' registry runs in this cluster, and as what.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use pps_core::owner::has_stable_names;
use serde_json::Value;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::reader::{Reader, is_name};
use crate::facts::{Module, Pod, Read, RegistryService, Right, Service};
use crate::registry::Reference;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How many Services of one registry are examined.
const MAX_SERVICES: usize = 10;

/// Finds the Services through which the registries are reached, and what owns their Pods.
pub(super) async fn find(reader: &Reader, modules: &[Module]) -> Vec<RegistryService> {
    let hosts: BTreeSet<String> = modules
        .iter()
        .filter_map(|module| Reference::parse(&module.reference).ok())
        .map(|found| found.host)
        .collect();
    let mut found = Vec::new();
    for host in hosts {
        let (name, port) = host.rsplit_once(':').unwrap_or((&host, "443"));
        let services = match service_of(name) {
            Some((service, namespace)) => {
                let path = format!("/api/v1/namespaces/{namespace}/services/{service}");
                let right = Right::new("get", "", "services").within(&namespace);
                reader.get::<Service>(right, &path).await.known().cloned().into_iter().collect()
            }
            None => services_at(reader, name, port.parse().unwrap_or(443)).await,
        };
        for service in services.into_iter().take(MAX_SERVICES) {
            found.extend(owners(reader, &service).await);
        }
    }
    found
}

/// Service and namespace of a name inside the cluster: `registry.tools.svc`.
fn service_of(host: &str) -> Option<(String, String)> {
    let mut parts = host.split('.');
    let (service, namespace) = (parts.next()?, parts.next()?);
    let is_service = parts.next() == Some("svc") && is_name(service) && is_name(namespace);
    is_service.then(|| (service.to_owned(), namespace.to_owned()))
}

/// The Services that have one of the host's addresses.
async fn services_at(reader: &Reader, host: &str, port: u16) -> Vec<Service> {
    let Ok(Ok(addresses)) = timeout(LOOKUP_TIMEOUT, lookup_host((host, port))).await else {
        return Vec::new();
    };
    let addresses: BTreeSet<IpAddr> = addresses.map(|address| address.ip()).collect();
    let all = reader.list::<Service>(Right::new("list", "", "services"), "/api/v1/services", "").await;
    let Read::Known(all) = all else { return Vec::new() };
    all.into_iter().filter(|service| has_address(service, host, &addresses)).collect()
}

fn has_address(service: &Service, host: &str, addresses: &BTreeSet<IpAddr>) -> bool {
    let spec = &service.spec;
    let own = std::iter::once(&spec.cluster_i_p).chain(&spec.cluster_i_ps).chain(&spec.external_i_ps);
    let is_own = |text: &str| text.parse().is_ok_and(|address: IpAddr| addresses.contains(&address));
    let ingress = service.status["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let mut ingress = ingress.map(|one: &Value| (one["ip"].as_str(), one["hostname"].as_str()));
    own.into_iter().any(|text| is_own(text))
        || ingress.any(|(ip, name)| ip.is_some_and(is_own) || name == Some(host))
}

async fn owners(reader: &Reader, service: &Service) -> Option<RegistryService> {
    let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
    let labels: Vec<String> =
        service.spec.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() {
        return None;
    }
    let pods = reader.pods(namespace, &labels.join(",")).await;
    let owners: BTreeSet<String> = pods.items()?.iter().filter_map(stateful_owner).collect();
    let stateful_owners = owners.into_iter().collect();
    Some(RegistryService { namespace: namespace.clone(), name: name.clone(), stateful_owners })
}

/// The controller of a Pod, if its Pods may keep their names.
fn stateful_owner(pod: &Pod) -> Option<String> {
    let owner = pod.metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
    has_stable_names(&owner.api_version, &owner.kind).then(|| format!("{} {}", owner.kind, owner.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_service_in_a_name_of_the_cluster() {
        let found = |host| service_of(host).map(|(service, namespace)| format!("{namespace}/{service}"));
        assert_eq!(found("registry.tools.svc").as_deref(), Some("tools/registry"));
        assert_eq!(found("registry.tools.svc.cluster.local").as_deref(), Some("tools/registry"));
        for host in ["registry.tools", "registry.example.com", "..svc", "a/b.c.svc", "svc", ""] {
            assert_eq!(found(host), None, "{host}");
        }
    }

    #[test]
    fn a_service_is_known_by_each_of_its_addresses() {
        let addresses = BTreeSet::from(["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()]);
        for (service, wanted) in [
            (json!({"spec": {"clusterIP": "10.0.0.1"}}), true),
            (json!({"spec": {"clusterIP": "None", "clusterIPs": ["10.0.0.2", "fd00::1"]}}), true),
            (json!({"spec": {"externalIPs": ["10.0.0.1"]}}), true),
            (json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}), true),
            (json!({"status": {"loadBalancer": {"ingress": [{"hostname": "r.example"}]}}}), true),
            (json!({"spec": {"clusterIP": "10.0.0.2"}}), false),
            (json!({}), false),
        ] {
            let parsed: Service = serde_json::from_value(service.clone()).unwrap();
            assert_eq!(has_address(&parsed, "r.example", &addresses), wanted, "{service}");
        }
    }
}

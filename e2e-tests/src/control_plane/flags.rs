//! The command lines.

use std::{fs, path::Path};

use anyhow::Result;

use super::{
    credentials::ADMIN,
    options::{Options, program},
};
use crate::{programs::Group, supervisor::Spec};

pub(super) const ETCD_DATA: &str = "etcd-data";
pub(super) const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
  "rules": [{"level": "Metadata"}]}"#;
/// The controllers for which no test has a use, and those that need another API group or a cloud.
const UNUSED_CONTROLLERS: &str = "-attachdetach,-cronjob,-csrapproving,-csrcleaner,-csrsigning,\
                                  -endpointslicemirroring,-horizontalpodautoscaling,-nodeipam,\
                                  -persistentvolume-expander,-resourcequota,-ttl,\
                                  -ttl-after-finished";
/// And those for which nobody has a use unless kubelets run.
const KUBELET_CONTROLLERS: &str =
    ",-nodelifecycle,-root-ca-cert-publisher,-serviceaccount,-serviceaccount-token";

pub(super) struct Flags<'a> {
    pub(super) folder: &'a Path,
    pub(super) etcd_port: u16,
    pub(super) api_port: u16,
    pub(super) options: &'a Options,
}

impl Flags<'_> {
    /// All four programs, in the order in which they are started.
    pub(super) fn specs(&self) -> Result<Vec<Spec>> {
        let all = [
            (program::ETCD, self.etcd()),
            (program::API_SERVER, self.api_server()?),
            (program::CONTROLLER_MANAGER, self.controller_manager()),
            (program::SCHEDULER, self.scheduler()),
        ];
        all.into_iter()
            .map(|(name, args)| {
                Ok(Spec {
                    name: name.to_owned(),
                    program: Group::Kubernetes.program(name)?,
                    args,
                    env: Vec::new(),
                })
            })
            .collect()
    }

    fn etcd(&self) -> Vec<String> {
        let url = format!("http://127.0.0.1:{}", self.etcd_port);
        vec![
            format!("--data-dir={}", self.path(ETCD_DATA)),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            // A single etcd has no peers: any free port will do.
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    fn api_server(&self) -> Result<Vec<String>> {
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--secure-port={}", self.api_port),
            format!("--bind-address={}", self.options.address),
            format!("--cert-dir={}", self.path("apiserver-certs")),
            format!("--tls-cert-file={}", self.path("server.crt")),
            format!("--tls-private-key-file={}", self.path("server.key")),
            format!("--service-account-key-file={}", self.path("sa.pub")),
            format!("--service-account-signing-key-file={}", self.path("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--token-auth-file={}", self.path("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        if self.options.address.is_loopback() {
            flags.push(
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
            );
        } else {
            flags.push("--kubelet-preferred-address-types=InternalIP".to_owned());
            // Webhooks are reached at the addresses of Pods: no kube-proxy runs beside the API
            // server.
            flags.push("--enable-aggregator-routing=true".to_owned());
        }
        if self.options.audit_log {
            let policy = self.path("audit-policy.json");
            fs::write(&policy, AUDIT_POLICY)?;
            flags.push(format!("--audit-policy-file={policy}"));
            flags.push(format!("--audit-log-path={}", self.path(AUDIT_LOG)));
            // In MiB. By default, a long run would begin another file.
            flags.push("--audit-log-maxsize=4096".to_owned());
        }
        flags.extend_from_slice(&self.options.api_server_flags);
        Ok(flags)
    }

    fn controller_manager(&self) -> Vec<String> {
        let mut flags = self.client_flags();
        flags.push(format!(
            "--service-account-private-key-file={}",
            self.path("sa.key")
        ));
        if self.options.address.is_loopback() {
            flags.push(format!(
                "--controllers=*,{UNUSED_CONTROLLERS}{KUBELET_CONTROLLERS}"
            ));
        } else {
            flags.push(format!("--controllers=*,{UNUSED_CONTROLLERS}"));
            flags.push(format!("--root-ca-file={}", self.path("ca.crt")));
            // A test does not wait 40 seconds for each node that it stops.
            flags.extend(
                ["--node-monitor-period=1s", "--node-monitor-grace-period=8s"].map(str::to_owned),
            );
        }
        flags.extend_from_slice(&self.options.controller_manager_flags);
        flags
    }

    fn scheduler(&self) -> Vec<String> {
        self.client_flags()
    }

    /// The flags that the controller manager and the scheduler share.
    fn client_flags(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.path(&format!("{ADMIN}.kubeconfig"))),
            "--leader-elect=false".to_owned(),
            // No HTTPS server: two control planes would use the same port.
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ]
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

//! Keys, certificates, tokens and kubeconfig files.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use crate::supervisor::unique;

/// The address of the Service `kubernetes`.
const SERVICE: &str = "10.0.0.1";
/// The user of the administrator.
pub const ADMIN: &str = "admin";

/// A user of the API server. Without RBAC rules of its own it may do almost nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that RBAC subjects use.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl User {
    /// A user without groups.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            groups: Vec::new(),
        }
    }
}

/// A certificate for this machine and the API server, and the authority that signed it, all as PEM.
pub struct ServerCertificate {
    /// The authority's certificate: a `caBundle`.
    pub authority: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's private key.
    pub key: String,
}

impl ServerCertificate {
    /// Makes both, for 127.0.0.1.
    pub fn generate(name: &str) -> Result<Self> {
        Self::generate_for(name, Ipv4Addr::LOCALHOST)
    }

    /// Makes both, also for another address.
    pub(crate) fn generate_for(name: &str, address: Ipv4Addr) -> Result<Self> {
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::default();
        authority
            .distinguished_name
            .push(DnType::CommonName, format!("{name} test authority"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate()?;
        // kwctl and others verify the last name when they know only the address of an API server.
        let service = format!("{name}.kubewarden.svc");
        let names = [
            "127.0.0.1",
            "localhost",
            &service,
            SERVICE,
            &address.to_string(),
            "kubernetes.default.svc",
        ];
        let mut server = CertificateParams::new(names.map(str::to_owned))?;
        server.distinguished_name.push(DnType::CommonName, name);
        let certificate = server.signed_by(&key, &issuer)?;
        Ok(Self {
            authority: authority_pem,
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The keys, certificates and tokens of a control plane, written to a folder.
pub(crate) struct Credentials {
    folder: PathBuf,
    authority: String,
    tokens: BTreeMap<String, String>,
}

impl Credentials {
    /// Writes `ca.crt`, `server.crt`, `server.key`, `sa.key`, `sa.pub` and `tokens.csv`.
    pub(crate) fn write(folder: &Path, users: &[User], address: Ipv4Addr) -> Result<Self> {
        let server = ServerCertificate::generate_for("kube-apiserver", address)?;
        let service_accounts = KeyPair::generate()?;
        let mut tokens = BTreeMap::new();
        let mut csv = String::new();
        let admin = User {
            name: ADMIN.to_owned(),
            groups: vec!["system:masters".to_owned()],
        };
        for user in users.iter().chain([&admin]) {
            let token = random_token()?;
            let groups = user.groups.join(",");
            writeln!(csv, "{token},{0},{0},\"{groups}\"", user.name)?;
            tokens.insert(user.name.clone(), token);
        }
        for (name, content) in [
            ("ca.crt", server.authority.as_str()),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            ("sa.key", &service_accounts.serialize_pem()),
            ("sa.pub", &service_accounts.public_key_pem()),
            ("tokens.csv", &csv),
        ] {
            let path = folder.join(name);
            fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            authority: server.authority,
            tokens,
        })
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn token(&self, user: &str) -> Result<&str> {
        let token = self.tokens.get(user);
        Ok(token.with_context(|| {
            let known: Vec<_> = self.tokens.keys().collect();
            format!("the control plane was started without a user {user:?}; there are {known:?}")
        })?)
    }

    /// A kubeconfig with that token, as JSON, which every reader of kubeconfigs accepts.
    pub(crate) fn kubeconfig(&self, url: &str, token: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {
                "server": url, "certificate-authority": self.folder.join("ca.crt")}}],
            "users": [{"name": "e2e", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        })
    }

    /// Writes the kubeconfig of a user.
    pub(crate) fn write_kubeconfig(&self, url: &str, user: &str, token: &str) -> Result<PathBuf> {
        let path = self
            .folder
            .join(format!("{}.kubeconfig", user.replace([':', '/'], "-")));
        // Another test may be reading it.
        let new = self.folder.join(unique("kubeconfig"));
        fs::write(&new, self.kubeconfig(url, token).to_string())
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// 128 random bits in hexadecimal, taken from a fresh key.
fn random_token() -> Result<String> {
    let key = KeyPair::generate()?;
    let mut token = String::new();
    for byte in key.public_key_raw().iter().rev().take(16) {
        write!(token, "{byte:02x}")?;
    }
    Ok(token)
}

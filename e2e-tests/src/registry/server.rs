//! A real OCI registry: distribution on loopback, with or without TLS and a password.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::reader::Reader;
use crate::{
    control_plane::{ServerCertificate, free_port},
    programs::Group,
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};

/// bcrypt's lowest cost, because the registry hashes the password in every request.
const BCRYPT_COST: u32 = 4;

/// The files in which a registry stores what was pushed to it: paths and bytes.
pub type Content = Vec<(PathBuf, Vec<u8>)>;

/// How to run a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Whether it uses HTTPS, with a certificate of its own authority.
    pub tls: bool,
    /// The user and password that it requires, also for reading.
    pub credentials: Option<(String, String)>,
    /// Its unique name among the processes of the cluster.
    pub name: String,
    /// Where it listens.
    pub address: Ipv4Addr,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        let name = "registry".to_owned();
        Self {
            tls: false,
            credentials: None,
            name,
            address: Ipv4Addr::LOCALHOST,
        }
    }
}

/// A running registry. The supervisor stops it and deletes its storage.
pub struct Registry {
    host: String,
    folder: PathBuf,
    authority: Option<PathBuf>,
    credentials: Option<(String, String)>,
}

impl Registry {
    /// Starts it and waits until it answers.
    pub async fn start(supervisor: &Supervisor, options: RegistryOptions) -> Result<Self> {
        let program = Group::Tests.program("registry")?;
        let name = options.name;
        let folder = supervisor.folder().join(&name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let authority = options
            .tls
            .then(|| write_certificate(&folder, &name, options.address))
            .transpose()?;
        let mut registry = Self {
            host: String::new(),
            folder,
            authority,
            credentials: options.credentials,
        };
        let mut attempt = 1;
        loop {
            registry.host = format!("{}:{}", options.address, free_port()?);
            registry.write_docker_config("docker", registry.credentials.as_ref())?;
            let config = registry.folder.join("config.yml");
            write(&config, registry.config()?.to_string())?;
            let args = vec!["serve".to_owned(), config.display().to_string()];
            supervisor.spawn(Spec {
                name: name.clone(),
                program: program.clone(),
                args,
                env: Vec::new(),
            })?;
            match registry.wait_ready(supervisor, &name).await {
                Ok(()) => return Ok(registry),
                // Another process took the port.
                Err(error)
                    if attempt < 3 && supervisor.log(&name).contains("address already in use") =>
                {
                    tracing::warn!("starting the registry again with another port: {error:#}");
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Its address `HOST:PORT`, with which references begin.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The PEM file of the authority that signed its certificate, if it uses HTTPS.
    pub fn ca(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// The user and password that it requires.
    pub fn credentials(&self) -> Option<&(String, String)> {
        self.credentials.as_ref()
    }

    /// A reader that trusts the registry's certificate and has its password.
    pub fn reader(&self) -> Result<Reader> {
        Reader::new(&self.host, self.ca(), self.credentials())
    }

    /// Everything that it has stored.
    pub fn content(&self) -> Result<Content> {
        let (mut content, mut folders) = (Content::new(), vec![self.storage()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    content.push((
                        path.strip_prefix(self.storage())?.to_owned(),
                        fs::read(&path)?,
                    ));
                }
            }
        }
        Ok(content)
    }

    /// Adds what another registry has stored.
    pub fn restore(&self, content: &Content) -> Result<()> {
        for (path, bytes) in content {
            let path = self.storage().join(path);
            fs::create_dir_all(path.parent().context("no folder")?)?;
            fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn storage(&self) -> PathBuf {
        self.folder.join("storage")
    }

    /// A folder for `DOCKER_CONFIG`, whose `config.json` has the credentials, if any.
    pub fn docker_config(&self) -> PathBuf {
        self.folder.join("docker")
    }

    /// A folder for `DOCKER_CONFIG` with other credentials.
    pub fn docker_config_with(&self, name: &str, user: &str, password: &str) -> Result<PathBuf> {
        self.write_docker_config(name, Some(&(user.to_owned(), password.to_owned())))
    }

    /// A file for `--sources-path` of kwctl and policy-server that tells them how to connect.
    pub fn sources(&self) -> Result<PathBuf> {
        let sources = match &self.authority {
            None => json!({"insecure_sources": [self.host]}),
            Some(path) => {
                json!({"source_authorities": {&self.host: [{"type": "Path", "path": path}]}})
            }
        };
        let path = self.folder.join("sources.yml");
        write(&path, sources.to_string())?;
        Ok(path)
    }

    fn write_docker_config(
        &self,
        name: &str,
        credentials: Option<&(String, String)>,
    ) -> Result<PathBuf> {
        let mut config = json!({"auths": {}});
        if let Some((user, password)) = credentials {
            config["auths"][&self.host] =
                json!({"auth": STANDARD.encode(format!("{user}:{password}"))});
        }
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        write(&folder.join("config.json"), config.to_string())?;
        Ok(folder)
    }

    /// Its configuration. JSON is valid YAML.
    fn config(&self) -> Result<Value> {
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": false}},
            "storage": {"filesystem": {"rootdirectory": self.storage()}, "delete": {"enabled": true}},
            "http": {"addr": self.host, "secret": "of one process"},
        });
        if self.authority.is_some() {
            config["http"]["tls"] = json!({
                "certificate": self.folder.join("server.crt"), "key": self.folder.join("server.key")});
        }
        if let Some((user, password)) = &self.credentials {
            let path = self.folder.join("htpasswd");
            let hash = bcrypt::hash(password, BCRYPT_COST).context("cannot hash the password")?;
            write(&path, format!("{user}:{hash}\n"))?;
            config["auth"] = json!({"htpasswd": {"realm": "registry", "path": path}});
        }
        Ok(config)
    }

    async fn wait_ready(&self, supervisor: &Supervisor, name: &str) -> Result<()> {
        let reader = self.reader()?;
        let what = format!("{name} to answer");
        let ready = wait_for(&what, Duration::from_mins(2), async || {
            if !supervisor.status(name)?.running {
                return Ok(Progress::Done(false));
            }
            let status = reader.ping().await?;
            Ok(Progress::when(status == 200, true, status))
        });
        if !ready.await.with_context(|| supervisor.log_tail(name, 20))? {
            bail!("{name} ended:\n{}", supervisor.log_tail(name, 20));
        }
        Ok(())
    }
}

fn write_certificate(folder: &Path, name: &str, address: Ipv4Addr) -> Result<PathBuf> {
    let certificate = ServerCertificate::generate_for(name, address)?;
    let authority = folder.join("ca.crt");
    write(&authority, certificate.authority)?;
    write(&folder.join("server.crt"), certificate.certificate)?;
    write(&folder.join("server.key"), certificate.key)?;
    Ok(authority)
}

fn write(path: &Path, content: String) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

//! Reads an OCI registry through its HTTP API. It shares no code with the client that pushes, and
//! checks every response against its digest.

use std::{collections::BTreeMap, fs, io::Read, path::Path, sync::Arc};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1::handshake,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use nix::unistd::geteuid;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    process::Command,
};
use tokio_rustls::TlsConnector;

/// The media types of manifests.
pub mod media_type {
    /// A configuration and layers.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// A list of manifests.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// The configuration of a container image.
    pub const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// A layer of a container image.
    pub const IMAGE_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// The empty configuration of a policy.
    pub const POLICY_CONFIG: &str = "application/vnd.wasm.config.v1+json";
    /// The only layer of a policy: the module.
    pub const POLICY_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
}

/// Describes stored content.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its type.
    pub media_type: String,
    /// `sha256:…`.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// In an index, the platform of the image.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// On what an image runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The processor.
    pub architecture: String,
    /// The operating system.
    pub os: String,
}

/// A manifest or an index.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Its digest.
    #[serde(skip)]
    pub digest: String,
    /// Its type.
    #[serde(default)]
    pub media_type: String,
    /// The configuration of a manifest.
    pub config: Option<Descriptor>,
    /// The layers of a manifest.
    #[serde(default)]
    pub layers: Vec<Descriptor>,
    /// The manifests of an index.
    #[serde(default)]
    pub manifests: Vec<Descriptor>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// The configuration of a container image.
#[derive(Clone, Debug, Deserialize)]
pub struct ImageConfig {
    /// The processor.
    pub architecture: String,
    /// The operating system.
    pub os: String,
    /// The creation time.
    pub created: String,
    config: RunConfig,
    rootfs: RootFs,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RunConfig {
    #[serde(default)]
    user: String,
    #[serde(default)]
    entrypoint: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl ImageConfig {
    /// `uid:gid` of the process.
    pub fn user(&self) -> &str {
        &self.config.user
    }

    /// The program and its fixed arguments.
    pub fn entrypoint(&self) -> &[String] {
        &self.config.entrypoint
    }

    /// The environment variables, each as `NAME=value`.
    pub fn env(&self) -> &[String] {
        &self.config.env
    }

    /// The labels of the image.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.config.labels
    }
}

/// Reads one registry.
pub struct Reader {
    host: String,
    tls: Option<TlsConnector>,
    authorization: Option<String>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Reader {
    /// A reader of the registry at that address. With an authority to trust it uses HTTPS.
    pub fn new(
        host: &str,
        authority: Option<&Path>,
        credentials: Option<&(String, String)>,
    ) -> Result<Self> {
        let authorization = credentials.map(|(user, password)| {
            format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
        });
        let tls = authority.map(connector).transpose()?;
        Ok(Self {
            host: host.to_owned(),
            tls,
            authorization,
        })
    }

    /// The HTTP status of the API's root.
    pub async fn ping(&self) -> Result<u16> {
        Ok(self.get("", "*/*").await?.0.as_u16())
    }

    /// The manifest or index of a reference: `host/repository:tag` or `host/repository@digest`.
    pub async fn manifest(&self, reference: &str) -> Result<Manifest> {
        let (repository, version) = self.split(reference)?;
        let accept = format!("{}, {}", media_type::MANIFEST, media_type::INDEX);
        let (status, kind, body) = self
            .get(&format!("{repository}/manifests/{version}"), &accept)
            .await?;
        ensure!(
            status == StatusCode::OK,
            "{reference}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        let digest = digest(&body);
        ensure!(
            !version.contains(':') || version == digest,
            "{reference}: the response has the digest {digest}"
        );
        let mut manifest: Manifest = parse(reference, &body)?;
        // A manifest need not contain its own media type.
        ensure!(
            manifest.media_type.is_empty() || kind == manifest.media_type,
            "{reference}: the media type is {kind:?}, but the manifest says {:?}",
            manifest.media_type
        );
        manifest.media_type = kind;
        manifest.digest = digest;
        Ok(manifest)
    }

    /// The content that a descriptor in the reference's repository describes.
    pub async fn blob(&self, reference: &str, of: &Descriptor) -> Result<Vec<u8>> {
        let (repository, _) = self.split(reference)?;
        let (status, _, body) = self
            .get(&format!("{repository}/blobs/{}", of.digest), "*/*")
            .await?;
        ensure!(
            status == StatusCode::OK,
            "{}: {status}: {}",
            of.digest,
            String::from_utf8_lossy(&body)
        );
        ensure!(
            digest(&body) == of.digest,
            "{} has the digest {}",
            of.digest,
            digest(&body)
        );
        ensure!(
            body.len() as u64 == of.size,
            "{} has {} bytes, not {}",
            of.digest,
            body.len(),
            of.size
        );
        Ok(body.to_vec())
    }

    /// The module of a policy.
    pub async fn pull_policy(&self, reference: &str) -> Result<Vec<u8>> {
        let manifest = self.manifest(reference).await?;
        let [layer] = manifest.layers.as_slice() else {
            bail!("{reference} does not have exactly one layer: {manifest:?}")
        };
        ensure!(
            layer.media_type == media_type::POLICY_LAYER,
            "{reference} is not a policy: {layer:?}"
        );
        self.blob(reference, layer).await
    }

    /// The images of an index: the immutable reference of each, by its architecture. Fails unless
    /// each can be read, and is for the platform that the index names.
    pub async fn images(&self, reference: &str) -> Result<BTreeMap<String, String>> {
        let index = self.manifest(reference).await?;
        ensure!(
            index.media_type == media_type::INDEX,
            "{reference} is not an index: {}",
            index.media_type
        );
        let (repository, _) = self.split(reference)?;
        let mut images = BTreeMap::new();
        for entry in &index.manifests {
            let image = format!("{}/{repository}@{}", self.host, entry.digest);
            let manifest = self.manifest(&image).await?;
            ensure!(
                manifest.media_type == entry.media_type,
                "{image} is no {}",
                entry.media_type
            );
            let platform = entry
                .platform
                .as_ref()
                .with_context(|| format!("{image} has no platform"))?;
            let config = self.image_config(&image, &manifest).await?;
            let same = (&config.os, &config.architecture) == (&platform.os, &platform.architecture);
            ensure!(
                same,
                "{image} is for {}/{}, not {platform:?}",
                config.os,
                config.architecture
            );
            ensure!(platform.os == "linux", "{image} is for {}", platform.os);
            let known = images.insert(platform.architecture.clone(), image);
            ensure!(
                known.is_none(),
                "{reference} names {} twice",
                platform.architecture
            );
        }
        Ok(images)
    }

    /// The image for this machine that a reference names, as a container runtime selects it: the
    /// image itself, or the one of an index.
    pub async fn image_for_this_machine(&self, reference: &str) -> Result<String> {
        let manifest = self.manifest(reference).await?;
        if manifest.media_type != media_type::INDEX {
            return Ok(reference.to_owned());
        }
        let own = if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            "amd64"
        };
        let image = self.images(reference).await?.remove(own);
        image.with_context(|| format!("{reference} has no image for {own}"))
    }

    async fn image_config(&self, reference: &str, manifest: &Manifest) -> Result<ImageConfig> {
        let config = manifest.config.as_ref();
        let config = config.with_context(|| format!("{reference} has no configuration"))?;
        ensure!(
            config.media_type == media_type::IMAGE_CONFIG,
            "{reference} is not an image: {config:?}"
        );
        parse(reference, &self.blob(reference, config).await?)
    }

    /// Unpacks a container image into a folder, which becomes its root file system. Owners are kept
    /// only if this process runs as root. Of an index it takes the image for this machine.
    pub async fn pull_image(&self, reference: &str, into: &Path) -> Result<ImageConfig> {
        let reference = &self.image_for_this_machine(reference).await?;
        let manifest = self.manifest(reference).await?;
        let config = self.image_config(reference, &manifest).await?;
        let diff_ids = &config.rootfs.diff_ids;
        ensure!(
            diff_ids.len() == manifest.layers.len(),
            "{reference}: {diff_ids:?} {:?}",
            manifest.layers
        );
        let unpacked = &into.with_extension("unpacked");
        for folder in [into, unpacked] {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        for (layer, diff_id) in manifest.layers.iter().zip(diff_ids) {
            ensure!(
                layer.media_type == media_type::IMAGE_LAYER,
                "{reference}: {layer:?}"
            );
            let mut archive = Vec::new();
            GzDecoder::new(self.blob(reference, layer).await?.as_slice())
                .read_to_end(&mut archive)?;
            ensure!(
                digest(&archive) == *diff_id,
                "the layer {} is not {diff_id}",
                layer.digest
            );
            unpack(&archive, unpacked)
                .with_context(|| format!("cannot unpack {}", layer.digest))?;
        }
        copy(unpacked, into).await?;
        fs::remove_dir_all(unpacked)?;
        Ok(config)
    }

    /// The tags of the reference's repository, sorted.
    pub async fn tags(&self, reference: &str) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Tags {
            tags: Vec<String>,
        }
        let (repository, _) = self.split(reference)?;
        let (status, _, body) = self.get(&format!("{repository}/tags/list"), "*/*").await?;
        ensure!(
            status == StatusCode::OK,
            "{repository}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        let mut tags = parse::<Tags>(repository, &body)?.tags;
        tags.sort();
        Ok(tags)
    }

    /// The repository and the tag or digest.
    fn split<'a>(&self, reference: &'a str) -> Result<(&'a str, &'a str)> {
        let wrong = || {
            anyhow!(
                "{reference:?} must be {}/repository:tag or …@digest",
                self.host
            )
        };
        let rest = reference.strip_prefix("registry://").unwrap_or(reference);
        let rest = rest
            .strip_prefix(&self.host)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(wrong)?;
        rest.split_once('@')
            .or_else(|| rest.split_once(':'))
            .ok_or_else(wrong)
    }

    /// Gets a path below `/v2/`: status, media type and body.
    async fn get(&self, path: &str, accept: &str) -> Result<(StatusCode, String, Bytes)> {
        let mut request = Request::get(format!("/v2/{path}"))
            .header(HOST, &self.host)
            .header(ACCEPT, accept);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let (mut sender, connection) = handshake(TokioIo::new(self.connect().await?)).await?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status();
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let body = response.into_body().collect().await?.to_bytes();
        connection.abort();
        Ok((status, kind, body))
    }

    async fn connect(&self) -> Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(&self.host).await?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let name = self
            .host
            .rsplit_once(':')
            .map_or(self.host.as_str(), |(name, _)| name);
        Ok(Box::new(
            tls.connect(ServerName::try_from(name.to_owned())?, stream)
                .await?,
        ))
    }
}

/// A connector that trusts only this authority.
fn connector(authority: &Path) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsConnector::from(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    )))
}

fn unpack(archive: &[u8], into: &Path) -> Result<()> {
    let mut archive = tar::Archive::new(archive);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(geteuid().is_root());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure!(
            !name.starts_with(".wh."),
            "{} removes a file of another layer",
            path.display()
        );
        ensure!(
            entry.unpack_in(into)?,
            "{} leaves the root file system",
            path.display()
        );
    }
    Ok(())
}

/// Copies what is in a folder by another process. A program that this process has written cannot
/// always be run ("Text file busy"): what other threads start at the same time holds the open file
/// for a moment.
async fn copy(from: &Path, to: &Path) -> Result<()> {
    let output = Command::new("cp")
        .arg("--archive")
        .arg("--")
        .arg(from.join("."))
        .arg(to)
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "cp: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn parse<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T> {
    serde_json::from_slice(body)
        .with_context(|| format!("{what}: {}", String::from_utf8_lossy(body)))
}

/// `sha256:…` of these bytes.
pub fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().fold("sha256:".to_owned(), |text, byte| {
        text + &format!("{byte:02x}")
    })
}

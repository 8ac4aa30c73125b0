//! A process that lists or watches Pods once, in one encoding, and reads them as the sidecar does.

use std::fs;
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use flate2::read::GzDecoder;
use http::{Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pps_core::to_text;
use pps_sidecar::facts::interest::Interest;
use pps_sidecar::observe::wire::{self, Encoded, Encoding, Event, Events, Message, Page};
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime;

use crate::meter::{cpu, memory};

/// How many objects a page has, as the sidecar's.
const PAGE_SIZE: usize = 250;
const LONGEST_EVENT: usize = 64 << 20;

/// In which encoding Pods are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Json,
    JsonGzip,
    Protobuf,
    ProtobufGzip,
    /// Only the metadata.
    Metadata,
    MetadataProtobufGzip,
}

/// How they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// A list in pages.
    Pages,
    /// A watch that begins with all objects.
    Stream,
    /// A watch that begins now.
    Watch,
}

/// What to read.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReadingArgs {
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    #[arg(long)]
    pub(crate) method: Method,
    #[arg(long)]
    pub(crate) form: Form,
    /// The number of objects or events.
    #[arg(long)]
    pub(crate) count: usize,
}

/// What it took. CPU time in seconds, sizes in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ReadingReport {
    pub(crate) seconds: f64,
    pub(crate) cpu: f64,
    pub(crate) growth: u64,
}

impl Form {
    fn accept(self, is_list: bool) -> String {
        let as_ = if is_list { "PartialObjectMetadataList" } else { "PartialObjectMetadata" };
        let metadata = format!(";as={as_};g=meta.k8s.io;v=v1");
        let protobuf = "application/vnd.kubernetes.protobuf";
        match self {
            Self::Json | Self::JsonGzip => "application/json".to_owned(),
            Self::Protobuf | Self::ProtobufGzip => protobuf.to_owned(),
            Self::Metadata => format!("application/json{metadata}"),
            Self::MetadataProtobufGzip => format!("{protobuf}{metadata}"),
        }
    }

    fn is_compressed(self) -> bool {
        matches!(self, Self::JsonGzip | Self::ProtobufGzip | Self::MetadataProtobufGzip)
    }
}

pub(crate) fn run(args: &ReadingArgs) -> Result<()> {
    // This fails if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        // The connection, and the first answer.
        client.apiserver_version().await?;
        let process = Process::myself()?;
        // Begins to measure the peak.
        fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
        let (cpu_before, (memory_before, _)) = (cpu(&process)?, memory(&process)?);
        let reading = Reading { client, form: args.form, interest: Interest::default() };
        let started = Instant::now();
        match args.method {
            Method::Pages => reading.list(args.count).await?,
            Method::Stream | Method::Watch => reading.watch(args.method, args.count).await?,
        }
        let report = ReadingReport {
            seconds: started.elapsed().as_secs_f64(),
            cpu: cpu(&process)? - cpu_before,
            growth: memory(&process)?.1.saturating_sub(memory_before),
        };
        println!("{}", to_text(&json!(report)));
        Ok(())
    })
}

struct Reading {
    client: Client,
    form: Form,
    interest: Interest,
}

impl Reading {
    async fn list(&self, count: usize) -> Result<()> {
        let (mut token, mut read) = (String::new(), 0);
        loop {
            let response = self.request(true, &format!("limit={PAGE_SIZE}&continue={token}")).await?;
            let (head, body) = response.into_parts();
            let mut bytes = body.collect().await?.to_bytes().to_vec();
            if head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip") {
                let mut plain = Vec::new();
                GzDecoder::new(&bytes[..]).read_to_end(&mut plain)?;
                bytes = plain;
            }
            let message = Message::new(encoding(&head.headers), bytes);
            let page = Page::read(message.as_encoded()).map_err(|error| anyhow::anyhow!("{error}"))?;
            for object in page.items() {
                self.read(object)?;
                read += 1;
            }
            match page.continue_token() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        ensure!(read == count, "read {read} Pods, not {count}");
        Ok(())
    }

    /// Reads events until this many objects have arrived. Says on the standard output when the watch is open.
    async fn watch(&self, method: Method, count: usize) -> Result<()> {
        let query = if method == Method::Stream {
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                .to_owned()
        } else {
            let first = self.request(true, "limit=1").await?;
            let encoding = encoding(first.headers());
            let message = Message::new(encoding, first.into_body().collect().await?.to_bytes().to_vec());
            let page = Page::read(message.as_encoded()).map_err(|error| anyhow::anyhow!("{error}"))?;
            format!("watch=true&resourceVersion={}", page.resource_version())
        };
        let response = self.request(false, &query).await?;
        println!();
        std::io::stdout().flush()?;
        let mut events = Events::new(encoding(response.headers()), LONGEST_EVENT);
        let mut body = response.into_body();
        let mut read = 0;
        while read < count {
            let frame = tokio::time::timeout(Duration::from_mins(2), body.frame()).await?;
            let Some(frame) = frame else { bail!("the watch ended after {read} of {count} events") };
            events.push(&frame?.into_data().unwrap_or_default());
            while let Some(event) = events.next_event() {
                let event = event.map_err(|error| anyhow::anyhow!("{error}"))?;
                match Event::of(event.as_encoded()) {
                    Ok(Event::Applied(object)) => {
                        self.read(object)?;
                        read += 1;
                    }
                    Ok(Event::Error { code, message }) => bail!("the watch failed: {message} ({code})"),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    async fn request(&self, is_list: bool, query: &str) -> Result<http::Response<Body>> {
        let mut request =
            Request::get(format!("/api/v1/pods?{query}")).header(header::ACCEPT, self.form.accept(is_list));
        if self.form.is_compressed() && is_list {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        let response = self.client.send(request.body(Body::empty())?).await?;
        ensure!(response.status().is_success(), "the API server answers {}", response.status());
        Ok(response)
    }

    fn read(&self, object: Encoded<'_>) -> Result<()> {
        let item = match object {
            Encoded::Json(text) => wire::read_pod(text, &self.interest),
            Encoded::Protobuf(message) => wire::read_pod_message(message, &self.interest),
        };
        let item = item.map_err(|error| anyhow::anyhow!("{error}"))?;
        ensure!(item.unreadable.is_none(), "{} cannot be read", item.key);
        Ok(())
    }
}

fn encoding(headers: &http::HeaderMap) -> Encoding {
    Encoding::of(headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()))
}

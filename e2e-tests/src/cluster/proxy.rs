//! A proxy in front of the API server that counts bytes, delays responses, and cuts or silences
//! connections.

use std::{
    fs,
    future::pending,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use crate::control_plane::ControlPlane;

/// Counters, and what is set.
#[derive(Default)]
struct Gauge {
    swallows: AtomicBool,
    to_server: AtomicU64,
    from_server: AtomicU64,
    delay_ms: AtomicU64,
}

/// Forwards connections until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    gauge: Arc<Gauge>,
    /// Whether connections are cut. Dropping the sender also ends them.
    cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the host and port of a URL.
    pub async fn start(server: &str) -> Result<Self> {
        let server = server
            .strip_prefix("https://")
            .context("not a URL of an API server")?
            .to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let gauge = Arc::<Gauge>::default();
        let shared = gauge.clone();
        let cut = watch::Sender::new(false);
        let follow = cut.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(
                    client,
                    server.clone(),
                    shared.clone(),
                    follow.clone(),
                ));
            }
        });
        Ok(Self {
            address,
            gauge,
            cut,
            task,
        })
    }

    /// A user's kubeconfig that points to the proxy.
    pub fn kubeconfig(&self, control_plane: &ControlPlane, user: &str) -> Result<PathBuf> {
        let path = control_plane.kubeconfig_for(user)?;
        let url = format!("https://{}", self.address);
        let text = fs::read_to_string(&path)?.replace(control_plane.url(), &url);
        let path = path.with_extension("proxied");
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Delays everything that the server sends.
    pub fn slow_down(&self, delay: Duration) {
        self.gauge.delay_ms.store(
            u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            Relaxed,
        );
    }

    /// Closes all connections and accepts no new ones.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Keeps all connections open, accepts new ones, and forwards nothing. A connection on which
    /// something was lost stays silent for good, as if its other end had gone without a word.
    pub fn swallow(&self) {
        self.gauge.swallows.store(true, Relaxed);
    }

    /// Accepts and forwards new connections again.
    pub fn mend(&self) {
        self.gauge.swallows.store(false, Relaxed);
        self.cut.send_replace(false);
    }

    /// Encrypted bytes sent to the server and received from it so far.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.gauge.to_server.load(Relaxed),
            self.gauge.from_server.load(Relaxed),
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    client: TcpStream,
    server: String,
    gauge: Arc<Gauge>,
    mut cut: watch::Receiver<bool>,
) {
    let both = async {
        let Ok(server) = TcpStream::connect(server).await else {
            return;
        };
        let silent = AtomicBool::new(false);
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let out = copy(
            from_client,
            to_server,
            &gauge,
            |gauge| &gauge.to_server,
            false,
            &silent,
        );
        let back = copy(
            from_server,
            to_client,
            &gauge,
            |gauge| &gauge.from_server,
            true,
            &silent,
        );
        tokio::join!(out, back);
    };
    tokio::select! {
        // Also ends when the proxy is dropped.
        _ = cut.wait_for(|cut| *cut) => {}
        () = both => {}
    }
}

/// Copies data with the delay that is set when it arrives. A delayed piece does not delay later
/// ones further. Once something was swallowed in either direction, nothing is copied any longer,
/// not even the end.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    gauge: &Gauge,
    counter: fn(&Gauge) -> &AtomicU64,
    delayed: bool,
    silent: &AtomicBool,
) {
    let (sender, mut pieces) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            silent.fetch_or(gauge.swallows.load(Relaxed), Relaxed);
            if silent.load(Relaxed) {
                continue;
            }
            counter(gauge).fetch_add(length as u64, Relaxed);
            let delay = if delayed {
                gauge.delay_ms.load(Relaxed)
            } else {
                0
            };
            let due = Instant::now() + Duration::from_millis(delay);
            if sender.send((due, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
        if silent.load(Relaxed) {
            pending::<()>().await;
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

//! A server of static files, for browsers on this machine.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use tower_http::services::ServeDir;

/// The least that the playground needs: its own scripts, styles and images, its module, and its
/// worker. Every web server of the playground should send this policy.
const PLAYGROUND_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
                                 style-src 'self'; img-src 'self' data:; font-src 'self'; \
                                 connect-src 'self'; worker-src 'self'; base-uri 'none'; \
                                 form-action 'none'; frame-ancestors 'none'";

/// The least that the documents of the site need. mdBook's scripts and styles are partly inline.
/// Each page names the same policy.
const SITE_POLICY: &str = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src \
                           'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; \
                           frame-src 'self'; form-action 'self'; base-uri 'none'";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub status: u16,
}

/// A running server. It serves until the process ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves a folder. Port 0 takes a free one. `on_request` is called with each request.
    pub fn start(
        folder: &Path,
        address: SocketAddr,
        on_request: impl Fn(Request) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("{} cannot be served", folder.display()))?;
        let listener =
            TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let app = app(&folder, on_request);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::spawn(move || {
            let _ = runtime.block_on(async {
                axum::serve(tokio::net::TcpListener::from_std(listener)?, app).await
            });
        });
        Ok(Self { address, thread })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub fn wait(self) {
        let _ = self.thread.join();
    }
}

fn app(folder: &Path, on_request: impl Fn(Request) + Send + Sync + 'static) -> Router {
    // The site has the playground in a folder. Everything beside that folder is a document.
    let is_site = folder.join("playground").is_dir();
    let on_request = Arc::new(on_request);
    let answer = move |mut request: axum::extract::Request, next: Next| {
        let on_request = Arc::clone(&on_request);
        async move {
            let (method, path) = (request.method().to_string(), request.uri().to_string());
            let policy = if is_site && !path.starts_with("/playground/") {
                SITE_POLICY
            } else {
                PLAYGROUND_POLICY
            };
            // A file that has just been built again may have the same time.
            request.headers_mut().remove(header::IF_MODIFIED_SINCE);
            let mut response = next.run(request).await;
            for (name, value) in [
                (header::CONTENT_SECURITY_POLICY, policy),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
                (header::CACHE_CONTROL, "no-cache"),
            ] {
                response
                    .headers_mut()
                    .insert(name, HeaderValue::from_static(value));
            }
            on_request(Request {
                method,
                path,
                status: response.status().as_u16(),
            });
            response
        }
    };
    Router::new()
        .fallback_service(ServeDir::new(folder))
        .layer(from_fn(answer))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn serves_files_of_its_folder_with_the_policy_of_each_and_nothing_else() {
        // The repository has a playground in a folder, as the site has.
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let server =
            Server::start(&repository, SocketAddr::from(([127, 0, 0, 1], 0)), |_| ()).unwrap();
        for (request, status, policy) in [
            ("GET /Cargo.toml", "200", SITE_POLICY),
            ("GET /playground/index.html?x", "200", PLAYGROUND_POLICY),
            ("GET /playground", "307", SITE_POLICY),
            ("GET /none", "404", SITE_POLICY),
            ("GET /playground/../../x", "404", PLAYGROUND_POLICY),
            ("GET /%2e%2e/x", "404", SITE_POLICY),
            ("POST /Cargo.toml", "405", SITE_POLICY),
        ] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let head = format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer:.300}"
            );
            assert!(
                answer.contains(&format!("content-security-policy: {policy}\r\n")),
                "{answer:.500}"
            );
        }
    }
}

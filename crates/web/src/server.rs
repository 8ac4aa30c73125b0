//! A server of static files, for browsers on this machine.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

/// What the playground needs, and nothing more: its own scripts, styles and images, its module, and its worker. Any web server that
/// shows it should send the same.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// What the documents of the site need, and nothing more. mdBook's scripts and styles are partly inline. Each page names the same.
const SITE_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' \
     'unsafe-inline'; img-src 'self' data:; font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'";

const MAX_HEAD: u64 = 16 << 10;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request that the server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The status of the answer.
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
    ///
    /// # Errors
    ///
    /// If there is no such folder, or the address is in use.
    pub fn start(
        folder: &Path,
        address: SocketAddr,
        on_request: impl Fn(Request) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder =
            folder.canonicalize().with_context(|| format!("{} cannot be served", folder.display()))?;
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new((folder, on_request));
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (folder, on_request) = &*shared;
                    // A browser may close a connection at any time.
                    if let Ok(Some(request)) = answer(&stream, folder) {
                        on_request(request);
                    }
                });
            }
        });
        Ok(Self { address, thread })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub fn wait(self) {
        let _ = self.thread.join();
    }
}

/// Answers the one request of a connection.
fn answer(stream: &TcpStream, folder: &Path) -> io::Result<Option<Request>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut lines = BufReader::new(stream.take(MAX_HEAD)).lines();
    let Some(first) = lines.next().transpose()? else { return Ok(None) };
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let found = find(folder, path);
    let policy = security_policy(folder, found.as_deref());
    let folder_path = found.as_deref().and_then(|file| folder_without_slash(file, path));
    let (status, kind, body) = match method {
        "GET" | "HEAD" if folder_path.is_some() => (308, "text/plain", b"Moved.\n".to_vec()),
        "GET" | "HEAD" => match found {
            Some(file) => (200, content_type(&file), fs::read(&file)?),
            None => (404, "text/plain", b"There is no such file.\n".to_vec()),
        },
        _ => (405, "text/plain", b"Only GET and HEAD.\n".to_vec()),
    };
    let location =
        folder_path.filter(|_| status == 308).map(|path| format!("Location: {path}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} {}\r\n{location}Content-Type: {kind}\r\nContent-Length: {}\r\nContent-Security-Policy: {policy}\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n",
        if status == 200 { "OK" } else { "Error" },
        body.len(),
    );
    let mut output = stream;
    output.write_all(head.as_bytes())?;
    if method != "HEAD" {
        output.write_all(&body)?;
    }
    Ok(Some(Request { method: method.into(), path: path.into(), status }))
}

/// Where a folder is whose path has no slash at its end: a browser would look for its files beside it.
fn folder_without_slash(file: &Path, path: &str) -> Option<String> {
    let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    let is_index = file.file_name()? == "index.html" && decode(name)? != "index.html";
    // A path that begins with two slashes would be another host.
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    (is_index && is_local && !path.ends_with('/')).then(|| format!("{path}/{query}"))
}

/// The site has the playground in a folder. Everything beside that folder is a document.
fn security_policy(folder: &Path, file: Option<&Path>) -> &'static str {
    let playground = folder.join("playground");
    match file {
        Some(file) if playground.is_dir() && !file.starts_with(&playground) => SITE_SECURITY_POLICY,
        _ => CONTENT_SECURITY_POLICY,
    }
}

/// The file of a path; `None` if there is none, or it is outside of the folder.
fn find(folder: &Path, path: &str) -> Option<PathBuf> {
    let path = path.split(['?', '#']).next()?;
    let relative = PathBuf::from(decode(path)?.trim_start_matches('/'));
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let file = folder.join(relative);
    let file = if file.is_dir() { file.join("index.html") } else { file };
    // A link may point out of the folder.
    let file = file.canonicalize().ok()?;
    (file.is_file() && file.starts_with(folder)).then_some(file)
}

fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

fn content_type(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json" | "map" | "webmanifest") => "application/json",
        Some("gz") => "application/gzip",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt" | "md" | "yaml" | "yml" | "ts") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_files_of_its_folder_and_nothing_else() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
        let found =
            |path: &str| find(&folder, path).map(|file| file.strip_prefix(&folder).unwrap().to_owned());
        assert_eq!(found("/src/lib.rs?x#y"), Some("src/lib.rs".into()));
        assert_eq!(found("/src/%6cib.rs"), Some("src/lib.rs".into()));
        for path in [
            "/",
            "/src",
            "/none",
            "/../core/Cargo.toml",
            "/src/../Cargo.toml",
            "/%2e%2e/core/Cargo.toml",
            "/%2",
            "/%zz",
            "/a%00",
            "//etc/passwd",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn a_folder_has_a_slash_at_its_end() {
        let moved = |file: &str, path: &str| folder_without_slash(Path::new(file), path);
        assert_eq!(moved("/s/playground/index.html", "/playground?a=/b"), Some("/playground/?a=/b".into()));
        for path in
            ["/", "/playground/", "/playground/index.html", "/playground/index%2ehtml", "//a.example", "/\\a"]
        {
            assert_eq!(moved("/s/playground/index.html", path), None, "{path}");
        }
        assert_eq!(moved("/s/a.js", "/a.js"), None);

        // The repository has a folder with an index.
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let server = Server::start(&repository, SocketAddr::from(([127, 0, 0, 1], 0)), |_| ()).unwrap();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET /playground HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 308 ") && answer.contains("\r\nLocation: /playground/\r\n"),
            "{answer}"
        );
    }

    #[test]
    fn only_documents_of_the_site_may_have_inline_scripts() {
        // The repository has a playground in a folder, as the site has.
        let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let policy = |file: &str| security_policy(&site, Some(&site.join(file)));
        assert_eq!(policy("README.md"), SITE_SECURITY_POLICY);
        assert_eq!(policy("playground/index.html"), CONTENT_SECURITY_POLICY);
        assert_eq!(security_policy(&site, None), CONTENT_SECURITY_POLICY);
        let playground = site.join("playground");
        assert_eq!(
            security_policy(&playground, Some(&playground.join("index.html"))),
            CONTENT_SECURITY_POLICY
        );
    }

    #[test]
    fn every_answer_has_the_security_policy() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let server = Server::start(folder, SocketAddr::from(([127, 0, 0, 1], 0)), |_| ()).unwrap();
        for (request, status) in [
            ("GET /Cargo.toml HTTP/1.1\r\n\r\n", "HTTP/1.1 200 "),
            ("GET /none HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
            ("POST / HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        ] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(status), "{answer}");
            assert!(
                answer.contains(&format!("Content-Security-Policy: {CONTENT_SECURITY_POLICY}\r\n")),
                "{answer}"
            );
        }
    }
}

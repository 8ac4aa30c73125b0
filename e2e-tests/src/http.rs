//! Plain HTTP requests for probes and metrics.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Gets `http://<address><path>` within five seconds. Returns status code and body.
pub async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    let request = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), request).await??;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| anyhow!("not HTTP: {answer:?}"))?;
    let code = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if chunked {
        unchunk(body)
    } else {
        body.to_owned()
    };
    Ok((code.ok_or_else(|| anyhow!("not HTTP: {head:?}"))?, body))
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, chunk)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        let (Some(part), Some(after)) = (chunk.get(..size), chunk.get(size + 2..)) else {
            break;
        };
        body.push_str(part);
        rest = after;
    }
    body
}

/// The value of one metric: the line that starts with `name_and_labels`, such as
/// `persistentpodstate_writes_total{resource="pods",result="success"}`.
pub fn metric(text: &str, name_and_labels: &str) -> Option<f64> {
    let value = |line: &str| {
        line.strip_prefix(name_and_labels)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    text.lines().find_map(value)
}

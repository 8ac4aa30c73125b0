//! An API server for tests: a function says what it answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use kube::{Client, Config};
use serde_json::Value;

/// A client of an API server that answers `GET PATH` with this status and object.
pub(crate) fn serve(mut answer: impl FnMut(&str) -> (u16, Value) + Send + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(Vec::new());
    config.default_retry = false;
    // It ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            reply(&stream, &mut answer);
        }
    });
    Client::try_from(config).unwrap()
}

fn reply(mut stream: &TcpStream, answer: &mut impl FnMut(&str) -> (u16, Value)) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut head = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let Some(first) = head.next() else { return };
    head.for_each(drop);
    let (status, object) = answer(first.trim_end_matches(" HTTP/1.1"));
    let body = object.to_string();
    let length = body.len();
    // A client that waits no longer has closed it.
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
}

//! The connection; and an API server for tests: a function says what it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

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

fn ask(server: &str, within: Duration) -> Result<(), Failure> {
    let config = Config::new(server.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::try_from(config).unwrap();
        reach(&client, server, "prod", within).await
    })
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    (listener, server)
}

#[test]
fn an_api_server_that_does_not_answer_is_named() {
    let (listener, server) = listen();
    let expected = format!("cannot reach the API server at {server} (context prod): no answer within 1 s");
    assert_eq!(ask(&server, Duration::from_secs(1)), Err(Failure::Unreadable(expected)));
    drop(listener);
    let expected = format!("cannot reach the API server at {server} (context prod): Connection refused");
    assert!(ask(&server, Duration::from_secs(1)).unwrap_err().to_string().starts_with(&expected));
}

#[test]
fn a_refusal_is_an_answer_and_other_credentials_are_needed_for_a_401() {
    fn answer(mut stream: TcpStream, status: &str) {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
        stream.write_all(text.as_bytes()).unwrap();
    }
    for (status, expected) in [("200 OK", None), ("403 Forbidden", None), ("401 Unauthorized", Some("(401)"))]
    {
        let (listener, server) = listen();
        let serving = std::thread::spawn(move || answer(listener.accept().unwrap().0, status));
        let outcome = ask(&server, Duration::from_secs(10));
        serving.join().unwrap();
        match expected {
            None => assert_eq!(outcome, Ok(()), "{status}"),
            Some(text) => assert!(outcome.unwrap_err().to_string().contains(text), "{status}"),
        }
    }
}

#[test]
fn an_address_has_no_password() {
    let url = "https://user:secret@host:6443/".parse().unwrap();
    assert_eq!(address(&url), "https://host:6443");
    assert_eq!(address(&"https://host/k8s/clusters/c-1".parse().unwrap()), "https://host/k8s/clusters/c-1");
}

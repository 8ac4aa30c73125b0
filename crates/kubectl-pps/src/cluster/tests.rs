//! The connection; and an API server for tests: a function says what it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use kube::Config;

use super::*;
use crate::args::Cli;

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
    Client {
        kube: config.try_into().unwrap(),
        request_timeout: None,
    }
}

fn reply(mut stream: &TcpStream, answer: &mut impl FnMut(&str) -> (u16, Value)) {
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut head = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty());
    let Some(first) = head.next() else { return };
    head.for_each(drop);
    let (status, object) = answer(first.trim_end_matches(" HTTP/1.1"));
    let body = object.to_string();
    let length = body.len();
    // A client that waits no longer has closed it.
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: \
         {length}\r\nconnection: close\r\n\r\n{body}"
    );
}

fn ask(server: &str, within: Duration) -> Result<(), Failure> {
    let config = Config::new(server.parse().unwrap());
    run(async {
        let client = Client {
            kube: config.try_into().unwrap(),
            request_timeout: Some(within),
        };
        reach(&client, server, "prod", false).await
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
    let expected =
        format!("cannot reach the API server at {server} (context prod): no answer within 1 s");
    assert_eq!(
        ask(&server, Duration::from_secs(1)),
        Err(Failure::Unreadable(expected))
    );
    drop(listener);
    let expected =
        format!("cannot reach the API server at {server} (context prod): Connection refused");
    assert!(
        ask(&server, Duration::from_secs(1))
            .unwrap_err()
            .to_string()
            .starts_with(&expected)
    );
}

#[test]
fn a_refusal_is_an_answer_and_other_credentials_are_needed_for_a_401() {
    fn answer(mut stream: TcpStream, status: &str) {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let text =
            format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
        stream.write_all(text.as_bytes()).unwrap();
    }
    for (status, expected) in [
        ("200 OK", None),
        ("403 Forbidden", None),
        ("401 Unauthorized", Some("(401)")),
    ] {
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
    assert_eq!(
        address(&"https://host/k8s/clusters/c-1".parse().unwrap()),
        "https://host/k8s/clusters/c-1"
    );
}

const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "main",
    "contexts": [{"name": "main", "context": {"cluster": "a", "user": "a", "namespace": "shop"}}],
    "clusters": [{"name": "insecure", "cluster": {"server": "https://i", "insecure-skip-tls-verify": true}},
                 {"name": "a", "cluster": {"server": "https://a:1", "tls-server-name": "a"}},
                 {"name": "b", "cluster": {"server": "https://b:2"}}],
    "users": [{"name": "a", "user": {"username": "u", "password": "p", "as": "file", "as-groups": ["g"]}},
              {"name": "b", "user": {"token": "of-b"}}]}"#;

/// Asks the connection of a command line with these flags and this kubeconfig.
fn with_connection<T>(flags: &str, kubeconfig: &str, ask: impl FnOnce(Connection) -> T) -> T {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("kubectl-pps-{}-{number}", std::process::id()));
    std::fs::write(&file, kubeconfig).unwrap();
    let line = format!("pps status --kubeconfig {} {flags}", file.display());
    let answer = ask(Cli::try_parse_from(line.split_whitespace())
        .unwrap()
        .connection);
    std::fs::remove_file(&file).unwrap();
    answer
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn config(flags: &str) -> Result<Config, Failure> {
    with_connection(flags, KUBECONFIG, |connection| {
        let mut config = run(find(&connection))?.config;
        apply(&connection, &mut config).map(|()| config)
    })
}

/// The headers of the first request, in order.
fn headers(flags: &str) -> Vec<String> {
    let (listener, server) = listen();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let head: Vec<String> = lines.skip(1).take_while(|line| !line.is_empty()).collect();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            .unwrap();
        head
    });
    let flags = format!("{flags} --server {server}");
    let connected =
        with_connection(&flags, KUBECONFIG, |connection| run(connect(&connection))).unwrap();
    assert_eq!(connected.namespace, "shop");
    let is_about_user =
        |line: &String| line.starts_with("authorization") || line.starts_with("impersonate");
    let mut about: Vec<String> = serving
        .join()
        .unwrap()
        .into_iter()
        .filter(is_about_user)
        .collect();
    about.sort();
    about
}

#[test]
fn the_command_line_takes_precedence_over_the_kubeconfig() {
    // Without TLS nobody gets the kubeconfig's password.
    let own = ["impersonate-group: g", "impersonate-user: file"];
    assert_eq!(headers(""), own);
    assert_eq!(
        headers("--token secret"),
        ["authorization: Bearer secret", own[0], own[1]]
    );
    assert!(config("").unwrap().auth_info.password.is_some());
    let user = config("--user b").unwrap().auth_info;
    assert_eq!(
        (
            user.token.is_some(),
            user.password.is_none(),
            user.impersonate
        ),
        (true, true, None)
    );
    assert_eq!(
        headers("--user b --as jane --as-group dev --as-group ops --as-uid 7"),
        [
            "impersonate-group: dev",
            "impersonate-group: ops",
            "impersonate-uid: 7",
            "impersonate-user: jane"
        ]
    );
    assert_eq!(config("--cluster b").unwrap().cluster_url.host(), Some("b"));
    let trust = |flags: &str| {
        let config = config(flags).unwrap();
        (
            config.accept_invalid_certs,
            config.root_cert_file.map(|path| path.display().to_string()),
        )
    };
    assert_eq!(trust("--cluster insecure"), (true, None));
    assert_eq!(trust("--insecure-skip-tls-verify"), (true, None));
    assert_eq!(
        trust("--cluster insecure --certificate-authority Cargo.toml"),
        (false, Some("Cargo.toml".into()))
    );
    let config = config("--server https://c:3").unwrap();
    assert_eq!(
        (config.cluster_url.host(), config.tls_server_name),
        (Some("c"), None)
    );
}

#[test]
fn what_the_kubeconfig_lacks_is_named_and_an_address_needs_no_context() {
    let refused = |flags: &str| config(flags).unwrap_err().to_string();
    assert_eq!(refused("--user jane"), "the kubeconfig has no user jane");
    assert!(refused("--cluster c").ends_with("failed to load the cluster of context: c"));
    assert_eq!(
        refused("--user b --as-group dev"),
        "--as-group and --as-uid need --as NAME"
    );
    // An unset variable in a script.
    let found = with_connection("", KUBECONFIG, |connection| {
        let unset = Connection {
            as_user: Some(String::new()),
            token: Some(String::new()),
            ..connection
        };
        let mut found = run(find(&unset)).unwrap().config;
        apply(&unset, &mut found).unwrap();
        found
    });
    assert_eq!(found.auth_info.impersonate.as_deref(), Some("file"));
    assert!(found.auth_info.password.is_some());
    let refused = with_connection("", KUBECONFIG, |connection| {
        let damaged = Connection {
            token: Some("secret\r".into()),
            ..connection
        };
        run(connect(&damaged)).err().unwrap().to_string()
    });
    assert!(
        refused.starts_with("--token has ") && !refused.contains("secret"),
        "{refused}"
    );
    let empty =
        r#"{"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}"#;
    let find =
        |flags, kubeconfig| with_connection(flags, kubeconfig, |connection| run(find(&connection)));
    let found = find("--server https://c:3", empty).unwrap();
    assert_eq!(
        (found.config.cluster_url.host(), found.context.as_str()),
        (Some("c"), "")
    );
    assert!(find("", empty).is_err());
    let without_context = KUBECONFIG.replace(r#""current-context": "main","#, "");
    let found = find("--server https://c:3 --user b", &without_context).unwrap();
    assert!(
        found.config.auth_info.token.is_some(),
        "the user is not ignored"
    );
}

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;

use super::*;

/// A registry that speaks HTTP and answers each request with what the function says.
async fn registry(answer: fn(&str, Option<&str>, SocketAddr) -> Response<String>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().fallback(move |request: Request| async move {
        let token = request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let path = request
            .uri()
            .path_and_query()
            .map_or("", |path| path.as_str());
        answer(path, token, address).into_response()
    });
    tokio::spawn(async { axum::serve(listener, app).await });
    address
}

fn status(code: u16) -> Response<String> {
    Response::builder()
        .status(code)
        .body(String::new())
        .unwrap()
}

async fn ask_insecure(address: SocketAddr) -> ModuleAnswer {
    let insecure = [address.to_string()];
    ask(
        &format!("registry://{address}/a/b:v1"),
        &Sources {
            insecure: &insecure,
            authorities: None,
        },
    )
    .await
}

#[tokio::test]
async fn the_status_says_whether_the_module_exists() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (answer, wanted) in [
        (
            (|_, _, _| status(200)) as fn(&str, Option<&str>, SocketAddr) -> _,
            ModuleAnswer::ModuleFound,
        ),
        (|_, _, _| status(404), ModuleAnswer::ModuleNotFound),
        (
            |_, _, _| status(403),
            ModuleAnswer::RegistryNeedsCredentials(403),
        ),
        (
            |_, _, _| status(401),
            ModuleAnswer::RegistryNeedsCredentials(401),
        ),
        (
            |_, _, _| status(429),
            ModuleAnswer::RegistryAnswerUnclear("429 Too Many Requests".into()),
        ),
        (
            |_, _, _| status(307),
            ModuleAnswer::RegistryAnswerUnclear("307 Temporary Redirect".into()),
        ),
    ] {
        assert_eq!(ask_insecure(registry(answer).await).await, wanted);
    }
}

/// Asks for a token, as Docker Hub and GitHub do also for public repositories.
fn with_tokens(path: &str, token: Option<&str>, address: SocketAddr) -> Response<String> {
    match (path, token) {
        ("/token?x=1&service=a+b&scope=repository%3Aa%2Fb%3Apull", None) => {
            Response::builder().body(r#"{"token":"t"}"#.into()).unwrap()
        }
        ("/v2/a/b/manifests/v1", Some("Bearer t")) => status(200),
        ("/v2/a/b/manifests/v1", _) => Response::builder()
            .status(401)
            .header(
                header::WWW_AUTHENTICATE,
                format!("Bearer realm=\"http://{address}/token?x=1\",service=\"a b\""),
            )
            .body(String::new())
            .unwrap(),
        _ => status(500),
    }
}

#[tokio::test]
async fn fetches_an_anonymous_token_if_the_registry_asks_for_one() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    assert_eq!(
        ask_insecure(registry(with_tokens).await).await,
        ModuleAnswer::ModuleFound
    );
}

#[tokio::test]
async fn a_registry_without_https_is_asked_only_if_the_policy_server_would() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let address = registry(|_, _, _| status(200)).await;
    let module = format!("registry://{address}/a/b:v1");
    let answer = ask(
        &module,
        &Sources {
            insecure: &[],
            authorities: None,
        },
    )
    .await;
    assert!(
        matches!(answer, ModuleAnswer::RegistryUnreachable(_)),
        "{answer:?}"
    );
    assert_eq!(ask_insecure(address).await, ModuleAnswer::ModuleFound);
}

#[tokio::test]
async fn a_registry_that_does_not_listen_is_unreachable() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let answer = ask_insecure(address).await;
    assert!(
        matches!(&answer, ModuleAnswer::RegistryUnreachable(why) if why.contains("refused")),
        "{answer:?}"
    );
}

#[test]
fn challenges_that_make_no_sense_give_no_token() {
    let reference = Reference::parse("r.example/a:v1").unwrap();
    for challenge in [
        "",
        "Bearer",
        "Basic realm=\"x\"",
        "Bearer realm=\"\"",
        "Bearer realm=\"/x\"",
        "Bearer realm=\"http://u:p@h/\"",
        "\u{1}",
    ] {
        assert_eq!(token_url(challenge, &reference), None, "{challenge}");
    }
}

/// A registry names where its tokens are. What it names must not make the check ask another service
/// of the cluster.
#[tokio::test]
async fn tokens_are_fetched_only_as_the_policy_server_may_connect_to_their_host() {
    static ELSEWHERE: std::sync::OnceLock<SocketAddr> = std::sync::OnceLock::new();
    static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    fn challenge(scheme: &str, token: Option<&str>) -> Response<String> {
        if token.is_some() {
            return status(200);
        }
        let realm = format!(
            "Bearer realm=\"{scheme}://{}/admin/secret?x=1\"",
            ELSEWHERE.get().unwrap()
        );
        Response::builder()
            .status(401)
            .header(header::WWW_AUTHENTICATE, realm)
            .body(String::new())
            .unwrap()
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let elsewhere = registry(|_, _, _| {
        ASKED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Response::builder()
            .body(r#"{"access_token":"secret"}"#.into())
            .unwrap()
    })
    .await;
    ELSEWHERE.set(elsewhere).unwrap();
    let http = registry(|_, token, _| challenge("http", token)).await;
    let https = registry(|_, token, _| challenge("https", token)).await;
    assert_eq!(
        ask_insecure(http).await,
        ModuleAnswer::RegistryNeedsCredentials(401)
    );
    // With HTTPS the service is not asked in plain HTTP.
    let answer = ask_insecure(https).await;
    assert!(!matches!(answer, ModuleAnswer::ModuleFound), "{answer:?}");
    assert_eq!(
        ASKED.load(std::sync::atomic::Ordering::SeqCst),
        0,
        "the service was asked"
    );
    // The PolicyServer may use plain HTTP there, too.
    let insecure = [http.to_string(), elsewhere.to_string()];
    let module = format!("registry://{http}/a/b:v1");
    assert_eq!(
        ask(
            &module,
            &Sources {
                insecure: &insecure,
                authorities: None
            }
        )
        .await,
        ModuleAnswer::ModuleFound
    );
}

#[test]
fn reads_references_as_the_policy_server_does() {
    let read =
        |text: &str| Reference::parse(text).map(|found| format!("{}{}", found.host, found.path));
    for (text, wanted) in [
        (
            "registry://r.example/a/b:v1",
            "r.example/v2/a/b/manifests/v1",
        ),
        ("r.example:5000/a", "r.example:5000/v2/a/manifests/latest"),
        (
            "registry://localhost/a:v1@sha256:0a",
            "localhost/v2/a/manifests/sha256:0a",
        ),
        (
            "registry://docker.io/a/b:v1",
            "registry-1.docker.io/v2/a/b/manifests/v1",
        ),
        (
            "registry://a/b:v1",
            "registry-1.docker.io/v2/a/b/manifests/v1",
        ),
    ] {
        assert_eq!(read(text).as_deref(), Ok(wanted), "{text}");
    }
    for text in [
        "",
        "registry://",
        "r.example",
        "r.example/",
        "r.example/../x",
        "r.example/a?b",
        "r.example/a\r\nb",
        "r ex.a/b",
    ] {
        assert!(
            matches!(read(text), Err(ModuleAnswer::RegistryAnswerUnclear(_))),
            "{text}"
        );
    }
    for text in ["https://r.example/policy.wasm", "file:///policy.wasm"] {
        assert!(
            matches!(read(text), Err(ModuleAnswer::ModuleNotChecked)),
            "{text}"
        );
    }
}

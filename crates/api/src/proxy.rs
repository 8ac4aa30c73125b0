//! The proxy to an API server or a registry: the one that kubectl would use.

use std::env;
use std::net::IpAddr;

use http::Uri;
use http::uri::InvalidUri;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxy that the environment names for a server.
pub fn of_environment(server: &Uri) -> Result<Option<Uri>, InvalidUri> {
    let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let of = |name: &str| {
        value(name)
            .or_else(|| value(&name.to_lowercase()))
            .unwrap_or_default()
    };
    let proxy = of(if server.scheme_str() == Some("http") {
        "HTTP_PROXY"
    } else {
        "HTTPS_PROXY"
    });
    if proxy.is_empty() || is_direct(server, &of("NO_PROXY")) {
        Ok(None)
    } else {
        parse(&proxy).map(Some)
    }
}

/// Whether a server is reached without the proxy of the environment.
fn is_direct(server: &Uri, no_proxy: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host
        .parse::<IpAddr>()
        .is_ok_and(|address| address.to_canonical().is_loopback());
    let rules = Matcher::builder()
        .all("http://any")
        .no(no_proxy.replace("*.", "."))
        .build();
    is_here || host == "localhost" || rules.intercept(server).is_none()
}

/// A proxy without a scheme is an HTTP proxy. Every SOCKS proxy resolves the name of the server.
/// kube refuses all other schemes and repeats the URL, which then must have no password.
pub(crate) fn parse(proxy: &str) -> Result<Uri, InvalidUri> {
    let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => format!("{scheme}://{rest}"),
        "socks5" | "socks5h" => format!("socks5://{rest}"),
        _ => format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default()),
    }
    .parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_or_in_no_proxy_is_reached_directly() {
        for (server, no_proxy, expected) in [
            ("https://api.example.com:6443", "", false),
            (
                "https://api.example.com:6443",
                "example.org, api.example.com,",
                true,
            ),
            ("https://api.example.com:6443", "example.com", true),
            ("https://api.example.com:6443", ".example.com", true),
            ("https://api.example.com:6443", "*.example.com", true),
            ("https://api.example.com:6443", "ample.com", false),
            ("https://api.example.com:6443", "*", true),
            ("https://10.1.2.3:6443", "10.1.0.0/16", true),
            ("https://10.1.2.3:6443", "10.1.2.4,10.2.0.0/16", false),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://localhost:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://[::ffff:127.0.0.1]:6443", "", true),
        ] {
            assert_eq!(
                is_direct(&server.parse().unwrap(), no_proxy),
                expected,
                "{server} {no_proxy:?}"
            );
        }
    }

    #[test]
    fn a_proxy_is_named_as_for_kubectl() {
        for (named, expected) in [
            ("proxy:3128", "http://proxy:3128/"),
            ("https://user:secret@proxy", "https://user:secret@proxy/"),
            ("socks5h://[::1]:1080", "socks5://[::1]:1080/"),
            ("socks4://user:secret@proxy:1080", "socks4://proxy:1080/"),
        ] {
            assert_eq!(parse(named).unwrap().to_string(), expected);
        }
        assert!(parse("a proxy").is_err());
    }
}

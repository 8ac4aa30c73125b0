//! The name of a module in a registry.

use crate::facts::ModuleAnswer;

/// Where Docker Hub's registry is.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// A module in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The registry's host and port.
    pub(crate) host: String,
    pub(crate) repository: String,
    /// Tag or digest.
    version: String,
}

impl Reference {
    /// Reads `registry://host/repository:tag`. Returns the answer for a module that is not in a registry.
    pub(crate) fn parse(module: &str) -> Result<Self, ModuleAnswer> {
        let rest = match module.split_once("://") {
            Some(("registry", rest)) => rest,
            Some(_) => return Err(ModuleAnswer::NotAsked),
            None => module,
        };
        let invalid = || ModuleAnswer::Unclear("nothing: the reference is not valid".into());
        let (host, path) = rest.split_once('/').ok_or_else(invalid)?;
        let is_host = host.contains(['.', ':']) || host == "localhost";
        let (host, path) = match (is_host, host) {
            (true, "docker.io" | "index.docker.io") => (DOCKER_HUB, path),
            (true, host) => (host, path),
            (false, _) => (DOCKER_HUB, rest),
        };
        let (name, digest) = path.split_once('@').map_or((path, None), |(name, digest)| (name, Some(digest)));
        let (repository, tag) = name.split_once(':').map_or((name, None), |(name, tag)| (name, Some(tag)));
        let version = digest.or(tag).unwrap_or("latest");
        let is_valid = |text: &str, more: &str| {
            !text.is_empty()
                && text.len() <= 255
                && !text.contains("..")
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if is_valid(host, ".-:[]") && is_valid(repository, "._-/") && is_valid(version, "._-:") {
            Ok(Self { host: host.into(), repository: repository.into(), version: version.into() })
        } else {
            Err(invalid())
        }
    }

    /// The path of its manifest.
    pub(crate) fn manifest_path(&self) -> String {
        format!("/v2/{}/manifests/{}", self.repository, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_references_as_the_policy_server_does() {
        let read = |text: &str| {
            Reference::parse(text).map(|found| format!("{}{}", found.host, found.manifest_path()))
        };
        for (text, wanted) in [
            ("registry://r.example/a/b:v1", "r.example/v2/a/b/manifests/v1"),
            ("r.example:5000/a", "r.example:5000/v2/a/manifests/latest"),
            ("registry://localhost/a:v1@sha256:0a", "localhost/v2/a/manifests/sha256:0a"),
            ("registry://docker.io/a/b:v1", "registry-1.docker.io/v2/a/b/manifests/v1"),
            ("registry://a/b:v1", "registry-1.docker.io/v2/a/b/manifests/v1"),
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
            assert!(matches!(read(text), Err(ModuleAnswer::Unclear(_))), "{text}");
        }
        for text in ["https://r.example/policy.wasm", "file:///policy.wasm"] {
            assert!(matches!(read(text), Err(ModuleAnswer::NotAsked)), "{text}");
        }
    }
}

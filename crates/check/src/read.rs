//! What a request asks for, and what comes of it.

use std::borrow::Cow;
use std::fmt;

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Read<T> {
    Known(T),
    Absent,
    /// It could not be read: the reader's problems say why. Or it was not asked for.
    #[default]
    Unknown,
}

impl<T> Read<T> {
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Known(value) => Read::Known(make(value)),
            Self::Absent => Read::Absent,
            Self::Unknown => Read::Unknown,
        }
    }

    pub fn known(&self) -> Option<&T> {
        if let Self::Known(value) = self {
            Some(value)
        } else {
            None
        }
    }

    pub fn into_known(self) -> Option<T> {
        if let Self::Known(value) = self {
            Some(value)
        } else {
            None
        }
    }

    /// Whether it does certainly not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T> Read<Vec<T>> {
    /// The items. None if they could not be read.
    pub fn items(&self) -> Option<&[T]> {
        match self {
            Self::Known(items) => Some(items),
            Self::Absent => Some(&[]),
            Self::Unknown => None,
        }
    }
}

/// A right that a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: Cow<'static, str>,
    /// The resource, with its subresource: `persistentpodstates/status`.
    pub resource: String,
    /// The namespace, if the right is needed in only one.
    pub namespace: Option<String>,
    /// The name, if the right is needed for only one object.
    pub name: Option<String>,
}

impl Right {
    pub fn new(verb: &'static str, group: impl Into<Cow<'static, str>>, resource: &str) -> Self {
        Self {
            verb,
            group: group.into(),
            resource: resource.into(),
            namespace: None,
            name: None,
        }
    }

    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What the right is needed for: `pods in namespace shop`.
    pub fn object(&self) -> String {
        let group = if self.group.is_empty() { "" } else { "." };
        let name = self.name.iter().map(|name| format!(" {name}"));
        let namespace = self
            .namespace
            .iter()
            .map(|namespace| format!(" in namespace {namespace}"));
        let more: String = name.chain(namespace).collect();
        format!("{}{group}{}{more}", self.resource, self.group)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.object())
    }
}

/// The name of a ServiceAccount with its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountName {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for ServiceAccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The version of a program: of the API server, or of a part of Kubewarden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) minor: MinorVersion,
    /// The full version: `v1.32.0`.
    pub(crate) text: String,
}

impl Version {
    /// Reads `v1.36.0`, `1.36` or `v1.36.0-beta.1`. None for a text that is no version: `latest`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let mut number = || numbers.next()?.parse().ok();
        Some(Self {
            minor: MinorVersion {
                major: number()?,
                minor: number()?,
            },
            text: text.to_owned(),
        })
    }

    /// The version in the tag of an image. None for an image without such a tag.
    pub(crate) fn of_image(image: &str) -> Option<Self> {
        let named = image.split('@').next()?;
        let (_, tag) = named.rsplit('/').next()?.split_once(':')?;
        Self::parse(tag)
    }
}

/// A minor version: `1.32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MinorVersion {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The account lacks this right.
    Forbidden(Right),
    /// The request failed for another reason.
    Failed {
        /// The right that the request needed. None for a request that needs none: the version.
        right: Option<Right>,
        /// Why it failed.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_an_image_is_in_its_tag() {
        let minor = |image: &str| Version::of_image(image).map(|one| one.minor.to_string());
        for (image, wanted) in [
            ("ghcr.io/kubewarden/policy-server:v1.35.0", Some("1.35")),
            (
                "r.example:5000/a/policy-server:v1.36.0-beta.1@sha256:00",
                Some("1.36"),
            ),
            ("policy-server:1.37", Some("1.37")),
            ("policy-server:latest", None),
            ("policy-server:v1", None),
            ("r.example:5000/policy-server", None),
            ("policy-server@sha256:00", None),
            ("", None),
        ] {
            assert_eq!(minor(image).as_deref(), wanted, "{image}");
        }
    }
}

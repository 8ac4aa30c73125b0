//! Which bucket has the state of a Pod.

use std::fmt;

use crate::names::{fnv1a, number};

/// Consecutive ordinals in one bucket.
const ORDINALS: u32 = 100;
/// Buckets of Pods with an ordinal. A larger ordinal shares a bucket with a smaller one, so that
/// nobody can make more buckets than these.
const ORDINAL_BUCKETS: u32 = 1024;
/// Buckets of Pods without an ordinal.
const HASH_BUCKETS: u32 = 64;
const BY_ORDINAL: &str = "ordinals-";
const BY_HASH: &str = "hash-";

/// A bucket of the compact form. Its name has no dot, so that a field mask can name it.
///
/// ```
/// use pps_core::packed::Bucket;
///
/// assert_eq!(Bucket::of("web-0").to_string(), "ordinals-0");
/// assert_eq!(Bucket::of("web-1234").to_string(), "ordinals-1200");
/// assert_eq!(Bucket::of("web.eu-7").to_string(), "ordinals-0");
/// assert_eq!(Bucket::of("queue-x7k2p").to_string(), "hash-29");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u32);

impl Bucket {
    /// How many buckets there can be.
    pub const COUNT: usize = (ORDINAL_BUCKETS + HASH_BUCKETS) as usize;

    /// The bucket of the Pod of this name.
    pub fn of(pod: &str) -> Self {
        let ordinal: Option<u32> = pod.rsplit_once('-').and_then(|(_, end)| number(end));
        Self(match ordinal {
            Some(ordinal) => ordinal / ORDINALS % ORDINAL_BUCKETS,
            None => ORDINAL_BUCKETS + fnv1a(pod.bytes()) % HASH_BUCKETS,
        })
    }

    /// The bucket of this name.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(first) = name.strip_prefix(BY_ORDINAL) {
            let first: u32 = number(first)?;
            let bucket = first / ORDINALS;
            let is_bucket = first.is_multiple_of(ORDINALS) && bucket < ORDINAL_BUCKETS;
            return is_bucket.then_some(Self(bucket));
        }
        let hash: u32 = number(name.strip_prefix(BY_HASH)?)?;
        (hash < HASH_BUCKETS).then(|| Self(ORDINAL_BUCKETS + hash))
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.checked_sub(ORDINAL_BUCKETS) {
            None => write!(f, "{BY_ORDINAL}{}", self.0 * ORDINALS),
            Some(hash) => write!(f, "{BY_HASH}{hash}"),
        }
    }
}

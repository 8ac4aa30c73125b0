//! Which bucket has the state of a Pod.

use std::fmt;

/// Consecutive ordinals in one bucket.
const ORDINALS: u32 = 100;
/// Buckets of Pods with an ordinal. A larger ordinal shares a bucket with a smaller one, so that nobody can
/// make more buckets than these.
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
        Self(match ordinal(pod) {
            Some(ordinal) => ordinal / ORDINALS % ORDINAL_BUCKETS,
            None => ORDINAL_BUCKETS + fnv1a(pod) % HASH_BUCKETS,
        })
    }

    /// The bucket of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let number = |text: &str| if is_number(text) { text.parse::<u32>().ok() } else { None };
        let bucket = match name.strip_prefix(BY_ORDINAL) {
            Some(first) => number(first).filter(|first| first % ORDINALS == 0)? / ORDINALS,
            None => {
                ORDINAL_BUCKETS + number(name.strip_prefix(BY_HASH)?).filter(|hash| *hash < HASH_BUCKETS)?
            }
        };
        (name.starts_with(BY_HASH) || bucket < ORDINAL_BUCKETS).then_some(Self(bucket))
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        let (kind, number) = match number.checked_sub(ORDINAL_BUCKETS) {
            None => (BY_ORDINAL, number * ORDINALS),
            Some(hash) => (BY_HASH, hash),
        };
        write!(f, "{kind}{number}")
    }
}

/// The number at the end of a Pod's name, as a StatefulSet gives it.
fn ordinal(pod: &str) -> Option<u32> {
    let (_, number) = pod.rsplit_once('-')?;
    if is_number(number) { number.parse().ok() } else { None }
}

/// Whether a text is a number without a sign and leading zeros.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}

/// The hash FNV-1a with 32 bits.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

//! The version of the compact form.

use super::damaged::Damaged;

/// The version of the form that [`packed`](super) describes. An object that has another one is not
/// read.
pub const VERSION: i32 = 1;

/// Checks the version that an object in the compact form has.
pub fn check_version(version: Option<i64>) -> Result<(), Damaged> {
    match version {
        Some(version) if version == i64::from(VERSION) => Ok(()),
        Some(version) if version > i64::from(VERSION) => Err(Damaged::NewerVersion(version)),
        Some(version) => Err(Damaged::Content(format!(
            "status.packed.version is {version}, which no release writes: it must be {VERSION}"
        ))),
        None => Err(Damaged::Content("status.packed.version is missing".into())),
    }
}

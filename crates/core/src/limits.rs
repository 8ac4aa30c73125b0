//! The limits on everything that a user writes. The schema, the validation, the plan and the sidecar use the same
//! numbers. Each is far above what real use needs.

/// Keys in one topology term.
pub const MAX_TOPOLOGY_KEYS: usize = 64;
/// Preferred topology terms in one PPS.
pub const MAX_PREFERRED_TERMS: usize = 64;
/// Annotations that one PPS persists.
pub const MAX_ANNOTATIONS: usize = 128;
/// Characters in a label or annotation key: a prefix of 253, a slash, and a name of 63.
pub const MAX_KEY_LENGTH: usize = 317;
/// Characters in the name of an object.
pub const MAX_NAME_LENGTH: usize = 253;
/// Characters in an API version: a group of 253, a slash, and a version of 63.
pub const MAX_API_VERSION_LENGTH: usize = 317;
/// Characters in a kind.
pub const MAX_KIND_LENGTH: usize = 63;
/// Errors or warnings that one answer lists. It says how many more there are.
pub const MAX_MESSAGES: usize = 20;

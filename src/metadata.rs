//! What Kubewarden reads about the module.

/// The policy's metadata for Kubewarden: `policy-metadata.yml` as JSON.
pub const METADATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

// Without `#[used]`: the section is written all the same, and the module has no second copy among
// its data.
#[cfg(target_arch = "wasm32")]
#[expect(
    unsafe_code,
    reason = "a link section becomes a custom section of the module"
)]
#[expect(dead_code, reason = "the host reads the section")]
#[unsafe(link_section = "io.kubewarden.metadata")]
static METADATA_SECTION: [u8; METADATA.len()] =
    *include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

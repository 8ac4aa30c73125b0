//! The link that opens the playground with a scenario.

use std::io::Write;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The fragment of a link to the playground: the scenario's JSON, compressed (raw DEFLATE), in base64url.
pub fn fragment(scenario: &str) -> Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(scenario.as_bytes())?;
    Ok(URL_SAFE_NO_PAD.encode(encoder.finish()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;

    use super::*;

    #[test]
    fn a_fragment_is_the_compressed_scenario() {
        let scenario = r#"{"version":1,"objects":"…"}"#;
        let packed = URL_SAFE_NO_PAD.decode(fragment(scenario).unwrap()).unwrap();
        let mut text = String::new();
        DeflateDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, scenario);
    }
}

//! The link that opens the playground with a scenario. `playground/js/link.js` describes the format.

use std::io::Write;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The page reads no more characters of a fragment.
const MAX_DATA: usize = 64 * 1024;

/// The fragment of a link to the playground: the scenario's JSON, compressed (raw DEFLATE), in base64url.
pub fn fragment(scenario: &str) -> Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(scenario.as_bytes())?;
    let data = URL_SAFE_NO_PAD.encode(encoder.finish()?);
    ensure!(data.len() <= MAX_DATA, "the example is too long for a link: it needs {} characters", data.len());
    Ok(format!("scenario={data}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;

    use super::*;

    #[test]
    fn a_fragment_is_the_compressed_scenario() {
        let scenario = r#"{"version":1,"objects":"…"}"#;
        let fragment = fragment(scenario).unwrap();
        let packed = URL_SAFE_NO_PAD.decode(fragment.strip_prefix("scenario=").unwrap()).unwrap();
        let mut text = String::new();
        DeflateDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, scenario);
    }

    #[test]
    fn what_the_page_would_not_read_is_refused() {
        // Does not compress: each letter depends on all before it.
        let mut state = 1_u32;
        let mut letters = String::new();
        for _ in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            letters.push(char::from(b'a' + u8::try_from((state >> 24) % 26).unwrap()));
        }
        let error = fragment(&letters).unwrap_err().to_string();
        assert!(error.starts_with("the example is too long for a link"), "{error}");
    }
}

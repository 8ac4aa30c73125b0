//! Turns the bytes of a file into text, and knows which characters of a text are not shown.

/// The text of a file that some editor or shell has written: UTF-8, or UTF-16 with a byte order
/// mark, as PowerShell's `>` writes it.
pub fn decode(bytes: &[u8]) -> Result<String, String> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes)?,
        _ => match std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)) {
            Ok(text) => text.to_owned(),
            Err(error) => {
                let line = 1 + bytes
                    .iter()
                    .take(error.valid_up_to())
                    .filter(|byte| **byte == b'\n')
                    .count();
                return Err(format!(
                    "line {line} is not UTF-8: use a text file with YAML or JSON"
                ));
            }
        },
    };
    if text.contains('\0') {
        return Err("this is a binary file: use a text file with YAML or JSON".into());
    }
    Ok(text)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let text: Option<String> = char::decode_utf16(units).map(Result::ok).collect();
    text.filter(|_| rest.is_empty())
        .ok_or_else(|| "this is not valid UTF-16, with which it begins: save it as UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_editors_and_shells_write_it() {
        let utf16 = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            mark.into_iter()
                .chain("kind: ü😀\r\n".encode_utf16().flat_map(bytes))
                .collect()
        };
        for bytes in [
            "kind: ü😀\r\n".as_bytes().to_vec(),
            b"\xef\xbb\xbf"
                .iter()
                .copied()
                .chain("kind: ü😀\r\n".bytes())
                .collect(),
            utf16([0xff, 0xfe], u16::to_le_bytes),
            utf16([0xfe, 0xff], u16::to_be_bytes),
        ] {
            assert_eq!(decode(&bytes).as_deref(), Ok("kind: ü😀\r\n"), "{bytes:?}");
        }
        assert_eq!(decode(b"").as_deref(), Ok(""));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for (bytes, word) in [
            (&b"a\nb\xff"[..], "line 2 is not UTF-8"),
            (b"a\0b", "binary"),
            (b"\xff\xfea", "UTF-16"),
            (b"\xff\xfe\x00\xd8", "UTF-16"),
            (b"\x7fELF\x02\x01\x01\x00", "binary"),
        ] {
            let error = decode(bytes).unwrap_err();
            assert!(error.contains(word), "{bytes:?}: {error}");
        }
    }
}

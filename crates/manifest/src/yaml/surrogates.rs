//! The one thing of JSON that is not YAML: a character beyond the first 65536 as a pair of escapes, `\ud83d\ude00`.

/// The text with each such pair as one escape of YAML. None if there is none.
pub(super) fn without(text: &str) -> Option<String> {
    let mut replaced = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        replaced.push_str(&rest[..at]);
        // What is escaped otherwise is skipped, so that a backslash that is itself escaped begins nothing.
        let (length, pair) = match pair(escape) {
            Some(character) => (12, Some(character)),
            None => (1 + escape[1..].chars().next().map_or(0, char::len_utf8), None),
        };
        match pair {
            Some(character) => {
                replaced.push_str("\\U");
                replaced.push_str(&hexadecimal(character));
                found = true;
            }
            None => replaced.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    replaced.push_str(rest);
    found.then_some(replaced)
}

/// The character for which the text begins with two escapes.
fn pair(text: &str) -> Option<char> {
    let unit = |at: usize| u16::from_str_radix(text.get(at..)?.strip_prefix("\\u")?.get(..4)?, 16).ok();
    char::decode_utf16([unit(0)?, unit(6)?]).next()?.ok().filter(|character| character.len_utf16() == 2)
}

/// Eight digits, as YAML needs them.
fn hexadecimal(character: char) -> String {
    let number = u32::from(character);
    (0..8).rev().filter_map(|digit| char::from_digit(number >> (4 * digit) & 15, 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_becomes_one_escape_and_all_else_stays() {
        assert_eq!(
            without(r#"{"a": "x\ud83d\ude00y \n \ud83d"}"#).as_deref(),
            Some(r#"{"a": "x\U0001f600y \n \ud83d"}"#)
        );
        for text in [
            "",
            "\\",
            "ä\\ä",
            r"\\ud83d\ude00",
            r"\ud83d\\ude00",
            r"\ud83d\u0041",
            r"\u0041\u0042",
            r"\ud83d\u",
        ] {
            assert_eq!(without(text), None, "{text}");
        }
    }
}

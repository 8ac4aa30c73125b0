//! Values as words of printable ASCII.

use std::borrow::Cow;

/// The word for an empty value.
pub(super) const EMPTY: &str = "%";
/// The word for a label or annotation that a Pod does not have.
pub(super) const ABSENT: &str = "-";
/// The word for a label that is the name of the node.
pub(super) const SAME_AS_NODE: &str = "=";
/// What the head of a column of labels begins with; its key follows.
pub(super) const LABEL: &str = "label:";
/// What the head of a column of annotations begins with; its key follows.
pub(super) const ANNOTATION: &str = "annotation:";
/// What has a meaning of its own in the first line.
pub(super) const SPECIAL: &[u8] = b"*=";

/// Whether a value may stand for several: in the first line for those of a column, in the node's
/// column for labels. A bucket with longer ones is not read: a short text must not stand for very
/// many bytes.
pub(super) fn is_short(value: &str) -> bool {
    value.len() <= 256
}

/// Appends a text. Every byte that is no printable ASCII, every `%`, and those in `also` are
/// escaped.
pub(super) fn escape(text: &str, also: &[u8], to: &mut String) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' && !also.contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push('%');
            to.push(DIGITS[usize::from(byte >> 4)]);
            to.push(DIGITS[usize::from(byte & 15)]);
        }
    }
}

/// Appends the cell of a value.
pub(super) fn write_cell(value: &str, to: &mut String) {
    match value {
        "" => to.push_str(EMPTY),
        // They have a meaning of their own.
        ABSENT | SAME_AS_NODE => escape(value, value.as_bytes(), to),
        _ => escape(value, b"", to),
    }
}

/// Reads what [`escape`] wrote; nothing if it cannot have written that.
pub(super) fn unescape(word: &str) -> Option<Cow<'_, str>> {
    if !word.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    if !word.contains('%') {
        return Some(Cow::Borrowed(word));
    }
    let mut parts = word.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part
            .get(..2)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Reads what [`write_cell`] wrote for a value.
pub(super) fn read_cell(cell: &str) -> Option<Cow<'_, str>> {
    match cell {
        EMPTY => Some(Cow::Borrowed("")),
        "" | ABSENT | SAME_AS_NODE => None,
        _ => unescape(cell),
    }
}

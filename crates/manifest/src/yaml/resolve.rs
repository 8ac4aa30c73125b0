//! What a scalar means: the rules of `sigs.k8s.io/yaml`, which all of Kubernetes reads YAML with.

use serde_json::{Number, Value};

pub(super) enum Scalar {
    Value(Value),
    /// A number that JSON cannot hold.
    NotJson,
    /// Not a value of its tag, such as `!!int`.
    NotOfTag,
}

/// Reads a scalar. `tag` is that of YAML's core schema; a quoted scalar has the tag `str`.
pub(super) fn resolve(text: &str, tag: Option<&str>) -> Scalar {
    let string = Scalar::Value(text.into());
    match tag {
        None => plain(text).unwrap_or(string),
        Some("null") if text.is_empty() => Scalar::Value(Value::Null),
        Some(tag @ ("null" | "bool" | "int" | "float")) => match plain(text) {
            Some(Scalar::Value(value)) if fits(tag, &value) => Scalar::Value(value),
            Some(Scalar::NotJson) if tag == "float" => Scalar::NotJson,
            _ => Scalar::NotOfTag,
        },
        Some(_) => string,
    }
}

/// Whether every reader takes a plain scalar for a string. Some know the numbers of YAML 1.2, and
/// dates.
pub(crate) fn is_read_as_string(text: &str) -> bool {
    plain(text).is_none()
        && text != "="
        && text.parse::<f64>().is_err()
        && (!text.starts_with(|c: char| c.is_ascii_digit()) || text.contains(['.', '/', ':']))
}

fn fits(tag: &str, value: &Value) -> bool {
    match tag {
        "null" => value.is_null(),
        "bool" => value.is_boolean(),
        "int" => value.is_i64() || value.is_u64(),
        _ => value.is_number(),
    }
}

/// JSON knows only strings as keys.
pub(super) fn key_text(key: Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(key.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The value of a plain scalar; none if it is a string.
fn plain(text: &str) -> Option<Scalar> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => return Some(Scalar::NotJson),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
            return number(text);
        }
        _ => return None,
    };
    Some(Scalar::Value(value))
}

fn number(text: &str) -> Option<Scalar> {
    let digits = if text.starts_with('.') {
        text.to_owned()
    } else {
        text.replace('_', "")
    };
    let float = match integer(&digits) {
        Some(integer) => match i64::try_from(integer) {
            Ok(integer) => return Some(Scalar::Value(integer.into())),
            // All of Kubernetes reads JSON's larger numbers as floating-point numbers.
            #[expect(clippy::cast_precision_loss, reason = "that is what happens to them")]
            Err(_) => integer as f64,
        },
        None if digits
            .bytes()
            .all(|byte| b"0123456789+-.eE".contains(&byte)) =>
        {
            digits.parse().ok()?
        }
        None => return None,
    };
    // As Go writes it into JSON: 1.0 becomes 1. A number that is out of range remains a string.
    let number = if float.fract() == 0.0 && float.abs() < 1e21 {
        serde_json::from_str(&float.to_string()).ok()
    } else {
        Number::from_f64(float)
    };
    number.map(|number| Scalar::Value(Value::Number(number)))
}

/// An integer of 64 bits in Go's notation: `0x`, `0o`, `0b`, or a leading zero for octal numbers.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let integer = sign * i128::from(u64::from_str_radix(digits, radix).ok()?);
    (integer >= i128::from(i64::MIN)).then_some(integer)
}

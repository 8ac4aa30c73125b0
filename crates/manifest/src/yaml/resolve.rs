//! What a scalar means: the rules of `sigs.k8s.io/yaml`, which all of Kubernetes reads YAML with.

use serde_json::Value;

/// What a scalar means.
pub(super) enum Scalar {
    Value(Value),
    /// A number that JSON cannot hold.
    NotJson,
    /// It has a tag such as `!!int` and is none.
    NotOfTag,
}

/// Reads a scalar. `tag` is that of YAML's core schema; a quoted scalar has the tag `str`.
pub(super) fn resolve(text: &str, tag: Option<&str>) -> Scalar {
    let string = || Scalar::Value(text.into());
    match tag {
        None => plain(text).unwrap_or_else(string),
        Some("null") if text.is_empty() => Scalar::Value(Value::Null),
        Some(tag @ ("null" | "bool" | "int" | "float")) => match plain(text) {
            Some(Scalar::Value(value)) if fits(tag, &value) => Scalar::Value(value),
            Some(Scalar::NotJson) if tag == "float" => Scalar::NotJson,
            _ => Scalar::NotOfTag,
        },
        Some(_) => string(),
    }
}

/// Whether a plain scalar is a string.
pub(crate) fn is_read_as_string(text: &str) -> bool {
    plain(text).is_none() && !is_read_differently_elsewhere(text)
}

/// What other readers take for something else: numbers of YAML 1.2, and dates.
fn is_read_differently_elsewhere(text: &str) -> bool {
    text == "="
        || text.parse::<f64>().is_ok()
        || text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(['.', '/', ':'])
}

fn fits(tag: &str, value: &Value) -> bool {
    match tag {
        "null" => value.is_null(),
        "bool" => value.is_boolean(),
        "int" => value.is_i64() || value.is_u64(),
        _ => value.is_number(),
    }
}

/// A key is a string in JSON, whatever it is in YAML.
pub(super) fn key_text(key: Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(key.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What a plain scalar is, unless it is a string.
fn plain(text: &str) -> Option<Scalar> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Some(Scalar::NotJson),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => return number(text),
        _ => return None,
    };
    Some(Scalar::Value(value))
}

fn number(text: &str) -> Option<Scalar> {
    let digits = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    if let Some(integer) = integer(&digits) {
        return match i64::try_from(integer) {
            Ok(integer) => Some(Scalar::Value(integer.into())),
            // All of Kubernetes reads JSON's larger numbers as floating-point numbers.
            #[expect(clippy::cast_precision_loss, reason = "that is what happens to them")]
            Err(_) => float_value(integer as f64),
        };
    }
    if !is_float(&digits) {
        return None;
    }
    // A number that is out of range remains a string.
    digits.parse().ok().filter(|float: &f64| float.is_finite()).and_then(float_value)
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

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exponent.is_none_or(|digits| !digits.is_empty() && all_digits(digits))
        && all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
}

/// A float as Go writes it into JSON: 1.0 becomes 1.
fn float_value(float: f64) -> Option<Scalar> {
    let magnitude = float.abs();
    let text = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        if text.contains("e-") { text } else { text.replace('e', "e+") }
    } else {
        float.to_string()
    };
    serde_json::from_str(&text).ok().map(|number| Scalar::Value(Value::Number(number)))
}

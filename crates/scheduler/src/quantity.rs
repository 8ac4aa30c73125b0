//! Kubernetes' quantities: `100m`, `1.5Gi`, `2e3`.

use serde_json::Value;

const NANO: i128 = 1_000_000_000;
/// Digits beyond these are not read: the product must fit into 128 bits.
const MAX_DIGITS: usize = 18;
/// Each stands for a thousand times the one before.
const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// A quantity in units of 1/`parts`, rounded up: 1,000 parts read CPU in millicores. `None` if
/// Kubernetes would refuse the quantity.
pub(super) fn read(quantity: &Value, parts: i128) -> Option<i64> {
    let nano = match quantity {
        Value::String(text) => parse(text)?,
        Value::Number(number) => parse(&number.to_string())?,
        _ => return None,
    };
    Some(i64::try_from(divided(nano, NANO / parts)).unwrap_or(i64::MAX))
}

/// In units of 10⁻⁹.
fn parse(text: &str) -> Option<i128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty())
        || fraction.contains('.')
        || whole.len() > MAX_DIGITS
    {
        return None;
    }
    let nano: i128 = format!("{whole}{fraction:0<9.9}").parse().ok()?;
    if let Some(letter) = suffix.strip_suffix('i').filter(|letter| letter.len() == 1) {
        return nano.checked_mul(1 << (10 * ("KMGTPE".find(letter)? + 1)));
    }
    let exponent: i32 = match suffix.strip_prefix(['e', 'E']) {
        Some(exponent) if !exponent.is_empty() => exponent.parse().ok()?,
        _ => 3 * i32::try_from(SUFFIXES.iter().position(|one| *one == suffix)?).ok()? - 9,
    };
    let factor = 10_i128.checked_pow(exponent.unsigned_abs());
    if exponent < 0 {
        Some(factor.map_or(0, |factor| divided(nano, factor)))
    } else {
        nano.checked_mul(factor?)
    }
}

/// The quotient, rounded up, as Kubernetes rounds.
fn divided(nano: i128, divisor: i128) -> i128 {
    nano.div_euclid(divisor) + i128::from(nano.rem_euclid(divisor) > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The values are those of `resource.ParseQuantity`.
    #[test]
    fn quantities_are_read_as_kubernetes_does() {
        for (quantity, units, thousandths) in [
            (json!("100m"), 1, 100),
            (json!("1"), 1, 1000),
            (json!(2), 2, 2000),
            (json!(0.5), 1, 500),
            (json!("1.5Gi"), 1_610_612_736, 1_610_612_736_000),
            (json!("128974848"), 128_974_848, 128_974_848_000),
            (json!("129e6"), 129_000_000, 129_000_000_000),
            (json!("129M"), 129_000_000, 129_000_000_000),
            (json!("123Mi"), 128_974_848, 128_974_848_000),
            (json!("1E"), 1_000_000_000_000_000_000, i64::MAX),
            (json!("100u"), 1, 1),
            (json!("1n"), 1, 1),
            (json!("5e-1"), 1, 500),
            (json!(".5"), 1, 500),
            (json!("+3"), 3, 3000),
        ] {
            let read = read(&quantity, 1).zip(read(&quantity, 1000));
            assert_eq!(read, Some((units, thousandths)), "{quantity}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_nothing() {
        for quantity in [
            json!(""),
            json!("."),
            json!("x"),
            json!("1.2.3"),
            json!("1Qi"),
            json!("-1"),
            json!(null),
            json!([]),
        ] {
            assert!(read(&quantity, 1).is_none(), "{quantity}");
        }
        assert!(read(&json!("9".repeat(100)), 1).is_none());
        assert!(read(&json!("9e99999"), 1).is_none());
    }
}

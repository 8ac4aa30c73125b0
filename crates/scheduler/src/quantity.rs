//! Kubernetes' quantities: `100m`, `1.5Gi`, `2e3`.

use serde_json::Value;

/// A quantity in units of 10⁻⁹, so that all suffixes are whole numbers.
#[derive(Clone, Copy)]
pub(super) struct Quantity(i128);

const NANO: i128 = 1_000_000_000;
/// Digits beyond these are not read: the product must fit into 128 bits.
const MAX_DIGITS: usize = 18;

impl Quantity {
    /// Reads a text or a number. Nothing if Kubernetes would refuse it.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_empty = whole.is_empty() && fraction.is_empty();
        if is_empty || fraction.contains('.') || whole.len() > MAX_DIGITS {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(9)];
        let mut nano = format!("{whole}{fraction}").parse::<i128>().ok()?;
        for _ in fraction.len()..9 {
            nano *= 10;
        }
        scale(nano, suffix).map(Self)
    }

    pub(super) fn units(self) -> i64 {
        rounded_up(self.0, NANO)
    }

    pub(super) fn thousandths(self) -> i64 {
        rounded_up(self.0, NANO / 1000)
    }
}

fn scale(nano: i128, suffix: &str) -> Option<i128> {
    let binary = |power: u32| nano.checked_mul(1 << (10 * power));
    let decimal = |power: u32| 10_i128.checked_pow(power).and_then(|factor| nano.checked_mul(factor));
    match suffix {
        "" => Some(nano),
        "n" => Some(divided(nano, NANO)),
        "u" => Some(divided(nano, 1_000_000)),
        "m" => Some(divided(nano, 1000)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            match u32::try_from(power) {
                Ok(power) => decimal(power),
                Err(_) => 10_i128
                    .checked_pow(power.unsigned_abs())
                    .map_or(Some(0), |divisor| Some(divided(nano, divisor))),
            }
        }
    }
}

/// The quotient, rounded up, as Kubernetes rounds.
fn divided(nano: i128, divisor: i128) -> i128 {
    nano.div_euclid(divisor) + i128::from(nano.rem_euclid(divisor) > 0)
}

fn rounded_up(nano: i128, unit: i128) -> i64 {
    i64::try_from(divided(nano, unit)).unwrap_or(i64::MAX)
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
            let read = Quantity::of(&quantity).map(|quantity| (quantity.units(), quantity.thousandths()));
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
            assert!(Quantity::of(&quantity).is_none(), "{quantity}");
        }
        assert!(Quantity::of(&json!("9".repeat(100))).is_none());
        assert!(Quantity::of(&json!("9e99999")).is_none());
    }
}

//! Amounts as people write them: `2G`, `512MiB`, `1.5T`, `50k` inodes.

use std::fmt;

/// An amount that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmountError {
    /// Below zero.
    Negative,
    /// Above 2^63 - 1.
    TooLarge,
    /// A part of a byte or of an inode.
    Fraction,
    /// Not a number with a unit, of these.
    Unknown(&'static str),
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AmountError::Negative => f.write_str("an amount is not negative; give 0 or more"),
            AmountError::TooLarge => write!(f, "above {}; give a smaller amount", i64::MAX),
            AmountError::Fraction => f.write_str("not a whole amount; give it in a smaller unit"),
            AmountError::Unknown(units) => write!(f, "give a number with a unit of {units}"),
        }
    }
}

impl std::error::Error for AmountError {}

/// Bytes: `65536`, `64k`, `64K`, `64KiB`, `1.5G`, `2T` in powers of 1,024; `64kB`, `2GB` in powers
/// of 1,000.
///
/// ```
/// assert_eq!(hearth::amount::bytes("512MiB"), Ok(512 << 20));
/// assert_eq!(hearth::amount::bytes("2GB"), Ok(2_000_000_000));
/// ```
///
/// # Errors
/// What is wrong with it.
pub fn bytes(text: &str) -> Result<u64, AmountError> {
    parse(text, "B, K, M, G, T, P, KiB to PiB or KB to PB", |unit| {
        let unit = unit.to_ascii_lowercase();
        let (power, base) = match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
            (Some(power), _) => (power, 1024),
            (None, Some("")) => ("", 1),
            (None, Some(power)) => (power, 1000),
            (None, None) => (&*unit, 1024),
        };
        scale(power, base)
    })
}

/// Counts of things, such as inodes: `5000`, `50k`, `1.5m`, `1g` in powers of 1,000, as
/// `setquota(8)` reads them; `64ki`, `1mi` in powers of 1,024.
///
/// ```
/// assert_eq!(hearth::amount::count("50k"), Ok(50_000));
/// ```
///
/// # Errors
/// What is wrong with it.
pub fn count(text: &str) -> Result<u64, AmountError> {
    parse(text, "k, m, g, t or ki, mi, gi, ti", |unit| {
        let unit = unit.to_ascii_lowercase();
        match unit.strip_suffix('i') {
            Some("") => None,
            Some(power) => scale(power, 1024),
            None => scale(&unit, 1000),
        }
    })
}

/// Seconds: `90`, `90s`, `30m`, `12h`, `7d`, `7days`, `2w`.
///
/// ```
/// assert_eq!(hearth::amount::seconds("7d"), Ok(7 * 24 * 60 * 60));
/// ```
///
/// # Errors
/// What is wrong with it.
pub fn seconds(text: &str) -> Result<u64, AmountError> {
    parse(text, "s, m, h, d or w", |unit| match unit {
        "" | "s" | "second" | "seconds" => Some(1),
        "m" | "min" | "minute" | "minutes" => Some(60),
        "h" | "hour" | "hours" => Some(60 * 60),
        "d" | "day" | "days" => Some(24 * 60 * 60),
        "w" | "week" | "weeks" => Some(7 * 24 * 60 * 60),
        _ => None,
    })
}

fn scale(power: &str, base: u64) -> Option<u64> {
    let exponent = match power {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some(base.pow(exponent))
}

/// Exact: nothing is rounded, and what is above the largest size of a file is refused.
fn parse(
    text: &str,
    units: &'static str,
    unit: impl Fn(&str) -> Option<u64>,
) -> Result<u64, AmountError> {
    let text = text.trim();
    let negative = text.strip_prefix('-');
    let text = negative.unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, name) = text.split_at(end.unwrap_or(text.len()));
    let unknown = AmountError::Unknown(units);
    let Some(scale) = unit(name.trim()) else {
        return Err(unknown);
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let dotted = number.contains('.');
    if whole.is_empty() || part.contains('.') || (dotted && part.is_empty()) {
        return Err(unknown);
    }
    if negative.is_some() {
        return Err(AmountError::Negative);
    }
    // More digits behind the point than any unit has would not fit.
    let part = part.trim_end_matches('0');
    if part.len() > 18 {
        return Err(AmountError::Fraction);
    }
    let whole: u64 = whole.parse().map_err(|_| AmountError::TooLarge)?;
    let tens = 10_u128.pow(part.len() as u32);
    let part: u64 = match part {
        "" => 0,
        part => part.parse().map_err(|_| AmountError::Fraction)?,
    };
    let parts = u128::from(whole)
        .checked_mul(tens)
        .and_then(|parts| (parts + u128::from(part)).checked_mul(u128::from(scale)))
        .ok_or(AmountError::TooLarge)?;
    if parts % tens != 0 {
        return Err(AmountError::Fraction);
    }
    match i64::try_from(parts / tens) {
        Ok(amount) => Ok(amount as u64),
        Err(_) => Err(AmountError::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, amount) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("64k", 64 << 10),
            ("64K", 64 << 10),
            ("64kib", 64 << 10),
            ("64 MiB", 64 << 20),
            ("64MB", 64_000_000),
            ("2G", 2 << 30),
            ("1.5G", 3 << 29),
            ("0.25KiB", 256),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(bytes(text), Ok(amount), "{text}");
        }
        for (text, amount) in [("5000", 5000), ("50k", 50_000), ("1.5m", 1_500_000)] {
            assert_eq!(count(text), Ok(amount), "{text}");
        }
        assert_eq!(
            (count("64ki"), count("1G")),
            (Ok(65_536), Ok(1_000_000_000))
        );
        assert_eq!((seconds("90"), seconds("12h")), (Ok(90), Ok(43_200)));
        assert_eq!((seconds("7days"), seconds("0.5h")), (Ok(604_800), Ok(1800)));
    }

    #[test]
    fn what_is_no_amount_is_refused_with_what_would_be_one() {
        for text in [
            "", "k", "1x", "x1", "1..2", ".5G", "1.G", "1kk", "0x10", "1e3", "ib",
        ] {
            assert!(
                matches!(bytes(text), Err(AmountError::Unknown(_))),
                "{text}"
            );
            assert!(
                matches!(count(text), Err(AmountError::Unknown(_))),
                "{text}"
            );
        }
        for text in ["-1", "-5G", "-0.5k"] {
            assert_eq!(bytes(text), Err(AmountError::Negative), "{text}");
        }
        for text in [
            "9223372036854775808",
            "8192P",
            "99999999999999999999999",
            "9223372036854775807k",
        ] {
            assert_eq!(bytes(text), Err(AmountError::TooLarge), "{text}");
        }
        assert_eq!(bytes("7.50"), Err(AmountError::Fraction));
        assert_eq!(bytes("0.3k"), Err(AmountError::Fraction));
        assert_eq!(count("0.0001k"), Err(AmountError::Fraction));
        assert_eq!(seconds("7y"), Err(AmountError::Unknown("s, m, h, d or w")));
    }
}

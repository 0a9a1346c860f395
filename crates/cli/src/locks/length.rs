//! A length of time as it is typed.

use std::time::Duration;

/// The shortest recording: what is passed on is in milliseconds.
const LEAST: Duration = Duration::from_millis(1);
/// The longest recording.
const MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// `10s`, `500ms`, `2m`, `1h`; a number alone is seconds.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn length(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("give a number with ms, s, m or h, such as 10s".to_owned()),
    };
    let seconds: f64 = number
        .parse()
        .map_err(|_| "give a number with ms, s, m or h, such as 10s".to_owned())?;
    match Duration::try_from_secs_f64(seconds * scale) {
        Ok(length) if (LEAST..=MOST).contains(&length) => Ok(length),
        _ => Err("give a time from 1ms to 24h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, ms) in [
            ("10s", 10_000),
            ("3", 3_000),
            ("250ms", 250),
            ("1.5m", 90_000),
        ] {
            assert_eq!(length(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_be_right() {
        for text in ["", "s", "10x", "1 s", "-1s", "1e3", "..s"] {
            assert!(length(text).is_err_and(|why| why.contains("10s")), "{text}");
        }
        for text in ["0s", "0ms", "0.5ms", "25h", "99999999999999999999999s"] {
            assert!(length(text).is_err_and(|why| why.contains("24h")), "{text}");
        }
    }
}

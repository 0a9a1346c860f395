//! Tunables that belong to the volume, as settings.

use super::key::{TUNABLE, key, name_in};
use super::words::{Undecodable, Words, WordsBuf};
use std::time::Duration;

/// A tunable of the heat and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeatTunable {
    /// Seconds between two passes of ageing.
    Interval(u64),
    /// MiB that records of heat may take.
    Memory(u64),
    /// The short and the long half-life.
    HalfLives([Duration; 2]),
}

/// Key and value.
pub(super) fn encode(tunable: HeatTunable) -> (Box<[u8]>, Option<Box<[u8]>>) {
    let words = WordsBuf::new();
    let (name, words) = match tunable {
        HeatTunable::Interval(seconds) => (INTERVAL, words.put("seconds", seconds)),
        HeatTunable::Memory(mib) => (MEMORY, words.put("mib", mib)),
        HeatTunable::HalfLives([short, long]) => {
            let words = words.put("short-ms", short.as_millis());
            (HALF_LIVES, words.put("long-ms", long.as_millis()))
        }
    };
    (key(TUNABLE, name), words.finish())
}

/// What a setting says of a tunable; `None` for one of another kind, or of a newer program.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Result<HeatTunable, Undecodable>> {
    let read: fn(&Words<'_>) -> Result<HeatTunable, Undecodable> = match name_in(key, TUNABLE)? {
        INTERVAL => |words| words.need("seconds").map(HeatTunable::Interval),
        MEMORY => |words| words.need("mib").map(HeatTunable::Memory),
        HALF_LIVES => |words| {
            let millis = |name| words.need(name).map(Duration::from_millis);
            Ok(HeatTunable::HalfLives([
                millis("short-ms")?,
                millis("long-ms")?,
            ]))
        },
        _ => return None,
    };
    Some(Words::of(value).and_then(|words| read(&words)))
}

const INTERVAL: &str = "hot-update-interval";
const MEMORY: &str = "hot-mem-high-thresh";
const HALF_LIVES: &str = "hot-half-lives";

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn tunables_are_read_as_they_were() {
        let lives = [1500, 4000].map(Duration::from_millis);
        for tunable in [
            HeatTunable::Interval(60),
            HeatTunable::Memory(0),
            HeatTunable::HalfLives(lives),
        ] {
            let (key, value) = encode(tunable);
            assert_eq!(decode(&key, &value.expect("a value")), Some(Ok(tunable)));
        }
        assert_eq!(decode(b"tune/later", b"1 x=1"), None);
        assert_eq!(
            decode(b"tune/hot-mem-high-thresh", b"1"),
            Some(Err(Undecodable))
        );
    }
}

//! Records of the pax format: `LENGTH KEY=VALUE`, any number of them before a member.

use super::error::StreamFault;
use hearth_backend::Time;

/// Records, in the order in which they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(Vec<(Vec<u8>, Vec<u8>)>);

impl Records {
    /// Adds a record.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.0
            .push((key.as_ref().to_vec(), value.as_ref().to_vec()));
    }

    /// Adds a record with a number.
    pub fn put_number(&mut self, key: &str, value: impl std::fmt::Display) {
        self.put(key, value.to_string());
    }

    /// The last value of `key`.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let mut found = self.0.iter().rev().filter(|(k, _)| k == key.as_bytes());
        found.next().map(|(_, value)| &**value)
    }

    /// The number that `key` has, or `default` where there is no such record.
    ///
    /// # Errors
    /// Its value is no number of this type.
    pub fn number<N: std::str::FromStr>(
        &self,
        key: &'static str,
        default: N,
    ) -> Result<N, StreamFault> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or(StreamFault::Record { key }),
        }
    }

    /// The time that `key` has.
    ///
    /// # Errors
    /// Its value is no time.
    pub fn time(&self, key: &'static str) -> Result<Option<Time>, StreamFault> {
        let value = self.get(key);
        let time = |value| time(value).ok_or(StreamFault::Record { key });
        value.map(time).transpose()
    }

    /// Records whose key begins with `prefix`: the rest of the key, and the value.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let all = self.0.iter();
        all.filter_map(|(key, value)| Some((key.strip_prefix(prefix.as_bytes())?, &**value)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in &self.0 {
            let rest = key.len() + value.len() + 3; // space, equals sign, line end
            let mut len = rest;
            while len != rest + decimal_digits(len) {
                len = rest + decimal_digits(len);
            }
            bytes.extend_from_slice(format!("{len} ").as_bytes());
            bytes.extend_from_slice(key);
            bytes.push(b'=');
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
        }
        bytes
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// They are no records.
    pub fn decode(mut bytes: &[u8]) -> Result<Records, StreamFault> {
        let mut records = Records::default();
        while !bytes.is_empty() {
            let (record, rest) = first(bytes).ok_or(StreamFault::NoRecords)?;
            let equals = record.iter().position(|&byte| byte == b'=');
            let (key, value) = record.split_at(equals.ok_or(StreamFault::NoRecords)?);
            records.put(key, &value[1..]);
            bytes = rest;
        }
        Ok(records)
    }
}

/// The first record without its length and its line end, and what follows it.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|&byte| byte == b' ')?;
    let len: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let record = bytes.get(space + 1..len)?;
    let record = record.strip_suffix(b"\n")?;
    Some((record, &bytes[len..]))
}

fn decimal_digits(mut number: usize) -> usize {
    let mut digits = 1;
    while number >= 10 {
        number /= 10;
        digits += 1;
    }
    digits
}

/// A time as pax writes it: seconds, with the fraction behind a point.
pub fn time_text(time: Time) -> String {
    match (time.sec, time.nsec) {
        (sec, 0) => sec.to_string(),
        (sec, nsec) if sec < 0 => {
            // The fraction counts away from zero, as the seconds do.
            let (whole, fraction) = (-(sec + 1), 1_000_000_000 - nsec);
            format!("-{whole}.{fraction:09}")
        }
        (sec, nsec) => format!("{sec}.{nsec:09}"),
    }
}

fn time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !all_digits(digits) || !all_digits(fraction) {
        return None;
    }
    // With its sign: the first second of all is one more than there are behind zero.
    let sec: i64 = whole.parse().ok()?;
    let nsec: u32 = format!("{fraction:0<9.9}").parse().ok()?;
    if digits.len() == whole.len() || nsec == 0 {
        return Some(Time { sec, nsec });
    }
    Some(Time {
        sec: sec.checked_sub(1)?,
        nsec: 1_000_000_000 - nsec,
    })
}

/// An extended attribute's name as part of a key: GNU tar escapes what would end the key.
pub fn key_of_xattr(name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'%' => key.extend_from_slice(b"%25"),
            b'=' => key.extend_from_slice(b"%3D"),
            _ => key.push(byte),
        }
    }
    key
}

/// The inverse of [`key_of_xattr`].
pub fn xattr_of_key(key: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, behind) = match rest {
            [b'%', b'2', b'5', behind @ ..] => (b'%', behind),
            [b'%', b'3', b'D', behind @ ..] => (b'=', behind),
            _ => (byte, behind),
        };
        name.push(byte);
        rest = behind;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_whatever_is_in_them() {
        let mut records = Records::default();
        for len in [
            0, 1, 88, 89, 90, 91, 980, 981, 982, 990, 991, 992, 9_990, 70_000,
        ] {
            records.put(format!("key.{len}"), vec![b'\n'; len]);
        }
        records.put("binary", [0, 1, b'=', b'\n', 255]);
        assert_eq!(Records::decode(&records.encode()), Ok(records.clone()));
        assert_eq!(records.get("binary"), Some(&[0, 1, b'=', b'\n', 255][..]));
        assert_eq!(records.below("key.").count(), 14);
    }

    #[test]
    fn what_are_no_records_is_refused() {
        for bytes in [
            "x",
            "5 a=b\n",
            "7 a=b\n",
            "6 a=bc",
            "0 \n",
            "6 abc\n",
            "99999999999999999999 a=\n",
        ] {
            let read = Records::decode(bytes.as_bytes());
            assert_eq!(read, Err(StreamFault::NoRecords), "{bytes:?}");
        }
    }

    #[test]
    fn times_before_and_after_1970_keep_their_nanoseconds() {
        for (sec, nsec, text) in [
            (0, 0, "0"),
            (1, 5, "1.000000005"),
            (-1, 0, "-1"),
            (-1, 999_999_999, "-0.000000001"),
            (-2, 500_000_000, "-1.500000000"),
            (4_102_444_800, 999_999_999, "4102444800.999999999"),
            (i64::MIN, 0, "-9223372036854775808"),
            (i64::MIN, 1, "-9223372036854775807.999999999"),
            (i64::MIN, 999_999_999, "-9223372036854775807.000000001"),
            (i64::MAX, 0, "9223372036854775807"),
            (i64::MAX, 999_999_999, "9223372036854775807.999999999"),
        ] {
            assert_eq!(time_text(Time { sec, nsec }), text);
            assert_eq!(time(text.as_bytes()), Some(Time { sec, nsec }), "{text}");
        }
        let none = ["", ".", "-", "x", "1.x", "--1", "1.2.3", "+1", "-.5"];
        let too_far = ["-9223372036854775808.5", "9223372036854775808"];
        for text in none.into_iter().chain(too_far) {
            assert_eq!(time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_name_of_an_attribute_may_have_what_ends_a_key() {
        for name in [&b"user.a=b%c"[..], b"user.%25", b"user.x%3D", b"%"] {
            let key = key_of_xattr(name);
            assert!(!key.contains(&b'='));
            assert_eq!(xattr_of_key(&key), name);
        }
    }
}

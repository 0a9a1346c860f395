//! Values as bytes: integers in groups of seven bits, the lowest first, each but the last with its
//! top bit set; fractions as 32-bit floats, little-endian.

use super::words::Undecodable;

/// A value to be written.
#[derive(Default)]
pub(crate) struct BytesBuf(Vec<u8>);

impl BytesBuf {
    pub fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// 0 for none.
    pub fn put_some(&mut self, number: Option<u64>) {
        self.put(number.map_or(0, |number| number.saturating_add(1)));
    }

    pub fn put_fraction(&mut self, number: f64) {
        self.0.extend((number as f32).to_le_bytes());
    }

    pub fn finish(self) -> Box<[u8]> {
        self.0.into()
    }
}

/// A value to be read, from its beginning.
pub(crate) struct Bytes<'v>(pub &'v [u8]);

impl Bytes<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Undecodable)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Undecodable)
    }

    pub fn take_some(&mut self) -> Result<Option<u64>, Undecodable> {
        Ok(self.take()?.checked_sub(1))
    }

    /// A finite fraction that is not negative.
    pub fn take_fraction(&mut self) -> Result<f64, Undecodable> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Undecodable)?;
        self.0 = rest;
        let number = f32::from_le_bytes(*bytes);
        match number.is_finite() && number >= 0.0 {
            true => Ok(f64::from(number)),
            false => Err(Undecodable),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were() {
        let numbers = [0, 1, 127, 128, 1 << 35, u64::MAX];
        let mut value = BytesBuf::default();
        for number in numbers {
            value.put(number);
            value.put_some(Some(number / 2));
        }
        value.put_some(None);
        value.put_fraction(0.25);
        let value = value.finish();
        let mut bytes = Bytes(&value);
        for number in numbers {
            assert_eq!(bytes.take(), Ok(number));
            assert_eq!(bytes.take_some(), Ok(Some(number / 2)));
        }
        assert_eq!(bytes.take_some(), Ok(None));
        assert_eq!(bytes.take_fraction(), Ok(0.25));
        assert!(bytes.is_empty());
    }

    #[test]
    fn what_was_cut_off_and_what_is_no_number_is_not_read() {
        assert_eq!(Bytes(&[0x80; 3]).take(), Err(Undecodable));
        assert_eq!(Bytes(&[0xff; 20]).take(), Err(Undecodable));
        assert_eq!(Bytes(&[0; 3]).take_fraction(), Err(Undecodable));
        let nan = f32::NAN.to_le_bytes();
        assert_eq!(Bytes(&nan).take_fraction(), Err(Undecodable));
    }
}

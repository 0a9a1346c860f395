//! The records of `getdents64`.

/// One record: a name of a directory, and its type.
pub struct Record<'a> {
    pub name: &'a [u8],
    pub kind: u8,
}

/// The records in the buffer that the call filled, without `.` and `..`.
///
/// A record has its length in bytes 16 and 17, its type in byte 18, and its name from byte 19 on,
/// up to a NUL.
pub fn records(mut buffer: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*buffer.get(16)?, *buffer.get(17)?]));
        let (record, rest) = buffer.split_at_checked(length.max(20))?;
        buffer = rest;
        let name = record[19..].split(|&byte| byte == 0).next()?;
        Some(Record {
            name,
            kind: record[18],
        })
    })
    .filter(|record| record.name != b"." && record.name != b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &[u8], kind: u8) -> Vec<u8> {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let mut record = vec![0; length];
        record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        record[18] = kind;
        record[19..19 + name.len()].copy_from_slice(name);
        record
    }

    #[test]
    fn names_and_types_are_read_and_dots_left_out() {
        let listed = [
            record(b".", libc::DT_DIR),
            record(b"..", libc::DT_DIR),
            record(b"a", libc::DT_REG),
            record(b"a longer name", libc::DT_DIR),
        ]
        .concat();
        let found: Vec<_> = records(&listed)
            .map(|r| (r.name.to_vec(), r.kind))
            .collect();
        assert_eq!(
            found,
            [
                (b"a".to_vec(), libc::DT_REG),
                (b"a longer name".to_vec(), libc::DT_DIR)
            ]
        );
    }

    #[test]
    fn a_record_that_is_cut_short_ends_the_list() {
        let listed = record(b"name", libc::DT_REG);
        assert_eq!(records(&listed[..20]).count(), 0);
        assert_eq!(records(&[]).count(), 0);
    }
}

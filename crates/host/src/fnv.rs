//! The hash of Fowler, Noll and Vo (1a, 64 bits): the same on every machine and in every version,
//! since names and files on disk depend on it.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The hash of these bytes.
pub fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn hashes_are_those_of_its_inventors() {
        assert_eq!(super::fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(super::fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(super::fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }
}

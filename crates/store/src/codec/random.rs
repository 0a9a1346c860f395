//! Random bytes of the kernel.

/// Random bytes.
///
/// # Panics
/// Where the kernel gives none: without them no nonce and no key may be used.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("no random bytes from the kernel: {error}");
    }
    bytes
}

use super::*;
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn request(opcode: u32, args: &[u8], payload: &[u8], extlen: u16) -> Vec<u8> {
    let len = (size_of::<InHeader>() + args.len() + payload.len()) as u32;
    let header = InHeader {
        len,
        opcode,
        unique: 7,
        nodeid: 1,
        total_extlen: extlen,
        ..Default::default()
    };
    [header.as_bytes(), args, payload].concat()
}

#[test]
fn a_name_ends_at_its_nul() {
    let bytes = request(1, &[], b"abc\0rest", 0);
    let raw = RawRequest::from_buffer(&bytes, true).unwrap();
    assert!(matches!(
        raw.operation().unwrap(),
        Operation::Lookup { name: b"abc" }
    ));
}

#[test]
fn a_name_without_nul_and_an_empty_name_are_refused() {
    for payload in [&b"abc"[..], b"\0", b""] {
        let bytes = request(1, &[], payload, 0);
        let raw = RawRequest::from_buffer(&bytes, true).unwrap();
        assert_eq!(raw.operation().unwrap_err(), Errno::EINVAL);
    }
}

#[test]
fn an_unknown_number_is_enosys_so_that_the_kernel_stops_asking() {
    let bytes = request(9999, &[], &[], 0);
    assert_eq!(
        RawRequest::from_buffer(&bytes, true)
            .unwrap()
            .operation()
            .unwrap_err()
            .0,
        libc::ENOSYS
    );
}

#[test]
fn groups_come_from_the_extension_behind_the_name() {
    let ext = [
        &24u32.to_ne_bytes()[..],
        &EXT_GROUPS.to_ne_bytes(),
        &2u32.to_ne_bytes(),
        &[0; 0],
    ]
    .concat();
    let ext = [
        &ext[..],
        &100u32.to_ne_bytes(),
        &200u32.to_ne_bytes(),
        &[0; 4],
    ]
    .concat();
    let args = MkdirIn {
        mode: 0o755,
        umask: 0o22,
    };
    let bytes = request(9, args.as_bytes(), &[&b"new\0"[..], &ext].concat(), 3);
    let raw = RawRequest::from_buffer(&bytes, true).unwrap();
    assert_eq!(raw.groups().ids(), [100, 200]);
    assert!(matches!(
        raw.operation().unwrap(),
        Operation::Mkdir { name: b"new", .. }
    ));
}

#[test]
fn setxattr_has_two_lengths() {
    for (ext, args) in [(true, 16), (false, 8)] {
        let mut fixed = vec![0; args];
        fixed[0] = 3;
        let bytes = request(21, &fixed, b"user.a\0xyz", 0);
        let raw = RawRequest::from_buffer(&bytes, ext).unwrap();
        match raw.operation().unwrap() {
            Operation::Setxattr { name, value, .. } => {
                assert_eq!((name, value), (&b"user.a"[..], &b"xyz"[..]))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn data_shorter_than_announced_is_refused() {
    let args = WriteIn {
        size: 5,
        ..Default::default()
    };
    let bytes = request(16, args.as_bytes(), b"1234", 0);
    assert_eq!(
        RawRequest::from_buffer(&bytes, true)
            .unwrap()
            .operation()
            .unwrap_err(),
        Errno::EINVAL
    );
}

/// Lengths that agree with each other, everything else random: gets past the first checks.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop::sample::select(Opcode::ALL).prop_map(|op| op as u32);
    (opcode, prop::collection::vec(any::<u8>(), 0..600), 0u16..20)
        .prop_map(|(opcode, body, ext)| request(opcode, &body, &[], ext))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..700), ext: bool) {
        if let Some(raw) = RawRequest::from_buffer(&bytes, ext) {
            let _ = raw.operation();
            raw.groups();
        }
    }

    #[test]
    fn plausible_requests_never_panic(bytes in plausible(), ext: bool) {
        let raw = RawRequest::from_buffer(&bytes, ext).unwrap();
        if let Ok(operation) = raw.operation() {
            let text = format!("{operation:?}");
            prop_assert!(!text.is_empty());
        }
        prop_assert!(raw.groups().ids().len() <= 16);
    }
}

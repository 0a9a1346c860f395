use super::*;
use crate::primitive::rounds;

type Page = AtomicBytes<512>;

/// Bytes that differ from their neighbours and from zero.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((seed * 31 + i * 7) % 255) as u8 + 1)
        .collect()
}

fn bytes(page: &Page) -> Vec<u8> {
    let mut all = vec![0xee; Page::BYTES];
    page.read(0, &mut all);
    all
}

#[test]
fn every_small_range_reads_and_writes_like_a_byte_array() {
    // Miri takes half a second for each.
    let step = if cfg!(miri) { 7 } else { 1 };
    for off in (0..24).step_by(step) {
        for len in (0..40).step_by(step) {
            let page = Page::boxed();
            let mut model = pattern(off, Page::BYTES);
            page.write(0, &model);
            let new = pattern(off + len + 100, len);
            model[off..off + len].copy_from_slice(&new);
            page.write(off, &new);
            assert_eq!(bytes(&page), model, "write of {len} at {off}");
            let mut out = vec![0; len];
            page.read(off, &mut out);
            assert_eq!(out, new, "read of {len} at {off}");
            model[off..off + len].fill(0);
            page.zero(off..off + len);
            assert_eq!(bytes(&page), model, "zero of {len} at {off}");
            assert!(page.is_zero(off..off + len));
            assert!(!page.is_zero(off..off + len + 1));
            assert!(off == 0 || !page.is_zero(off - 1..off + len));
        }
    }
}

#[test]
fn a_new_buffer_has_the_given_bytes_and_zeros_around_them() {
    for (off, len) in [(0, 0), (0, Page::BYTES), (1, Page::BYTES - 1), (100, 2_000)] {
        let new = pattern(off, len);
        let mut model = vec![0; Page::BYTES];
        model[off..off + len].copy_from_slice(&new);
        assert_eq!(bytes(&Page::boxed_with(off, &new)), model, "{len} at {off}");
    }
}

#[test]
fn every_long_range_reads_and_writes_like_a_byte_array() {
    for off in [0, 1, 7, 8, 9, 64, 500] {
        for len in [
            500,
            504,
            511,
            512,
            513,
            520,
            1_000,
            3_000,
            Page::BYTES - off,
        ] {
            let page = Page::boxed();
            let mut model = pattern(off, Page::BYTES);
            page.write(0, &model);
            let new = pattern(off + len + 100, len + 3);
            // Neither side of a copy needs to be aligned.
            for shift in 0..3 {
                let new = &new[shift..][..len];
                model[off..off + len].copy_from_slice(new);
                page.write(off, new);
                assert_eq!(bytes(&page), model, "write of {len} at {off}");
                let mut out = vec![0; len + shift];
                page.read(off, &mut out[shift..]);
                assert_eq!(&out[shift..], new, "read of {len} at {off}");
            }
        }
    }
}

#[test]
fn an_access_past_the_last_byte_panics() {
    let page = Page::boxed();
    assert!(page.is_zero(0..Page::BYTES));
    page.write(Page::BYTES - 1, &[7]);
    assert!(!page.is_zero(0..Page::BYTES));
    assert!(page.is_zero(0..Page::BYTES - 1));
    for (off, len) in [(Page::BYTES, 1), (Page::BYTES - 1, 2), (usize::MAX, 2)] {
        let read = std::panic::catch_unwind(|| page.read(off, &mut vec![0; len]));
        assert!(read.is_err(), "{len} at {off}");
    }
    page.read(Page::BYTES, &mut []);
}

#[test]
fn concurrent_writes_to_neighbouring_bytes_are_not_lost() {
    let page = Page::boxed();
    std::thread::scope(|scope| {
        for byte in 0..4_usize {
            let page = &page;
            scope.spawn(move || {
                for round in 0..rounds(20_000) {
                    page.write(byte, &[round as u8]);
                    let mut out = [0];
                    page.read(byte, &mut out);
                    assert_eq!(out[0], round as u8);
                }
            });
        }
    });
}

#[test]
fn an_aligned_word_is_never_torn() {
    let page = Page::boxed();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..rounds(50_000) {
                page.write(64, &[i as u8; 32]);
            }
        });
        for _ in 0..rounds(50_000) {
            let mut out = [0; 32];
            page.read(64, &mut out);
            assert!(
                out.chunks(8)
                    .all(|word| word.iter().all(|&byte| byte == word[0]))
            );
        }
    });
}

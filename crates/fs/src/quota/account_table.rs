//! Accounts by number, found without a lock and without a write.

use super::account::Account;
use hearth_sync::epoch::Guard;
use hearth_sync::primitive::OnceLock;
use hearth_sync::rcu::RcuSlot;

/// Slots of the first chunk; each chunk has twice as many as the one before.
const FIRST: u32 = 16;
const CHUNKS: usize = 24;

/// Accounts by number. Written under the state lock, read under an epoch guard.
pub(crate) struct AccountTable {
    chunks: [OnceLock<Box<[RcuSlot<Account>]>>; CHUNKS],
}

impl AccountTable {
    pub fn new() -> AccountTable {
        AccountTable {
            chunks: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// The account of this number now.
    #[inline]
    pub fn get<'g>(&'g self, number: u32, g: &'g Guard) -> Option<&'g Account> {
        let (chunk, at) = place(number)?;
        self.chunks[chunk].get()?[at].load(g)
    }

    /// Stores an account, or none, under `number`.
    pub fn put(&self, number: u32, account: Option<Box<Account>>, g: &Guard) {
        let (chunk, at) = place(number).expect("accounts are numbered from 0 up");
        let make = || (0..(FIRST << chunk)).map(|_| RcuSlot::empty()).collect();
        self.chunks[chunk].get_or_init(make)[at].store(account, g);
    }
}

#[inline]
fn place(number: u32) -> Option<(usize, usize)> {
    if number < FIRST {
        // Most volumes have no more.
        return Some((0, number as usize));
    }
    let shifted = number.checked_add(FIRST)?;
    let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (chunk < CHUNKS).then(|| (chunk, (shifted - (FIRST << chunk)) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_the_chunks_without_a_gap() {
        let mut expected = (0, 0);
        for number in 0..1000 {
            assert_eq!(place(number), Some(expected));
            expected.1 += 1;
            if expected.1 == (FIRST << expected.0) as usize {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(u32::MAX), None);
    }
}

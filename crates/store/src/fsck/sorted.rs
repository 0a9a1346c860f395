//! Records that are given in any order and come back sorted, however many there are: what does not
//! fit into a buffer lies sorted in files that have no name, in the folder for temporary files.

use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};

/// Bytes of a buffer. A check has a handful.
const BUFFER: usize = 8 << 20;
/// Bytes that are read of a file at once.
const READ: usize = 64 << 10;

/// Takes records of `N` bytes, which sort as their bytes do.
pub struct Sorter<const N: usize> {
    buffer: Vec<[u8; N]>,
    /// Records that fit into the buffer.
    most: usize,
    runs: Vec<File>,
}

impl<const N: usize> Default for Sorter<N> {
    fn default() -> Sorter<N> {
        // Tests have a few records, and files all the same.
        let bytes = if cfg!(test) { 2 * N } else { BUFFER };
        Sorter {
            buffer: Vec::new(),
            most: bytes / N,
            runs: Vec::new(),
        }
    }
}

impl<const N: usize> Sorter<N> {
    /// Adds a record.
    pub fn push(&mut self, record: [u8; N]) -> Result<()> {
        if self.buffer.len() == self.most {
            self.buffer.sort_unstable();
            let run = written(&self.buffer).map_err(failed("write"))?;
            self.runs.push(run);
            self.buffer.clear();
        }
        self.buffer.push(record);
        Ok(())
    }

    /// Everything that was added, by rising bytes.
    pub fn finish(mut self) -> Result<Sorted<N>> {
        self.buffer.sort_unstable();
        let mut sorted = Sorted {
            runs: Vec::with_capacity(self.runs.len() + 1),
            heads: BinaryHeap::new(),
            next: None,
        };
        for file in self.runs {
            sorted
                .runs
                .push(SortedRun::File(BufReader::with_capacity(READ, file)));
        }
        sorted.runs.push(SortedRun::Memory(self.buffer.into_iter()));
        for run in 0..sorted.runs.len() {
            sorted.refill(run)?;
        }
        sorted.step()?;
        Ok(sorted)
    }
}

fn written<const N: usize>(records: &[[u8; N]]) -> std::io::Result<File> {
    let mut out = BufWriter::new(tempfile::tempfile()?);
    out.write_all(records.as_flattened())?;
    let mut file = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

fn failed(op: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::io(op, &std::env::temp_dir(), error)
}

enum SortedRun<const N: usize> {
    File(BufReader<File>),
    Memory(std::vec::IntoIter<[u8; N]>),
}

impl<const N: usize> SortedRun<N> {
    fn next(&mut self) -> std::io::Result<Option<[u8; N]>> {
        match self {
            SortedRun::Memory(records) => Ok(records.next()),
            SortedRun::File(file) => {
                let mut record = [0; N];
                match file.read_exact(&mut record) {
                    Ok(()) => Ok(Some(record)),
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// Sorted records, one after the other.
pub struct Sorted<const N: usize> {
    runs: Vec<SortedRun<N>>,
    heads: BinaryHeap<Reverse<([u8; N], usize)>>,
    next: Option<[u8; N]>,
}

impl<const N: usize> Sorted<N> {
    /// The record that [`Sorted::next`] returns.
    pub fn peek(&self) -> Option<&[u8; N]> {
        self.next.as_ref()
    }

    /// The next record.
    pub fn next(&mut self) -> Result<Option<[u8; N]>> {
        let next = self.next;
        self.step()?;
        Ok(next)
    }

    fn step(&mut self) -> Result<()> {
        self.next = None;
        if let Some(Reverse((record, run))) = self.heads.pop() {
            self.next = Some(record);
            self.refill(run)?;
        }
        Ok(())
    }

    fn refill(&mut self, run: usize) -> Result<()> {
        if let Some(record) = self.runs[run].next().map_err(failed("read"))? {
            self.heads.push(Reverse((record, run)));
        }
        Ok(())
    }
}

/// The `at`-th number of eight bytes, as a record has it.
pub fn number<const N: usize>(record: &[u8; N], at: usize) -> u64 {
    let bytes = record[at * 8..].first_chunk::<8>();
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// A record of numbers, by the first of them first.
pub fn record<const N: usize>(numbers: &[u64]) -> [u8; N] {
    let mut record = [0; N];
    for (to, number) in record.chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_be_bytes());
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_sorted_with_and_without_files() {
        for most in [1, 7, 1000] {
            let mut sorter = Sorter::<16> {
                most,
                ..Sorter::default()
            };
            let numbers = (0..500_u64).map(|n| (n * 7919) % 251);
            for n in numbers.clone() {
                sorter.push(record(&[n, 5])).expect("a record");
            }
            let mut sorted = sorter.finish().expect("an end");
            let mut all = Vec::new();
            while let Some(next) = sorted.peek().copied() {
                assert_eq!(sorted.next().expect("a record"), Some(next));
                assert_eq!(number(&next, 1), 5);
                all.push(number(&next, 0));
            }
            let mut wanted: Vec<u64> = numbers.collect();
            wanted.sort_unstable();
            assert_eq!(all, wanted);
            assert_eq!(sorted.next().expect("the end"), None);
        }
    }
}

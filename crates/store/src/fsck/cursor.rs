//! Keys of one kind, one after the other and beside those of other kinds.

use super::report::Report;
use super::report::report_of_engine;
use crate::error::Result;
use crate::kv::{Read, Table};
use crate::schema::key;
use std::collections::VecDeque;

/// Keys and bytes that are read at once.
const KEYS: usize = 1024;
const BYTES: usize = 1 << 20;

/// A key and its value.
pub type Pair = (Box<[u8]>, Box<[u8]>);

/// The keys that begin with one letter, in order.
pub struct Cursor<'a> {
    view: &'a dyn Read,
    table: Table,
    /// Where the next piece begins; `None` behind the last one.
    from: Option<Vec<u8>>,
    end: Option<Box<[u8]>>,
    piece: VecDeque<Pair>,
    is_cut_off: bool,
}

impl<'a> Cursor<'a> {
    /// Those of a letter.
    pub fn new(view: &'a dyn Read, table: Table, prefix: &[u8]) -> Cursor<'a> {
        Cursor {
            view,
            table,
            from: Some(prefix.to_vec()),
            end: key::behind(prefix),
            piece: VecDeque::new(),
            is_cut_off: false,
        }
    }

    /// The next pair, which stays. Where a table cannot be read, `report` says so and the keys end.
    pub fn peek(&mut self, report: &mut Report) -> Result<Option<&Pair>> {
        if self.piece.is_empty() {
            self.read(report)?;
        }
        Ok(self.piece.front())
    }

    /// The number in the next key; keys that have none are passed over.
    pub fn number(&mut self, report: &mut Report) -> Result<Option<u64>> {
        loop {
            let number = self.peek(report)?.map(|(key, _)| key::number(key).ok());
            match number {
                None => return Ok(None),
                Some(Some(number)) => return Ok(Some(number)),
                Some(None) => drop(self.piece.pop_front()),
            }
        }
    }

    /// The value of the key with this number; smaller ones are passed over.
    pub fn at(&mut self, number: u64, report: &mut Report) -> Result<Option<Box<[u8]>>> {
        while let Some(next) = self.number(report)?.filter(|next| *next <= number) {
            let pair = self.piece.pop_front();
            if next == number {
                return Ok(pair.map(|(_, value)| value));
            }
        }
        Ok(None)
    }

    /// Whether the keys have ended because a table cannot be read.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Passes over the next pair.
    pub fn skip(&mut self) {
        self.piece.pop_front();
    }

    fn read(&mut self, report: &mut Report) -> Result<()> {
        let Some(from) = self.from.take() else {
            return Ok(());
        };
        let (piece, end) = (&mut self.piece, self.end.as_deref());
        let (mut bytes, mut is_cut) = (0, false);
        let scanned = self.view.scan(self.table, &from, end, &mut |key, value| {
            if end.is_some_and(|end| key >= end) {
                return false;
            }
            bytes += key.len() + value.len();
            piece.push_back((key.into(), value.into()));
            is_cut = piece.len() == KEYS || bytes >= BYTES;
            !is_cut
        });
        match scanned {
            Err(error) if error.is_lost() => {
                report_of_engine(report, &error, self.table);
                self.is_cut_off = true;
            }
            done => {
                done?;
                if let Some((last, _)) = self.piece.back().filter(|_| is_cut) {
                    self.from = Some([last, &[0][..]].concat());
                }
            }
        }
        Ok(())
    }
}

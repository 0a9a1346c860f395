//! What a racer does through mappings.

use super::notes::now;
use super::worker::Worker;
use super::{PAGE, SPAN};

/// Pages of a file that is read ahead.
const AHEAD: u64 = 48;

impl Worker {
    /// A few pages through the mapping.
    pub(crate) fn store(&mut self, at: usize) {
        self.stretch(at);
        for _ in 0..1 + self.dice.below(6) {
            let page = self.dice.below(SPAN.min(self.files[at].size() / PAGE));
            if !self.store_page(at, page) {
                break;
            }
        }
    }

    fn store_page(&mut self, at: usize, page: u64) -> bool {
        let tag = self.tag();
        let (stored, span) = self.files[at].store(page, tag);
        match stored {
            Some(new) => {
                let owners = self.payers(self.files[at].gid);
                self.notes.charged(span.0, &owners, [new, 0]);
            }
            None => self.refused_a_page(("a store", None), span, at, page),
        }
        stored.is_some()
    }

    /// A hole that is mapped is promised to who may write it.
    pub(crate) fn look(&mut self, at: usize) {
        if !self.is_charged() {
            return;
        }
        self.stretch(at);
        let page = self.dice.below(SPAN.min(self.files[at].size() / PAGE));
        let (seen, span) = self.files[at].look(page);
        match seen {
            Some(new) => {
                let owners = self.payers(self.files[at].gid);
                self.notes.charged(span.0, &owners, [new, 0]);
            }
            None => self.refused_a_page(("a look", None), span, at, page),
        }
    }

    fn stretch(&mut self, at: usize) {
        let pages = 1 + self.dice.below(SPAN);
        self.files[at].stretch(pages);
    }

    /// What was promised and not used comes back with the last close.
    pub(crate) fn retire(&mut self, at: usize) {
        let file = self.files.swap_remove(at);
        let had = file.pages();
        let (file, span) = file.retire();
        let owners = self.payers(file.gid);
        let promised = had - file.pages();
        self.notes.freed(span.1, &owners, [promised, 0]);
        self.retired.push(file);
    }

    /// A new file of holes, stored into while the kernel reads ahead: what it has in its cache of
    /// them, which nobody knows, is promised until the close.
    pub(crate) fn store_ahead(&mut self) {
        let count = self.files.len();
        self.create();
        if !self.is_charged() || self.files.len() == count {
            return;
        }
        let mut file = self.files.pop().expect("it was made");
        file.stretch(AHEAD);
        let some = 1 + self.dice.below(6);
        let pages: Vec<u64> = (0..some).map(|_| self.dice.below(AHEAD)).collect();
        let owners = self.payers(file.gid);
        self.notes.charged(now(), &owners, [AHEAD, 0]);
        let ((file, span), refused) = file.store_ahead(&pages, self.tag());
        let unused = AHEAD - file.pages();
        self.notes.freed(span.1, &owners, [unused, 0]);
        if let Some(span) = refused {
            let what = "a store with others read ahead";
            self.notes.refused(what, span, &owners, [1, 0], None);
        }
        self.retired.push(file);
    }

    /// Stores into every page of the mapping; whether one was refused.
    pub(crate) fn fill_by_stores(&mut self, at: usize) -> bool {
        self.files[at].stretch(SPAN);
        (0..SPAN).any(|page| !self.store_page(at, page))
    }
}

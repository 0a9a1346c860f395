//! All operations against a plain map, with a backend that keeps everything and is asked again.

use std::collections::BTreeMap;

use hearth_sync::epoch::{Guard, pin};
use proptest::prelude::*;
use std::ops::Range;

use super::super::resident::Resident;
use super::super::root::{Data, PageMiss};
use super::super::span::{PAGE, PAGE_BYTES, PAGES, touched};
use super::page_at;

type Bytes = [u8; PAGE_BYTES];

#[derive(Clone, Debug)]
enum Op {
    Write {
        off: u64,
        len: usize,
        value: u8,
    },
    Read {
        off: u64,
        len: usize,
    },
    Truncate {
        size: u64,
    },
    Allocate {
        off: u64,
        len: u64,
    },
    Punch {
        off: u64,
        len: u64,
    },
    ZeroRange {
        off: u64,
        len: u64,
    },
    Collapse {
        page: u64,
        pages: u64,
    },
    Insert {
        page: u64,
        pages: u64,
    },
    Seek {
        off: u64,
        size: u64,
    },
    Flush {
        fail_at: Option<u64>,
    },
    Evict {
        want: u64,
        is_settled: bool,
    },
    /// The backend drops the file and gets it again.
    CheckAllocation,
    /// Everything is saved and dropped; the file comes back from its backend.
    Reopen,
    /// Everything is saved, and the file comes back from what it knows itself.
    Restore,
}

/// Offsets that collide: few values, near the seams of pages, leaves and heights. A `sparse` file
/// has pages far out.
fn offset(sparse: bool) -> impl Strategy<Value = u64> {
    let far = u32::from(sparse) * 2;
    let page = prop_oneof![
        8 => 0u64..6,
        6 => 60u64..70,
        1 + far => 4090u64..4100,
        far => (1u64 << 30)..(1 << 30) + 3,
        far => (1u64 << 49)..(1 << 49) + 3,
    ];
    let byte = prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(PAGE - 1), 2 => 0..PAGE];
    (page, byte).prop_map(|(page, byte)| page * PAGE + byte)
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..=3 * PAGE, 2 => (0u64..5).prop_map(|n| n * PAGE), 1 => Just(70 * PAGE)]
}

fn op(sparse: bool) -> impl Strategy<Value = Op> {
    let off = || offset(sparse);
    let page = || off().prop_map(|off| off / PAGE);
    let pages = || prop_oneof![3 => 1u64..4, 1 => 60u64..130];
    let small = 1usize..3 * PAGE_BYTES;
    let punched = prop_oneof![9 => length(), 1 => Just(u64::MAX)];
    prop_oneof![
        8 => (off(), small.clone(), any::<u8>())
            .prop_map(|(off, len, value)| Op::Write { off, len, value }),
        3 => (off(), small).prop_map(|(off, len)| Op::Read { off, len }),
        2 => off().prop_map(|size| Op::Truncate { size }),
        2 => (off(), length()).prop_map(|(off, len)| Op::Allocate { off, len }),
        3 => (off(), punched).prop_map(|(off, len)| Op::Punch { off, len }),
        2 => (off(), length()).prop_map(|(off, len)| Op::ZeroRange { off, len }),
        2 => (page(), pages()).prop_map(|(page, pages)| Op::Collapse { page, pages }),
        2 => (page(), pages()).prop_map(|(page, pages)| Op::Insert { page, pages }),
        3 => (off(), off()).prop_map(|(off, size)| Op::Seek { off, size }),
        2 => proptest::option::of(0u64..5).prop_map(|fail_at| Op::Flush { fail_at }),
        3 => (0u64..9, any::<bool>())
            .prop_map(|(want, is_settled)| Op::Evict { want, is_settled }),
        1 => Just(Op::CheckAllocation),
        1 => Just(Op::Reopen),
        1 => Just(Op::Restore),
    ]
}

fn ops(sparse: bool) -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(op(sparse), 1..60)
}

/// A page of the model.
#[derive(Clone)]
enum Page {
    Blank,
    Bytes(Box<Bytes>),
}

/// The file as it should be, the backend, and the file as it is.
struct Check {
    model: BTreeMap<u64, Page>,
    backend: BTreeMap<u64, Box<Bytes>>,
    /// Like `backend`, but never told of an edit: it is asked only while its content is right.
    stale: BTreeMap<u64, Box<Bytes>>,
    data: Data,
}

impl Check {
    fn new() -> Check {
        Check {
            model: BTreeMap::new(),
            backend: BTreeMap::new(),
            stale: BTreeMap::new(),
            data: Data::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        let g = &pin();
        let before = self.model.len() as i64;
        match *op {
            Op::Write { off, len, value } => self.write(off, &vec![value; len], g),
            Op::Read { off, len } => self.read(off, len, g),
            Op::Truncate { size } => self.truncate(size, g),
            Op::Allocate { off, len } => {
                let added = self.edit(touched(off, len), g, |data| data.allocate(off, len, g));
                for index in pages(off, len) {
                    self.model.entry(index).or_insert(Page::Blank);
                }
                assert_eq!(added as i64, self.model.len() as i64 - before);
            }
            Op::Punch { off, len } => {
                let removed = self.edit(touched(off, len), g, |data| data.punch(off, len, g));
                self.erase(off, len, false);
                assert_eq!(removed as i64, before - self.model.len() as i64);
            }
            Op::ZeroRange { off, len } => {
                let delta = self.edit(touched(off, len), g, |data| data.zero_range(off, len, g));
                self.erase(off, len, true);
                assert_eq!(delta as i64, self.model.len() as i64 - before);
            }
            Op::Collapse { page, pages } => {
                let removed = self.edit(page..PAGES, g, |data| {
                    data.collapse(page * PAGE, pages * PAGE, g)
                });
                let tail = self.model.split_off(&page);
                let kept = tail.into_iter().filter(|(index, _)| *index >= page + pages);
                self.model
                    .extend(kept.map(|(index, bytes)| (index - pages, bytes)));
                self.backend.split_off(&page);
                assert_eq!(removed as i64, before - self.model.len() as i64);
            }
            Op::Insert { page, pages } => {
                self.edit(page..PAGES, g, |data| {
                    data.insert(page * PAGE, pages * PAGE, g)
                });
                let tail = self.model.split_off(&page);
                self.model.extend(
                    tail.into_iter()
                        .map(|(index, bytes)| (index + pages, bytes)),
                );
                self.backend.split_off(&page);
            }
            Op::Seek { off, size } => self.seek(off, size, g),
            Op::Flush { fail_at } => self.flush(fail_at),
            Op::Evict { want, is_settled } => {
                let there = self.data.resident(g).pages;
                let nodes = self.data.resident(g).nodes;
                let evicted = self.data.evict(want, |_| true, is_settled, g);
                let left = self.data.resident(g);
                assert!(evicted.pages <= want && left.pages == there - evicted.pages);
                assert_eq!(left.nodes, nodes - evicted.nodes);
            }
            Op::CheckAllocation => self.check_allocation(g),
            Op::Reopen => self.reopen(),
            Op::Restore => {
                self.flush(None);
                let (data, came) = self.data.at_backend(g);
                assert_eq!(came, data.resident(g));
                self.data = data;
            }
        }
        assert_eq!(self.data.pages(g), self.model.len() as u64);
    }

    /// Repeats `act` until nothing is missing; what is missing comes from the backend.
    fn retry<R>(&self, g: &Guard, act: impl Fn(&Data) -> Result<R, PageMiss>) -> R {
        for _ in 0..20_000 {
            match act(&self.data) {
                Ok(done) => return done,
                Err(PageMiss(index)) => {
                    assert!(!self.data.is_complete(), "{index} absent in complete data");
                    let before = self.data.resident(g);
                    if let Some(leaf) = self.data.unknown_leaf(index, g) {
                        let came = self.data.load_leaf(leaf.clone(), &self.held(leaf), g);
                        self.check_came(before, came, g);
                        continue;
                    }
                    assert!(page_at(&self.data, index, g).is_err(), "{index} is there");
                    let bytes = self.stale.get(&index).map(|bytes| &bytes[..]);
                    let came = self.data.load(index, bytes, g);
                    self.check_came(before, came, g);
                    assert!(
                        page_at(&self.data, index, g).is_ok(),
                        "{index} is still absent"
                    );
                }
            }
        }
        panic!("absent again and again");
    }

    /// What the backend has of `pages`, and whether it was written.
    fn held(&self, pages: Range<u64>) -> Vec<(Range<u64>, bool)> {
        let is_blank = |index| matches!(self.model.get(index), Some(Page::Blank));
        let held = self.backend.range(pages);
        held.map(|(index, _)| (*index..index + 1, !is_blank(index)))
            .collect()
    }

    /// [`Check::retry`] of an edit, which changes nothing outside `pages`: what they have gained is
    /// what the file has.
    fn edit<R>(
        &self,
        pages: Range<u64>,
        g: &Guard,
        act: impl Fn(&Data) -> Result<R, PageMiss>,
    ) -> R {
        let resident = || [self.data.resident(g), self.data.resident_in(&pages, g)];
        self.retry(g, |data| {
            let before = resident();
            let done = act(data);
            let gained: Vec<_> = resident()
                .iter()
                .zip(before)
                .map(|(now, then)| {
                    [
                        now.pages.wrapping_sub(then.pages),
                        now.nodes.wrapping_sub(then.nodes),
                    ]
                })
                .collect();
            assert_eq!(gained[0], gained[1], "{pages:?}");
            done
        })
    }

    /// What an operation says that it brought into memory is what has come.
    fn check_came(&self, mut before: Resident, came: Resident, g: &Guard) {
        before.add(came);
        assert_eq!(self.data.resident(g), before);
    }

    fn write(&mut self, off: u64, src: &[u8], g: &Guard) {
        let expected = self.retry(g, |data| data.absent_pages(off, src.len() as u64, g));
        let there = self.data.resident(g);
        let written = self.retry(g, |data| data.store(off, src, g));
        self.check_came(there, written.resident(), g);
        let added = written.added;
        let before = self.model.len();
        for (at, byte) in (off..).zip(src) {
            self.bytes(at / PAGE)[(at % PAGE) as usize] = *byte;
        }
        assert_eq!(
            (added, expected),
            ((self.model.len() - before) as u64, added)
        );
    }

    fn read(&self, off: u64, len: usize, g: &Guard) {
        let got = self.retry(g, |data| {
            let mut out = vec![0xee; len];
            data.read(off, &mut out, g).map(|()| out)
        });
        for (at, byte) in (off..).zip(got) {
            assert_eq!(byte, self.byte(at), "at {at}");
        }
    }

    fn truncate(&mut self, size: u64, g: &Guard) {
        let removed = self.edit(size / PAGE..PAGES, g, |data| data.truncate(size, g));
        let gone = self.model.split_off(&size.div_ceil(PAGE)).len() as u64;
        assert_eq!(removed, gone);
        self.backend.split_off(&size.div_ceil(PAGE));
        if let Some(Page::Bytes(bytes)) = self.model.get_mut(&(size / PAGE)) {
            bytes[(size % PAGE) as usize..].fill(0);
        }
    }

    /// Zeroes the range in the model; pages that it covers go, or stay as unwritten ones.
    fn erase(&mut self, off: u64, len: u64, allocate: bool) {
        let end = off.saturating_add(len);
        let range = pages(off, len);
        let there: Vec<u64> = match allocate {
            true => range.collect(),
            false => self.model.range(range).map(|(index, _)| *index).collect(),
        };
        for index in there {
            let start = off.max(index * PAGE) - index * PAGE;
            let stop = end.min((index + 1) * PAGE) - index * PAGE;
            let whole = stop - start == PAGE;
            match self.model.get_mut(&index) {
                _ if whole && allocate => drop(self.model.insert(index, Page::Blank)),
                _ if whole => drop(self.model.remove(&index)),
                Some(Page::Bytes(bytes)) => bytes[start as usize..stop as usize].fill(0),
                Some(Page::Blank) => {}
                None => drop(self.model.insert(index, Page::Blank)),
            }
            if whole {
                self.backend.remove(&index);
            }
        }
    }

    fn seek(&self, off: u64, size: u64, g: &Guard) {
        let is_data = |index| matches!(self.model.get(&index), Some(Page::Bytes(_)));
        let mut all = self
            .model
            .keys()
            .filter(|index| is_data(**index))
            .map(|index| index * PAGE);
        let data = all.find(|at| at + PAGE > off && (*at).max(off) < size);
        let data = data.filter(|_| off < size).map(|at| at.max(off));
        assert_eq!(self.retry(g, |file| file.seek_data(off, size, g)), data);
        let mut hole = off;
        while hole < size && is_data(hole / PAGE) {
            hole = (hole / PAGE + 1) * PAGE;
        }
        let got = self.retry(g, |file| file.seek_hole(off, size, g));
        assert_eq!(got, if off < size { hole.min(size) } else { size });
    }

    fn flush(&mut self, fail_at: Option<u64>) {
        let (backend, stale, mut calls) = (&mut self.backend, &mut self.stale, 0);
        let mut last = None;
        let flushed = self.data.flush(&mut |index, bytes| {
            assert!(last.replace(index) < Some(index), "out of order");
            if fail_at == Some(calls) {
                return Err(index);
            }
            calls += 1;
            let bytes: Box<Bytes> = Box::new(bytes.try_into().expect("a whole page"));
            stale.insert(index, bytes.clone());
            backend.insert(index, bytes);
            Ok(())
        });
        assert!(flushed == Ok(calls) || flushed == Err(last.expect("it has failed")));
    }

    /// What is known to be allocated is what the backend has, once everything is written back.
    fn check_allocation(&mut self, g: &Guard) {
        self.flush(None);
        self.retry(g, |data| data.check_known(&(0..PAGES), g));
        let known = self.data.allocation(g);
        let known = known.into_iter().flat_map(|(pages, _)| pages);
        assert!(known.eq(self.backend.keys().copied()));
    }

    fn reopen(&mut self) {
        self.flush(None);
        self.stale.clone_from(&self.backend);
        let held = self.backend.keys().map(|index| (*index..index + 1, true));
        self.data = Data::allocated(held).0;
        // The backend keeps zeros where a page was only allocated.
        for page in self.model.values_mut() {
            if let Page::Blank = page {
                *page = Page::Bytes(Box::new([0; PAGE_BYTES]));
            }
        }
    }

    fn byte(&self, at: u64) -> u8 {
        match self.model.get(&(at / PAGE)) {
            Some(Page::Bytes(bytes)) => bytes[(at % PAGE) as usize],
            Some(Page::Blank) | None => 0,
        }
    }

    fn bytes(&mut self, index: u64) -> &mut Bytes {
        let page = self.model.entry(index).or_insert(Page::Blank);
        if let Page::Blank = page {
            *page = Page::Bytes(Box::new([0; PAGE_BYTES]));
        }
        match page {
            Page::Bytes(bytes) => bytes,
            Page::Blank => unreachable!("it was given bytes"),
        }
    }

    /// Every page, and the pages around it.
    fn compare(&self) {
        let g = &pin();
        for index in self.model.keys() {
            self.read(index.saturating_sub(1) * PAGE, 3 * PAGE_BYTES, g);
        }
    }
}

fn pages(off: u64, len: u64) -> Range<u64> {
    if len == 0 {
        0..0
    } else {
        off / PAGE..off.saturating_add(len).div_ceil(PAGE)
    }
}

fn check(ops: &[Op]) {
    let mut check = Check::new();
    for op in ops {
        check.apply(op);
    }
    check.compare();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_sparse_file_equals_the_model(ops in ops(true)) {
        check(&ops);
    }

    #[test]
    fn a_dense_file_equals_the_model(ops in ops(false)) {
        check(&ops);
    }
}

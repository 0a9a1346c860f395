use super::*;
use crate::epoch;
use crate::primitive::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::primitive::{Arc, rounds};
use hearth_testing::threads::SetOnDrop;

/// A value that is counted while it lives and invalidated when dropped.
struct Checked {
    value: u64,
    check: u64,
    alive: Arc<AtomicUsize>,
}

impl Checked {
    fn new(value: u64, alive: &Arc<AtomicUsize>) -> Box<Checked> {
        alive.fetch_add(1, Ordering::SeqCst);
        Box::new(Checked {
            value,
            check: !value,
            alive: Arc::clone(alive),
        })
    }

    fn read(&self) -> u64 {
        assert_eq!(self.check, !self.value, "read after its end");
        self.value
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.check = self.value;
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn wait_until_alive(alive: &AtomicUsize, wanted: usize) {
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while alive.load(Ordering::SeqCst) != wanted {
        epoch::pin().flush();
        std::thread::yield_now();
        assert!(
            std::time::Instant::now() < limit,
            "values are never dropped"
        );
    }
}

#[test]
fn a_slot_returns_the_last_stored_value() {
    let alive = Arc::default();
    let slot = RcuSlot::empty();
    let g = epoch::pin();
    assert!(slot.is_empty() && slot.load(&g).is_none() && !slot.take(&g));
    slot.store(Some(Checked::new(1, &alive)), &g);
    let first = slot.load(&g).expect("stored");
    slot.store(Some(Checked::new(2, &alive)), &g);
    assert_eq!(
        (first.read(), slot.load(&g).map(Checked::read)),
        (1, Some(2))
    );
    assert!(slot.take(&g));
    assert!(slot.is_empty());
    drop(g);
    wait_until_alive(&alive, 0);
}

#[test]
fn a_failed_install_returns_its_value() {
    let alive = Arc::default();
    let g = epoch::pin();
    let mut slot = RcuSlot::empty();
    assert_eq!(
        slot.install(Checked::new(1, &alive), &g)
            .map(Checked::read)
            .ok(),
        Some(1)
    );
    let back = slot.install(Checked::new(2, &alive), &g).map(Checked::read);
    assert_eq!(back.map_err(|value| value.read()), Err(2));
    slot.get_mut().expect("filled").alive = Arc::clone(&alive);
    drop(slot);
    assert_eq!(
        alive.load(Ordering::SeqCst),
        0,
        "an owner's drop frees at once"
    );
}

#[test]
fn move_to_empties_the_source() {
    let alive = Arc::default();
    let g = epoch::pin();
    let (from, to) = (RcuSlot::new(Checked::new(1, &alive)), RcuSlot::empty());
    to.store(Some(Checked::new(9, &alive)), &g);
    from.move_to(&to, &g);
    assert!(from.is_empty());
    assert_eq!(to.load(&g).map(Checked::read), Some(1));
    to.move_to(&to, &g);
    assert_eq!(to.load(&g).map(Checked::read), Some(1));
    drop(g);
    wait_until_alive(&alive, 1);
}

#[test]
fn a_tag_is_kept_with_its_value() {
    let alive = Arc::default();
    let g = epoch::pin();
    let (from, to) = (TagSlot::empty(), TagSlot::empty());
    assert_eq!(from.tag(), None);
    assert!(
        from.load_if(0, &g).is_none(),
        "no value has no tag, not tag 0"
    );
    for tag in [0, 1, 0x8000, u16::MAX] {
        from.store(Some((tag, Checked::new(tag.into(), &alive))), &g);
        assert_eq!(from.tag(), Some(tag));
        let (found, value) = from.load(&g).expect("stored");
        assert_eq!((found, value.read()), (tag, tag.into()));
        assert_eq!(from.load_if(tag, &g).map(Checked::read), Some(tag.into()));
        assert!(from.load_if(tag ^ 1, &g).is_none());
    }
    from.move_to(&to, &g);
    assert!(from.is_empty());
    assert_eq!(to.tag(), Some(u16::MAX));
    assert!(to.take(&g) && !to.take(&g));
    drop(g);
    wait_until_alive(&alive, 0);
}

#[test]
fn a_share_slot_drops_its_share_after_the_last_guard() {
    let alive = Arc::default();
    let (slot, kept) = (ShareSlot::empty(), Share::new(*Checked::new(1, &alive)));
    assert!(slot.fill(kept.clone()).is_ok() && !slot.is_empty());
    let refused = slot.fill(Share::new(*Checked::new(2, &alive)));
    assert_eq!(refused.map_err(|back| back.read()), Err(2));
    let g = epoch::pin();
    let seen = slot.load(&g).expect("installed");
    let before = slot.swap(Some(Share::new(*Checked::new(3, &alive))), &g);
    assert_eq!(before.map(|before| before.read()), Some(1));
    drop(kept);
    assert_eq!(seen.read(), 1, "the guard keeps it");
    let later = seen.to_share();
    assert_eq!(slot.swap(None, &g).map(|before| before.read()), Some(3));
    assert!(slot.is_empty() && slot.swap(None, &g).is_none());
    drop(g);
    wait_until_alive(&alive, 1);
    assert_eq!(later.read(), 1, "a share of one's own keeps it");
    drop(later);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert!(slot.fill(Share::new(*Checked::new(4, &alive))).is_ok());
    drop(slot);
    assert_eq!(
        alive.load(Ordering::SeqCst),
        0,
        "an owner's drop is at once"
    );
}

#[test]
fn a_removed_share_is_readable_until_it_is_retired() {
    let alive = Arc::default();
    let slot = ShareSlot::empty();
    let put = |value| slot.fill(Share::new(*Checked::new(value, &alive))).is_ok();
    assert!(put(1));
    let removed = slot.exchange(None).expect("installed");
    assert!(slot.is_empty() && slot.exchange(None).is_none());
    epoch::pin().flush();
    let g = epoch::pin();
    assert_eq!(removed.retire(&g).read(), 1);
    assert!(put(2));
    let seen = slot.load(&g).expect("installed");
    drop(slot.exchange(None));
    assert_eq!(seen.read(), 2, "dropped is retired");
    drop(g);
    wait_until_alive(&alive, 0);
}

#[test]
fn a_cell_always_has_a_value() {
    let cell = RcuCell::new("one");
    let g = epoch::pin();
    let old = cell.load(&g);
    cell.replace("two", &g);
    assert_eq!((*old, *cell.load(&g)), ("one", "two"));
}

#[test]
fn readers_never_see_a_dropped_value() {
    let alive = Arc::default();
    let slots: [RcuSlot<Checked>; 2] = [RcuSlot::new(Checked::new(0, &alive)), RcuSlot::empty()];
    let tagged = TagSlot::empty();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let g = epoch::pin();
                    for value in slots.iter().filter_map(|slot| slot.load(&g)) {
                        value.read();
                    }
                    if let Some((tag, value)) = tagged.load(&g) {
                        let value: &Checked = value;
                        assert_eq!(value.read() as u16, tag);
                    }
                }
            });
        }
        for i in 0..rounds(20_000) {
            let g = epoch::pin();
            slots[1].store(Some(Checked::new(i, &alive)), &g);
            slots[1].move_to(&slots[0], &g);
            tagged.store(Some((i as u16, Checked::new(i, &alive))), &g);
        }
    });
    wait_until_alive(&alive, 2);
    drop((slots, tagged));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

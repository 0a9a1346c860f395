//! Facts about the log, its epochs and its settings.

use super::*;
use hearth_testing::threads::SetOnDrop;

fn new_log(applied: u64) -> ChangeLog {
    ChangeLog::new(applied, LogBounds::of(0), Box::new(|_| 100))
}

fn gone(ino: u64) -> Record {
    Record::Gone {
        ino,
        generation: 0,
        is_brief: false,
    }
}

#[test]
fn a_cut_takes_what_was_appended_and_begins_the_next_epoch() {
    let log = new_log(7);
    log.append(gone(5));
    assert!(log.is_pending(log.epoch()));
    let cut = log.cut(|| true).expect("taken");
    assert_eq!((cut.epoch, cut.records.len()), (8, 1));
    assert_eq!(log.epoch(), 9);
    log.set_applied(8);
    assert!(!log.is_pending(8) && log.is_pending(9) && log.is_empty());
}

#[test]
fn a_cut_that_does_not_settle_takes_nothing_and_lets_operations_go_on() {
    let log = new_log(0);
    log.append(gone(1));
    assert!(log.cut(|| false).is_none());
    assert!(log.may_begin() && !log.is_empty() && log.epoch() == 1);
}

#[test]
fn a_cut_takes_the_last_value_of_each_setting_once() {
    let log = new_log(0);
    let value = |text: &str| Some(Box::from(text.as_bytes()));
    log.set(Box::from(*b"a"), value("1"));
    log.set(Box::from(*b"b"), value("2"));
    log.set(Box::from(*b"a"), None);
    assert!(!log.is_empty());
    let setting = |key: &[u8], version, value| Record::Setting {
        key: key.into(),
        version,
        value,
    };
    let cut = log.cut(|| true).expect("taken");
    let expected = [setting(b"a", 3, None), setting(b"b", 2, value("2"))];
    assert_eq!(cut.records, expected);
    log.keep_settings(false);
    log.set(Box::from(*b"c"), None);
    assert!(log.is_empty(), "the volume is read-only");
}

#[test]
fn a_setting_is_in_the_epoch_that_its_writer_sees_then_or_in_an_earlier_one() {
    let log = std::sync::Arc::new(new_log(0));
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let end = SetOnDrop(&is_over);
    let writer = {
        let (log, is_over) = (log.clone(), is_over.clone());
        std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = seen.len() as u64;
                log.set(Box::from(*b"n"), Some(number.to_be_bytes().into()));
                seen.push(log.epoch());
            }
            seen
        })
    };
    // The last number that each epoch and those before it hold.
    let mut held = vec![None];
    for _ in 0..2000 {
        let cut = log.cut(|| true).expect("taken");
        let last = held.last().copied().flatten();
        let number = cut.records.first().map(|record| match record {
            Record::Setting { value, .. } => value.clone().expect("a number"),
            _ => unreachable!("nothing else is appended"),
        });
        held.push(
            number
                .or(last.map(u64::to_be_bytes).map(Into::into))
                .map(|bytes| u64::from_be_bytes((*bytes).try_into().expect("eight bytes"))),
        );
    }
    drop(end);
    for (number, epoch) in writer.join().expect("ends").into_iter().enumerate() {
        if let Some(held) = held.get(epoch as usize) {
            assert!(
                *held >= Some(number as u64),
                "{number} in {epoch}: {held:?}"
            );
        }
    }
}

#[test]
fn tags_are_pending_from_their_epoch_until_it_is_applied() {
    let log = new_log(62);
    let tag = log.epoch() as u8;
    assert!(log.is_tag_pending(tag));
    let cut = log.cut(|| true).expect("taken");
    assert!(log.is_tag_pending(tag), "cut and not applied");
    log.set_applied(cut.epoch);
    assert!(!log.is_tag_pending(tag));
}

#[test]
fn what_was_never_recorded_is_not_pending_in_any_epoch() {
    let log = new_log(0);
    for _ in 0..300 {
        assert!(!log.is_tag_pending(0));
        let cut = log.cut(|| true).expect("taken");
        assert!(cut.epoch < log.epoch());
        log.set_applied(cut.epoch);
    }
    assert!(!new_log(255).is_tag_pending(0));
}

#[test]
fn an_operation_is_in_one_epoch_however_many_records_it_appends() {
    let log = std::sync::Arc::new(new_log(0));
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let end = SetOnDrop(&stop);
    let writers: Vec<_> = (0..3u64)
        .map(|writer| {
            let (log, stop) = (log.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut operation = 0;
                let (mut seen, mut left) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let _g = epoch::pin();
                    if !log.may_begin() || log.is_overfull(|| TenantId::System) {
                        continue;
                    }
                    // Where the reader of the cuts gets little of the processor, more and more
                    // would come while it looks at what has come.
                    if log.epoch() != seen {
                        (seen, left) = (log.epoch(), 1000);
                    }
                    if left == 0 {
                        continue;
                    }
                    left -= 1;
                    operation += 1;
                    for _ in 0..3 {
                        log.append(gone(writer << 32 | operation));
                    }
                }
            })
        })
        .collect();
    let mut halves = 0;
    for _ in 0..300 {
        let cut = log.cut(|| true).expect("taken");
        let mut seen = std::collections::HashMap::new();
        for record in cut.records {
            let Record::Gone { ino, .. } = record else {
                continue;
            };
            *seen.entry(ino).or_insert(0) += 1;
        }
        halves += seen.values().filter(|&&records| records != 3).count();
    }
    drop(end);
    writers.into_iter().for_each(|w| w.join().expect("ends"));
    assert_eq!(halves, 0, "operations torn by a cut");
}

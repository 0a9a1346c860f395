//! The library against the model where quotas are on: at limits that nobody reaches, and at limits
//! that are reached all the time.

use super::{Library, TREE_EVERY, random_scripts};
use hearth::{Change, LimitChange, QuotaId, Volume};
use hearth_model::{Difference, Limits, Most, Op, Payer, compare_within};
use std::cell::Cell;

/// Limits that random scripts run into in their own ways: everything, owners, a project.
fn small() -> [Limits; 3] {
    let most = |inodes, pages| Most { inodes, pages };
    [
        Limits::from([(Payer::Volume, most(4, 3))]),
        Limits::from([
            (Payer::User(1000), most(1, 1)),
            (Payer::Group(1000), most(1, 1)),
            (Payer::Group(2000), most(0, 0)),
        ]),
        Limits::from([
            (Payer::Volume, most(6, 5)),
            (Payer::User(1000), most(2, 2)),
            (Payer::Project(7), most(1, 1)),
        ]),
    ]
}

fn unreached() -> Limits {
    let most = Most {
        inodes: 1 << 40,
        pages: 1 << 40,
    };
    let users = [0, 1000, 2000].map(Payer::User);
    let groups = [0, 1000, 2000].map(Payer::Group);
    let all = users.into_iter().chain(groups).chain([Payer::Project(7)]);
    // Nobody else has one, so that the model has nothing to look for.
    all.map(|payer| (payer, most)).collect()
}

/// A volume with these limits.
fn volume(limits: &Limits) -> Volume {
    let volume = Volume::memory();
    for (payer, most) in limits {
        let who = match payer {
            Payer::Volume => QuotaId::VOLUME,
            Payer::User(id) => QuotaId::user(*id),
            Payer::Group(id) => QuotaId::group(*id),
            Payer::Project(id) => QuotaId::project(*id),
        };
        if who != QuotaId::VOLUME && who.id == 0 {
            continue;
        }
        let change = LimitChange {
            bytes_hard: Change::To(most.pages * 4096),
            inodes_hard: Change::To(most.inodes),
            ..LimitChange::default()
        };
        volume.quota().set(who, &change).expect("a limit");
    }
    volume
}

/// How many events of quotas there were: first refusals since something was given back.
fn agrees(model: &Limits, set: &Limits, steps: &[(usize, Op)]) -> Result<u64, Difference> {
    let volume = volume(set);
    let mut library = Library::new(volume.clone());
    compare_within(model, &mut library, steps, TREE_EVERY)?;
    let check = volume.quota().check().expect("a walk");
    match check.is_clean() {
        true => Ok(volume.quota().latest_event()),
        false => Err(Difference {
            step: steps.len(),
            what: format!("{check:?}"),
        }),
    }
}

#[test]
fn small_limits_refuse_what_the_model_says_over_a_hundred_thousand_operations() {
    let mut operations = 0;
    for limits in small() {
        let refused = Cell::new(0);
        let done = random_scripts(600, |steps| {
            refused.set(refused.get() + agrees(&limits, &limits, steps)?);
            Ok(())
        });
        let refused = refused.get();
        println!("{refused} first refusals in {done} operations");
        assert!(refused > 20, "{refused} refusals in {done} operations");
        operations += done;
    }
    assert!(operations >= 100_000, "only {operations} operations");
}

#[test]
fn limits_that_nobody_reaches_change_nothing() {
    random_scripts(300, |steps| {
        match agrees(&Limits::new(), &unreached(), steps)? {
            0 => Ok(()),
            events => panic!("{events} events"),
        }
    });
}

/// So that agreement means something: scripts are refused what the limits say.
#[test]
fn a_small_limit_refuses_the_file_that_is_too_many() {
    use hearth_model::{CWD, System, bytes};
    let limits = Limits::from([(
        Payer::Volume,
        Most {
            inodes: 2,
            pages: 1,
        },
    )]);
    let mut library = Library::new(volume(&limits));
    let make = |name| Op::MakeDir {
        dirfd: CWD,
        path: bytes(name),
        mode: 0o755,
    };
    let steps = [(0, make("/a")), (0, make("/b"))];
    compare_within(&limits, &mut library, &steps, 1).expect("one fits");
    let refused = library.apply(0, &make("/c"));
    assert_eq!(refused, hearth_model::Outcome::Error(libc::ENOSPC));
    let differs = compare_within(
        &Limits::new(),
        &mut Library::new(volume(&limits)),
        &steps,
        1,
    );
    assert!(differs.is_err(), "a model without limits does not know");
}

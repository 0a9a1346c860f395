//! Limits, defaults, enforcement, and grace that runs.

use super::{World, create, root};
use hearth::{
    BLOCK, Credentials, Errno, LimitChange, LimitUpdate, Process, QuotaEventKind, QuotaId,
    QuotaKind, Resource, Volume,
};
use std::time::Duration;

const ALICE: QuotaId = QuotaId {
    kind: QuotaKind::User,
    id: 1000,
};
const DAY: Duration = Duration::from_secs(86_400);

fn blocks(hard: Option<u64>, soft: Option<u64>) -> LimitChange {
    let to = |limit: Option<u64>| {
        limit.map_or(LimitUpdate::Keep, |blocks| LimitUpdate::To(blocks * BLOCK))
    };
    LimitChange {
        bytes_hard: to(hard),
        bytes_soft: to(soft),
        ..LimitChange::default()
    }
}

/// A volume with a directory for everybody.
fn shared(world: &World) -> Volume {
    let volume = world.open();
    let process = root(&volume);
    process.mkdir("/all", 0o777).unwrap();
    process.chmod("/all", 0o777).unwrap();
    volume
}

fn alice(volume: &Volume) -> Process {
    volume.process(Credentials::user(1000, 1000))
}

fn write(process: &Process, name: &str, blocks: usize) -> hearth::Result<usize> {
    create(process, &format!("/all/{name}"), blocks * BLOCK as usize)
}

#[test]
fn limits_hold_from_the_first_write_after_a_crash_and_use_is_what_a_walk_finds() {
    let mut world = World::default();
    let volume = shared(&world);
    volume.quota().set(ALICE, &blocks(Some(10), None)).unwrap();
    assert_eq!(write(&alice(&volume), "a", 6), Ok(6 * BLOCK as usize));
    volume.sync().unwrap();
    write(&alice(&volume), "lost", 3).unwrap();
    world.crash(volume);

    let volume = world.open();
    assert!(volume.quota().check().unwrap().differences.is_empty());
    assert!(volume.charges_first(), "a limit of bytes is in force");
    let record = volume.quota().get(ALICE).unwrap();
    assert_eq!(
        (record.bytes.used, record.bytes.hard),
        (6 * BLOCK, Some(10 * BLOCK))
    );
    let fits = write(&alice(&volume), "b", 5);
    assert_eq!(fits, Ok(4 * BLOCK as usize), "as far as it fits");
    assert_eq!(write(&alice(&volume), "c", 1), Err(Errno::EDQUOT));
    world.crash(volume);
}

#[test]
fn defaults_own_grace_and_enforcement_of_kinds_are_there_again() {
    let mut world = World::default();
    let volume = shared(&world);
    let quota = volume.quota();
    let (user, group) = (QuotaKind::User, QuotaKind::Group);
    quota.set_default(user, &blocks(Some(50), Some(2))).unwrap();
    quota.set_grace(user, Resource::Inodes, 77).unwrap();
    quota
        .set_grace_of(ALICE, Resource::Blocks, Some(99))
        .unwrap();
    quota.enforce(group, false).unwrap();
    quota
        .set(QuotaId::project(5), &blocks(Some(9), None))
        .unwrap();
    quota.clear(QuotaId::project(5)).unwrap();
    let before = (quota.defaults(user), quota.defaults(group));
    world.close(volume);

    let volume = world.open();
    let quota = volume.quota();
    assert_eq!((quota.defaults(user), quota.defaults(group)), before);
    assert!(!quota.defaults(group).enforced);
    assert_eq!(write(&alice(&volume), "a", 3), Ok(3 * BLOCK as usize));
    let events = volume.quota().events(0).unwrap();
    let end = world_seconds(&world) + 99;
    let crossed =
        |kind| matches!(kind, QuotaEventKind::SoftCrossed { deadline } if deadline == end);
    assert!(
        events
            .iter()
            .any(|event| event.who == ALICE && crossed(event.what))
    );
    assert!(
        !world.keys().iter().any(|key| key.contains("project")),
        "it was cleared"
    );
    world.crash(volume);
}

fn world_seconds(world: &World) -> i64 {
    use hearth::Clock;
    world.hand.now().sec
}

#[test]
fn grace_that_runs_goes_on_over_a_crash_and_ends_when_it_would_have() {
    let mut world = World::default();
    let volume = shared(&world);
    volume.quota().set(ALICE, &blocks(None, Some(2))).unwrap();
    write(&alice(&volume), "a", 3).unwrap();
    let end = volume.quota().get(ALICE).unwrap().bytes.deadline;
    assert_eq!(end, Some(world_seconds(&world) + 7 * 86_400));
    volume.sync().unwrap();
    world.crash(volume);

    for day in 1..=7 {
        world.hand.pass(DAY);
        let volume = world.open();
        let record = volume.quota().get(ALICE).unwrap();
        assert_eq!(record.bytes.deadline, end, "day {day}");
        let expected = match day {
            7 => Err(Errno::EDQUOT),
            _ => Ok(BLOCK as usize),
        };
        assert_eq!(write(&alice(&volume), &format!("day{day}"), 1), expected);
        volume.sync().unwrap();
        world.crash(volume);
    }
}

#[test]
fn grace_ends_with_the_use_that_began_it_also_if_that_was_the_last_word() {
    let mut world = World::default();
    let volume = shared(&world);
    volume.quota().set(ALICE, &blocks(None, Some(2))).unwrap();
    write(&alice(&volume), "a", 3).unwrap();
    volume.sync().unwrap();
    assert!(world.keys().contains(&"quota/grace/user:1000".to_owned()));
    alice(&volume).unlink("/all/a").unwrap();
    volume.sync().unwrap();
    assert!(!world.keys().contains(&"quota/grace/user:1000".to_owned()));
    world.crash(volume);

    world.hand.pass(DAY);
    let volume = world.open();
    write(&alice(&volume), "b", 3).unwrap();
    let end = volume.quota().get(ALICE).unwrap().bytes.deadline;
    assert_eq!(
        end,
        Some(world_seconds(&world) + 7 * 86_400),
        "a new period"
    );
    world.crash(volume);
}

#[test]
fn a_volume_without_quotas_enforces_none_and_forgets_none() {
    let mut world = World::default();
    let volume = shared(&world);
    volume.quota().set(ALICE, &blocks(Some(1), None)).unwrap();
    world.close(volume);
    let volume = world.builder().quotas(false).build().unwrap();
    assert!(!volume.charges_first());
    assert_eq!(write(&alice(&volume), "a", 5), Ok(5 * BLOCK as usize));
    world.close(volume);
    let volume = world.open();
    assert_eq!(write(&alice(&volume), "b", 1), Err(Errno::EDQUOT));
    world.crash(volume);
}

#[test]
fn the_size_of_the_volume_is_what_each_mount_says() {
    let mut world = World::default();
    let volume = shared(&world);
    let size = blocks(Some(100), None);
    volume.quota().set(QuotaId::VOLUME, &size).unwrap();
    world.close(volume);
    let volume = world.builder().size(40 * BLOCK).build().unwrap();
    let record = volume.quota().get(QuotaId::VOLUME).unwrap();
    assert_eq!(record.bytes.hard, Some(40 * BLOCK));
    world.crash(volume);
}

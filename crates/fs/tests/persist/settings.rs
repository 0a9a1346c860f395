//! Weights and ceilings of tenants, tunables, and values that cannot be read.

use super::World;
use hearth::sched::{LimitChange, Limits};
use hearth::{Event, TenantId, Volume};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn tenant(volume: &Volume, who: TenantId) -> (u32, Limits) {
    let sched = volume.scheduler();
    let tenant = sched.tenant(who.number());
    (sched.weight(tenant), sched.limits(tenant))
}

#[test]
fn weights_and_ceilings_of_tenants_are_there_again_and_what_was_lifted_is_not() {
    let (one, two) = (TenantId::User(7), TenantId::Project(3));
    let mut world = World::default();
    let volume = world.open();
    volume.set_weight(one, 300).unwrap();
    let both = [LimitChange::Ops(Some(50)), LimitChange::Bytes(Some(9))];
    volume.change_limits(one, &both).unwrap();
    volume
        .change_limits(one, &[LimitChange::Bytes(None)])
        .unwrap();
    volume.set_weight(two, 1).unwrap();
    volume.set_weight(two, 100).unwrap();
    assert!(volume.set_weight(one, 0).is_err());
    volume.sync().unwrap();
    world.crash(volume);

    let volume = world.open();
    let limits = Limits {
        ops: Some(50),
        bytes: None,
    };
    assert_eq!(tenant(&volume, one), (300, limits));
    assert_eq!(tenant(&volume, two), (100, Limits::default()));
    assert_eq!(world.keys(), ["sched/user:7"]);
    world.crash(volume);
}

#[test]
fn tunables_of_the_volume_are_there_again_and_the_options_of_a_mount_are_not() {
    let mut world = World::default();
    let volume = world.open();
    let heat = volume.heat();
    heat.set_interval(60).unwrap();
    heat.set_memory(5).unwrap();
    let lives = [90, 900].map(Duration::from_secs);
    heat.set_half_lives(lives[0], lives[1]).unwrap();
    assert!(heat.set_interval(0).is_err());
    heat.switch(true);
    volume.set_memory_budget(1 << 20);
    volume.set_atime(hearth::AtimeMode::No);
    world.close(volume);

    let volume = world.open();
    let heat = volume.heat();
    assert_eq!(
        (heat.interval(), heat.memory(), heat.half_lives()),
        (60, 5, [90, 900])
    );
    assert!(!heat.is_on());
    assert_eq!(volume.memory_budget(), 0);
    assert_eq!(volume.atime(), hearth::AtimeMode::Relatime);
    world.crash(volume);
}

#[test]
fn a_value_that_cannot_be_read_is_counted_hides_no_other_and_stays() {
    let mut world = World::default();
    let volume = world.open();
    volume.set_weight(TenantId::User(7), 300).unwrap();
    world.close(volume);
    world.put("sched/user:8", b"1 weight=0");
    world.put("sched/user:9", b"2 weight=5");
    world.put("tune/hot-mem-high-thresh", b"1 mib=\xff");
    world.put("heat/files/0/0", &[1, 0x80]);
    world.put("quota/id/user:x", b"");
    world.put("later/thing", b"of a newer program");
    let kept = world.keys();

    let volume = world.open();
    assert_eq!(volume.stats().events(Event::SettingIgnored), 5);
    assert_eq!(tenant(&volume, TenantId::User(7)).0, 300);
    assert_eq!(tenant(&volume, TenantId::User(8)).0, 100);
    world.close(volume);
    assert_eq!(world.keys(), kept);
}

#[test]
fn a_volume_on_which_nothing_changes_commits_nothing() {
    let mut world = World::default();
    let volume = world.open();
    let process = super::root(&volume);
    super::create(&process, "/a", 5000).unwrap();
    volume.heat().switch(true);
    volume.set_weight(TenantId::User(7), 300).unwrap();
    drop(process);
    world.close(volume);

    let commits = world.count_commits();
    let volume = world.builder().hot_track(true).build().unwrap();
    for _ in 0..100 {
        world.hand.pass(Duration::from_secs(60));
        volume.run_background_once();
        volume.sync().unwrap();
    }
    world.close(volume);
    assert_eq!(commits.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_set_on_a_read_only_volume_holds_until_it_ends() {
    let mut world = World::default();
    let volume = world.open();
    volume.set_weight(TenantId::User(7), 300).unwrap();
    world.close(volume);
    let commits = world.count_commits();
    let volume = world.builder().read_only(true).build().unwrap();
    volume.set_weight(TenantId::User(7), 400).unwrap();
    volume.sync().unwrap();
    assert_eq!(tenant(&volume, TenantId::User(7)).0, 400);
    world.close(volume);
    assert_eq!(commits.load(Ordering::SeqCst), 0);
    let volume = world.open();
    assert_eq!(tenant(&volume, TenantId::User(7)).0, 300);
    world.crash(volume);
}

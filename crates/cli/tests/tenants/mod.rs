//! Tenants of a mount that compete.

use super::harness::{Mounted, Said, hearth, said, succeed};
use hearth_testing::threads::SetOnDrop;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Runs `hearth sched`; `@` is the mount point.
pub fn sched(mounted: &Mounted, typed: &str) -> Said {
    said(&mut command(mounted, hearth(), typed))
}

pub fn command(mounted: &Mounted, mut command: Command, typed: &str) -> Command {
    let mount = mounted.path().to_str().unwrap();
    command.arg("sched");
    command.args(typed.split(' ').map(|word| word.replace('@', mount)));
    command
}

/// Has to work; what it printed.
pub fn done(mounted: &Mounted, typed: &str) -> String {
    let said = sched(mounted, typed);
    assert!(said.success(), "hearth sched {typed}: {said:?}");
    said.out
}

/// A directory that is a project, with a file of this many bytes.
pub fn project(mounted: &Mounted, id: u32, bytes: usize) -> File {
    let directory = mounted.at(format!("p{id}"));
    std::fs::create_dir(&directory).unwrap();
    let mut quota = hearth();
    quota.args(["quota", "project"]).arg(&directory);
    succeed(quota.arg(id.to_string()));
    std::fs::write(directory.join("file"), vec![7; bytes]).unwrap();
    File::open(directory.join("file")).unwrap()
}

/// A thread for each file of each tenant, dealt out to the CPUs, does `step` again and again for so
/// long: how often it was done for each tenant.
pub fn race(tenants: &[&[File]], time: Duration, step: impl Fn(&File) + Sync) -> Vec<u64> {
    let counts: Vec<_> = tenants.iter().map(|_| AtomicU64::new(0)).collect();
    let (end, step) = (AtomicBool::new(false), &step);
    let cpus = thread::available_parallelism().unwrap().get();
    thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        for (files, count) in tenants.iter().zip(&counts) {
            for (number, file) in files.iter().enumerate() {
                let end = &end;
                scope.spawn(move || {
                    let mut cpu = CpuSet::new();
                    cpu.set(number % cpus);
                    sched_setaffinity(None, &cpu).unwrap();
                    loop {
                        step(file);
                        // What comes back after the end was not competed for any more.
                        if end.load(Ordering::Relaxed) {
                            break;
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        }
        thread::sleep(time);
    });
    counts.into_iter().map(AtomicU64::into_inner).collect()
}

//! Random scripts of the model: what a script gets on the mount it gets on the directory itself.

use super::harness::{Below, Mounted, Transport, seed};
use crate::model::mount::{self, Kernel, Kind};
use crate::model::{cases, runner};
use hearth_model::strategy::{Abilities, script};
use hearth_model::{Numbers, Op, System, listing, reduced};
use proptest::strategy::{Strategy, ValueTree};
use std::cell::Cell;
use std::path::Path;

const SCRIPTS: u32 = 20;

#[test]
fn scripts_do_on_the_mount_what_they_do_on_the_directory() {
    mount::check_machine();
    let (native, below) = (Below::ext4(), Below::ext4());
    let mounted = Mounted::over(Transport::Dev, below.path(), "direct_io,attr_timeout=0");
    let abilities = Abilities {
        ranges: false,
        projects: false,
        direct: false,
    };
    let (scripts, mut runner, number) = (script(abilities, 1..80), runner(), Cell::new(0));
    let check = |steps: &[(usize, Op)]| {
        number.set(number.get() + 1);
        let mut native = inside(native.path(), number.get());
        let mut mounted = inside(mounted.path(), number.get());
        agree(&mut native, &mut mounted, steps)
    };
    for _ in 0..cases(SCRIPTS) {
        let mut steps = scripts.new_tree(&mut runner).expect("a script").current();
        steps.retain(|(_, op)| !is_told_otherwise(op));
        if let Err(first) = check(&steps) {
            let (why, fewer) = reduced(&steps, first, check);
            panic!("seed {}: {why}\n{}", seed(), listing(&fewer));
        }
    }
}

/// Processes in a new directory.
fn inside(place: &Path, number: usize) -> Kernel {
    let directory = place.join(format!("s{number}"));
    std::fs::create_dir(&directory).expect("a directory");
    let directory: &'static Path = Box::leak(directory.into_boxed_path());
    Kernel::start(Kind::Directory(directory))
}

fn agree(native: &mut Kernel, mounted: &mut Kernel, steps: &[(usize, Op)]) -> Result<(), String> {
    for (step, (p, op)) in steps.iter().enumerate() {
        let (expected, found) = (native.apply(*p, op), mounted.apply(*p, op));
        // Numbers of inodes are used again, and not in the same order.
        if !expected.agrees(&found, &mut Numbers::default()) {
            return Err(format!(
                "step {step}, process {p}: {op:?}\n  expected {expected:?}\n  found    {found:?}"
            ));
        }
    }
    Ok(())
}

/// What the kernel in front answers in its own way, as `docs/semantics.md` says.
fn is_told_otherwise(op: &Op) -> bool {
    match op {
        // It shows no attributes of inodes.
        Op::StatX { .. } => true,
        // It has ends and holes of directories of its own.
        Op::Seek { whence, .. } => *whence > libc::SEEK_CUR,
        // Flags of inodes that Hearth does not know are EOPNOTSUPP, also where ext4 ignores them.
        Op::SetFlags { .. } => true,
        // It answers a write of nothing by itself.
        Op::Write { data, .. } | Op::WriteAt { data, .. } => data.len == 0,
        _ => false,
    }
}

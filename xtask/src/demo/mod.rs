//! `cargo xtask demo`: what Hearth is for, shown on this machine in less than a minute after the
//! build: a directory that is there, what is hot in it, a quota, tenants, locks, a volume that
//! survives `kill -9`. Nothing stays mounted, and nothing outside a temporary directory is changed.

mod stage;
mod tenants;

use crate::{install, place, process};
use stage::Stage;

/// The commands of the README's first screen, in its order. `cargo xtask readme` runs them there.
pub const FIRST_SCREEN: [&str; 3] = [
    "hearth mount -o quota=wait,hot_track ./data ./mnt",
    "hearth heat top ./mnt -n 3",
    "hearth run --limit 256KiB -- sh -c 'cat ../db/main.db > copy'",
];

/// What lies in the directory before the first mount.
pub const BEFORE: &[&str] = &[
    "mkdir -p data/db data/project data/run mnt",
    "head -c 1M /dev/urandom > data/db/main.db",
    "printf 'int main(void) { return 0; }\\n' > data/project/main.c",
];

/// Programs that work on the mount, so that something is hot.
pub const WORK: &[&str] = &[
    "git init --quiet --initial-branch=main mnt/project",
    "git -C mnt/project add main.c",
    "git -C mnt/project -c user.name=demo -c user.email=demo@example.org commit --quiet -m first",
    "gcc -o mnt/project/main mnt/project/main.c && mnt/project/main",
    "head -c 800k /dev/zero | dd of=mnt/db/main.db bs=4k iflag=fullblock conv=notrunc status=none",
    "for i in $(seq 25); do echo \"request $i\" >> mnt/project/requests.log; done",
];

const QUOTA: &[&str] = &[
    "mkdir mnt/scratch",
    "hearth quota project ./mnt/scratch 7",
    "hearth quota set project:7 --hard 1MiB ./mnt",
    "! head -c 4M /dev/zero > mnt/scratch/big",
    "stat --format '%n has %s bytes' mnt/scratch/big",
    "df -h mnt/scratch",
    "hearth quota events ./mnt",
];

const STORE: &[&str] = &[
    "hearth mkfs store:./volume",
    "mkdir kept && hearth mount store:./volume ./kept",
    "cp data/db/main.db kept/ && hearth sync ./kept",
    "kill -9 $(cat kept/.hearth/pid)",
    "hearth umount ./kept && hearth mount store:./volume ./kept",
    "cmp data/db/main.db kept/main.db && echo 'the same bytes'",
    "hearth umount ./kept && hearth fsck ./volume",
];

const AFTER: &[&str] = &[
    "hearth umount ./mnt",
    "ls -l data/db data/scratch",
    "git -C data/project status --short",
];

/// Installs, builds, and shows one thing after the other.
pub fn run() -> Result<(), String> {
    install::packages(|program| needs(program, process::is_root()))?;
    process::build_program()?;
    let mut stage = Stage::new(&place::target().join("debug"))?;
    let [mount, top, run] = FIRST_SCREEN;
    stage.quietly(BEFORE)?;
    stage.scene("a directory that is there is served; its files stay where they are");
    stage.shell(mount)?;
    stage.scene("programs work in it: git, gcc, a database that writes, a log");
    stage.quietly(WORK)?;
    stage.scene("which files are hot, and whose they are");
    stage.shell(top)?;
    stage.scene("a directory gets a limit: a write is refused at the byte, and df says why");
    stage.all(QUOTA)?;
    stage.scene("a program with a limit of its own, without root; it is told at the byte, too");
    stage.in_directory("data/run", &format!("! {run}"))?;
    stage.scene("two tenants: a quiet one, and a greedy one that gets a limit");
    tenants::show(&stage)?;
    stage.scene("a volume with a format of its own: what was synced survives kill -9");
    stage.all(STORE)?;
    stage.scene("unmounted: the files are plain files where they were");
    stage.all(AFTER)?;
    stage.end()
}

/// Whether the demonstration starts this program; root mounts without a helper.
fn needs(program: &str, is_root: bool) -> bool {
    let lines = [BEFORE, WORK, QUOTA, STORE, AFTER].concat();
    let starts = |line: &&str| line.split([' ', '(', ')']).any(|word| word == program);
    lines.iter().any(starts) || (program == "fusermount3" && !is_root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_demonstration_starts_is_installed() {
        let needed = |is_root| -> Vec<&str> {
            let programs = install::programs();
            programs.filter(|program| needs(program, is_root)).collect()
        };
        assert_eq!(needed(true), ["git", "gcc"]);
        assert_eq!(needed(false), ["fusermount3", "git", "gcc"]);
    }
}

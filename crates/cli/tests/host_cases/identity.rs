//! Which file it is.

use crate::case::{Case, run};
use crate::harness::{Below, Mounted, Transport, program, shell, succeed};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn hr4_a_number_in_a_listing_is_that_of_the_file() {
    Case::on(Below::ext4).agrees(
        "hr4",
        r##"
mkdir d; cd d
seq -f 'n%g' 3000 | xargs touch; cd ..
echo 2 > /proc/sys/vm/drop_caches
PY=$(cat <<'P'
import os
bad = 0
for turn in range(2):
    for e in os.scandir('d'):
        bad += e.inode() != os.lstat(e.path).st_ino
print('wrong numbers', bad)
P
)
/usr/bin/python3 -c "$PY"
stat -c %h d; touch d/x; stat -c %h d; mkdir d/y; stat -c %h d; rmdir d/y; stat -c %h d
"##,
    );
}

#[test]
fn hr6_links_are_counted_at_once_on_every_name_and_descriptor() {
    Case::on(Below::ext4).agrees(
        "hr6",
        r##"
echo a > a
exec 3< a
ln a b; stat -c %h a b; stat -Lc %h /proc/self/fd/3
rm b; stat -c %h a; stat -Lc %h /proc/self/fd/3
echo c > c; exec 4< c; ln a b; mv b c; stat -c %h a c; stat -Lc %h /proc/self/fd/4
ln $S/a $S/z; pause; stat -c %h a c z
"##,
    );
}

/// btrfs has the same inode numbers in each subvolume.
#[test]
fn hr1_different_files_have_different_numbers_and_hard_links_the_same() {
    let numbers = |of: &Path, by_device: bool| {
        let format = if by_device { "%D %i\\n" } else { "%i\\n" };
        let mut find = program("find");
        find.arg(of).args(["!", "-name", "..", "-printf", format]);
        let found: BTreeSet<String> = succeed(&mut find).lines().map(Into::into).collect();
        found.len()
    };
    let below = Below::btrfs();
    succeed(&mut shell(
        below.path(),
        "for v in v1 v2; do btrfs -q subvolume create $v; mkdir $v/d; echo $v > $v/d/f
         ln $v/d/f $v/g; done; btrfs -q subvolume snapshot v1 v3",
    ));
    let case = Case::over(below);
    let (native, seen) = (
        numbers(case.below.path(), true),
        numbers(case.mounted.path(), false),
    );
    // Two names of each file are one.
    assert_eq!((native, seen), (10, 10));
    let ino = |path: &str| fs::metadata(case.mounted.at(path)).unwrap().ino();
    assert!(ino("v1/d/f") == ino("v1/g") && ino("v1/g") != ino("v2/g"));
    for name in ["v1", "v2"] {
        let text = fs::read_to_string(case.mounted.at(name).join("g")).unwrap();
        assert_eq!(text.trim_end(), name);
    }
    let moved = fs::rename(case.mounted.at("v1/g"), case.mounted.at("v2/moved"));
    assert_eq!(moved.unwrap_err().raw_os_error(), Some(libc::EXDEV));
    let find = succeed(&mut shell(
        case.mounted.path(),
        "find . -ls 2>&1 >/dev/null",
    ));
    assert_eq!(find, "");
}

#[test]
fn hr2_a_number_that_is_used_again_is_another_file() {
    let case = Case::on(Below::ext4);
    case.agrees(
        "hr2",
        r##"
/usr/bin/python3 - <<'P'
import os, subprocess, sys, time
S = os.environ['S']
watch = """
import os, sys
bad = set()
while not os.path.exists('stop'):
    try:
        os.stat('x'); f = os.open('x', os.O_RDONLY)
        try: os.read(f, 10)
        finally: os.close(f)
    except (FileNotFoundError, IsADirectoryError): pass
    except OSError as e:
        if e.errno != 21: bad.add(str(e))
print(sorted(bad))
"""
w = subprocess.Popen([sys.executable, '-c', watch])
for i in range(1000):
    os.mkdir(S + '/x'); os.rmdir(S + '/x')
    open(S + '/x', 'w').write(str(i))
    if i % 100 == 0: held = open('x' if S == '.' else S + '/x')
    os.unlink(S + '/x')
open(S + '/x', 'w').write('last'); time.sleep(1.1)
print(open('x').read()); open(S + '/stop', 'w').close(); w.wait()
P
"##,
    );
}

#[test]
fn hr5_totals_count_a_file_once() {
    Case::on(Below::ext4).agrees(
        "hr5",
        r##"
for i in $(seq 40); do mkdir -p $((i % 7)) l; head -c 100K /dev/zero > $((i % 7))/$i
    for n in a b c d; do ln $((i % 7))/$i l/$i$n; done; done
du -s . | cut -f1; find . -links 5 | wc -l; tar -cf - . | wc -c
T=$(mktemp -d); rsync -aH ./ $T/; find $T -links 5 | wc -l; du -s $T | cut -f1; rm -r $T
"##,
    );
}

#[test]
fn hr7_the_time_of_birth_is_the_directorys() {
    for make in [Below::ext4, Below::xfs, Below::btrfs, Below::tmpfs] {
        Case::on(make).agrees(
            "hr7",
            r##"
touch f; mkdir d; ln -s f l
for x in f d l; do a=$(stat -c %W $x); [ $a = $(stat -c %W $S/$x) ]; [ $a != 0 ]; done
mv f g; [ $(stat -c %W g) = $(stat -c %W $S/g) ]
cp -a /bin/true g; [ $(stat -c %W g) = $(stat -c %W $S/g) ]; echo same
"##,
        );
    }
}

/// `cp` cannot see that both are one file: `docs/semantics.md` says so.
#[test]
fn hr8_a_copy_of_a_file_onto_itself_by_the_other_path_is_what_fuse_makes_of_it() {
    let case = Case::on(Below::ext4);
    let below = case.below.path();
    let script = "echo contents > f; cp f $S/f || true; wc -c < f";
    assert_eq!(succeed(&mut run(below, below, script)), "9\n");
    assert_eq!(succeed(&mut run(below, case.mounted.path(), script)), "0\n");
}

/// Once, the first change of a file of a lower layer made another file of it, with locks of its
/// own.
#[test]
fn a_file_of_an_overlay_is_one_before_and_after_its_first_change() {
    let layers = Below::tmpfs();
    for name in ["low", "low/d", "up", "work", "merged"] {
        fs::create_dir(layers.at(name)).unwrap();
    }
    fs::write(layers.at("low/f"), "lower").unwrap();
    fs::write(layers.at("low/m"), "lower").unwrap();
    succeed(&mut shell(
        layers.path(),
        "mount -t overlay -o lowerdir=low,upperdir=up,workdir=work o merged",
    ));
    for options in ["", "passthrough=off"] {
        let mounted = Mounted::over(Transport::Dev, &layers.at("merged"), options);
        let said = mounted.shell(
            "/usr/bin/python3 - <<'P'
import fcntl, mmap, os, time
f = os.open('f', os.O_RDONLY)
fcntl.flock(f, fcntl.LOCK_EX)
m = os.open('m', os.O_RDONLY)
mapped = mmap.mmap(m, 5, prot=mmap.PROT_READ)
before = mapped[:], os.fstat(f).st_ino
os.chdir('d')
open('../f', 'r+').write('upper')
open('../m', 'r+').write('upper')
os.chmod('.', 0o700)
time.sleep(1.1)
g = os.open('../f', os.O_RDWR)
try: fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB); print('both have it')
except BlockingIOError: print('locked')
print(before[1] == os.fstat(g).st_ino, os.getcwd()[-2:], mapped[:])
P",
        );
        assert_eq!(said, "locked\nTrue /d b'upper'\n", "{options}");
        mounted.unmount();
        succeed(&mut shell(
            layers.path(),
            "umount merged; rm -rf up work; mkdir up work
             mount -t overlay -o lowerdir=low,upperdir=up,workdir=work o merged",
        ));
    }
    succeed(program("umount").arg(layers.at("merged")));
}

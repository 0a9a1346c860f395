//! A mount of a host volume with mapped ids, against one of the directory's own filesystem: what a
//! pod with a user namespace has.

use crate::harness::{Below, Mounted, Private, Transport, hearth, program, said, succeed};
use crate::quotas::{as_user, done, used};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What scripts call, in an empty directory that everybody may write to. `P` is this directory
/// through the mapping, `M` without one, `S` below. Users are those of the machine: `as 101000` is
/// user 1000 of the filesystem. `pod` is root of a namespace with the mapping's ids.
const WORDS: &str = r#"
as() { local id=$1; shift; setpriv --reuid $id --regid $id --clear-groups "$@"; }
pod() { "$IDMAP" -- "$@"; }
# What a command says, or why it fails: the last part of its last line.
try() {
    local said status=0
    said=$("$@" 2>&1) || status=$?
    if [ $status = 0 ]; then echo "ok $said"; else echo "no ${said##*: }"; fi
}
py() { local id=$1; shift; as $id /usr/bin/python3 -c "$TOOLS
$1"; }
cd "$P"
"#;

/// For `py`: a call, or the name of its error; entries of an ACL.
const TOOLS: &str = r#"
import os, errno, ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def did(call, *args):
    try: return call(*args)
    except OSError as e: return errno.errorcode[e.errno]
def acl(*entries):
    return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in entries)
def entries(value):
    return [e for e in struct.iter_unpack('<HHI', value[4:])] if isinstance(value, bytes) else value
"#;

/// A filesystem, and the program that maps ids.
struct Place {
    idmap: PathBuf,
    mapped: PathBuf,
    outside: Private,
}

impl Place {
    fn new() -> Place {
        let outside = Private::new();
        let idmap = outside.path().join("idmap");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/c/idmap.c");
        succeed(program("gcc").args(["-Wall", "-o"]).arg(&idmap).arg(source));
        Place {
            idmap,
            mapped: outside.directory("mapped"),
            outside,
        }
    }

    /// A script where `mount` is mapped, in a namespace that takes the mapping along when it ends.
    fn script(&self, below: &Path, mount: &Path, name: &str, script: &str) -> Command {
        let start = "\"$IDMAP\" \"$ROOT\" \"$TOP\"; export P=\"$TOP/$NAME\"; mkdir -m 1777 \"$M\"";
        let script = format!("{start}\n{WORDS}{script}");
        let mut unshare = program("unshare");
        unshare.args(["--mount", "bash", "-euo", "pipefail", "-c", &script]);
        unshare.env("LC_ALL", "C").env("TOOLS", TOOLS);
        unshare.env("IDMAP", &self.idmap).env("TOP", &self.mapped);
        unshare.env("NAME", name).env("ROOT", mount);
        unshare
            .env("M", mount.join(name))
            .env("S", below.join(name));
        unshare
    }
}

/// Filesystems of two kinds, each with a mount over another one like it.
fn agrees(name: &str, options: &str, script: &str) {
    let place = Place::new();
    for make in [Below::tmpfs, Below::ext4] {
        let (native, below) = (make(), make());
        let mounted = Mounted::over(Transport::Dev, below.path(), options);
        let at = native.path();
        let expected = succeed(&mut place.script(at, at, name, script));
        let found = said(&mut place.script(below.path(), mounted.path(), name, script));
        assert!(
            found.success() && found.out == expected,
            "{name} on {}: the mapped directory says\n{expected}\nthe mapped mount says\n{}{}",
            below.path().display(),
            found.out,
            found.err
        );
    }
}

#[test]
fn what_is_made_belongs_to_the_mapped_user_below() {
    agrees(
        "owners",
        "idmap",
        r#"
as 101000 bash -ec 'echo user > f; mkdir d; ln -s f l; mkfifo p; ln f h'
py 101000 "
f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
print(libc.linkat(-100, b'/proc/self/fd/%d' % f, -100, b't', 0x400))
print(did(os.mknod, 'dev', 0o20600, os.makedev(1, 3)), did(os.mknod, 'reg', 0o100640))"
pod bash -ec 'echo root > pf; mkdir pd; ln -s pf pl; chown 7:8 pf; echo more >> pf; mkdir -m 700 own
    chown 1000:1000 own; echo x > own/of-root; chmod 640 own/of-root'
for at in "$P" "$M" "$S"; do
    (cd "$at"; stat -c '%n %u:%g %a %F %h' f d l h t reg pf pd pl own own/of-root)
done
as 101000 cat own/of-root || true
try touch nobody; try as 99999 touch nobody; try as 101000 chown 1001 f; try chown 101005:101006 f
stat -c %u:%g "$P/f" "$S/f"; try chown 5 f; try pod chown 200000 f
py 101000 "
os.close(os.open('w', os.O_CREAT))
print(libc.renameat2(-100, b'w', -100, b'moved', 4), os.lstat('w').st_uid)"
(cd "$S"; stat -c '%n %u:%g %F %t:%T' w moved)"#,
    );
}

#[test]
fn a_stranger_is_refused_through_the_mapping() {
    agrees(
        "strangers",
        "idmap",
        r#"
as 101000 bash -ec 'echo secret > f; chmod 600 f; mkdir -m 755 d; echo x > d/x; echo r > r'
for c in "cat f" "cat d/x" "touch d/y" "rm -f d/x" "rm -f r" "mv r r2" "chmod 777 r" \
    "chown 101001 r" "truncate -s 1 r" "touch -d @5 r" "touch r" "ln f g" "ln r g" "rmdir d" \
    "chattr +d r" "chattr +i r" "chattr +A d"; do
    echo "$c: $(try as 101001 $c)"
done
for c in "chattr +d r" "chattr +i r" "chattr +a r" "chattr +A d" "touch -d @5 r" \
    "chgrp 101002 r"; do
    echo "owner, $c: $(try as 101000 $c)"; echo "root, $c: $(try pod $c)"
done
# Who owns it without the mapping is a stranger with it, and the other way round.
for c in "cat f" "rm -f r" "chmod 777 r" "chattr +d r"; do echo "$c: $(try as 1000 $c)"; done
(cd "$M"; try as 101000 cat f; try as 1000 cat f; try as 1000 chmod 640 f)
noatime='print(did(os.open, "r", os.O_RDONLY | os.O_NOATIME) == "EPERM")'
py 101001 "$noatime"; py 101000 "$noatime"
# Flags and project by their other calls: FS_IOC_SETFLAGS, also as of 32 bits, FSSETXATTR,
# file_setattr(2).
py 101001 "
import fcntl
f = os.open('r', os.O_RDONLY)
for number, value in ((0x40086602, bytes([64]) + bytes(7)), (0x40046602, bytes([64]) + bytes(3)),
    (0x401c5820, bytes(12) + b'\\7' + bytes(15))):
    print(hex(number), did(fcntl.ioctl, f, number, value))
if libc.syscall(469, -100, b'r', bytes([128]) + bytes(23), ctypes.c_size_t(24), 0) != 0:
    print(errno.errorcode[ctypes.get_errno()])"
(ulimit -f 1; trap '' XFSZ; try as 101000 bash -c 'head -c 4k /dev/zero > big'; stat -c %s big
 try as 101000 truncate -s 1M r; try as 101000 fallocate -l 1M r)
# What is immutable or append-only below stays so for everybody.
chattr +i "$S/r"; chattr +a "$S/d/x"; sleep 1.1
for c in "touch r" "rm -f r" "ln r g"; do echo "$c: $(try as 101000 $c)"; done
try as 101000 bash -c 'echo > r'; try as 101000 bash -c 'echo > d/x'
try as 101000 bash -c 'echo >> d/x'
try pod rm -f r; chattr -i "$S/r"; chattr -a "$S/d/x"
# A name that others have made since the kernel looked.
[ ! -e later ]; (cd "$S"; echo secret > later; chmod 600 later)
try as 101000 bash -c 'echo > later'; try pod bash -c 'cat later; echo > later'; cat "$S/later"
(cd "$S"; rm later); [ ! -e later ] || sleep 1.1; [ ! -e later ]
(cd "$S"; touch later; chown 5:5 later)
try as 101000 bash -c 'echo > later'"#,
    );
}

/// Of who writes, who is in the group and who is privileged.
const SET_IDS: &str = r#"
fresh() { rm -f f src; head -c 10000 /dev/zero > "$M/f"; chown 1000:1000 "$M/f"; chmod $1 "$M/f"
    echo text > "$M/src"; chmod 644 "$M/src"; stat -c %a "$P/f" > /dev/null; }
change='
def write(): os.write(os.open("f", os.O_WRONLY), b"x")
def append(): os.write(os.open("f", os.O_WRONLY | os.O_APPEND), b"x")
def cut(): os.truncate("f", 5)
def cut_open(): os.ftruncate(os.open("f", os.O_WRONLY), 5)
def emptied(): os.open("f", os.O_WRONLY | os.O_TRUNC)
def allocate(): os.posix_fallocate(os.open("f", os.O_WRONLY), 0, 20000)
def punch():
    if libc.fallocate(os.open("f", os.O_WRONLY), 3, ctypes.c_long(0), ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(), "")
def copy(): os.copy_file_range(os.open("src", os.O_RDONLY), os.open("f", os.O_WRONLY), 4)
def chown(): os.chown("f", os.stat("f").st_uid, os.stat("f").st_gid)
'
for mode in 6777 2767 4777; do
    # Who is in the group is known to the kernel alone, and setgid goes for all of them.
    all="101001 101000 pod 0"; [ $mode != 2767 ] || all="101001 0"
    for how in write append cut cut_open emptied allocate punch copy chown; do
        for who in $all; do
            fresh $mode
            case $who in
            pod) did=$(pod /usr/bin/python3 -c "$TOOLS$change"$'\n'"print(did($how))") ;;
            *) did=$(py $who "$change"$'\n'"print(did($how))") ;;
            esac
            echo "$mode $how $who: $did $(stat -c %a "$P/f" "$M/f" "$S/f" | tr '\n' ' ')"
        done
    done
done
"#;

#[test]
fn setuid_goes_and_stays_as_through_a_mapping_of_the_directory() {
    agrees("set-ids", "idmap", SET_IDS);
}

#[test]
fn setuid_goes_and_stays_where_nothing_is_passed_through() {
    agrees("set-ids", "idmap,passthrough=off", SET_IDS);
}

#[test]
fn groups_acls_and_attributes_are_those_of_the_mapped_user() {
    agrees(
        "acls",
        "idmap",
        r#"
(cd "$M"; mkdir -m 2777 g; chgrp 5000 g; chmod 2777 g)
as 101000 bash -ec 'cd g; touch f; mkdir d; ln -s f l; chmod 2755 d f
    install -m 2755 /dev/null made'
setpriv --reuid 101000 --regid 101000 --groups 105000 bash -ec 'cd g; touch m
    chmod 2755 m; mkdir md'
pod bash -ec 'cd g; touch p; chmod 2755 p; mkdir pd; chmod 6755 p'
stat -c '%n %u:%g %a' "$P"/g/* | sed "s|$P/||"; (cd "$S"; stat -c '%n %u:%g %a' g/*)
# Entries of an ACL are mapped; what a directory passes on is as below.
py 101000 "
os.mkdir('a', 0o700)
n = 2**32 - 1
u = acl((1, 7, n), (2, 5, 101005), (4, 7, n), (16, 7, n), (32, 0, n))
for name in ('system.posix_acl_access', 'system.posix_acl_default'):
    print(did(os.setxattr, 'a', name, u))
os.umask(0o077)
os.close(os.open('a/f', os.O_CREAT | os.O_WRONLY, 0o666)); os.mkdir('a/d'); os.mkfifo('a/p')
for path in ('a', 'a/f', 'a/d', 'a/p'):
    for name in ('access', 'default'):
        print(path, name, entries(did(os.getxattr, path, 'system.posix_acl_' + name)))
print(oct(os.stat('a/f').st_mode), oct(os.stat('a/d').st_mode))"
/usr/bin/python3 -c "$TOOLS
for at in (os.environ['M'], os.environ['S']):
    for path in ('a', 'a/f', 'a/d'):
        print(path, entries(did(os.getxattr, at + '/' + path, 'system.posix_acl_access')))"
try as 101005 ls a; try as 101006 ls a; try as 101005 touch a/g; try as 1005 ls a
# setgid of a group that its owner is not in goes with an ACL.
(cd "$M"; touch s; chown 1000:5000 s; chmod 2775 s)
py 101000 "
print(did(os.setxattr, 's', 'system.posix_acl_access', acl((1, 7, 2**32 - 1), (2, 4, 101005),
    (4, 7, 2**32 - 1), (16, 7, 2**32 - 1), (32, 0, 2**32 - 1))), oct(os.stat('s').st_mode))"
echo x > "$M/x"; chown 1000:1000 "$M/x"
attributes='
names = ("user.a", "trusted.a", "security.a", "security.capability")
for name in names: print("set", name, did(os.setxattr, "x", name, b"value"))
print(sorted(n for n in os.listxattr("x") if n != "security.selinux"))
for name in names: print(name, did(os.getxattr, "x", name))
for name in names: print("remove", name, did(os.removexattr, "x", name))
'
py 101000 "$attributes"; py 0 "$attributes"; pod /usr/bin/python3 -c "$TOOLS$attributes"
py 0 "os.setxattr('x', 'trusted.b', b'1'); os.setxattr('x', 'user.b', b'1')"
py 101001 "$attributes"; py 101000 "print(sorted(os.listxattr('x')))""#,
    );
}

/// What is left to root alone is left to root of the machine.
#[test]
fn nobody_of_a_mapping_takes_the_reserve_of_the_filesystem() {
    let place = Place::new();
    let script = r#"
read -r unit free bavail < <(stat -f -c '%S %f %a' "$S")
more=$(( (bavail + (free - bavail) / 2) * unit ))
[ $free -gt $bavail ]
try as 101000 fallocate -l $more u; rm -f "$M/u"; try pod fallocate -l $more p; rm -f "$M/p"
(cd "$M"; try as 1000 fallocate -l $more v; rm -f v; try fallocate -l $more r; rm -f r)
as 101000 touch j; try as 101000 chattr +j j; try pod chattr +j j; try as 101000 chattr +d j
(cd "$M"; touch k; try chattr +j k)"#;
    let (native, below) = (Below::ext4(), Below::ext4());
    let at = native.path();
    let expected = succeed(&mut place.script(at, at, "reserve", script));
    assert!(
        expected.starts_with("no No space left on device\n"),
        "{expected}"
    );
    for options in ["idmap", "idmap,passthrough=off"] {
        let mounted = Mounted::over(Transport::Dev, below.path(), options);
        let name = format!("reserve-{options}");
        let found = succeed(&mut place.script(below.path(), mounted.path(), &name, script));
        assert_eq!(found, expected, "{options}");
    }
}

#[test]
fn a_limit_binds_the_mapped_user_and_commands_know_who_asks() {
    let (place, below) = (Place::new(), Below::tmpfs());
    let state = place.outside.directory("state");
    let options = format!("idmap,quota=wait,state={}", state.display());
    let mounted = Mounted::over(Transport::Uring, below.path(), &options);
    done(&mounted, "set user:1000 --hard 64k @");
    let script = r#"
as 101000 dd if=/dev/zero of=fits bs=32k count=1 status=none
try as 101000 dd if=/dev/zero of=not bs=32k count=2 status=none; rm not
echo root > "$M/of-root"; try chown 101000 of-root; rm "$M/of-root"
as 100007 bash -c 'head -c 8k /dev/zero > seven'
# Given away within the mapping: who gets it pays.
try pod chown 1000 seven
mount -t tmpfs -o mode=755 program /mnt; cp "$HEARTH" /mnt/hearth
asks() { { "$@" 2>&1 || true; } | sed 's/.*only root.*/only root/'; }
asks pod /mnt/hearth quota set user:1000 --hard 1M "$TOP"
asks as 101000 /mnt/hearth quota set user:1000 --hard 1M "$TOP"
# Flags that bring a project along: the owner's.
try as 101000 chattr +d fits; try as 101001 chattr +d fits"#;
    let mut unshare = place.script(below.path(), mounted.path(), "limits", script);
    let out = succeed(unshare.env("HEARTH", env!("CARGO_BIN_EXE_hearth")));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("quota exceeded"), "{out}");
    let rest = [
        "ok ",
        "ok ",
        "only root",
        "only root",
        "ok ",
        "no Operation not permitted",
    ];
    assert_eq!(lines[1..].len(), rest.len(), "{out}");
    for (line, expected) in lines[1..].iter().zip(rest) {
        assert!(
            line.starts_with(expected),
            "{line} instead of {expected}\n{out}"
        );
    }
    assert_eq!(used(&mounted, "user:1000"), (40 << 10, 2));
    assert_eq!(
        used(&mounted, "user:1001").1 + used(&mounted, "user:101000").1,
        0
    );
}

/// A request that names nobody counts for the owner of what it is about.
#[test]
fn the_tenant_is_the_owner_of_the_inode() {
    let below = Below::tmpfs();
    std::fs::write(below.at("f"), vec![7; 1 << 20]).unwrap();
    std::os::unix::fs::chown(below.at("f"), Some(1234), Some(1234)).unwrap();
    let mounted = Mounted::over(Transport::Dev, below.path(), "idmap,direct_io");
    for _ in 0..20 {
        std::fs::read(mounted.at("f")).unwrap();
    }
    let report = succeed(hearth().args(["sched", "--json"]).arg(mounted.path()));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let mut tenants = report["tenants"].as_array().unwrap().iter();
    let owner = tenants.find(|tenant| tenant["tenant"] == "user:1234");
    let ran = owner.map_or(0, |owner| owner["run_ns"].as_u64().unwrap());
    assert!(ran > 0, "{report}");
}

#[test]
fn a_daemon_of_another_user_refuses_to_be_mapped_and_says_what_to_do() {
    let private = Private::new();
    let (below, at) = (private.directory("below"), private.directory("m"));
    for path in [&below, &at] {
        std::os::unix::fs::chown(path, Some(1234), Some(1234)).unwrap();
    }
    // The program is where every user may run it.
    let program = private.path().join("hearth");
    std::fs::copy(env!("CARGO_BIN_EXE_hearth"), &program).unwrap();
    let mut mount = as_user(1234);
    mount
        .arg(program)
        .arg("mount")
        .arg(format!("host:{}", below.display()));
    let said = said(mount.arg(&at).args(["-o", "idmap"]));
    let tells = |word: &str| said.err.contains(word);
    assert!(
        !said.success() && tells("'idmap'") && tells("mount as root"),
        "{said:?}"
    );
    assert_eq!(said.err.trim().lines().count(), 1, "{said:?}");
}

//! What callers may: as on the directory itself.

use crate::case::Case;
use crate::harness::{Below, Mounted, Transport, program, said, succeed};
use std::fs;

#[test]
fn hr33_groups_are_those_of_the_calling_process_now() {
    Case::on(Below::ext4).agrees(
        "hr33",
        r##"
mkdir g; chmod 0770 g; chgrp 5000 g; echo r > gr; chmod 640 gr; chgrp 5000 gr; echo acl > facl
chmod 600 facl; setfacl -m g:5000:r facl; touch own; chown 1000:1000 own
try G 5000 touch g/x; try U touch g/y; try G 5000 cat gr; try U cat gr; try G 5000 cat facl
try U cat facl
try G 5000 chgrp 5000 own; stat -c %g own; try U chgrp 5001 own
PY=$(cat <<'P'
import os,sys
def child(i):
    os.setgroups([5000]); os.setresgid(1000,1000,1000)
    bad=0
    # groups change between calls, in one process: keeps saved root for it
    os.setresuid(1000,1000,0)
    for r in range(60):
        member=(r+i)%2==0
        os.seteuid(0); os.setgroups([5000] if member else []); os.seteuid(1000)
        try: os.close(os.open('gr',os.O_RDONLY)); got=True
        except PermissionError: got=False
        try: os.close(os.open('g/f%d'%i,os.O_CREAT|os.O_WRONLY)); gotc=True
        except PermissionError: gotc=False
        bad+= got!=member; bad+= gotc!=member
    os._exit(bad)
ps=[]
for i in range(6):
    p=os.fork()
    if p==0: child(i)
    ps.append(p)
print(sum(os.waitstatus_to_exitcode(os.waitpid(p,0)[1]) for p in ps))
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

#[test]
fn hr34_groups_count_in_containers_and_of_threads() {
    Case::on(Below::ext4).agrees(
        "hr34",
        r##"
mkdir g; chmod 0770 g; chgrp 5000 g; echo r > gr; chmod 640 gr; chgrp 5000 gr
unshare -pf --mount-proc setpriv --reuid 1000 --regid 1000 --groups 5000 sh -c 'touch g/x && cat gr'
try unshare -pf --mount-proc setpriv --reuid 1000 --regid 1000 --clear-groups cat gr
PY=$(cat <<'P'
import os,threading,ctypes
libc=ctypes.CDLL(None,use_errno=True)
SYS_setgroups=116; SYS_setresuid=117; SYS_setresgid=119
r=[]
def t(groups):
    a=(ctypes.c_uint*max(1,len(groups)))(*groups)
    libc.syscall(SYS_setgroups,len(groups),a)
    libc.syscall(SYS_setresgid,1000,1000,1000)
    libc.syscall(SYS_setresuid,1000,1000,1000)
    try: os.close(os.open('gr',os.O_RDONLY)); r.append('ok')
    except OSError as e: r.append(e.strerror)
    try: os.close(os.open('g/t%d'%len(groups),os.O_CREAT|os.O_WRONLY)); r.append('ok')
    except OSError as e: r.append(e.strerror)
for g in ([5000],[],[4,5000]):
    th=threading.Thread(target=t,args=(g,)); th.start(); th.join()
print(r)
P
)
/usr/bin/python3 -c "$PY"
for i in $(seq 20); do G 5000 sh -c "exec touch g/e$i"; done; ls g | wc -l
chmod 777 .; mkdir own; chown 1000:1000 own
U unshare -Ur sh -c 'touch own/ns; stat -c "%u %g" own/ns
    chmod 4755 own/ns; stat -c %a own/ns; rm own/ns'
"##,
    );
}

#[test]
fn hr36_a_call_needs_no_right_that_it_does_not_need_below() {
    Case::on(Below::ext4).agrees(
        "hr36",
        r##"
U sh -c 'echo 1 > f; chmod 0200 f; echo x >> f'; cat f; try U cat f
U sh -c 'touch z; setfattr -n user.a -v b z; chmod 000 z'
try U getfattr z; try U getfattr -d z; try U getfattr -n user.a z; try U touch z
try U chmod 0 z; try U ln z y; try U mv y x; try U lsattr z; try U rm -f x z
U sh -c 'touch q; chmod 0 q'; try U setfacl -m u:1001:r q; try U chown 1000:1000 q; try U cat q
echo x > r; chmod 444 r; chown 5:5 r; stat -c %u r; setfacl -m u:7:r r; getfacl -c r
"##,
    );
}

#[test]
fn hr37_what_was_opened_may_be_written_whatever_its_mode_is_now() {
    Case::on(Below::ext4).agrees(
        "hr37",
        r##"
PY=$(cat <<'P'
import os
os.setgroups([]); os.setgid(1000); os.setuid(1000)
f=os.open('o',os.O_CREAT|os.O_EXCL|os.O_RDWR,0o444)
print(os.write(f,b'x'*(1<<20)))
os.fchmod(f,0)
print(os.write(f,b'y'*5000))
os.ftruncate(f,1<<19)
os.fsync(f)
g=os.dup(f)
os.close(g)
print(os.pwrite(f,b'z',0), os.fstat(f).st_size, os.pread(f,2,0))
os.close(f)
import mmap
f=os.open('m',os.O_CREAT|os.O_EXCL|os.O_RDWR,0o444)
os.ftruncate(f,8192)
m=mmap.mmap(f,8192)
os.fchmod(f,0)
os.close(f)
m[0:4]=b'page'
m.flush()
m[4096:4100]=b'more'
m.close()
os.chmod('m',0o444)
print(open('m','rb').read()[:4], open(os.environ['S']+'/m','rb').read()[4096:4100])
os.mknod('n',0o444)
try: os.open('n',os.O_WRONLY)
except OSError as e: print(e.strerror)
P
)
/usr/bin/python3 -c "$PY"
mkdir repo; chown 1000:1000 repo; cd repo
U env HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 sh -ec '
    git -c init.defaultBranch=m init -q .; echo a > a; git add a
    git -c user.name=a -c user.email=b commit -qm x; git fsck'
"##,
    );
}

#[test]
fn hr38_a_mode_that_forbids_its_owner_can_be_made() {
    Case::on(Below::ext4).agrees(
        "hr38",
        r##"
U mkdir -m 0555 a; U mkdir -m 0 b; U mkfifo -m 0 p; U sh -c 'umask 0777; touch t; mkdir td'
stat -c '%n %a %U %F' a b p t td
mkdir src; echo x > src/f; chmod 444 src/f; chmod 555 src; chown -R 1000 src
try U cp -r src dst; stat -c '%n %a' dst dst/f
mkdir sg; chmod 2777 sg; chgrp 5000 sg; U sh -c 'mkdir sg/d; touch sg/f'
stat -c '%n %a %u %g' sg/d sg/f
"##,
    );
}

#[test]
fn hr41_setuid_and_capabilities_go_with_a_change_of_contents() {
    Case::on(Below::ext4).agrees(
        "hr41",
        r##"
PY=$(cat <<'P'
import os,mmap,ctypes
S=os.environ['S']
libc=ctypes.CDLL(None,use_errno=True)
def fresh(mode=0o6777):
    open('f','wb').write(b'x'*10000); os.chown('f',0,0); os.chmod('f',mode); return
def asu(fn,uid=1000):
    p=os.fork()
    if p==0:
        if uid: os.setgroups([]); os.setgid(uid); os.setuid(uid)
        try: fn(); os._exit(0)
        except OSError as e: os._exit(e.errno)
    return os.waitstatus_to_exitcode(os.waitpid(p,0)[1])
def w(): os.write(os.open('f',os.O_WRONLY|os.O_APPEND),b'x')
def pw():
    f=os.open('f',os.O_RDWR); m=mmap.mmap(f,4096); m[0]; os.pwrite(f,b'q',5)
def mm():
    f=os.open('f',os.O_RDWR); m=mmap.mmap(f,4096); m[0]=7; m.flush()
def tr(): os.truncate('f',5)
def ftr(): os.ftruncate(os.open('f',os.O_WRONLY),5)
def otr(): os.open('f',os.O_WRONLY|os.O_TRUNC)
def fa(): os.posix_fallocate(os.open('f',os.O_WRONLY),0,20000)
def fp():
    f=os.open('f',os.O_WRONLY)
    if libc.fallocate(f,3,ctypes.c_long(0),ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(),'')
def cfr(): os.copy_file_range(os.open('src',os.O_RDONLY),os.open('f',os.O_WRONLY),100)
def dw():
    f=os.open('f',os.O_WRONLY); os.write(f,b'1'); os.write(f,b'2')
open('src','wb').write(b'c'*1000); os.chmod('src',0o644)
for mode in (0o6777,0o2767,0o4777):
  for fn in (w,pw,mm,tr,ftr,otr,fa,fp,cfr,dw):
    for uid in (1000,0):
        if mode!=0o6777 and uid==0: continue
        fresh(mode)
        r=asu(fn,uid)
        print(oct(mode),fn.__name__,uid,r,oct(os.stat('f').st_mode),oct(os.stat(S+'/f').st_mode))
P
)
/usr/bin/python3 -c "$PY"
cp /bin/true cap; setcap cap_net_raw+ep cap; getcap cap; chmod 777 cap; U sh -c 'echo x >> cap'
getcap cap; (cd $S; getcap cap)
setcap cap_net_raw+ep cap; U truncate -s 10 cap; getcap cap; setcap cap_net_raw+ep cap
chown 1000 cap; getcap cap
"##,
    );
}

#[test]
fn hr42_setgid_umask_and_default_acls_decide_as_below() {
    Case::on(Below::ext4).agrees(
        "hr42",
        r##"
mkdir g; chmod 2777 g; chgrp 5000 g
mk() { touch g/f$1; mkdir g/d$1; mkfifo g/p$1; ln -s x g/l$1; ln g/f$1 g/h$1
    chmod 2755 g/d$1; chmod 2755 g/f$1; }
export -f mk; U bash -c 'mk 1'; G 5000 bash -c 'mk 2'; mk 3
stat -c '%n %a %u %g %h' g/*
PY=$(cat <<'P'
import os
f=os.open('g',os.O_TMPFILE|os.O_RDWR,0o2755); s=os.fstat(f); print(oct(s.st_mode),s.st_gid)
P
)
U /usr/bin/python3 -c "$PY"; G 5000 /usr/bin/python3 -c "$PY"
mkdir da; chmod 777 da; setfacl -d -m u::rwx,g::rwx,o::-,u:77:rx da
U sh -c 'umask 077; touch da/f; mkdir da/d; mkfifo da/p; ln -s x da/l'
getfacl -cn da/f da/d da/p; stat -c '%n %a' da/*
umask 027; touch da/r; mkdir da/rd; getfacl -cn da/r da/rd; mkdir plain
(umask 077; touch plain/f; mkdir plain/d); stat -c '%a' plain/f plain/d
"##,
    );
}

#[test]
fn hr43_flags_of_inodes_are_those_below() {
    Case::on(Below::ext4).agrees(
        "hr43",
        r##"
touch f; mkdir d; lsattr -d d f; chattr +i f; lsattr f
for c in "touch f" "rm -f f" "mv f g" "ln f g" "chmod 600 f" "sh -c echo>>f"; do try $c; done
try bash -c 'echo x >> f'; chattr -i f
chattr +a f; echo y >> f; try bash -c 'echo x > f'; try rm -f f; try truncate -s 0 f; chattr -a f
U sh -c 'echo > u'; try U chattr +i u; try U chattr +a u; try U chattr +d u; lsattr u
chattr +i $S/f; pause; lsattr f; try touch f; try rm -f f; chattr -i $S/f
xfs_io -c 'lsattr -D' d; xfs_io -r -c lsattr f; try U chattr +d f
try xfs_io -c 'chproj 42' f; xfs_io -r -c lsproj f
/usr/bin/python3 - <<'P'
import os,ctypes
libc=ctypes.CDLL(None,use_errno=True)
b=(ctypes.c_ubyte*64)()
r=libc.syscall(468,-100,b'f',b,ctypes.c_size_t(24),0)
print('file_getattr',r,os.strerror(ctypes.get_errno()) if r<0 else '')
P
"##,
    );
}

#[test]
fn hr44_owner_and_root_may_read_without_a_trace() {
    Case::on(Below::ext4).agrees(
        "hr44",
        r##"
U sh -c 'echo a > f'; chmod 666 f; touch -a -d '2001-01-01' f
PY=$(cat <<'P'
import os
try:
    f=os.open('f',os.O_RDONLY|os.O_NOATIME)
    print(os.read(f,10), int(os.fstat(f).st_atime), int(os.stat(os.environ['S']+'/f').st_atime))
except OSError as e: print(e.strerror)
P
)
U /usr/bin/python3 -c "$PY"; V /usr/bin/python3 -c "$PY"; /usr/bin/python3 -c "$PY"
U unshare -Ur /usr/bin/python3 -c "$PY"
tar --atime-preserve=system -cf /dev/null f; stat -c %X f $S/f
"##,
    );
}

#[test]
fn hr45_times_owners_and_attributes_of_links_are_their_own() {
    Case::on(Below::ext4).agrees(
        "hr45",
        r##"
touch -d @5 t; ln -s t l; touch -h -d @1 l; stat -c '%Y' l t; ln -s nowhere dangling
touch -h -d @7 dangling; stat -c %Y dangling; chown -h 1000:1001 l dangling
stat -c '%u %g' l dangling t
setfattr -h -n trusted.x -v y l; getfattr -h -n trusted.x l; try getfattr -n trusted.x t
try setfattr -h -n user.x -v y l
touch -d @100 w; touch -a -d @200 w; stat -c '%X %Y' w; touch -m -d @300 w; stat -c '%X %Y' w
/usr/bin/python3 - <<'P'
import os
for t in ((-1,0),(2**34-1,0),(5,999999999),(2**31,1),(-(2**31),5),(2**35,0)):
    try: os.utime('w',ns=(t[0]*10**9+t[1],)*2)
    except (OSError,OverflowError) as e: print(e)
    for p in ('w',os.environ['S']+'/w'): print(t,os.stat(p).st_mtime_ns,os.stat(p).st_atime_ns)
P
"##,
    );
}

#[test]
fn hr46_links_are_followed_by_callers_only() {
    Case::on(Below::ext4).agrees(
        "hr46",
        r##"
mkdir -p real/sub jail; echo inside > real/sub/f; ln -s /secret real/abs; ln -s ../.. real/up
mkdir -p d/sub; echo x > d/sub/f; cat d/sub/f; rm -r $S/d; ln -s real $S/d; try cat d/sub/f
pause; cat d/sub/f
mkdir -p jail/bin jail/etc; echo jailed > jail/etc/word; ln -s /etc/word jail/link
/usr/bin/python3 -c "import os; os.chroot('jail'); print(open('/link').read())"
"##,
    );
}

/// As a bind mount of it would.
#[test]
fn hr47_no_flag_of_the_mount_below_is_lost() {
    let below = Below::tmpfs_with("size=10M,mode=755");
    fs::copy("/usr/bin/id", below.at("id")).unwrap();
    let root = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(below.at("id"), root).unwrap();
    succeed(program("mknod").arg(below.at("null")).args(["c", "1", "3"]));
    let mut remount = program("mount");
    succeed(
        remount
            .args(["-o", "remount,nosuid,nodev,ro"])
            .arg(below.path()),
    );
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    let mut user = program("setpriv");
    user.args(["--reuid", "1000", "--regid", "1000", "--clear-groups"]);
    let id = succeed(user.arg(mounted.at("id")).arg("-u"));
    assert_eq!(id, "1000\n", "setuid counts for nothing");
    let device = said(program("cat").arg(mounted.at("null")));
    assert!(device.err.contains("Permission denied"), "{device:?}");
    let made = fs::write(mounted.at("f"), "").unwrap_err();
    assert_eq!(made.raw_os_error(), Some(libc::EROFS));
}

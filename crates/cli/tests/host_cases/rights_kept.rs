//! What users do not get by way of the mount: the rights of others, and of their own from before.

use crate::case::Case;
use crate::harness::Below;

/// Python: `stage(behind, [before,] call)` runs `before` and `call` as user 1000 in a user
/// namespace of its own, with root's `behind` between them, at once; what comes of it.
const STAGE: &str = r#"
PY=$(cat <<'P'
import os,ctypes,errno,stat
libc=ctypes.CDLL(None,use_errno=True)
S=os.environ['S']
NEWUSER=0x10000000
def stage(behind,before,call,uid=1000):
    to,at=os.pipe(),os.pipe()
    child=os.fork()
    if child==0:
        os.close(at[0]); os.close(to[1])
        os.setgroups([]); os.setresgid(uid,uid,uid); os.setresuid(uid,uid,uid)
        if uid==0:
            # Root without any capability.
            who=(ctypes.c_uint32*2)(0x20080522,0)
            assert libc.capset(who,(ctypes.c_uint32*6)())==0
        else:
            assert libc.unshare(NEWUSER)==0 and libc.prctl(4,1,0,0,0)==0
            open('/proc/self/setgroups','w').write('deny')
            open('/proc/self/uid_map','w').write('0 %d 1'%uid)
            open('/proc/self/gid_map','w').write('0 %d 1'%uid)
        before()
        os.write(at[1],b'x'); os.read(to[0],1)
        try: call(); os._exit(0)
        except OSError as e: os._exit(e.errno)
    os.close(at[1]); os.close(to[0])
    assert os.read(at[0],1)==b'x'; behind(); os.write(to[1],b'x')
    status=os.waitstatus_to_exitcode(os.waitpid(child,0)[1])
    os.close(at[0]); os.close(to[1])
    return errno.errorcode.get(status,status)
def make(name,mode=0o600,uid=0):
    path=S+'/'+name
    open(path,'x').close(); os.chown(path,uid,uid); os.chmod(path,mode)
def missing(name):
    try: os.stat(name); raise SystemExit('there')
    except FileNotFoundError: pass
def kind(name):
    s=os.stat(S+'/'+name,follow_symlinks=False); return oct(s.st_mode),s.st_uid
def gave_away(call,name):
    make(name,0o644,1000); os.stat(name)
    return stage(lambda: os.chown(S+'/'+name,0,0),lambda: os.stat(name),call)
"#;

fn staged(name: &str, script: &str) {
    let script = format!("{STAGE}{script}\nP\n)\n/usr/bin/python3 -c \"$PY\"\n");
    Case::on(Below::ext4).agrees(name, &script);
}

/// Once, whoever had a user namespace of its own had its capabilities over inodes of anybody for
/// as long as the kernel believed what it had seen before.
#[test]
fn a_user_namespace_gives_no_right_over_what_root_made_meanwhile() {
    staged(
        "made",
        r#"
for flags in (os.O_RDWR,os.O_RDONLY,os.O_WRONLY|os.O_TRUNC):
    name='x%d'%flags
    opens=lambda: os.open(name,os.O_CREAT|flags,0o600)
    print(stage(lambda: make(name),lambda: missing(name),opens), *kind(name))
print(stage(lambda: make('y',0o666,1000),lambda: missing('y'),
            lambda: os.write(os.open('y',os.O_CREAT|os.O_RDWR),b'y')), *kind('y'))
"#,
    );
}

#[test]
fn a_user_namespace_gives_no_right_over_what_was_given_to_root_meanwhile() {
    staged(
        "given",
        r#"
def put(name,flag):
    f=os.open(name,os.O_RDONLY); b=ctypes.c_long(0)
    if libc.ioctl(f,0x80086601,ctypes.byref(b)): raise OSError(ctypes.get_errno(),'')
    b.value|=flag
    if libc.ioctl(f,0x40086602,ctypes.byref(b)): raise OSError(ctypes.get_errno(),'')
for mode in (0o755,0o4755,0o6755):
    name='m%o'%mode
    print(gave_away(lambda: os.chmod(name,mode),name), *kind(name))
print(gave_away(lambda: os.utime('t',(5,5)),'t'), int(os.stat(S+'/t').st_mtime)==5)
print(gave_away(lambda: os.setxattr('xa','user.a',b'b'),'xa'))
print(gave_away(lambda: put('fl',0x80),'fl'))
print(gave_away(lambda: os.truncate('tr',5),'tr'), os.stat(S+'/tr').st_size)
print(gave_away(lambda: os.open('op',os.O_WRONLY),'op'))
"#,
    );
}

#[test]
fn a_user_namespace_removes_nothing_of_others_from_a_sticky_directory() {
    staged(
        "sticky",
        r#"
for name,call in (('u',lambda: os.unlink('u')),('r',lambda: os.rename('r','r2')),
                  ('over',lambda: os.rename('mine','over'))):
    if name=='over': make('mine',0o644,1000)
    print(gave_away(call,name), sorted(os.listdir(S)))
os.mkdir('own'); os.chown('own',1000,1000); os.chmod('own',0o1777)
def prepare(): open('own/a','w').close(); open('own/b','w').close()
print(stage(lambda: os.chown(S+'/own/a',1001,1001),prepare,lambda: os.unlink('own/a')))
print(stage(lambda: None,prepare,lambda: os.rename('own/b','own/c')), sorted(os.listdir('own')))
"#,
    );
}

/// Once, it had all of the daemon's for as long as the kernel believed what it had seen before.
#[test]
fn root_without_capabilities_has_the_rights_of_an_owner_alone() {
    staged(
        "incapable",
        r#"
def give(name): return lambda: (os.chown(S+'/'+name,1000,1000),os.chmod(S+'/'+name,0o600))
print(stage(lambda: make('x',0o600,1000),lambda: missing('x'),
            lambda: os.open('x',os.O_CREAT|os.O_RDWR),uid=0), *kind('x'))
for name,call in (('o',lambda: os.open('o',os.O_RDONLY)),('m',lambda: os.chmod('m',0o777)),
                  ('t',lambda: os.truncate('t',5)),('xa',lambda: os.setxattr('xa','user.a',b'b')),
                  ('ow',lambda: os.chown('ow',0,0))):
    make(name,0o644); os.stat(name)
    print(name,stage(give(name),lambda: os.stat(name),call,uid=0))
own=lambda: os.chmod('own',0o4755)
make('own',0o644)
print(stage(lambda: None,lambda: os.stat('own'),own,uid=0), *kind('own'))
def new(): open('new','w').write('n')
print(stage(lambda: None,lambda: None,new,uid=0), *kind('new'))
"#,
    );
}

/// Once, the rights of root, who had opened the file before, counted for the writes of others.
#[test]
fn setuid_goes_with_a_strangers_write_whoever_opened_the_file_before() {
    Case::on(Below::ext4).agrees(
        "opened-before",
        r#"
for mode in 6777 4777 2777 0777; do
    for opens in '<' '<>'; do
        echo text > f; chmod $mode f
        eval "exec 7${opens}f"
        U dd if=/dev/zero of=f bs=1 count=3 conv=notrunc status=none
        stat -c "$mode $opens %a" f; stat -c %a $S/f
        exec 7>&-
        chmod $mode f; echo root >> f; stat -c %a f
    done
done
"#,
    );
}

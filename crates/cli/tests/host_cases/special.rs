//! Locks, special files and attributes.

use crate::case::Case;
use crate::harness::Below;

#[test]
fn hr59_locks_exclude_each_other_on_the_mount() {
    Case::on(Below::ext4).agrees(
        "hr59",
        r##"
PY=$(cat <<'P'
import os,fcntl,struct,errno
S=os.environ['S']
open('f','w').write('x'*100)
F_OFD_SETLK=37; F_OFD_GETLK=36; F_GETLK=5
def lk(t,s=0,l=0): return struct.pack('hhqqi',t,0,s,l,0)
def kinds():
    yield 'flock',lambda f:fcntl.flock(f,fcntl.LOCK_EX|fcntl.LOCK_NB)
    yield 'posix',lambda f:fcntl.fcntl(f,fcntl.F_SETLK,lk(fcntl.F_WRLCK))
    yield 'ofd',lambda f:fcntl.fcntl(f,F_OFD_SETLK,lk(fcntl.F_WRLCK))
for n,l in kinds():
    for a,b in (('.','.'),):
        f=os.open(a+'/f',os.O_RDWR); l(f)
        p=os.fork()
        if p==0:
            g=os.open(b+'/f',os.O_RDWR)
            try: l(g); os._exit(0)
            except OSError as e: os._exit(e.errno)
        r=os.waitstatus_to_exitcode(os.waitpid(p,0)[1]); print(n,a==S,b==S,errno.errorcode.get(r,r))
        os.close(f)
        p=os.fork()
        if p==0:
            g=os.open(b+'/f',os.O_RDWR)
            try: l(g); os._exit(0)
            except OSError as e: os._exit(e.errno)
        print('after', os.waitstatus_to_exitcode(os.waitpid(p,0)[1]))
f=os.open('f',os.O_RDWR); fcntl.fcntl(f,fcntl.F_SETLK,lk(fcntl.F_WRLCK,10,20)); me=os.getpid()
p=os.fork()
if p==0:
    g=os.open('f',os.O_RDWR)
    r=struct.unpack('hhqqi',fcntl.fcntl(g,F_GETLK,lk(fcntl.F_WRLCK))[:28])
    print(r[0],r[2],r[3],r[4]==me,flush=True)
    fcntl.fcntl(g,fcntl.F_SETLK,lk(fcntl.F_WRLCK,0,10))
    fcntl.fcntl(g,fcntl.F_SETLK,lk(fcntl.F_WRLCK,30,10))
    os._exit(0)
os.waitpid(p,0)
h=os.open('f',os.O_RDWR); os.close(h)
p=os.fork()
if p==0:
    g=os.open('f',os.O_RDWR); fcntl.fcntl(g,fcntl.F_SETLK,lk(fcntl.F_WRLCK)); os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(p,0)[1]))
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

#[test]
fn hr61_fifos_sockets_and_devices_are_opened_by_callers_only() {
    Case::on(Below::ext4).agrees(
        "hr61",
        r##"
for i in $(seq 100); do mkfifo f$i; mknod n$i c 1 3; done; /usr/bin/python3 -c 'import socket
for i in range(100): socket.socket(socket.AF_UNIX).bind("s%d"%i)'
ls -l | wc -l; getfattr -d * | wc -l; try lsattr f1 | tail -c 30; chmod 600 *
tar cf - . 2>/dev/null | tar t | wc -l; find . -type s | wc -l; (cat f1 > o & echo x > f1; wait)
cat o; rm -r *; ls | wc -l
"##,
    );
}

#[test]
fn hr62_sockets_connect_on_one_side() {
    Case::on(Below::ext4).agrees(
        "hr62",
        r##"
PY=$(cat <<'P'
import socket,os
S=os.environ['S']
os.chdir('.')
def pair(a,b):
    s=socket.socket(socket.AF_UNIX); os.chdir(a); s.bind('k'); s.listen(1)
    c=socket.socket(socket.AF_UNIX); os.chdir(b)
    try: c.connect('k'); r='ok'
    except OSError as e: r=e.strerror
    t=socket.socket(socket.AF_UNIX)
    os.chdir(a)
    try: t.bind('k')
    except OSError as e: r+=' '+e.strerror
    os.unlink('k'); return r
M=os.getcwd()
print(pair(M,M)); print(pair(S,S))
if S!=M:
    assert pair(S,M).startswith('Connection refused') and pair(M,S).startswith('Connection refused')
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

#[test]
fn hr63_attributes_have_the_errors_and_sizes_below() {
    Case::on(Below::ext4).agrees(
        "hr63",
        r##"
PY=$(cat <<'P'
import os
open('f','w').close()
def t(n,c):
    try: print(n,c())
    except OSError as e: print(n,e.strerror)
for n in ('user.a','trusted.b','security.c','system.d','nope','user.'+'x'*250,'user.'+'x'*251):
    t(n[:9],lambda:os.setxattr('f',n,b'v')); t(n[:9],lambda:os.getxattr('f',n))
t('empty',lambda:(os.setxattr('f','user.e',b''),os.getxattr('f','user.e')))
t('big',lambda:os.setxattr('f','user.big',b'x'*65536))
t('toobig',lambda:os.setxattr('f','user.big',b'x'*65537))
t('3000',lambda:(os.setxattr('f','user.big',b'x'*3000),len(os.getxattr('f','user.big'))))
t('create',lambda:os.setxattr('f','user.a',b'w',os.XATTR_CREATE))
t('replace',lambda:os.setxattr('f','user.q',b'w',os.XATTR_REPLACE))
t('nodata',lambda:os.getxattr('f','user.q'))
t('rm',lambda:os.removexattr('f','user.q'))
print(sorted(os.listxattr('f')))
import ctypes
libc=ctypes.CDLL(None,use_errno=True); b=ctypes.create_string_buffer(2)
print(libc.getxattr(b'f',b'user.big',b,2),os.strerror(ctypes.get_errno()),
    libc.listxattr(b'f',b,2),os.strerror(ctypes.get_errno()),
        libc.getxattr(b'f',b'user.big',None,0))
P
)
/usr/bin/python3 -c "$PY"
cp /bin/true b; setcap cap_net_raw+ep b; getcap b; (cd $S; getcap b)
"##,
    );
}

//! Files and directories that are removed while somebody uses them.

use crate::case::Case;
use crate::harness::Below;

#[test]
fn hr21_everything_works_on_a_file_without_a_name() {
    Case::on(Below::ext4).agrees(
        "hr21",
        r##"
PY=$(cat <<'P'
import os,errno,time
S=os.environ['S']
def check(how):
    open('f','w').write('text'); f=os.open('f',os.O_RDWR)
    if how=='m': os.unlink('f')
    elif how=='s': os.unlink(S+'/f')
    elif how=='over': open('g','w').close(); os.rename('g','f')
    elif how=='behindover': open(S+'/g','w').close(); os.rename(S+'/g',S+'/f')
    for drop in (0,1):
        if drop: open('/proc/sys/vm/drop_caches','w').write('2')
        for n,c in [('chmod',lambda:os.fchmod(f,0o600)),('chown',lambda:os.fchown(f,1,1)),
            ('utime',lambda:os.utime(f,(1,1))),
          ('trunc',lambda:os.ftruncate(f,100)),('falloc',lambda:os.posix_fallocate(f,0,8192)),
              ('setx',lambda:os.setxattr(f,'user.a',b'1')),
          ('getx',lambda:os.getxattr(f,'user.a')),('listx',lambda:os.listxattr(f)),
          ('fsync',lambda:os.fsync(f)),
              ('stat',lambda:(os.fstat(f).st_nlink,os.fstat(f).st_size)),
                  ('reopen',lambda:os.close(os.open('/proc/self/fd/%d'%f,os.O_RDWR))),
          ('link',lambda:os.link('/proc/self/fd/%d'%f,'again',follow_symlinks=True)),
              ('read',lambda:os.pread(f,4,0)),('write',lambda:os.pwrite(f,b'TEXT',0))]:
            try: r=c(); print(how,drop,n,r)
            except OSError as e: print(how,drop,n,errno.errorcode[e.errno])
    os.close(f)
    # The kernel may still believe the name, until it hears that the close is over.
    try: os.unlink('f')
    except FileNotFoundError: pass
for how in ('m','s','over','behindover'): check(how)
for where in ('.',S):
    os.mkdir('d'); d=os.open('d',os.O_RDONLY); os.rmdir(where+'/d'); time.sleep(1.2)
    for n,c in [('stat',lambda:os.fstat(d).st_nlink),('list',lambda:os.listdir(d)),
        ('openat',lambda:os.open('x',os.O_CREAT|os.O_WRONLY,dir_fd=d)),
            ('chmod',lambda:os.fchmod(d,0o700)),('stat2',lambda:os.stat('x',dir_fd=d))]:
        try: print(where=='.',n,c())
        except OSError as e: print(where=='.',n,errno.errorcode[e.errno])
    os.close(d)
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

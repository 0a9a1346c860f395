//! Contents: reading, writing, copying and running them.

use crate::case::Case;
use crate::harness::{Below, Mounted, Transport, program, shell, succeed};
use std::fs;

#[test]
fn hr49_direct_writes_work_where_they_work_below() {
    Case::on(Below::ext4).agrees(
        "hr49",
        r##"
head -c 1M /dev/zero | tr '\0' a > src
for bs in 512 4096 1M; do try dd if=src of=dst bs=$bs oflag=direct status=none; cmp src dst
try dd if=dst of=/dev/null bs=$bs iflag=direct status=none; done
/usr/bin/python3 - <<'P'
import os,mmap,fcntl
b=mmap.mmap(-1,8192); b[:]=b'z'*8192
f=os.open('d',os.O_CREAT|os.O_RDWR|os.O_DIRECT); g=os.open('d',os.O_RDWR)
def t(n,c):
    try: print(n,c())
    except OSError as e: print(n,e.strerror)
t('w',lambda:os.pwritev(f,[b],0))
print(os.pread(g,3,8189))
os.pwrite(g,b'abc',0)
r=mmap.mmap(-1,4096)
t('r',lambda:os.preadv(f,[r],0))
print(r[:3])
fcntl.fcntl(g,fcntl.F_SETFL,os.O_DIRECT)
t('setfl',lambda:os.pwritev(g,[b],4096))
print(os.fstat(g).st_size)
P
"##,
    );
}

#[test]
fn hr50_appended_lines_are_whole_from_both_sides() {
    Case::on(Below::ext4).agrees(
        "hr50",
        r##"
PY=$(cat <<'P'
import os
S=os.environ['S']
ps=[]
for i in range(6):
    p=os.fork()
    if p==0:
        f=os.open(('.' if i<4 else S)+'/log',os.O_CREAT|os.O_APPEND|os.O_WRONLY)
        for n in range(1500): os.write(f,(b'%d %05d '%(i,n)).ljust(99,b'.')+b'\n')
        os._exit(0)
    ps.append(p)
for p in ps: os.waitpid(p,0)
import time; time.sleep(1.1)
for w in ('.',S):
    l=open(w+'/log','rb').read().split(b'\n')
    print(len(l), len(set(l)), set(map(len,l)))
f=os.open('ap',os.O_CREAT|os.O_APPEND|os.O_RDWR)
os.write(f,b'one')
os.pwrite(f,b'X',0)
print(open('ap').read())
g=os.open(S+'/ap',os.O_WRONLY)
os.ftruncate(g,0)
os.write(f,b'two')
print(repr(open(S+'/ap').read()))
time.sleep(1.1)
print(repr(open('ap').read()))
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

#[test]
fn hr53_holes_are_those_below() {
    Case::on(Below::ext4).agrees(
        "hr53",
        r##"
truncate -s 1M hole; truncate -s 1M start
printf x | dd of=start bs=1 seek=1000000 conv=notrunc status=none
printf x > mid; truncate -s 300K mid
printf y | dd of=mid bs=1 seek=300000 conv=notrunc status=none; printf x > end
truncate -s 200K end; : > empty
PY=$(cat <<'P'
import os
for n in ('hole','start','mid','end','empty'):
    f=os.open(n,os.O_RDONLY); z=os.fstat(f).st_size
    for o in (0,1,4095,4096,5000,99999,z-1,z,z+1):
        for w in (os.SEEK_DATA,os.SEEK_HOLE):
            try: print(n,o,w,os.lseek(f,o,w))
            except OSError as e: print(n,o,w,e.strerror)
f=os.open('dirty',os.O_CREAT|os.O_RDWR); os.ftruncate(f,1<<20); os.pwrite(f,b'd',500000)
for o in (0,499712,503808):
    print(os.lseek(f,o,os.SEEK_DATA) if o<503808 else os.lseek(f,o,os.SEEK_HOLE))
P
)
/usr/bin/python3 -c "$PY"
for f in hole start mid end; do cp --sparse=auto $f c.$f; stat -c '%n %b %s' c.$f; done
tar -cSf t.tar hole start mid end; stat -c %s t.tar; mkdir x; tar -xSf t.tar -C x
stat -c '%n %b' x/*
"##,
    );
}

#[test]
fn hr54_a_copy_falls_back_or_shares() {
    Case::on(Below::ext4).agrees(
        "hr54",
        r##"
head -c 8M /dev/urandom > a; try cp --reflink=always a b0 | sed 's/.*/X/' 
cp --reflink=auto a b; cmp a b
/usr/bin/python3 - <<'P'
import os
a=os.open('a',os.O_RDONLY); c=os.open('c',os.O_CREAT|os.O_RDWR)
n=0
while n<8<<20: n+=os.copy_file_range(a,c,(8<<20)-n)
print(n, os.fstat(c).st_size)
try: os.copy_file_range(a,a,10,0,5)
except OSError as e: print(e.strerror)
P
cmp a c
"##,
    );
}

#[test]
fn hr58_a_program_runs_at_once_after_its_close() {
    Case::on(Below::ext4).agrees(
        "hr58",
        r##"
PY=$(cat <<'P'
import os,subprocess
S=os.environ['S']; bad={}
for r in range(150):
    how=(os.O_WRONLY,os.O_RDWR)[r%2]
    mode=(0o755,0o644,0o755)[r%3]
    f=os.open('run',os.O_CREAT|how|os.O_TRUNC,mode)
    os.write(f,open('/bin/true','rb').read())
    os.close(f)
    if mode==0o644: os.chmod('run',0o755)
    for p in ('./run',S+'/run'):
        try: subprocess.run([p],check=True)
        except OSError as e: bad[p[0],e.strerror]=bad.get((p[0],e.strerror),0)+1
    os.unlink('run')
print(bad)
P
)
/usr/bin/python3 -c "$PY"
cp /bin/sleep sl; ./sl 1 & sleep .2; try bash -c 'echo x >> sl'; wait
"##,
    );
}

/// What was written is counted, then it is an error; the file is the exact beginning.
#[test]
fn hr51_a_write_that_a_full_disk_cuts_short_leaves_the_exact_beginning() {
    let small = || {
        let below = Below::tmpfs_with("size=3M");
        fs::write(below.at("fill"), vec![0; 1 << 20]).unwrap();
        below
    };
    Case::on(small).agrees(
        "hr51",
        r##"
/usr/bin/python3 - <<'P'
import os
data = bytes(range(256)) * 16384
for flags in (0, os.O_APPEND):
    f = os.open('f', os.O_CREAT | os.O_WRONLY | os.O_TRUNC | flags); sum = 0
    while True:
        try: n = os.write(f, data[sum:])
        except OSError as e: print(e.strerror); break
        sum += n
    os.close(f); got = open('f', 'rb').read()
    print(sum == len(got), got == data[:len(got)], 1 << 20 < len(got) < 2 << 20)
    os.truncate('f', 100); g = os.open('f', os.O_WRONLY | os.O_APPEND)
    print(os.write(g, data[100:4096]) == 3996, open('f', 'rb').read() == data[:4096])
    os.unlink('f')
P
"##,
    );
}

/// Containers have their files on overlayfs, which has no handles.
#[test]
fn hr57_over_an_overlay_and_under_one() {
    let layers = Below::tmpfs();
    for name in ["low", "up", "work", "merged"] {
        fs::create_dir(layers.at(name)).unwrap();
    }
    fs::write(layers.at("low/f"), "lower").unwrap();
    fs::copy("/bin/true", layers.at("low/run")).unwrap();
    succeed(&mut shell(
        layers.path(),
        "mount -t overlay -o lowerdir=low,upperdir=up,workdir=work o merged",
    ));
    let mounted = Mounted::over(Transport::Dev, &layers.at("merged"), "");
    let said = mounted.shell(
        "cat f; echo; ./run; exec 3< f; echo upper > f; cat f; ln f g; mv g h; stat -c %h f; rm h
         mkdir d; mv f d/; cat d/f; mkdir e; mv e d/; find . | sort; cat <&3
         python3 -c 'import mmap; f = open(\"d/f\", \"r+b\"); m = mmap.mmap(f.fileno(), 0)
m[0:1] = b\"U\"; m.flush()'; cat d/f",
    );
    let tree = ".\n./d\n./d/e\n./d/f\n./run\n";
    assert_eq!(
        said,
        format!("lower\nupper\n2\nupper\n{tree}upper\nUpper\n")
    );
    mounted.unmount();
    succeed(program("umount").arg(layers.at("merged")));
    // The mount as both layers.
    let case = Case::over(Below::ext4());
    case.mounted
        .shell("mkdir low up work merged; echo low > low/f");
    succeed(&mut shell(
        case.mounted.path(),
        "mount -t overlay -o lowerdir=low o:up 2> /dev/null || true
         if mount -t overlay -o lowerdir=low,upperdir=up,workdir=work o merged; then
             cat merged/f; echo new > merged/f; cat up/f; umount merged; fi",
    ));
}

/// Once, `cp` asked where there is data before the kernel had written back what programs had
/// stored, and copied a hole.
#[test]
fn what_was_stored_through_a_mapping_is_data_to_a_copy_at_once() {
    let script = "/usr/bin/python3 - <<'P'
import mmap, os
f = os.open('stored', os.O_CREAT | os.O_RDWR)
os.ftruncate(f, 1 << 20)
m = mmap.mmap(f, 1 << 20)
m[500_000:500_004] = b'data'
print(os.lseek(f, 0, os.SEEK_DATA), os.lseek(f, 499_712, os.SEEK_HOLE))
m[0:4] = b'more'
assert os.system('cp stored copy && cmp stored copy') == 0
P";
    for options in ["", "passthrough=off", "hot_track", "quota=wait"] {
        let below = Below::ext4();
        let state = below.outside("state");
        let with_state = format!("state={},{options}", state.display());
        let mounted = Mounted::over(Transport::Dev, below.path(), &with_state);
        assert_eq!(mounted.shell(script), "499712 503808\n", "{options}");
    }
    let mounted = Mounted::new(Transport::Dev, "no_writeback");
    mounted.shell(script);
}

/// Once, the kernel went on appending to a file that it was passed through.
#[test]
fn whether_a_write_appends_is_as_the_flags_are_then() {
    Case::on(Below::ext4).agrees(
        "flags",
        r##"
/usr/bin/python3 - <<'P'
import os,fcntl,mmap
S=os.environ['S']
for first in (None,os.O_RDONLY,os.O_RDWR):
    open('f','w').write('0123456789')
    kept=first is not None and os.open('f',first)
    f=os.open('f',os.O_RDWR|os.O_APPEND)
    os.write(f,b'end'); print(os.fstat(f).st_size)
    fcntl.fcntl(f,fcntl.F_SETFL,0)
    print(os.pwrite(f,b'AB',2), os.pread(f,20,0), os.fstat(f).st_size)
    os.lseek(f,5,os.SEEK_SET); os.write(f,b'C')
    m=mmap.mmap(f,13); m[0:1]=b'M'; m.flush(); print(m[:])
    fcntl.fcntl(f,fcntl.F_SETFL,os.O_APPEND)
    open(S+'/f','a').write('behind')
    os.write(f,b'last'); print(open(S+'/f').read(), open('f').read())
    g=os.open('f',os.O_RDWR); os.pwrite(g,b'G',1)
    fcntl.fcntl(g,fcntl.F_SETFL,os.O_APPEND); os.write(g,b'g'); print(os.pread(f,30,0))
    for fd in (f,g): os.close(fd)
    m.close()
    if kept: print(os.pread(kept,30,0)); os.close(kept)
P
"##,
    );
}

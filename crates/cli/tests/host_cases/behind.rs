//! Changes behind the mount: seen within the timeouts, and at an open.

use crate::case::Case;
use crate::harness::{Below, succeed};

#[test]
fn hr9_new_bytes_of_the_same_size_are_seen() {
    Case::on(Below::ext4).agrees(
        "hr9",
        r##"
echo X > $S/f; cat f; sleep .2; exec 3< f; 
echo Y > $S/f; cat f; echo Z > $S/f; pause; cat f; cat <&3
/usr/bin/python3 - <<'P'
import mmap,os,time
S=os.environ['S']
f=open('f','rb'); m=mmap.mmap(f.fileno(),2,prot=mmap.PROT_READ,flags=mmap.MAP_SHARED)
print(m[:1]); old=os.stat(S+'/f')
g=open(S+'/f','r+b'); g.write(b'Q'); g.close()
os.utime(S+'/f',ns=(old.st_atime_ns,old.st_mtime_ns))
time.sleep(1.2)
print(open('f','rb').read())
g=open(S+'/f','r+b'); g.write(b'R'); g.close()
time.sleep(1.2)
print(os.pread(f.fileno(),2,0))
print(m[:1])
P
"##,
    );
}

#[test]
fn hr10_a_size_that_changes_behind_neither_cuts_nor_pads() {
    Case::on(Below::ext4).agrees(
        "hr10",
        r##"
/usr/bin/python3 - <<'P'
import os,time
S=os.environ['S']
open('f','wb').write(b'a'*5000)
f=os.open('f',os.O_RDWR); os.pwrite(f,b'b',0); os.fsync(f)
g=os.open(S+'/f',os.O_RDWR); os.pwrite(g,b'0123456789',5000)
time.sleep(1.2)
print(os.fstat(f).st_size, os.pread(f,100,4995), open('f','rb').read()[4990:])
os.ftruncate(g,100); time.sleep(1.2)
print(os.fstat(f).st_size, os.pread(f,1000,90), len(open('f','rb').read()))
os.ftruncate(g,0); os.pwrite(g,b'new',0)
h=os.open('f',os.O_WRONLY|os.O_APPEND); os.write(h,b'end'); os.close(h)
print(open('f','rb').read(), open(S+'/f','rb').read())
time.sleep(1.1)
print(os.pread(f,100,0))
P
"##,
    );
}

#[test]
fn hr11_a_mapping_outlives_listings_changes_and_removals() {
    Case::on(Below::ext4).agrees(
        "hr11",
        r##"
mkdir d
for i in $(seq 100); do head -c 9000 /dev/zero | tr '\0' x > d/$i; done
PY=$(cat <<'P'
import os,mmap,sys
S=os.environ['S']
maps=[]
for i in range(1,101):
    f=open(f'd/{i}','rb')
    maps.append(mmap.mmap(f.fileno(),0,flags=mmap.MAP_PRIVATE,prot=mmap.PROT_READ))
    f.close()
    if i%3==0: open(f'{S}/d/{i}','ab').write(b'y'*100)
    if i%7==0: os.unlink(f'{S}/d/{i}')
for turn in range(3):
    os.listdir('d'); [e.name for e in os.scandir('d')]
    for e in os.scandir('d'):
        try: e.stat()
        except FileNotFoundError: pass
print(sum(m[0]+m[8999] for m in maps))
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

#[test]
fn hr12_a_name_that_others_remove_can_be_made() {
    Case::on(Below::ext4).agrees(
        "hr12",
        r##"
PY=$(cat <<'P'
import os,time
S=os.environ['S']
for r in range(300):
    open('f','w').close(); os.stat('f'); os.unlink(S+'/f')
    f=os.open('f',os.O_CREAT|os.O_WRONLY); os.close(f)
    os.unlink(S+'/f')
    try: os.open('f',os.O_RDONLY); print('opened')
    except FileNotFoundError: pass
bad=0
for r in range(300):
    for a,b in ((S,'.'),('.',S)):
        f=os.open(a+'/index.lock',os.O_CREAT|os.O_EXCL|os.O_WRONLY); os.write(f,b'x'); os.close(f)
        os.rename(a+'/index.lock',a+'/index')
        if open(b+'/index').read()!='x': bad+=1
print('bad',bad)
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

#[test]
fn hr14_a_directory_that_moves_behind_is_where_its_path_says() {
    Case::on(Below::ext4).agrees(
        "hr14",
        r##"
mkdir active; touch active/one; stat active > /dev/null
mv $S/active $S/backup; mkdir $S/active; pause; touch active/f; (cd $S; ls active backup)
mkdir a; echo x > a/f; exec 3>> a/f; mv $S/a $S/b; cat b/f; echo more >&3; cat $S/b/f; cat b/f
"##,
    );
}

#[test]
fn hr15_a_listing_has_no_names_that_are_gone() {
    Case::on(Below::ext4).agrees(
        "hr15",
        r##"
mkdir d; touch d/{1..50}; ls d | wc -l; rm -r $S/d/*; pause; ls d | wc -l
touch d/{1..5}; ls d > /dev/null; rm -r d; mkdir d; ls d | wc -l
mkdir big; (cd big; seq 8000 | xargs touch)
PY=$(cat <<'P'
import os
it=os.scandir('big'); seen=[next(it).name for _ in range(100)]
os.system('cd $S/big; ls -U | tail -3000 | xargs rm')
rest=[e.name for e in it]
all=seen+rest
print(len(all)==len(set(all)), len(all)>=5000)
P
)
/usr/bin/python3 -c "$PY"
"##,
    );
}

/// An editor's save: a new file is renamed over the old one. The same of a directory in the middle.
#[test]
fn hr16_a_path_that_others_replace_always_leads_to_a_file() {
    Case::on(Below::ext4).agrees(
        "hr16",
        r##"
echo 0 > f; mkdir -p d/e; echo 0 > d/e/f
/usr/bin/python3 - <<'P'
import ctypes, multiprocessing as mp, os, time
S = os.environ['S']
def read():
    text = open('f').read()
    assert text.endswith('\n'), text
def attribute():
    try: os.getxattr('f', 'user.x')
    except OSError as e:
        if e.errno != 61: raise
calls = [read, lambda: os.stat('f'), attribute, lambda: os.chmod('f', 0o644),
         lambda: (open('d/e/f').read(), os.stat('d/e/f'))]
def repeat(call, stop, said):
    bad = set()
    while not stop.is_set():
        try: call()
        except (OSError, AssertionError) as e: bad.add(str(e))
    said.put(bad)
stop, said = mp.Event(), mp.Queue()
all = [mp.Process(target=repeat, args=(c, stop, said)) for c in calls]
[p.start() for p in all]
exchange, i, end = ctypes.CDLL(None).renameat2, 0, time.time() + 4
while time.time() < end:
    i += 1
    open(S + '/.n', 'w').write(str(i) * 50 + '\n'); os.rename(S + '/.n', S + '/f')
    if i % 20 == 0:
        new = '%s/n%d' % (S, i)
        os.makedirs(new + '/e'); open(new + '/e/f', 'w').write('x\n')
        exchange(-100, new.encode(), -100, (S + '/d').encode(), 2)
stop.set()
bad = set()
for p in all: bad |= said.get()
print(sorted(bad))
P
"##,
    );
}

/// A name that is believed absent is made behind, and the other way round.
#[test]
fn changes_show_when_the_timeouts_are_over() {
    Case::on(Below::xfs).agrees(
        "timeouts",
        r##"
try stat -c %n a; touch $S/a; pause; stat -c %n a
ls > /dev/null; chmod 600 $S/a; chown 7:8 $S/a; pause; stat -c '%a %u %g' a
setfattr -n user.x -v 1 $S/a; getfattr -n user.x a; ln -s one l; readlink l
ln -sf two $S/l; pause; readlink l
echo longer > $S/a; pause; stat -c %s a; rm $S/a; pause; try stat a
"##,
    );
}

/// The mount has nothing to open it by. Without a mount its listing is empty.
#[test]
fn a_current_directory_that_others_remove_is_stale() {
    let case = Case::on(Below::ext4);
    let script = r##"
mkdir d; cd d; ls; rmdir $S/d; pause
try ls; try touch new; try stat .; try cat f
cd $M; mkdir d; cd d; touch new; ls
"##;
    let said = succeed(&mut case.script("", script));
    let stale = |status: u8| format!("no {status} Stale file handle\n");
    assert_eq!(said, stale(2) + &stale(1).repeat(3) + "new\n");
}

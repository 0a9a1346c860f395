//! Warm-up: calls of every kind before the window, so that what is made on first use exists.

use super::argument::{CHUNK, DUP2_TARGETS, PAGE, XATTR};
use super::fixture::MADE;
use hearth::{Fd, LockKind, LockSpec, Process, SetTime, Time};

/// Makes and removes names in a directory.
pub fn directory(p: &Process, dir: &[u8], side: usize, is_lean: bool) {
    let path = |name| [dir, format!("/{name}{side}").as_bytes()].concat();
    let (from, to) = (path("from"), path("to"));
    let flags = libc::O_CREAT | libc::O_APPEND | libc::O_RDWR;
    let fd = p.open(&from, flags, 0o644).expect("create");
    p.write(fd, &[1; CHUNK]).expect("append");
    p.close(fd).expect("close");
    if is_lean {
        p.unlink(&from).expect("unlink");
        return;
    }
    p.link(&from, path("link")).expect("link");
    p.unlink(path("link")).expect("unlink");
    p.rename(&from, &to).expect("rename");
    p.unlink(&to).expect("unlink");
    p.mkdir(&from, 0o755).expect("mkdir");
    p.rename(&from, &to).expect("rename");
    p.rmdir(&to).expect("rmdir");
    p.symlink("f", &from).expect("symlink");
    p.unlink(&from).expect("unlink");
    p.stat(dir).expect("stat");
    xattrs(p, dir);
}

/// Warms a directory that stays empty: what is made when it is first opened or gets attributes.
pub fn empty(p: &Process, path: &[u8], is_lean: bool) {
    let fd = p.open(path, libc::O_RDONLY, 0).expect("open");
    p.close(fd).expect("close");
    if !is_lean {
        xattrs(p, path);
    }
}

/// Warms a file of two pages.
pub fn file(p: &Process, path: &[u8], is_lean: bool) {
    if is_lean {
        let fd = p.open(path, libc::O_RDWR, 0).expect("open");
        p.pwrite(fd, &[1; CHUNK], 0).expect("write");
        locks(p, fd);
        p.close(fd).expect("close");
        return;
    }
    p.stat(path).expect("stat");
    p.access(path, 4).expect("access");
    p.getxattr(path, XATTR.as_bytes()).expect("getxattr");
    p.setxattr(path, XATTR.as_bytes(), &[0; CHUNK], 0)
        .expect("setxattr");
    let fd = p.open(path, libc::O_RDWR, 0).expect("open");
    p.fstat(fd).expect("fstat");
    let mut chunk = [0; CHUNK];
    p.pread(fd, &mut chunk, 0).expect("read");
    p.pwrite(fd, &chunk, 0).expect("write");
    p.truncate(path, 2 * PAGE).expect("truncate");
    let made = SetTime::At(Time { sec: MADE, nsec: 0 });
    p.utimensat(libc::AT_FDCWD, path, None, Some(made), 0)
        .expect("utimensat");
    locks(p, fd);
    let twin = p.dup(fd).expect("dup");
    for target in DUP2_TARGETS {
        p.dup2(twin, target).expect("dup2");
        p.close(target).expect("close");
    }
    p.close(twin).expect("close");
    p.close(fd).expect("close");
    p.chmod(path, 0o644).expect("chmod");
}

/// Takes locks of the open file and of the process, which end when it is closed.
fn locks(p: &Process, fd: Fd) {
    p.flock(fd, libc::LOCK_EX).expect("flock");
    let page = LockSpec {
        kind: LockKind::Write,
        whence: libc::SEEK_SET,
        start: 0,
        len: PAGE as i64,
    };
    p.set_lock(fd, &page, None).expect("setlk");
}

/// Gives a directory attributes and takes them away.
fn xattrs(p: &Process, path: &[u8]) {
    let name = XATTR.as_bytes();
    p.setxattr(path, name, &[0; CHUNK], 0).expect("setxattr");
    p.removexattr(path, name).expect("removexattr");
}

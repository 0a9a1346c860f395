//! Single operations of one `Process` on warm objects, for what counts or times them without a
//! target in between.

use hearth::{Credentials, Errno, Fd, Process, Volume};
use std::hint::black_box;

/// Bytes of a read or a write.
pub const PAGE: usize = 4_096;
/// Flags of a file that is made.
const NEW: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;

/// `N` files that a loop goes round, and as many names of files to be made: each volume hashes
/// names its own way, and where one name lies is a hundredth of a create.
pub struct LoopFixture<const N: usize> {
    pub process: Process,
    /// Files in the root, and eight levels deep.
    pub shallow: Vec<String>,
    pub deep: Vec<String>,
    /// The directory of the deep ones.
    pub listed: String,
    /// Names of files that are not there.
    pub new: Vec<String>,
    /// Symbolic links in the root.
    pub links: Vec<String>,
    /// A file of `N` pages.
    pub open: Fd,
}

/// One operation, given the number of the turn.
pub type Operation<const N: usize> = fn(&LoopFixture<N>, usize) -> Result<(), Errno>;

impl<const N: usize> LoopFixture<N> {
    /// On an empty volume; `size` bytes in each of the shallow files.
    pub fn new(volume: &Volume, size: usize) -> Result<LoopFixture<N>, Errno> {
        let process = volume.process(Credentials::root());
        let mut below = String::new();
        for n in 1..8 {
            below = format!("{below}/directory-{n}");
            process.mkdir(&below, 0o755)?;
        }
        let names = |dir: &str, kind: &str| -> Vec<String> {
            (0..N).map(|n| format!("{dir}/{kind}-{n}")).collect()
        };
        let (shallow, deep) = (names("", "file"), names(&below, "file"));
        for path in shallow.iter().chain(&deep) {
            process.mknod(path, libc::S_IFREG | 0o644, 0)?;
        }
        let links = names("", "link");
        for path in &links {
            process.symlink("file-0", path)?;
        }
        for path in shallow.iter().filter(|_| size > 0) {
            let fd = process.open(path, libc::O_RDWR, 0)?;
            process.write(fd, &vec![7; size])?;
            process.close(fd)?;
        }
        let open = process.open("/pages", libc::O_CREAT | libc::O_RDWR, 0o644)?;
        process.pwrite(open, &vec![7; N * PAGE], 0)?;
        Ok(LoopFixture {
            process,
            shallow,
            deep,
            listed: below,
            new: names("", "new"),
            links,
            open,
        })
    }

    pub fn file(&self, turn: usize) -> &str {
        &self.shallow[turn % N]
    }

    pub fn free(&self, turn: usize) -> &str {
        &self.new[turn % N]
    }

    pub fn make(&self, name: &str) -> Result<Fd, Errno> {
        self.process.open(name, NEW, 0o644)
    }
}

/// Takes a result as a program does that uses it: what nobody looks at the compiler leaves out.
#[inline(always)]
fn look_at<T>(result: &Result<T, Errno>) -> Result<(), Errno> {
    black_box(result).as_ref().map(drop).map_err(|&errno| errno)
}

pub fn open_close<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let fd = on.process.open(on.file(turn), libc::O_RDONLY, 0)?;
    on.process.close(fd)
}

pub fn stat<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    look_at(&on.process.stat(on.file(turn)))
}

pub fn stat_deep<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    look_at(&on.process.stat(&on.deep[turn % N]))
}

pub fn create_unlink<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let name = on.free(turn);
    let fd = on.make(name)?;
    on.process.close(fd)?;
    on.process.unlink(name)
}

pub fn read_page<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let mut page = [0; PAGE];
    let at = (turn % N * PAGE) as u64;
    let got = on.process.pread(on.open, &mut page, at)?;
    if got == PAGE && page[0] == 7 {
        Ok(())
    } else {
        Err(Errno::EIO)
    }
}

pub fn write_page<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let at = (turn % N * PAGE) as u64;
    on.process.pwrite(on.open, &[7; PAGE], at).map(drop)
}

pub fn fstat<const N: usize>(on: &LoopFixture<N>, _turn: usize) -> Result<(), Errno> {
    look_at(&on.process.fstat(on.open))
}

pub fn readlink<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    look_at(&on.process.readlink(&on.links[turn % N]))
}

/// Gives a file another name in its directory; back again on the next round.
pub fn rename<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let (one, other) = (on.file(turn), on.free(turn));
    match turn / N % 2 {
        0 => on.process.rename(one, other),
        _ => on.process.rename(other, one),
    }
}

pub fn mkdir_rmdir<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let name = on.free(turn);
    on.process.mkdir(name, 0o755)?;
    on.process.rmdir(name)
}

/// The files have a page.
pub fn open_read_close<const N: usize>(on: &LoopFixture<N>, turn: usize) -> Result<(), Errno> {
    let fd = on.process.open(on.file(turn), libc::O_RDONLY, 0)?;
    let got = on.process.read(fd, &mut [0; PAGE])?;
    on.process.close(fd)?;
    if got == PAGE { Ok(()) } else { Err(Errno::EIO) }
}

/// `.`, `..` and `N` names of at least this length.
pub fn list<const N: usize>(on: &LoopFixture<N>, _turn: usize) -> Result<(), Errno> {
    let fd = on
        .process
        .open(&on.listed, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut bytes = 0;
    on.process.getdents(fd, &mut |entry| {
        bytes += entry.name.len();
        true
    })?;
    on.process.close(fd)?;
    if bytes > N * "file-0".len() {
        Ok(())
    } else {
        Err(Errno::EIO)
    }
}

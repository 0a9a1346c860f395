//! Direct writes that nobody waits for, beside programs that read through the kernel's pages, on
//! both transports.

#![allow(clippy::unwrap_used)]

mod harness;

use hearth_testing::aio::Iocb;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SIZE: usize = 640 << 10;
const PART: usize = 64 << 10;
const PARTS: usize = SIZE / PART;

fn check(result: libc::c_long) -> libc::c_long {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

/// A context for asynchronous I/O, and aligned memory for what is written.
struct Writer {
    context: u64,
    memory: *mut u8,
    layout: Layout,
}

impl Writer {
    fn new() -> Writer {
        let (mut context, layout) = (0u64, Layout::from_size_align(SIZE, 4096).unwrap());
        // SAFETY: the call fills in a number; the layout is not empty.
        let memory = unsafe {
            check(libc::syscall(libc::SYS_io_setup, PARTS, &raw mut context));
            alloc_zeroed(layout)
        };
        Writer {
            context,
            memory,
            layout,
        }
    }

    /// Writes all of the file in parts at once, and waits for them.
    fn fill(&self, file: &File, byte: u8) {
        // SAFETY: the memory is as long and belongs to this writer; no request is under way.
        unsafe { self.memory.write_bytes(byte, SIZE) };
        let mut requests: Vec<Iocb> = (0..PARTS)
            .map(|n| n * PART)
            .map(|at| Iocb::write(file, self.memory.wrapping_add(at), PART, at as i64))
            .collect();
        let pointers: Vec<*mut Iocb> = requests.iter_mut().map(|one| &raw mut *one).collect();
        let mut events = [[0i64; 4]; PARTS];
        // SAFETY: the requests, what they point to and the events live until all are done.
        let (sent, done) = unsafe {
            let sent = libc::syscall(libc::SYS_io_submit, self.context, PARTS, pointers.as_ptr());
            let none = std::ptr::null::<libc::timespec>();
            let events = events.as_mut_ptr();
            let wait = libc::SYS_io_getevents;
            let done = libc::syscall(wait, self.context, PARTS, PARTS, events, none);
            (check(sent), check(done))
        };
        assert_eq!((sent, done), (PARTS as libc::c_long, PARTS as libc::c_long));
        for event in events {
            assert_eq!(event[2], PART as i64, "bytes written, or an errno");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: no request is under way; the memory is this writer's.
        unsafe {
            libc::syscall(libc::SYS_io_destroy, self.context);
            dealloc(self.memory, self.layout);
        }
    }
}

/// Processes that read the file through the kernel's pages, again and again.
struct Readers(Vec<Child>);

impl Readers {
    fn of(path: &Path) -> Readers {
        let read = || {
            Command::new("sh")
                .args(["-c", "while :; do cat \"$0\" || exit; done"])
                .arg(path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        Readers(vec![read(), read()])
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What is written directly is what everybody reads when the write is done.
fn is_read_by_all(mount: &Path) {
    let path = mount.join("f");
    fs::write(&path, vec![0; SIZE]).unwrap();
    let writer = Writer::new();
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path)
        .unwrap();
    let _readers = Readers::of(&path);
    for round in 0..200 {
        let byte = 1 + (round % 2) as u8;
        writer.fill(&file, byte);
        let seen = fs::read(&path).unwrap();
        let old = seen.iter().filter(|&&one| one != byte).count();
        assert_eq!((seen.len(), old), (SIZE, 0), "round {round}");
    }
}

on_both_transports! {
    // Once, what was read meanwhile stayed in the kernel's pages, old.
    fn what_is_written_directly_is_read_by_all(mounted, "") {
        is_read_by_all(mounted.path());
    }

    fn what_is_written_directly_is_read_by_all_without_writeback(mounted, "no_writeback") {
        is_read_by_all(mounted.path());
    }
}

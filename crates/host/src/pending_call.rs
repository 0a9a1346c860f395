//! Which system call a thread is in that waits for a request.

use std::fs;

/// System calls that open what a path leads to.
const OPENS: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_execve,
    libc::SYS_execveat,
];

/// Whether a thread is on its way to open something. False where that is not known: the daemon may
/// not look (Yama, another user), or a ring of the kernel makes the call.
pub fn is_opening(thread: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{thread}/syscall"));
    let number = call
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    number.is_some_and(|number: i64| OPENS.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_testing::place::Place;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_waits_in_an_open_is_told_from_one_that_waits_elsewhere() {
        let place = Place::new("opening").expect("a directory");
        let fifo = place.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("a fifo");
        let (tell, told) = channel();
        let path = fifo.clone();
        // Waits for a writer.
        let reader = thread::spawn(move || {
            let number = rustix::thread::gettid().as_raw_pid();
            tell.send(number.cast_unsigned()).expect("it is awaited");
            fs::File::open(path)
        });
        let opening = told.recv().expect("it began");
        let begun = Instant::now();
        while !is_opening(opening) {
            assert!(!reader.is_finished(), "nobody writes");
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not told");
            thread::sleep(Duration::from_millis(1));
        }
        // This one reads.
        let own = rustix::thread::gettid().as_raw_pid();
        assert!(!is_opening(own.cast_unsigned()));
        let _writer = fs::File::create(&fifo).expect("a writer");
        reader.join().expect("it ends").expect("it is opened");
        assert!(!is_opening(0));
    }
}

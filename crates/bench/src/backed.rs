//! Free memory that the host of a virtual machine has given it.
//!
//! A virtual machine may report memory that has been free for some seconds to its host (free page
//! reporting, `virtio_balloon`), and the host takes it back: then its next user waits for
//! the host to give it again, for fifty times as long as the kernel takes to clear a page. What
//! was free for how long depends on what was measured before. So what a run is going to take is
//! used once just before it; on a machine of its own that only costs the moment.

/// Of a kernel whose huge pages are as large as that; smaller pages only make it last longer.
const HUGE: usize = 2 << 20;

/// Takes `bytes` of memory, writes to every page and gives them back. What cannot be had is left.
pub fn back(bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else {
        return;
    };
    if bytes < HUGE {
        return;
    }
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a new mapping, anywhere.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return;
    }
    // SAFETY: the mapping is ours, and nobody has written to it.
    unsafe { libc::madvise(at, bytes, libc::MADV_HUGEPAGE) };
    let page = usize::try_from(page_size()).unwrap_or(HUGE);
    for offset in (0..bytes).step_by(page) {
        // SAFETY: inside the mapping, which lives until the end.
        unsafe { at.cast::<u8>().add(offset).write_volatile(1) };
    }
    // SAFETY: it is ours and nothing refers to it.
    unsafe { libc::munmap(at, bytes) };
}

fn page_size() -> i64 {
    // SAFETY: a question about the machine.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that this thread has been given at their first use.
    fn faults() -> i64 {
        // SAFETY: an all-zero structure is one.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives throughout the call.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        usage.ru_minflt
    }

    #[test]
    fn what_a_run_takes_is_written_to_beforehand() {
        let faulted = faults();
        back(64 << 20);
        assert!(faults() - faulted >= 32, "it was written to");
        let faulted = faults();
        back(HUGE as u64 - 1);
        assert!(faults() - faulted < 8, "too little to be worth it");
    }
}

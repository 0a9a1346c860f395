//! Touching a page of a mapping for which there may be no room: SIGBUS is a refusal, and the
//! process lives on.

use super::PAGE;
use super::mapping::Mapping;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst, compiler_fence};

/// Where the page is that is being touched; 0 while none is.
static TOUCHED: AtomicUsize = AtomicUsize::new(0);
/// Whether it was refused.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// From now on a page that is being touched and refused becomes another one, of no file.
pub(crate) fn catch() {
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_bus;
    // SAFETY: all zeros is an action without a handler, which gets one; `on_bus` has the signature
    // that SA_SIGINFO promises, and calls nothing that a signal may not.
    let set = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut())
    };
    assert_eq!(set, 0, "SIGBUS can be caught");
}

/// Touches a page in some way; `None` if there was no room for it.
pub(crate) fn touch<T>(
    (mapping, file): (&mut Mapping, &File),
    page: u64,
    touch: impl FnOnce(&mut Mapping) -> T,
) -> Option<T> {
    // SeqCst and the fences: the handler runs on this thread, between these lines.
    TOUCHED.store(mapping.at(page) as usize, SeqCst);
    compiler_fence(SeqCst);
    let done = touch(mapping);
    compiler_fence(SeqCst);
    TOUCHED.store(0, SeqCst);
    if REFUSED.swap(false, SeqCst) {
        mapping.restore(file, page);
        return None;
    }
    Some(done)
}

extern "C" fn on_bus(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes what it knows of the signal.
    let at = unsafe { (*info).si_addr() } as usize & !(PAGE as usize - 1);
    if at == 0 || at != TOUCHED.load(SeqCst) {
        // Nobody's business: what caused it is done again, and ends the process.
        // SAFETY: the default needs no handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        return;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: in the place of the page that is being touched, which is mapped again afterwards.
    let put = unsafe { mmap_anonymous(at as *mut _, PAGE as usize, access, flags) };
    match put {
        Ok(_) => REFUSED.store(true, SeqCst),
        Err(_) => std::process::abort(),
    }
}

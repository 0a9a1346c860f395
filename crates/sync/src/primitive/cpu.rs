//! The number of the current core, at the price of a load.
//!
//! The kernel stores the number of the current core in a small area of every thread (restartable
//! sequences), which the C library registers and publishes the address of. Reading it there takes a
//! third of a nanosecond; `sched_getcpu` takes three. Where there is no such area, because the C
//! library is older or a tool intercepts it, `sched_getcpu` is called, once for so many pins of the
//! epoch: a thread that has moved since counts beside another core until then. That costs speed
//! alone.

/// The core that this thread runs on now, in the kernel's numbering.
#[inline]
pub(super) fn current() -> usize {
    #[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
    if let Some(cpu) = area::current() {
        return cpu;
    }
    #[cfg(miri)]
    return own::current();
    #[cfg(not(miri))]
    kept::current()
}

/// The calling thread asks for its core when it next needs it, and keeps the answer until this is
/// called again, where asking is not a load.
#[inline]
pub(crate) fn ask_once() {
    #[cfg(not(miri))]
    kept::ask_once();
}

#[cfg(not(miri))]
mod kept {
    use std::cell::Cell;

    /// Instead of a core: asked for each time, by a thread that has not pinned often.
    const ASK: u32 = u32::MAX;
    /// Instead of a core: asked for now, and kept.
    const ASK_ONCE: u32 = u32::MAX - 1;

    thread_local! {
        static KEPT: Cell<u32> = const { Cell::new(ASK) };
    }

    #[inline]
    pub(super) fn ask_once() {
        KEPT.set(ASK_ONCE);
    }

    #[inline]
    pub(super) fn current() -> usize {
        match KEPT.get() {
            core if core < ASK_ONCE => core as usize,
            how => ask(how) as usize,
        }
    }

    // A function of its own, like `look_up`: the callers are many, and some are short.
    #[cold]
    #[inline(never)]
    fn ask(how: u32) -> u32 {
        // SAFETY: sched_getcpu takes no argument and has no precondition.
        let core = unsafe { libc::sched_getcpu() as u32 };
        if how == ASK_ONCE {
            KEPT.set(core);
        }
        core
    }
}

/// Miri has no cores: every thread gets one of its own.
#[cfg(miri)]
mod own {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        // Relaxed: a number by itself.
        static CORE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn current() -> usize {
        CORE.try_with(|core| *core).unwrap_or(0)
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
mod area {
    use std::arch::asm;
    use std::sync::atomic::{AtomicIsize, Ordering};

    /// Not looked up yet.
    const UNKNOWN: isize = 1;
    /// There is no area.
    const ABSENT: isize = 2;
    /// Bits that are set in `UNKNOWN` or `ABSENT` and clear in every offset.
    const NOT_AN_OFFSET: isize = 3;
    /// The offset of `cpu_id` in the area; the layout is part of the kernel's interface.
    const CPU_ID: isize = 4;

    /// The offset of the thread's `cpu_id` from the thread pointer; a multiple of four.
    static OFFSET: AtomicIsize = AtomicIsize::new(UNKNOWN);

    #[inline]
    pub(super) fn current() -> Option<usize> {
        // Relaxed: every thread would find the same value.
        let mut offset = OFFSET.load(Ordering::Relaxed);
        if offset & NOT_AN_OFFSET != 0 {
            if offset != ABSENT {
                offset = look_up();
            }
            if offset == ABSENT {
                return None;
            }
        }
        let cpu: u32;
        // SAFETY: `fs` is the thread pointer, and `look_up` found that every thread has an area at
        // this offset, which the kernel writes and which lives as long as the thread.
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{offset}]",
                offset = in(reg) offset,
                cpu = lateout(reg) cpu,
                options(nostack, readonly, preserves_flags),
            );
        }
        Some(cpu as usize)
    }

    #[cold]
    #[inline(never)]
    fn look_up() -> isize {
        // SAFETY: the names end with NUL; the symbols, where they exist, are constants of the
        // documented types that the C library has set before any of our code runs.
        let (size, offset) = unsafe {
            let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
            (
                size.as_ref().copied(),
                offset.cast::<isize>().as_ref().copied(),
            )
        };
        let offset = match (size, offset) {
            // A size of zero says that no thread is registered.
            (Some(1..), Some(offset)) => offset + CPU_ID,
            _ => ABSENT,
        };
        // Relaxed: see `current`.
        OFFSET.store(offset, Ordering::Relaxed);
        offset
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    #[test]
    fn the_current_core_is_the_one_the_thread_is_bound_to() {
        let allowed = |set: Option<&libc::cpu_set_t>| {
            // SAFETY: the set is plain data, and the calls get its true size.
            unsafe {
                let mut now: libc::cpu_set_t = std::mem::zeroed();
                match set {
                    Some(set) => libc::sched_setaffinity(0, size_of_val(set), set),
                    None => libc::sched_getaffinity(0, size_of_val(&now), &raw mut now),
                };
                now
            }
        };
        let all = allowed(None);
        // SAFETY: CPU_ISSET and CPU_SET look at the set only; the numbers are inside.
        let cpus = (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &all) });
        for cpu in cpus {
            // SAFETY: as above.
            let only = unsafe {
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut only);
                only
            };
            allowed(Some(&only));
            assert_eq!(super::current(), cpu);
            // SAFETY: no precondition.
            assert_eq!(unsafe { libc::sched_getcpu() }, cpu as i32);
        }
        allowed(Some(&all));
    }
}

//! A mounted volume: from `mount` to the last thread.

use crate::dispatch::{Dispatcher, Settings};
use crate::init::{self, Agreed};
use crate::mount::{self, MountError, Mounted};
use crate::notify::Notifier;
use crate::options::{MountOptions, Transport};
use crate::queues::Queues;
use crate::reply::out_header;
use crate::transport::cpu;
use crate::transport::dev::Reader;
use crate::transport::device::{Device, Incoming};
use crate::transport::uring::QueueParts;
use crate::uring_switch::{UringSwitch, uring_switch};
use crate::waiting::Waiting;
use crate::wire::{
    InHeader, InitIn, InitOut, Opcode, PRUNE_MINOR_VERSION, READ_OVERHEAD, init as bits,
};
use crate::workers::Workers;
use hearth::{Observer, Volume};
use hearth_sync::primitive::thread::{Builder, JoinHandle};
use hearth_sync::primitive::{Arc, Condvar, Mutex};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// How long [`Session::unmount`] lets users of the mount go on before it ends the connection under
/// them.
const GRACE: Duration = Duration::from_secs(2);
/// How long the threads may take to see that an unused mount is gone.
const SETTLE: Duration = Duration::from_secs(10);

/// A volume that is mounted. Dropping it unmounts.
///
/// The program may use the same [`Volume`] through [`hearth::Process`] meanwhile. What it should
/// not do is to use the mount itself by system calls: a thread that waits inside the kernel for an
/// answer of its own process can hang in exit. Dropping the session before the program ends wakes
/// such threads with an error.
pub struct Session {
    shared: Arc<Shared>,
    /// Joined by whoever finishes the session first.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads of a session share.
pub(crate) struct Shared {
    mounted: Mounted,
    transport: &'static str,
    workers: Arc<Workers>,
    waiting: Arc<Waiting>,
    notifier: Arc<Notifier>,
    volume: Volume,
    /// Threads that still carry requests.
    alive: Mutex<usize>,
    /// `alive` became 0.
    ended: Condvar,
}

impl Session {
    /// Mounts `volume` on the directory `mountpoint` and serves it on threads of this process.
    /// Returns when the mount answers.
    ///
    /// # Errors
    /// What is in the way, with the remedy. Nothing is left mounted then.
    pub fn start(
        volume: Volume,
        mountpoint: &Path,
        options: MountOptions,
    ) -> Result<Session, MountError> {
        check_switch(&options)?;
        // From here on a failure drops `mounted`, which detaches it.
        let mounted = mount::mount(mountpoint, &options)?;
        let failed = |error| MountError::Io {
            path: mountpoint.to_owned(),
            error,
        };
        let device = Arc::clone(&mounted.device);
        let (header, request) = first_request(&device, &options).map_err(failed)?;
        init::supported(&request).map_err(|version| MountError::TooOld { version })?;
        let queues = prepare_queues(&request, &options)?;
        let (answer, agreed) = init::agree(&request, &options, queues.is_some());

        let waiting = Arc::new(Waiting::default());
        let settings = Settings::new(&options, &agreed);
        let keeps = agreed.has(bits::WRITEBACK_CACHE) && agreed.minor >= PRUNE_MINOR_VERSION;
        let notifier = Notifier::new(Arc::clone(&device), keeps.then(|| volume.door()));
        let notifier = Arc::new(notifier);
        let workers = Arc::new(Workers::new());
        let service = Arc::new(Dispatcher::new(
            volume.clone(),
            settings,
            Arc::clone(&waiting),
            Arc::clone(&notifier),
            Arc::clone(&workers),
        ));
        let shared = Arc::new(Shared {
            mounted,
            transport: if queues.is_some() { "uring" } else { "dev" },
            workers,
            waiting,
            notifier,
            volume,
            alive: Mutex::new(0),
            ended: Condvar::new(),
        });
        shared
            .volume
            .stats()
            .set_info("transport", shared.transport);
        shared.volume.observe(shared.observer());

        let session = Session {
            shared,
            threads: Mutex::new(Vec::new()),
        };
        answer_init(&device, header.unique, &answer).map_err(failed)?;
        match queues {
            Some(queues) => {
                session.read(&service, &agreed, &[None]).map_err(failed)?;
                session
                    .run_queues(queues, service, &agreed)
                    .map_err(failed)?;
            }
            None => {
                let cpus: Vec<_> = cpu::online().into_iter().map(Some).collect();
                session.read(&service, &agreed, &cpus).map_err(failed)?;
            }
        }
        Ok(session)
    }

    /// The transport in use: `uring` or `dev`.
    pub fn transport(&self) -> &str {
        self.shared.transport
    }

    /// The directory, absolute and without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.shared.mounted.path
    }

    /// Waits until the mount is gone: unmounted by anybody, or [`Session::unmount`] from another
    /// thread.
    pub fn wait(&self) {
        self.shared.wait_ended(None);
        self.finish();
    }

    /// Unmounts. Users of the mount get a moment to finish; then their calls fail.
    ///
    /// # Errors
    /// The mount cannot be taken away (no permission), or its users cannot be stopped.
    pub fn unmount(&self) -> Result<(), MountError> {
        let shared = &self.shared;
        let failed = |error| MountError::Io {
            path: shared.mounted.path.clone(),
            error,
        };
        let patience = match shared.mounted.detach(false) {
            Ok(()) => SETTLE,
            Err(_) => {
                shared.mounted.detach(true).map_err(failed)?;
                GRACE
            }
        };
        if !shared.wait_ended(Some(patience)) {
            shared.mounted.abort().map_err(failed)?;
            shared.wait_ended(None);
        }
        self.finish();
        Ok(())
    }

    /// One thread per element of `cpus` that reads `/dev/fuse`; the first uses the descriptor of
    /// the mount itself.
    fn read(
        &self,
        service: &Arc<Dispatcher>,
        agreed: &Agreed,
        cpus: &[Option<usize>],
    ) -> io::Result<()> {
        let first = &self.shared.mounted.device;
        for (place, &cpu) in cpus.iter().enumerate() {
            let device = if place == 0 {
                Arc::clone(first)
            } else {
                Arc::new(first.duplicate()?)
            };
            let reader = Reader {
                device,
                service: Arc::clone(service),
                workers: Arc::clone(&self.shared.workers),
                max_write: agreed.max_write,
                setxattr_ext: agreed.has(bits::SETXATTR_EXT),
                cpu,
            };
            let shared = Arc::clone(&self.shared);
            shared.thread_begins();
            let run = move || shared.thread_ended(reader.run());
            let thread = Builder::new().name(format!("hearth-dev{place}")).spawn(run);
            self.threads
                .lock()
                .push(thread.inspect_err(|_| self.shared.thread_ended(Ok(())))?);
        }
        Ok(())
    }

    fn run_queues(
        &self,
        queues: Queues<Dispatcher>,
        service: Arc<Dispatcher>,
        agreed: &Agreed,
    ) -> io::Result<()> {
        let parts = QueueParts {
            device: Arc::clone(&self.shared.mounted.device),
            service,
            workers: Arc::clone(&self.shared.workers),
            payload: agreed.max_write.max(READ_OVERHEAD),
        };
        let (threads, result) = queues.go(parts, &self.shared);
        self.threads.lock().extend(threads);
        result
    }

    /// Collects the threads, once they have nothing to carry any more.
    fn finish(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // Panics inside requests are caught; what is left is reported by the program's hook.
            let _ = thread.join();
        }
        self.shared.waiting.close();
        self.shared.workers.close();
        self.shared.notifier.close();
        self.shared.volume.unobserve(&self.shared.observer());
        // A connection that was aborted leaves its mount behind.
        let _ = self.shared.mounted.detach(true);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("hearth: unmount: {error}");
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("mountpoint", &self.mountpoint())
            .field("transport", &self.transport())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.notifier) as Arc<dyn Observer>
    }

    /// A thread is about to carry requests.
    pub fn thread_begins(&self) {
        *self.alive.lock() += 1;
    }

    /// A thread carries no more requests: the mount is gone, or the thread cannot go on. Then the
    /// others must not either, since nobody answers what the kernel gave to this one.
    pub fn thread_ended(&self, result: io::Result<()>) {
        if let Err(error) = result {
            eprintln!(
                "hearth: {}: {error}; the mount ends",
                self.mounted.path.display()
            );
            if let Err(error) = self.mounted.abort() {
                eprintln!("hearth: the connection cannot be aborted: {error}; kill this program");
            }
        }
        // Whoever waits for a lock waits for nobody: the kernel took their requests back. Ring
        // entries that are parked with them come back only when they do.
        self.waiting.close();
        let mut alive = self.alive.lock();
        *alive -= 1;
        if *alive == 0 {
            self.ended.notify_all();
        }
    }

    /// Waits until no thread carries requests; false when the time ran out.
    fn wait_ended(&self, limit: Option<Duration>) -> bool {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut alive = self.alive.lock();
        while *alive > 0 {
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.ended.wait(&mut alive),
                Some(left) if left.is_zero() => return false,
                Some(left) => {
                    self.ended.wait_for(&mut alive, left);
                }
            }
        }
        true
    }
}

/// `transport=uring` on a kernel that will not offer it is refused before anything is mounted.
fn check_switch(options: &MountOptions) -> Result<(), MountError> {
    let reason = match (options.transport, uring_switch()) {
        (Transport::Uring, UringSwitch::Off) => {
            "io_uring is switched off in the kernel's FUSE: \
             echo Y > /sys/module/fuse/parameters/enable_uring, then mount again"
        }
        (Transport::Uring, UringSwitch::Absent) => {
            "this kernel's FUSE has no io_uring (Linux 6.14 or later has): use transport=auto"
        }
        _ => return Ok(()),
    };
    Err(MountError::NoUring {
        reason: reason.to_owned(),
    })
}

/// Threads with rings, if the kernel offers rings and the options want them.
fn prepare_queues(
    request: &InitIn,
    options: &MountOptions,
) -> Result<Option<Queues<Dispatcher>>, MountError> {
    let offered = init::offered(request) & bits::OVER_IO_URING != 0;
    let forced = options.transport == Transport::Uring;
    if options.transport == Transport::Dev || (!offered && !forced) {
        return Ok(None);
    }
    if !offered {
        let reason = "the kernel did not offer it for this mount: use transport=auto".to_owned();
        return Err(MountError::NoUring { reason });
    }
    match Queues::prepare() {
        Ok(queues) => Ok(Some(queues)),
        Err(error) if forced => {
            let reason = format!("io_uring cannot be set up: {error}; use transport=auto");
            Err(MountError::NoUring { reason })
        }
        // Without rings there is still /dev/fuse.
        Err(_) => Ok(None),
    }
}

/// Reads INIT, which the kernel sends before anything else.
fn first_request(device: &Device, options: &MountOptions) -> io::Result<(InHeader, InitIn)> {
    let mut buffer = vec![0; options.max_write as usize + READ_OVERHEAD];
    loop {
        match device.receive(&mut buffer)? {
            Incoming::Nothing => continue,
            Incoming::End => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
            Incoming::Request(_) => {}
        }
        let (header, rest) = InHeader::read_from_prefix(&buffer)
            .map_err(|_| io::Error::from_raw_os_error(libc::EPROTO))?;
        let (request, _) = InitIn::read_from_prefix(rest)
            .map_err(|_| io::Error::from_raw_os_error(libc::EPROTO))?;
        if header.opcode != Opcode::Init as u32 {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        if request.major <= crate::wire::KERNEL_VERSION {
            return Ok((header, request));
        }
        // A kernel with a newer major version asks again when it hears of this one.
        let answer = InitOut {
            major: crate::wire::KERNEL_VERSION,
            ..Default::default()
        };
        answer_init(device, header.unique, &answer)?;
    }
}

fn answer_init(device: &Device, unique: u64, answer: &InitOut) -> io::Result<()> {
    let body = answer.as_bytes();
    device.send(out_header(unique, 0, body.len()).as_bytes(), body, &[])
}

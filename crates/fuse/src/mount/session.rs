//! A mounted volume: from `mount` to the last thread.

use crate::dispatch::Dispatcher;
use crate::dispatch::handles::Handles;
use crate::dispatch::kernel_cache::notifier::Notifier;
use crate::dispatch::settings::Settings;
use crate::log::say;
use crate::mount::connection::Connection;
use crate::mount::handshake::{answer_init, check_switch, first_request};
use crate::mount::init::{self, Agreed};
use crate::mount::last_pages::LastPages;
use crate::mount::options::{MountOptions, Transport};
use crate::mount::passthrough::passthrough;
use crate::mount::{self, MountError};
use crate::placement::affinity_monitor::monitor_clients;
use crate::placement::cpu;
use crate::placement::idle_policy::{IdleMonitor, SchedPolicy, be_usual};
use crate::placement::reader_admission::ReaderAdmission;
use crate::transport::device::Device;
use crate::transport::queues::Queues;
use crate::transport::reader::{Reader, ReaderPlace};
use crate::transport::uring::QueueParts;
use crate::wait::session_shared::SessionShared;
use crate::wait::signals;
use crate::wait::waiting::Waiting;
use crate::wait::workers::Workers;
use crate::wire::{InitIn, PRUNE_MINOR_VERSION, READ_OVERHEAD, init as bits};
use hearth::{KernelCache, NonBlocking, Observer, Volume, VolumeVfs};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{Ordering, fence};
use hearth_sync::primitive::thread::{Builder, JoinHandle};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long [`Session::unmount`] lets users of the mount go on before it ends the connection under
/// them.
const GRACE: Duration = Duration::from_secs(2);
/// How long the kernel may take after that to write back what programs wrote to files that they
/// still have open.
const WRITE_BACK: Duration = Duration::from_secs(20);
/// How long the threads may take to see that an unused mount is gone.
const SETTLE: Duration = Duration::from_secs(10);

/// What a session serves, unless something else is named.
type CoreVfs = VolumeVfs<NonBlocking>;

lock_class!(ThreadsLock = "fuse.threads", 860);

/// A volume that is mounted. Dropping it unmounts.
///
/// The program may use the same [`Volume`] through [`hearth::Process`] meanwhile. What it should
/// not do is to use the mount itself by system calls: a thread that waits inside the kernel for a
/// reply of its own process can hang in exit. Dropping the session before the program ends wakes
/// such threads with an error.
///
/// A volume has one session at a time: a kernel would not hear of what another one changes.
///
/// What is served is a [`KernelCache`], the volume's own unless [`Session::serve`] names another.
/// The volume has the rest: scheduler, tenants, statistics, control files.
pub struct Session<V: KernelCache = CoreVfs> {
    connection: Arc<Connection>,
    transport: &'static str,
    volume: Volume,
    vfs: V,
    handles: Arc<Handles<V::File>>,
    notifier: Arc<Notifier<V>>,
    workers: Arc<Workers>,
    /// Whether the kernel says which files it opens: not with `no_open`.
    sees_opens: bool,
    /// With `sched_policy=auto`.
    idle: Option<Arc<IdleMonitor>>,
    /// Joined by whoever finishes the session first.
    threads: Lock<ThreadsLock, Vec<JoinHandle<()>>>,
}

impl Session {
    /// Mounts `volume` on the directory `mountpoint` and serves it on threads of this process.
    /// Returns when the mount works.
    ///
    /// # Errors
    /// What is in the way, with the remedy. Nothing is left mounted then.
    pub fn start(
        volume: Volume,
        mountpoint: &Path,
        options: MountOptions,
    ) -> Result<Session, MountError> {
        let vfs = volume.nonblocking_vfs();
        Session::serve(volume, vfs, mountpoint, options)
    }
}

impl<V: KernelCache> Session<V> {
    /// [`Session::start`] for what `vfs` serves. Scheduler, tenants, statistics and the contents of
    /// control files are those of `volume`; `vfs` has to show the control files.
    ///
    /// # Errors
    /// What is in the way, with the remedy. Nothing is left mounted then.
    pub fn serve(
        volume: Volume,
        vfs: V,
        mountpoint: &Path,
        mut options: MountOptions,
    ) -> Result<Session<V>, MountError> {
        options.changed_behind = vfs.is_changed_behind();
        check_switch(&options)?;
        hearth_control::install(&volume).map_err(|errno| MountError::Io {
            path: mountpoint.to_owned(),
            error: errno.into(),
        })?;
        let place = mount::resolved(mountpoint);
        let front = volume.kernel_in_front(&place);
        let front = front.map_err(|first| MountError::Served { path: place, first })?;
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
        if options.volume.charge_first {
            volume.charge_first();
        }
        let charges = volume.charges_first();
        let (answer, agreed) = init::agree(&request, &options, queues.is_some(), charges);
        let keeps_sizes = agreed.has(bits::WRITEBACK_CACHE) && agreed.minor >= PRUNE_MINOR_VERSION;
        if options.idmap && !agreed.has(bits::ALLOW_IDMAP) {
            return Err(MountError::NoIdmap);
        }
        let passthrough = passthrough(&options, &agreed)?;
        let handles = Arc::new(match passthrough == "on" {
            true => Handles::passing_through(Arc::clone(&device)),
            false => Handles::new(),
        });
        let settings = Settings::new(&options, &agreed);
        let notifier = Notifier::new(
            Arc::clone(&device),
            keeps_sizes.then(|| vfs.clone()),
            settings.collects().then(|| Arc::clone(&handles)),
            settings.collects_anyway(),
            agreed.minor >= PRUNE_MINOR_VERSION,
        );
        let workers = Workers::new(&volume.scheduler(), vfs.most_calls());
        let policy = options.sched_policy.where_possible();
        let idle = policy == SchedPolicy::Auto;
        let waiting = Arc::new(Waiting::default());
        let session = Session {
            connection: Arc::new(Connection::new(mounted, waiting, front)),
            transport: if queues.is_some() { "uring" } else { "dev" },
            volume,
            vfs,
            handles,
            notifier: Arc::new(notifier),
            workers: Arc::new(workers),
            sees_opens: !settings.no_open,
            idle: idle.then(|| Arc::new(IdleMonitor::new())),
            threads: Lock::new(Vec::new()),
        };
        session
            .volume
            .stats()
            .set_info("transport", session.transport);
        session
            .volume
            .stats()
            .set_info("sched_policy", policy.word());
        if options.changed_behind {
            let stats = session.volume.stats();
            stats.set_info("passthrough", passthrough);
        }
        session.volume.observe(session.observer());
        // Partner: a first limit of bytes, which asks who can be seen (`quotactl/collecting.rs`).
        fence(Ordering::SeqCst);
        if session.volume.charges_first() && !charges && settings.collects_anyway() {
            return Err(MountError::Limited {
                path: mountpoint.to_owned(),
            });
        }
        answer_init(&device, header.unique, &answer).map_err(failed)?;
        let served = session.start_threads(queues, &options, &agreed);
        served.map_err(failed)?;
        let collects = agreed.has(bits::WRITEBACK_CACHE);
        session.connection.mounted.set_cache_limits(collects);
        Ok(session)
    }

    /// Starts the threads that carry requests.
    fn start_threads(
        &self,
        queues: Option<Queues<Dispatcher<V>>>,
        options: &MountOptions,
        agreed: &Agreed,
    ) -> io::Result<()> {
        let service = Arc::new(Dispatcher::new(
            self.volume.clone(),
            self.vfs.clone(),
            Arc::clone(&self.handles),
            Settings::new(options, agreed),
            Arc::clone(&self.connection.waiting),
            Arc::clone(&self.notifier),
            Arc::clone(&self.workers),
        ));
        let shared = Arc::new(SessionShared {
            service,
            workers: Arc::clone(&self.workers),
            waiting: Arc::clone(&self.connection.waiting),
            delayed: Arc::default(),
            sched: self.volume.scheduler(),
            park: options.park,
            idle: self.idle.clone(),
        });
        if let Some(idle) = self.idle.clone() {
            shared.sched.on_thread_start(be_usual);
            let watch = Builder::new().name("hearth-policy".into());
            self.threads.lock().push(watch.spawn(move || idle.watch())?);
        }
        let waiting = Arc::clone(&self.connection.waiting);
        let watch = Builder::new().name("hearth-signals".into());
        let watch = watch.spawn(move || signals::watch(&waiting))?;
        self.threads.lock().push(watch);
        match queues {
            Some(queues) => {
                self.read_alone(&shared, agreed)?;
                self.run_queues(queues, shared, agreed)
            }
            None => self.read_per_cpu(&shared, agreed),
        }
    }

    /// The transport in use: `uring` or `dev`.
    pub fn transport(&self) -> &str {
        self.transport
    }

    /// The directory, absolute and without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.connection.mounted.path
    }

    /// Number of the device that programs see as that of the mount's files.
    pub fn device(&self) -> Option<u64> {
        let minor = self.connection.mounted.number()?;
        Some(libc::makedev(0, minor))
    }

    /// Waits until the mount is gone: unmounted by anybody, or [`Session::unmount`] from another
    /// thread.
    pub fn wait(&self) {
        self.connection.wait_ended(None);
        self.finish();
    }

    /// Whether the mount is gone, because somebody else has unmounted it; the volume can then be
    /// mounted again. The last users of such a mount get a moment to finish.
    pub fn has_ended(&self) -> bool {
        let patience = match self.connection.mounted.is_in_place() {
            true => Duration::ZERO,
            false => GRACE,
        };
        let ended = self.connection.wait_ended(Some(patience));
        if ended {
            self.finish();
        }
        ended
    }

    /// Unmounts. Users of the mount get a moment to finish; then the kernel writes back what they
    /// have written, and their calls fail.
    ///
    /// # Errors
    /// The mount cannot be taken away (no permission), or its users cannot be stopped.
    pub fn unmount(&self) -> Result<(), MountError> {
        let connection = &self.connection;
        let failed = |error| MountError::Unmount {
            path: connection.mounted.path.clone(),
            error,
        };
        let patience = match connection.mounted.detach(false) {
            Ok(()) => SETTLE,
            Err(_) => {
                connection.mounted.detach(true).map_err(failed)?;
                GRACE
            }
        };
        if !connection.wait_ended(Some(patience)) {
            let pages = self.collect_last_pages();
            connection.mounted.abort().map_err(failed)?;
            connection.wait_ended(None);
            if let Some(pages) = pages {
                pages.join();
            }
        }
        self.finish();
        Ok(())
    }

    /// Has the kernel write back what programs have written to files that they still have open, as
    /// far as that does not take too long. The abort, which is next, frees what hangs.
    fn collect_last_pages(&self) -> Option<LastPages> {
        let (inodes, which) = match self.sees_opens {
            true => (
                self.handles.open_for_writing(),
                "that programs have open for writing",
            ),
            // Any that the kernel has may be open, and may have such pages.
            false => (self.vfs.known_files(), "that the kernel holds"),
        };
        let all = inodes.len();
        if all == 0 {
            return None;
        }
        self.notifier.ends();
        let notifier = Arc::clone(&self.notifier);
        let write_back = move |ino| {
            notifier.inval_inode(ino, Some(0..u64::MAX));
        };
        let pages = LastPages::collect(inodes, write_back);
        let left = pages.as_ref().map_or(all, |pages| pages.wait(WRITE_BACK));
        if left > 0 {
            say(format_args!(
                "{}: {left} of {all} files {which} may lack what was \
                 written last: the kernel has not written it back{}",
                self.mountpoint().display(),
                match &pages {
                    Ok(_) => format!(" within {WRITE_BACK:?}"),
                    Err(error) => format!(", since no thread can be started: {error}"),
                },
            ));
        }
        pages.ok()
    }

    /// One thread that reads `/dev/fuse`.
    fn read_alone(
        &self,
        shared: &Arc<SessionShared<Dispatcher<V>>>,
        agreed: &Agreed,
    ) -> io::Result<()> {
        let device = Arc::clone(&self.connection.mounted.device);
        self.read(shared, agreed, device, None)
    }

    /// Threads for each CPU that read `/dev/fuse`; the first uses the descriptor of the mount
    /// itself. Where requests may block there are two for each, so that one reads while the other
    /// makes a call.
    fn read_per_cpu(
        &self,
        shared: &Arc<SessionShared<Dispatcher<V>>>,
        agreed: &Agreed,
    ) -> io::Result<()> {
        let mut cpus = cpu::online();
        let (queues, has_choice) = (cpus.len(), cpus.len() > 1);
        let first = &self.connection.mounted.device;
        // A user who mounts through the helper may not be allowed to open the device: the threads
        // then share one descriptor, and its lock.
        let clone = |_| first.duplicate().ok().map(Arc::new);
        let mut clones: Vec<_> = (1..queues).map(clone).collect();
        let shares = clones.iter().any(Option::is_none);
        let may_call = self.vfs.may_block() && !shares;
        let more = || (0..queues).map(clone).collect::<Option<Vec<_>>>();
        let admission = match may_call.then(more).flatten() {
            Some(more) => {
                clones.extend(more.into_iter().map(Some));
                cpus.extend_from_within(..);
                Arc::new(ReaderAdmission::of_callers(&cpus))
            }
            None => Arc::new(ReaderAdmission::new(&cpus)),
        };
        let devices = std::iter::once(None).chain(clones);
        for (number, (cpu, clone)) in cpus.into_iter().zip(devices).enumerate() {
            let place = ReaderPlace {
                cpu,
                admission: Arc::clone(&admission),
                number,
                shares: shares && clone.is_none(),
                has_queue: number < queues,
            };
            let device = clone.unwrap_or_else(|| Arc::clone(first));
            self.read(shared, agreed, device, Some(place))?;
        }
        if has_choice {
            // Last, since a reader that ends is what ends it.
            let monitor = Builder::new().name("hearth-monitor".into());
            let monitor = monitor.spawn(move || monitor_clients(&admission))?;
            self.threads.lock().push(monitor);
        }
        Ok(())
    }

    fn read(
        &self,
        shared: &Arc<SessionShared<Dispatcher<V>>>,
        agreed: &Agreed,
        device: Arc<Device>,
        place: Option<ReaderPlace>,
    ) -> io::Result<()> {
        let number = place.as_ref().map_or(0, |place| place.number);
        let reader = Reader {
            device,
            shared: Arc::clone(shared),
            max_write: agreed.max_write,
            setxattr_ext: agreed.has(bits::SETXATTR_EXT),
            place,
        };
        let connection = Arc::clone(&self.connection);
        connection.thread_begins();
        let run = move || connection.thread_ended(reader.run());
        let thread = Builder::new()
            .name(format!("hearth-dev{number}"))
            .spawn(run);
        let thread = thread.inspect_err(|_| self.connection.thread_ended(Ok(())))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    fn run_queues(
        &self,
        queues: Queues<Dispatcher<V>>,
        shared: Arc<SessionShared<Dispatcher<V>>>,
        agreed: &Agreed,
    ) -> io::Result<()> {
        let parts = QueueParts {
            device: Arc::clone(&self.connection.mounted.device),
            shared,
            payload: agreed.max_write.max(READ_OVERHEAD),
        };
        let (threads, result) = queues.go(parts, &self.connection);
        self.threads.lock().extend(threads);
        result
    }

    fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.notifier) as Arc<dyn Observer>
    }

    /// Collects the threads, once they have nothing to carry any more.
    fn finish(&self) {
        if let Some(idle) = &self.idle {
            idle.close();
        }
        // Where no thread ever carried requests, none has done this.
        self.connection.waiting.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // Panics inside requests are caught; what is left is reported by the program's hook.
            let _ = thread.join();
        }
        self.workers.close();
        self.notifier.close();
        self.volume.unobserve(&self.observer());
        let front = self.connection.take_front();
        if front.is_some() {
            // The kernel forgets nothing when a mount goes, and no other one is in front of the
            // volume: what lookups still hold is held by nobody.
            self.vfs.forget_all();
        }
        drop(front);
        // A connection that was aborted leaves its mount behind.
        let _ = self.connection.mounted.detach(true);
    }
}

/// Threads with rings, if the kernel offers rings and the options want them.
fn prepare_queues<V: KernelCache>(
    request: &InitIn,
    options: &MountOptions,
) -> Result<Option<Queues<Dispatcher<V>>>, MountError> {
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

impl<V: KernelCache> Drop for Session<V> {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            say(format_args!("unmount: {error}"));
        }
    }
}

impl<V: KernelCache> std::fmt::Debug for Session<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("mountpoint", &self.mountpoint())
            .field("transport", &self.transport())
            .finish_non_exhaustive()
    }
}

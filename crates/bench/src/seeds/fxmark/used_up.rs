//! The seven that use up what they work on: a fixed number of operations for each task.
//!
//! All of it is done once and undone by the same tasks before what is measured. What a run takes of
//! memory is at hand then, as it is for an operation that is repeated in place: else the figure is
//! mostly that of the kernel, which gives memory, and on a virtual machine that of its host.

use super::place::{self, PAGE};
use crate::activity::{Activity, Job, Phased, Repeat, must, path};
use crate::target::{Client, Handle};
use std::ffi::CString;

/// One of the seven.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Dwal,
    Dwtl,
    Mwcl,
    Mwcm,
    Mwul,
    Mwum,
    Mwrm,
}

use Kind::{Dwal, Dwtl, Mwcl, Mwcm, Mwrm, Mwul, Mwum};

/// So many operations of a kind by each task.
#[derive(Clone, Copy, Debug)]
pub struct UsedUp {
    /// What is done.
    pub kind: Kind,
    /// How often by each task.
    pub times: usize,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [Dwal, Dwtl, Mwcl, Mwcm, Mwul, Mwum, Mwrm];

    /// What is done, by what the paper's table says.
    pub fn about(self) -> &'static str {
        match self {
            Dwal => "append a page to a private file",
            Dwtl => "truncate a private file by a page",
            Mwcl => "create an empty file in a private directory",
            Mwcm => "create a file of a page in the shared directory",
            Mwul => "unlink an empty file in a private directory",
            Mwum => "unlink an empty file in the shared directory",
            Mwrm => "rename a file from a private directory into the shared one",
        }
    }

    /// An operation makes or drops a page of contents.
    pub(super) fn has_pages(self) -> bool {
        matches!(self, Dwal | Dwtl | Mwcm)
    }

    fn has_private_directory(self) -> bool {
        matches!(self, Mwcl | Mwul | Mwrm)
    }

    fn begins_with_files(self) -> bool {
        matches!(self, Mwul | Mwum | Mwrm)
    }

    /// File number `n` of a task, where it is at first.
    fn file(self, task: usize, n: usize) -> CString {
        path(match self {
            Dwal | Dwtl => return place::private_file(task),
            Mwcl | Mwul | Mwrm => format!("/private-{task}/file-{task}-{n}"),
            Mwcm | Mwum => format!("/shared/file-{task}-{n}"),
        })
    }
}

fn moved(task: usize, n: usize) -> CString {
    path(format!("/shared/file-{task}-{n}"))
}

impl UsedUp {
    const PHASES: [&str; 3] = ["first", "back", "work"];
    const BACK: usize = 1;
    /// The phase that is measured.
    pub const WORK: usize = 2;

    /// Makes what a task uses up. Each makes its own, on its core, as the program of the paper has
    /// its workers do.
    pub(super) fn prepare_task(&self, client: &dyn Client, task: usize) -> Result<(), String> {
        if self.kind.has_private_directory() {
            client.mkdir(&place::private_directory(task))?;
        }
        if self.kind.begins_with_files() {
            (0..self.times).try_for_each(|n| place::make(client, &self.kind.file(task, n)))?;
        }
        match self.kind {
            Dwal => place::make(client, &place::private_file(task)),
            Dwtl => place::fill(client, &place::private_file(task), self.bytes()),
            _ => Ok(()),
        }
    }

    /// Size of a file that has a page for each operation.
    fn bytes(&self) -> u64 {
        (self.times * PAGE) as u64
    }
}

impl Job for UsedUp {
    fn name(&self) -> String {
        format!("{:?}", self.kind).to_uppercase()
    }

    fn phases(&self) -> Vec<&'static str> {
        Self::PHASES.to_vec()
    }

    fn prepare(&self, client: &dyn Client, _tasks: usize) -> Result<(), String> {
        client.mkdir(&place::shared_directory())
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        let work = Work::begin(*self, &*client, task)?;
        Ok(Box::new(Task { client, work }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let mut in_private = 0;
        for task in 0..tasks {
            if self.kind.has_private_directory() {
                in_private += client.list(&place::private_directory(task))?;
            }
            if matches!(self.kind, Dwal | Dwtl) {
                let size = client.about(&place::private_file(task))?.size;
                let wanted = if self.kind == Dwal { self.bytes() } else { 0 };
                must(size == wanted, || format!("{size} bytes, task {task}"))?;
            }
        }
        let in_shared = client.list(&place::shared_directory())?;
        let all = self.times * tasks;
        let wanted = match self.kind {
            Mwcl => (all, 0),
            Mwcm | Mwrm => (0, all),
            Dwal | Dwtl | Mwul | Mwum => (0, 0),
        };
        must((in_private, in_shared) == wanted, || {
            format!(
                "{}: {in_private} private files, {in_shared} shared",
                self.name()
            )
        })?;
        if self.kind == Mwcm {
            let size = client.about(&self.kind.file(0, self.times - 1))?.size;
            must(size == PAGE as u64, || format!("MWCM: {size} bytes"))?;
        }
        Ok(())
    }
}

/// What a task works on.
struct Work {
    job: UsedUp,
    task: usize,
    file: Option<Handle>,
    page: Vec<u8>,
}

impl Work {
    fn begin(job: UsedUp, client: &dyn Client, task: usize) -> Result<Work, String> {
        job.prepare_task(client, task)?;
        let flags = match job.kind {
            Dwal => Some(libc::O_WRONLY | libc::O_APPEND),
            Dwtl => Some(libc::O_RDWR),
            _ => None,
        };
        let open = |flags| client.open(&place::private_file(task), flags);
        Ok(Work {
            job,
            task,
            file: flags.map(open).transpose()?,
            page: vec![place::BYTE; PAGE],
        })
    }

    /// Operation number `n`.
    fn once(&self, client: &dyn Client, n: usize) -> Result<(), String> {
        let file = self.job.kind.file(self.task, n);
        let open = self.file.unwrap_or(-1);
        match self.job.kind {
            Dwal => {
                let done = client.write_next(open, &self.page)?;
                must(done == PAGE, || format!("append number {n}"))
            }
            Dwtl => client.truncate(open, ((self.job.times - n - 1) * PAGE) as u64),
            Mwcl => place::make(client, &file),
            Mwcm => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
                let handle = client.open(&file, flags)?;
                let done = client.write(handle, &self.page, 0)?;
                must(done == PAGE, || format!("write to {file:?}"))?;
                client.close(handle)
            }
            Mwul | Mwum => client.unlink(&file),
            Mwrm => client.rename(&file, &moved(self.task, n)),
        }
    }

    /// Undoes all operations.
    fn back(&self, client: &dyn Client) -> Result<(), String> {
        let open = self.file.unwrap_or(-1);
        let mut files = (0..self.job.times).map(|n| self.job.kind.file(self.task, n));
        match self.job.kind {
            Dwal => client.truncate(open, 0),
            Dwtl => place::fill_open(client, open, self.job.bytes()),
            Mwcl | Mwcm => files.try_for_each(|file| client.unlink(&file)),
            Mwul | Mwum => files.try_for_each(|file| place::make(client, &file)),
            Mwrm => (0..self.job.times)
                .zip(files)
                .try_for_each(|(n, file)| client.rename(&moved(self.task, n), &file)),
        }
    }
}

struct Task<'c> {
    client: Box<dyn Client + 'c>,
    work: Work,
}

impl Phased for Task<'_> {
    fn phase(&mut self, phase: usize) -> Result<u64, String> {
        if phase == UsedUp::BACK {
            return self.work.back(&*self.client).map(|()| 0);
        }
        let times = self.work.job.times;
        (0..times).try_for_each(|n| self.work.once(&*self.client, n))?;
        Ok(times as u64)
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.work.file {
            let _ = self.client.close(file);
        }
    }
}

/// The same for who counts what one operation does: up to [`UsedUp::times`] of them.
pub struct OneByOne(pub UsedUp);

impl Activity for OneByOne {
    fn name(&self) -> String {
        self.0.name()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        self.0.prepare(client, tasks)
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let work = Work::begin(self.0, client, task)?;
        let mut numbers = 0..self.0.times;
        Ok(Box::new(move || {
            let n = numbers.next().ok_or("everything is used up")?;
            work.once(client, n)
        }))
    }
}

//! What the threads do.

use super::{IN_DIRECTORY, MODE, PHASES, WARM, WORKLOAD};
use crate::activity::{Activity, Job, Phased, Repeat, must, of_files, path};
use crate::seeds::counted::OPERATIONS;
use crate::target::Client;
use std::ffi::CString;

/// So many files for each thread.
pub struct Files {
    /// How many.
    pub each: usize,
}

fn top(task: usize) -> CString {
    path(format!("/thread-{task}"))
}

fn file(task: usize, n: usize) -> CString {
    path(format!("/thread-{task}/{}/file-{n}", n / IN_DIRECTORY))
}

/// Makes file number `n`, and its directory if it is the first one there.
fn create(client: &dyn Client, task: usize, n: usize) -> Result<(), String> {
    if n.is_multiple_of(IN_DIRECTORY) {
        client.mkdir(&path(format!("/thread-{task}/{}", n / IN_DIRECTORY)))?;
    }
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    client.close(client.open(&file(task, n), flags)?)
}

fn look(client: &dyn Client, file: &CString) -> Result<(), String> {
    let about = client.about(file)?;
    must(!about.is_dir && about.size == 0, || format!("{file:?}"))
}

impl Job for Files {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn memory(&self, tasks: usize) -> u64 {
        of_files(tasks * self.each)
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| client.mkdir(&top(task)))
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        let mut thread = Thread {
            job: self,
            client,
            task,
        };
        for _ in 0..WARM {
            for phase in 0..PHASES.len() {
                thread.phase(phase)?;
            }
            thread.client.mkdir(&top(task))?;
        }
        Ok(Box::new(thread))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let left = client.list(c"/")?;
        must(left == 0, || {
            format!("{left} of {tasks} directories are left")
        })
    }
}

struct Thread<'c> {
    job: &'c Files,
    client: Box<dyn Client + 'c>,
    task: usize,
}

impl Thread<'_> {
    /// Calls `f` with every file below `dir`, as `find` finds them, and `after` with every
    /// directory once it is through with it.
    fn walk(
        &self,
        dir: &CString,
        f: &mut dyn FnMut(CString) -> Result<(), String>,
        after: &mut dyn FnMut(&CString) -> Result<(), String>,
    ) -> Result<(), String> {
        for entry in self.client.entries(dir)?.iter() {
            let below = path([dir.to_bytes(), b"/", entry.name].concat());
            if entry.is_dir {
                self.walk(&below, f, after)?;
            } else {
                f(below)?;
            }
        }
        after(dir)
    }
}

impl Phased for Thread<'_> {
    fn phase(&mut self, phase: usize) -> Result<u64, String> {
        let (client, top) = (&self.client, top(self.task));
        let mut files = 0;
        let mut keep = |_: &CString| Ok(());
        match PHASES[phase] {
            "create" => {
                (0..self.job.each).try_for_each(|n| create(&**client, self.task, n))?;
                files = self.job.each;
            }
            "walk" => {
                let mut seen = |file: CString| {
                    files += 1;
                    look(&**client, &file)
                };
                self.walk(&top, &mut seen, &mut keep)?;
            }
            "chmod" => {
                for n in 0..self.job.each {
                    client.chmod(&file(self.task, n), MODE)?;
                }
                files = self.job.each;
            }
            _ => {
                let changed = client.about(&file(self.task, self.job.each - 1))?.mode;
                must(changed == MODE, || format!("mode {changed:o}"))?;
                let mut remove = |file: CString| {
                    files += 1;
                    client.unlink(&file)
                };
                self.walk(&top, &mut remove, &mut |dir| client.rmdir(dir))?;
            }
        }
        must(files == self.job.each, || {
            format!("{}: {files} files", PHASES[phase])
        })?;
        Ok(files as u64)
    }
}

/// A phase, a file at a time, for who counts what one operation does.
pub(super) struct Phase(pub &'static str);

impl Activity for Phase {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        Files { each: OPERATIONS }.prepare(client, tasks)
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let mut numbers = 0..OPERATIONS;
        let mut next = move || numbers.next().ok_or("there are no more files");
        if self.0 == "create" {
            return Ok(Box::new(move || create(client, task, next()?)));
        }
        (0..OPERATIONS).try_for_each(|n| create(client, task, n))?;
        let mut found = Found {
            client,
            directories: (0..OPERATIONS.div_ceil(IN_DIRECTORY))
                .map(|n| path(format!("/thread-{task}/{n}")))
                .collect(),
            files: Vec::new(),
            through: None,
        };
        let again: Box<dyn Repeat + 'c> = match self.0 {
            "chmod" => Box::new(move || client.chmod(&file(task, next()?), MODE)),
            "walk" => Box::new(move || look(client, &found.file(|_| Ok(()))?)),
            _ => Box::new(move || client.unlink(&found.file(|dir| client.rmdir(dir))?)),
        };
        Ok(again)
    }
}

/// The files of a thread, directory by directory, as each is listed.
struct Found<'c> {
    client: &'c dyn Client,
    /// Those to come, the last one first.
    directories: Vec<CString>,
    files: Vec<CString>,
    /// The one whose files these are.
    through: Option<CString>,
}

impl Found<'_> {
    /// The next one; `after` gets every directory once it is through with it.
    fn file(&mut self, after: impl Fn(&CString) -> Result<(), String>) -> Result<CString, String> {
        loop {
            if let Some(file) = self.files.pop() {
                return Ok(file);
            }
            self.through.take().iter().try_for_each(&after)?;
            let directory = self.directories.pop().ok_or("there are no more files")?;
            let entries = self.client.entries(&directory)?;
            let below = |name: &[u8]| path([directory.to_bytes(), b"/", name].concat());
            self.files = entries.iter().map(|entry| below(entry.name)).collect();
            self.through = Some(directory);
        }
    }
}

//! compilebench: the eleven phases of the tool's report on trees like those of a kernel, by one
//! task. Sizes and numbers of files are drawn from curves that have the medians and means of the
//! tool's own lists (kernel 2.6.20), with its seed, 555.

use super::sides::{How, Measured};
use super::{HeatCase, seed_heading, seed_line};
use crate::random::Random;
use crate::stats::Metric;
use crate::target::{Client, Sharing};
use crate::workload::{Place, Ready, Task, Workload, must, path};
use std::ffi::CString;
use std::sync::Arc;

/// The phases in the order in which they run, and whether the report gives seconds, not MB/s. The
/// names are those of the report.
const PHASES: [(&str, bool); 11] = [
    ("intial create", false),
    ("create", false),
    ("patch", false),
    ("compile", false),
    ("read tree", false),
    ("read compiled tree", false),
    ("stat tree", true),
    ("stat compiled tree", true),
    ("clean", false),
    ("delete tree", true),
    ("delete compiled tree", true),
];
/// The order of the report.
const REPORT: [usize; 11] = [0, 1, 2, 3, 8, 4, 5, 9, 10, 6, 7];

/// A tree of the tool: files, their median size and the spread of its logarithm; directories.
const FILES: usize = 21_280;
const MEDIAN: f64 = 4_055.0;
const SPREAD: f64 = 1.453;
const DIRS: usize = 1_263;
/// What a compilation adds.
const OBJECTS: usize = 3_263;
const OBJECT_MEDIAN: f64 = 90_000.0;
const OBJECT_SPREAD: f64 = 1.333;
/// Of so many files a patch rewrites one... in tenths of a percent.
const PATCHED: u64 = 288;
/// Bytes that are read or written at once.
const BUFFER: usize = 256 << 10;

/// Directories and files (path below the tree, bytes).
struct Tree {
    dirs: Vec<String>,
    files: Vec<(String, usize)>,
    objects: Vec<(String, usize)>,
}

impl Tree {
    fn new(part: usize) -> Tree {
        let mut random = Random::new(555);
        let mut dirs: Vec<String> = vec![String::new()];
        for n in 1..DIRS / part {
            // Six levels at most.
            let above = loop {
                let above = &dirs[random.below(dirs.len() as u64) as usize];
                if above.matches('/').count() < 5 {
                    break above.clone();
                }
            };
            dirs.push(format!("{above}/dir-{n}"));
        }
        let mut draw = |count: usize, median: f64, spread: f64, end: &str| {
            let one = |n: usize| {
                let dir = &dirs[random.below(dirs.len() as u64) as usize];
                let bytes = (random.normal() * spread).exp() * median;
                (format!("{dir}/file-{n}.{end}"), bytes.min(3e7) as usize + 1)
            };
            (0..count / part).map(one).collect::<Vec<_>>()
        };
        let files = draw(FILES, MEDIAN, SPREAD, "c");
        let objects = draw(OBJECTS, OBJECT_MEDIAN, OBJECT_SPREAD, "o");
        Tree {
            dirs,
            files,
            objects,
        }
    }
}

#[derive(Clone)]
struct Build(Arc<Tree>);

impl Build {
    /// On trees that are one of `part` parts as large as the tool's.
    fn new(part: usize) -> Build {
        Build(Arc::new(Tree::new(part)))
    }
}

impl Workload for Build {
    fn name(&self) -> String {
        "compilebench".to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.iter().map(|(name, _)| *name).collect()
    }

    fn prepare(&self, _client: &dyn Client, _tasks: usize) -> Result<(), String> {
        Ok(())
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (_task, _tasks): Place) -> Ready<'c> {
        Ok(Box::new(Builder {
            tree: &self.0,
            client,
            random: Random::new(555),
            buffer: vec![0x2f; BUFFER],
        }))
    }

    fn check(&self, client: &dyn Client, _done: &[u64]) -> Result<(), String> {
        // The trees 0 and 1 were deleted; 2 is as it was made.
        let left = client.list(c"/")?;
        must(left == 1, || format!("{left} trees are left"))
    }
}

struct Builder<'c> {
    tree: &'c Tree,
    client: Box<dyn Client + 'c>,
    random: Random,
    buffer: Vec<u8>,
}

impl Task for Builder<'_> {
    fn run(&mut self, phase: usize) -> Result<u64, String> {
        let tree = self.tree;
        match PHASES[phase].0 {
            "intial create" => Ok(self.create(0)? + self.create(1)?),
            "create" => self.create(2),
            "patch" => self.patch(0),
            "compile" => Ok(self.write_all(0, true)? + self.write_all(2, true)?),
            "read tree" => self.read(1, false),
            "read compiled tree" => self.read(0, true),
            "stat tree" => self.stat(1, false),
            "stat compiled tree" => self.stat(0, true),
            "clean" => {
                let unlink = |(name, bytes): &(String, usize)| {
                    self.client.unlink(&place(2, name)).map(|()| *bytes as u64)
                };
                tree.objects.iter().map(unlink).sum()
            }
            "delete tree" => self.delete(1, false),
            _ => self.delete(0, true),
        }
    }
}

impl Builder<'_> {
    fn create(&mut self, number: usize) -> Result<u64, String> {
        for dir in &self.tree.dirs {
            self.client.mkdir(&place(number, dir))?;
        }
        self.write_all(number, false)
    }

    /// Writes the files, or the objects in random order.
    fn write_all(&mut self, number: usize, objects: bool) -> Result<u64, String> {
        let tree = self.tree;
        let mut list: Vec<&(String, usize)> = match objects {
            true => tree.objects.iter().collect(),
            false => tree.files.iter().collect(),
        };
        if objects {
            self.random.shuffle(&mut list);
        }
        for (name, bytes) in &list {
            self.write(&place(number, name), *bytes)?;
        }
        Ok(list.iter().map(|(_, bytes)| *bytes as u64).sum())
    }

    fn write(&self, name: &CString, bytes: usize) -> Result<(), String> {
        let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY;
        let file = self.client.open(name, flags)?;
        let mut left = bytes;
        while left > 0 {
            let now = left.min(BUFFER);
            left -= self.client.write_next(file, &self.buffer[..now])?;
        }
        self.client.close(file)
    }

    fn read_one(&mut self, name: &CString) -> Result<u64, String> {
        let file = self.client.open(name, libc::O_RDONLY)?;
        let mut bytes = 0;
        loop {
            match self.client.read_next(file, &mut self.buffer)? {
                0 => break,
                got => bytes += got as u64,
            }
        }
        self.client.close(file)?;
        Ok(bytes)
    }

    fn patch(&mut self, number: usize) -> Result<u64, String> {
        let tree = self.tree;
        let unlink_first = self.random.below(4) == 0;
        let mut random = Random::new(7);
        let mut total = 0;
        for (name, bytes) in &tree.files {
            if random.below(1000) >= PATCHED {
                continue;
            }
            let name = place(number, name);
            let got = self.read_one(&name)?;
            must(got == *bytes as u64, || format!("{name:?} has {got} bytes"))?;
            if unlink_first {
                self.client.unlink(&name)?;
            }
            self.write(&name, *bytes)?;
            total += got;
        }
        Ok(total)
    }

    fn read(&mut self, number: usize, compiled: bool) -> Result<u64, String> {
        let names = self.files(number, compiled)?;
        names.iter().map(|name| self.read_one(name)).sum()
    }

    fn stat(&mut self, number: usize, compiled: bool) -> Result<u64, String> {
        let names = self.files(number, compiled)?;
        for name in &names {
            self.client.about(name)?;
        }
        Ok(names.len() as u64)
    }

    /// Every file, as the directories list them. They are gone through as they were made, so that
    /// what comes next does not depend on where a listing has them.
    fn files(&self, number: usize, compiled: bool) -> Result<Vec<CString>, String> {
        let mut names = Vec::new();
        for directory in &self.tree.dirs {
            let listed = place(number, directory);
            let entries = self.client.entries(&listed)?;
            let files = entries.iter().filter(|entry| !entry.is_dir);
            names.extend(files.map(|file| path([listed.as_bytes(), b"/", file.name].concat())));
        }
        let objects = if compiled { self.tree.objects.len() } else { 0 };
        let (found, due) = (names.len(), self.tree.files.len() + objects);
        must(found == due, || {
            format!("tree {number}: {found} files of {due}")
        })?;
        Ok(names)
    }

    fn delete(&mut self, number: usize, compiled: bool) -> Result<u64, String> {
        let names = self.files(number, compiled)?;
        for name in &names {
            self.client.unlink(name)?;
        }
        // Each stands behind the one it is in.
        for directory in self.tree.dirs.iter().rev() {
            self.client.rmdir(&place(number, directory))?;
        }
        Ok(names.len() as u64)
    }
}

fn place(number: usize, name: &str) -> CString {
    path(format!("/kernel-{number}{name}"))
}

/// All phases by one task.
pub fn all(part: usize) -> Vec<HeatCase> {
    let build = Build::new(part);
    let row = |(name, in_seconds): (&str, bool)| {
        let metric: Metric = if in_seconds {
            ("seconds", "s")
        } else {
            ("bytes_per_s", "B/s")
        };
        (format!("compilebench {name}"), metric)
    };
    vec![HeatCase {
        rows: PHASES.into_iter().map(row).collect(),
        tasks: &[1],
        how: How {
            sharing: Sharing::Processes,
            stays: false,
            is_elastic: false,
        },
        make: Box::new(move |_| Box::new(build.clone())),
    }]
}

/// The seed's table.
pub fn table(measured: &[Measured]) -> String {
    let mut text = seed_heading();
    for phase in REPORT {
        let ((name, in_seconds), one) = (PHASES[phase], &measured[phase]);
        text += &match in_seconds {
            true => seed_line(name, &one.seconds, " seconds", 3),
            false => {
                let megabytes = one
                    .speed
                    .zip(&one.speed, |bytes, _| bytes / f64::from(1 << 20));
                seed_line(name, &megabytes, " MB/s", 3)
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_like_the_tool_s() {
        let tree = Tree::new(1);
        assert_eq!((tree.dirs.len(), tree.files.len()), (DIRS, FILES));
        let mebibytes = |files: &[(String, usize)]| {
            files.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / f64::from(1 << 20)
        };
        let (files, objects) = (mebibytes(&tree.files), mebibytes(&tree.objects));
        assert!((files / 222.4 - 1.0).abs() < 0.15, "{files} MiB");
        assert!((objects / 680.6 - 1.0).abs() < 0.15, "{objects} MiB");
        let mut sizes: Vec<usize> = tree.files.iter().map(|(_, bytes)| *bytes).collect();
        sizes.sort_unstable();
        let (median, ninth) = (sizes[FILES / 2], sizes[FILES * 9 / 10]);
        assert!((3_800..4_300).contains(&median), "{median}");
        assert!((23_000..29_000).contains(&ninth), "{ninth}");
        assert!(tree.dirs.iter().all(|dir| dir.matches('/').count() < 6));
    }

    #[test]
    fn every_phase_is_reported_once() {
        let mut order = REPORT.to_vec();
        order.sort_unstable();
        assert_eq!(order, (0..PHASES.len()).collect::<Vec<_>>());
    }
}

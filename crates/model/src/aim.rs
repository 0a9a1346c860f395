//! Aiming random operations at what exists: otherwise nearly all of them would fail for lack of a
//! file or a descriptor.

use crate::bytes::{Bytes, bytes};
use crate::model::Model;
use crate::node::{Content, NodeId, ROOT};
use crate::op::{CWD, Fd, Op, Target};
use crate::outcome::Kind;
use crate::process::Process;
use crate::quota::Quota;
use crate::rule::{Rule, Step};
use crate::system::{OBSERVER, PROCESSES};

/// `FS_XFLAG_PROJINHERIT`
const INHERIT: u32 = 0x200;

/// A random operation that is not aimed yet.
#[derive(Debug, Clone)]
pub struct Shot {
    /// Picks a living process.
    pub process: u8,
    /// The operation as drawn.
    pub op: Op,
    /// Each picks something for one descriptor or path of the operation. Multiples of 4 pick
    /// nothing and leave the operation as drawn.
    pub aims: [u8; 4],
}

/// A random step of a script with quotas.
#[derive(Debug, Clone)]
pub enum Draw {
    /// A call.
    Shot(Shot),
    /// A rule, unchanged.
    Rule(Rule),
}

/// The required properties of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Want {
    Any,
    Directory,
    File,
    Readable,
    Writable,
}

/// The required target of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lead {
    Something,
    File,
    Directory,
    EmptyDirectory,
    /// An empty directory in which a process stands.
    Occupied,
    Symlink,
    /// Neither a file nor a directory, or with inode flags.
    Rare,
    /// A name that does not exist, in a directory that does.
    Nothing,
}

/// Turns shots into a script, by following it on a model.
pub fn aimed(shots: &[Shot]) -> Vec<(usize, Op)> {
    let mut model = begin();
    let each = shots.iter().map_while(|shot| shoot(&mut model, shot));
    each.collect()
}

/// Turns shots into a script with rules, for a system with the initial quota state `quota`.
pub fn aimed_within(quota: Quota, draws: &[Draw]) -> Vec<Step> {
    let mut model = begin();
    model.quota = Some(quota);
    let each = draws.iter().map_while(|draw| match draw {
        Draw::Shot(shot) => shoot(&mut model, shot).map(|(p, op)| Step::Call(p, op)),
        Draw::Rule(rule) => {
            model.rule(rule);
            Some(Step::Rule(*rule))
        }
    });
    each.collect()
}

fn begin() -> Model {
    let mut model = Model::new();
    for (uid, gid, groups) in PROCESSES {
        model.add_process(uid, gid, groups);
    }
    model
}

/// Aims one shot and applies it; returns `None` if no process lives that could.
fn shoot(model: &mut Model, shot: &Shot) -> Option<(usize, Op)> {
    let living: Vec<usize> = (0..model.processes.len())
        .filter(|p| *p != OBSERVER && model.processes[*p].is_some())
        .collect();
    let p = living.get(usize::from(shot.process) % living.len().max(1))?;
    // A process in a removed directory is asked for its path.
    let lost = |p: &&usize| model.is_removed(model.process(**p).cwd);
    let root = |p: &&usize| model.credentials(**p).is_root();
    let p = match shot.op {
        Op::GetCwd => living.iter().find(lost).unwrap_or(p),
        // Other processes may not.
        Op::SetProject { .. } if !shot.aims[1].is_multiple_of(4) => {
            living.iter().find(root).unwrap_or(p)
        }
        _ => p,
    };
    let mut op = shot.op.clone();
    aim(&mut op, shot.aims, model, *p);
    model.apply(*p, &op);
    Some((*p, op))
}

fn aim(op: &mut Op, [a, b, c, d]: [u8; 4], model: &Model, p: usize) {
    let fd = |fd: &mut Fd, aim, want| aim_fd(fd, aim, want, model, p);
    let path = |path: &mut Bytes, aim, lead| aim_path(path, aim, lead, model, p);
    match op {
        Op::Open {
            dirfd,
            path: at,
            flags,
            ..
        } => {
            fd(dirfd, a, Want::Directory);
            let create = *flags & libc::O_CREAT != 0;
            let directory = *flags & libc::O_DIRECTORY != 0;
            let lead = match (create && b % 2 == 0, directory) {
                (true, _) => Lead::Nothing,
                (false, true) => Lead::Directory,
                (false, false) => Lead::File,
            };
            path(at, c, if d % 8 == 0 { Lead::Something } else { lead });
        }
        Op::Read { fd: at, .. } | Op::ReadV { fd: at, .. } => fd(at, a, Want::Readable),
        Op::ReadAt { fd: at, .. } | Op::ReadVAt { fd: at, .. } => fd(at, a, Want::Readable),
        Op::Write { fd: at, .. } | Op::WriteV { fd: at, .. } => fd(at, a, Want::Writable),
        Op::WriteAt { fd: at, .. } | Op::WriteVAt { fd: at, .. } => fd(at, a, Want::Writable),
        Op::TruncateFd { fd: at, .. } | Op::Allocate { fd: at, .. } => fd(at, a, Want::Writable),
        Op::Seek { fd: at, .. } => fd(at, a, Want::File),
        Op::SetLock { fd: at, .. } | Op::GetLock { fd: at, .. } => fd(at, a, Want::File),
        Op::Copy { from, to, .. } => {
            fd(from, a, Want::Readable);
            fd(to, b, Want::Writable);
        }
        Op::ListFd { fd: at, .. } | Op::ChangeDirFd { fd: at } => fd(at, a, Want::Directory),
        Op::Dup2 { fd: at, .. } | Op::Dup3 { fd: at, .. } | Op::DupFrom { fd: at, .. } => {
            fd(at, a, Want::Any);
        }
        Op::Close { fd: at } | Op::Dup { fd: at } | Op::Sync { fd: at, .. } => fd(at, a, Want::Any),
        Op::GetFdFlags { fd: at } | Op::SetFdFlags { fd: at, .. } => fd(at, a, Want::Any),
        Op::GetStatus { fd: at } | Op::SetStatus { fd: at, .. } => fd(at, a, Want::Any),
        Op::SyncFs { fd: at } | Op::StatFd { fd: at } | Op::Flock { fd: at, .. } => {
            fd(at, a, Want::Any);
        }
        Op::ChmodFd { fd: at, .. } | Op::ChownFd { fd: at, .. } => fd(at, a, Want::Any),
        Op::SetTimesFd { fd: at, .. } | Op::GetFlags { fd: at } => fd(at, a, Want::Any),
        Op::SetFlags { fd: at, .. } | Op::GetProject { fd: at } => fd(at, a, Want::Any),
        Op::SetProject { fd: at, xflags, .. } if *xflags & INHERIT != 0 => {
            fd(at, a, Want::Directory);
        }
        Op::SetProject { fd: at, .. } => fd(at, a, Want::Any),
        Op::Truncate { path: at, .. } => path(at, a, Lead::File),
        Op::List { path: at } | Op::ChangeDir { path: at } | Op::ChangeRoot { path: at } => {
            path(at, a, Lead::Directory);
        }
        Op::Stat {
            dirfd, path: at, ..
        }
        | Op::Access {
            dirfd, path: at, ..
        }
        | Op::Chmod {
            dirfd, path: at, ..
        }
        | Op::Chown {
            dirfd, path: at, ..
        }
        | Op::SetTimes {
            dirfd, path: at, ..
        } => {
            fd(dirfd, a, Want::Directory);
            path(at, b, Lead::Something);
        }
        Op::StatX {
            dirfd, path: at, ..
        } => {
            fd(dirfd, a, Want::Directory);
            path(at, b, Lead::Something);
            path(at, c, Lead::Rare);
        }
        Op::ReadLink { dirfd, path: at } => {
            fd(dirfd, a, Want::Directory);
            path(at, b, Lead::Symlink);
        }
        Op::Unlink {
            dirfd,
            path: at,
            flags,
        } => {
            fd(dirfd, a, Want::Directory);
            path(
                at,
                b,
                match (*flags, c % 4) {
                    (0, _) => Lead::File,
                    (_, 1) => Lead::Occupied,
                    _ => Lead::EmptyDirectory,
                },
            );
        }
        Op::MakeDir {
            dirfd, path: at, ..
        }
        | Op::MakeNode {
            dirfd, path: at, ..
        }
        | Op::Symlink {
            dirfd, path: at, ..
        } => {
            fd(dirfd, a, Want::Directory);
            path(at, b, Lead::Nothing);
        }
        Op::Link {
            old_dirfd,
            old,
            new_dirfd,
            new,
            ..
        } => {
            fd(
                old_dirfd,
                a,
                if old.is_empty() {
                    Want::File
                } else {
                    Want::Directory
                },
            );
            if !old.is_empty() {
                path(old, b, Lead::File);
            }
            fd(new_dirfd, c, Want::Directory);
            path(new, d, Lead::Nothing);
        }
        Op::Rename {
            old_dirfd,
            old,
            new_dirfd,
            new,
            flags,
        } => {
            fd(old_dirfd, a, Want::Directory);
            path(old, b, Lead::Something);
            fd(new_dirfd, c, Want::Directory);
            let exchange = *flags & libc::RENAME_EXCHANGE != 0;
            path(
                new,
                d,
                if exchange || d % 3 == 0 {
                    Lead::Something
                } else {
                    Lead::Nothing
                },
            );
        }
        Op::SetXattr { target, .. } | Op::ListXattr { target } => match target {
            Target::Path(at) | Target::Link(at) => path(at, a, Lead::Something),
            Target::Fd(at) => fd(at, a, Want::Any),
        },
        Op::GetXattr { target, name } | Op::RemoveXattr { target, name } => match target {
            Target::Path(at) | Target::Link(at) => aim_xattr(at, name, [a, b], model),
            Target::Fd(at) => fd(at, a, Want::Any),
        },
        Op::GetCwd | Op::Umask { .. } | Op::SetCredentials { .. } | Op::Fork | Op::Exit => {}
    }
}

fn aim_fd(fd: &mut Fd, aim: u8, want: Want, model: &Model, p: usize) {
    if aim.is_multiple_of(4) || *fd == CWD {
        return;
    }
    let process = model.process(p);
    let fits = |fd: &&Fd| {
        let file = &model.files[&process.fds[*fd].file];
        let node = model.node(file.node);
        match want {
            Want::Any => true,
            Want::Directory => node.is_dir(),
            Want::File => node.pages().is_some(),
            Want::Readable => node.pages().is_some() && file.readable(),
            Want::Writable => node.pages().is_some() && file.writable(),
        }
    };
    let open: Vec<&Fd> = process.fds.keys().filter(fits).collect();
    if !open.is_empty() {
        *fd = *open[usize::from(aim) % open.len()];
    }
}

fn aim_path(path: &mut Bytes, aim: u8, lead: Lead, model: &Model, p: usize) {
    if aim.is_multiple_of(4) {
        return;
    }
    let pick = usize::from(aim) / 4;
    let mut found = Vec::new();
    collect(model, ROOT, &mut Vec::new(), &mut found);
    found.retain(|(_, node)| match lead {
        Lead::Something => true,
        Lead::File => !model.node(*node).is_dir(),
        Lead::Symlink => model.node(*node).is_symlink(),
        Lead::Rare => {
            let node = model.node(*node);
            node.flags != 0 || !matches!(node.kind(), Kind::File | Kind::Directory)
        }
        Lead::Directory | Lead::Nothing => model.node(*node).is_dir(),
        Lead::EmptyDirectory => model.node(*node).is_dir() && model.is_empty(*node),
        Lead::Occupied => {
            let stands = |process: &Process| process.cwd == *node && *node != ROOT;
            model.is_empty(*node) && model.processes.iter().flatten().any(stands)
        }
    });
    let Some((place, _)) = found.get(pick % found.len().max(1)) else {
        return;
    };
    let mut aimed = place.clone();
    if lead == Lead::Nothing {
        aimed.extend_from_slice(if place == b"/" { b"" } else { b"/" });
        aimed.push(b'a' + (pick / found.len() % 4) as u8);
    }
    // The path as the process may write it: from the root, or without the slash if it stands there.
    let at_root = model.process(p).cwd == ROOT && aimed.len() > 1;
    *path = bytes(if at_root && aim % 4 > 1 {
        &aimed[1..]
    } else {
        &aimed
    });
}

/// Returns something that has attributes, and one of their names.
fn aim_xattr(path: &mut Bytes, name: &mut Bytes, [a, b]: [u8; 2], model: &Model) {
    if a.is_multiple_of(4) {
        return;
    }
    let mut found = Vec::new();
    collect(model, ROOT, &mut Vec::new(), &mut found);
    let all = found.into_iter().flat_map(|(path, id)| {
        let node = model.node(id);
        let acl = |name, acl: &Option<_>| acl.as_ref().map(|_| bytes(name));
        let own = node.xattrs.keys().map(bytes);
        let names: Vec<Bytes> = own
            .chain(acl("system.posix_acl_access", &node.acl))
            .chain(acl("system.posix_acl_default", &node.default_acl))
            .collect();
        names.into_iter().map(move |name| (bytes(&path), name))
    });
    let all: Vec<(Bytes, Bytes)> = all.collect();
    if let Some(chosen) = all.get(usize::from(b) % all.len().max(1)) {
        (*path, *name) = chosen.clone();
    }
}

/// Returns all paths below a directory.
fn collect(model: &Model, dir: NodeId, path: &mut Vec<u8>, out: &mut Vec<(Vec<u8>, NodeId)>) {
    out.push((
        if path.is_empty() {
            b"/".to_vec()
        } else {
            path.clone()
        },
        dir,
    ));
    if let Content::Directory(directory) = &model.node(dir).content {
        for (name, child) in &directory.entries {
            let len = path.len();
            path.push(b'/');
            path.extend_from_slice(name);
            collect(model, *child, path, out);
            path.truncate(len);
        }
    }
}

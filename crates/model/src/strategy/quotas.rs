//! Random scripts that set limits and reach them.

use std::ops::Range;

use libc::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::abilities::Abilities;
use super::calls::{names, op};
use super::words::{dirfd, fd, fill, offset, path};
use super::{opening, shot};
use crate::aim::{Draw, Shot, aimed_within};
use crate::bytes::{Bytes, bytes};
use crate::data::PAGE;
use crate::op::{CWD, Op, Target};
use crate::payer::{Payer, PayerKind, Resource};
use crate::quota::Quota;
use crate::rule::{Change, Rule, Step};

/// `FS_XFLAG_PROJINHERIT`
const INHERIT: u32 = 0x200;

const DAY: i64 = 24 * 60 * 60;

/// Scripts of about `len` steps for a system with the initial quota state `quota`. Limits are set,
/// changed and reached, time passes, and directories belong to projects.
pub fn quota_script(
    abilities: Abilities,
    quota: Quota,
    len: Range<usize>,
) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => shot(op(abilities)).prop_map(Draw::Shot),
        6 => shot(growth()).prop_map(Draw::Shot),
        2 => shot(projects()).prop_map(Draw::Shot),
        1 => shot(names()).prop_map(Draw::Shot),
        4 => rule().prop_map(Draw::Rule),
    ];
    let begin = (vec(rule(), 0..6), any::<bool>(), vec(opening(), 0..8));
    (begin, vec(step, len)).prop_map(move |((rules, projects, opening), steps)| {
        let trees = if projects { trees() } else { Vec::new() };
        let shots = [vec![sure(0, everybody())], trees, opening].concat();
        let rules = rules.into_iter().map(Draw::Rule);
        let draws = rules.chain(shots.into_iter().map(Draw::Shot));
        let draws: Vec<Draw> = draws.chain(steps).collect();
        aimed_within(quota.clone(), &draws)
    })
}

/// Operations that use space.
fn growth() -> impl Strategy<Value = Op> {
    let sizes = || select(vec![4096i64, 8192, 12_288]);
    let value = select(vec![10usize, 300, 5000, 60_000]).prop_map(|len| Bytes(vec![b'v'; len]));
    let name = select(vec!["user.a", "user.b"]).prop_map(bytes);
    let open = (path(), select(vec![0o666u32, 0o777, 0o600]));
    prop_oneof![
        3 => open.prop_map(|(path, mode)| {
            Op::Open { dirfd: CWD, path, flags: O_RDWR | O_CREAT, mode }
        }),
        4 => (fd(), fill()).prop_map(|(fd, data)| Op::Write { fd, data }),
        4 => (fd(), fill(), offset())
            .prop_map(|(fd, data, offset)| Op::WriteAt { fd, data, offset }),
        1 => (fd(), sizes(), select(vec![4096i64, 12_288, 81_920])).prop_map(|(fd, offset, len)| {
            Op::Allocate { fd, mode: 0, offset, len }
        }),
        1 => (fd(), fd(), sizes()).prop_map(|(from, to, to_at)| {
            Op::Copy { from, from_at: Some(0), to, to_at: Some(to_at), len: 9000, flags: 0 }
        }),
        2 => (dirfd(), path()).prop_map(|(dirfd, path)| Op::MakeDir { dirfd, path, mode: 0o777 }),
        1 => (path(), name, value).prop_map(|(path, name, value)| {
            Op::SetXattr { target: Target::Path(path), name, value, flags: 0 }
        }),
    ]
}

/// Operations that move inodes to projects, and turn inheritance on and off.
fn projects() -> impl Strategy<Value = Op> {
    let xflags = select(vec![INHERIT, INHERIT, INHERIT, 0]);
    let project = select(vec![7u32, 7, 8, 0]);
    let set = (fd(), xflags, project).prop_map(|(fd, xflags, project)| Op::SetProject {
        fd,
        xflags,
        project,
    });
    let flags = select(vec![0u32, 0x2000_0000, 0x2000_0080]);
    prop_oneof![
        8 => set,
        1 => (fd(), flags).prop_map(|(fd, flags)| Op::SetFlags { fd, flags }),
        1 => fd().prop_map(|fd| Op::GetProject { fd }),
        2 => path().prop_map(|path| Op::Open {
            dirfd: CWD,
            path,
            flags: O_RDONLY | O_DIRECTORY,
            mode: 0,
        }),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let resource = || select(vec![Resource::Bytes, Resource::Inodes]);
    let limits = || {
        resource().prop_flat_map(|resource| {
            let change = move || change(resource);
            (Just(resource), change(), change())
        })
    };
    let seconds = || select(vec![0u64, 1, 60, 100, 7 * DAY as u64]);
    prop_oneof![
        6 => (payer(), limits()).prop_map(|(payer, (resource, hard, soft))| {
            Rule::Limit { payer, resource, hard, soft }
        }),
        3 => (kind(), limits()).prop_map(|(kind, (resource, hard, soft))| {
            Rule::Default { kind, resource, hard, soft }
        }),
        2 => (kind(), resource(), seconds())
            .prop_map(|(kind, resource, seconds)| Rule::Grace { kind, resource, seconds }),
        1 => (payer(), resource(), prop::option::of(seconds()))
            .prop_map(|(payer, resource, seconds)| Rule::GraceOf { payer, resource, seconds }),
        1 => payer().prop_map(|payer| Rule::Clear { payer }),
        2 => (kind(), select(vec![true, true, false]))
            .prop_map(|(kind, on)| Rule::Enforce { kind, on }),
        5 => select(vec![1, 60, 100, DAY, 8 * DAY, 8 * DAY])
            .prop_map(|seconds| Rule::Wait { seconds }),
    ]
}

fn change(resource: Resource) -> impl Strategy<Value = Change> {
    // Some are so far away that a system may reserve space for writers.
    let units = prop_oneof![6 => 0u64..9, 1 => 30u64..70];
    let amount = (units, select(vec![0u64, 0, 1, 4095])).prop_map(move |(amount, rest)| {
        Change::To(match resource {
            Resource::Bytes => amount * PAGE + rest,
            Resource::Inodes => amount,
        })
    });
    prop_oneof![2 => Just(Change::Keep), 1 => Just(Change::Lift), 6 => amount]
}

fn payer() -> impl Strategy<Value = Payer> {
    select(vec![
        Payer::User(1000),
        Payer::User(1000),
        Payer::User(1001),
        Payer::Group(1000),
        Payer::Group(1000),
        Payer::Group(2000),
        Payer::Project(7),
        Payer::Project(7),
        Payer::Project(7),
        Payer::Project(8),
        Payer::Volume,
        Payer::User(0),
    ])
}

fn kind() -> impl Strategy<Value = PayerKind> {
    prop_oneof![
        10 => select(vec![PayerKind::User, PayerKind::Group, PayerKind::Project]),
        1 => Just(PayerKind::Volume),
    ]
}

/// All users may make names in the root directory.
fn everybody() -> Op {
    Op::Chmod {
        dirfd: CWD,
        path: bytes("/"),
        mode: 0o777,
        flags: 0,
    }
}

/// Two directories for all users; the first is of project 7, and root has it open.
fn trees() -> Vec<Shot> {
    let make = |path: &str| {
        let path = bytes(path);
        let make = Op::MakeDir {
            dirfd: CWD,
            path: path.clone(),
            mode: 0o777,
        };
        let chmod = Op::Chmod {
            dirfd: CWD,
            path,
            mode: 0o777,
            flags: 0,
        };
        [sure(0, make), sure(0, chmod)]
    };
    let open = Op::Open {
        dirfd: CWD,
        path: bytes("/a"),
        flags: O_RDONLY | O_DIRECTORY,
        mode: 0,
    };
    let enter = Op::SetProject {
        fd: 0,
        xflags: INHERIT,
        project: 7,
    };
    let [a, may_a] = make("/a");
    let [b, may_b] = make("/b");
    vec![a, may_a, b, may_b, sure(0, open), sure(0, enter)]
}

/// An operation, unchanged.
fn sure(process: u8, op: Op) -> Shot {
    Shot {
        process,
        op,
        aims: [0; 4],
    }
}

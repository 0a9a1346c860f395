//! Against an ordered map, which a table equals when no other thread uses it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Open { cloexec: bool },
    ReserveAndDrop,
    Close(i32),
    Dup(i32),
    Dup2(i32, i32),
    Dup3(i32, i32, bool),
    DupFd(i32, i32, bool),
    SetCloexec(i32, bool),
    Limit(u32),
    Exec,
    Fork,
    Drain,
}

#[derive(Default)]
struct Model {
    open: BTreeMap<i32, (u32, bool)>,
    limit: u32,
}

impl Model {
    fn lowest(&self, min: i32) -> Result<i32> {
        let free = (min..self.limit as i32).find(|fd| !self.open.contains_key(fd));
        free.ok_or(Errno::EMFILE)
    }

    /// The descriptor that an operation may have chosen: the lowest, or any free one.
    fn check_choice(&self, chosen: Result<i32>, policy: FdPolicy) {
        match (policy, chosen) {
            (FdPolicy::PerCore, Ok(fd)) => {
                assert!(!self.open.contains_key(&fd) && (0..self.limit as i32).contains(&fd));
            }
            _ => assert_eq!(chosen, self.lowest(0)),
        }
    }

    fn name(&self, fd: i32) -> Result<u32> {
        self.open
            .get(&fd)
            .map(|(name, _)| *name)
            .ok_or(Errno::EBADF)
    }

    fn dup2(&mut self, old: i32, new: i32, cloexec: bool) -> Result<Option<(u32, bool)>> {
        let name = self.name(old)?;
        if !(0..self.limit as i32).contains(&new) {
            return Err(Errno::EBADF);
        }
        let before = self.open.insert(new, (name, cloexec));
        Ok(before.map(|(name, _)| (name, self.is_last(name))))
    }

    fn dupfd(&mut self, old: i32, min: i32, cloexec: bool) -> Result<i32> {
        let name = self.name(old)?;
        if !(0..self.limit as i32).contains(&min) {
            return Err(Errno::EINVAL);
        }
        let fd = self.lowest(min)?;
        self.open.insert(fd, (name, cloexec));
        Ok(fd)
    }

    fn close(&mut self, fd: i32) -> Result<(u32, bool)> {
        let (name, _) = self.open.remove(&fd).ok_or(Errno::EBADF)?;
        Ok((name, self.is_last(name)))
    }

    fn close_all(&mut self, wanted: impl Fn(bool) -> bool) -> Vec<(u32, bool)> {
        let open = self
            .open
            .iter()
            .filter(|(_, (_, cloexec))| wanted(*cloexec));
        let fds: Vec<i32> = open.map(|(fd, _)| *fd).collect();
        fds.into_iter()
            .filter_map(|fd| self.close(fd).ok())
            .collect()
    }

    fn is_last(&self, name: u32) -> bool {
        self.open.values().all(|(other, _)| *other != name)
    }
}

fn fd() -> impl Strategy<Value = i32> {
    prop_oneof![8 => 0..12i32, 2 => 60..70i32, 2 => 120..300i32, 1 => Just(-1)]
}

fn op() -> impl Strategy<Value = Op> {
    let flag = any::<bool>;
    prop_oneof![
        8 => flag().prop_map(|cloexec| Op::Open { cloexec }),
        1 => Just(Op::ReserveAndDrop),
        6 => fd().prop_map(Op::Close),
        3 => fd().prop_map(Op::Dup),
        3 => (fd(), fd()).prop_map(|(old, new)| Op::Dup2(old, new)),
        2 => (fd(), fd(), flag()).prop_map(|(old, new, flag)| Op::Dup3(old, new, flag)),
        3 => (fd(), fd(), flag()).prop_map(|(old, min, flag)| Op::DupFd(old, min, flag)),
        2 => (fd(), flag()).prop_map(|(fd, flag)| Op::SetCloexec(fd, flag)),
        1 => prop_oneof![0..20u32, 60..70u32, Just(1000)].prop_map(Op::Limit),
        1 => Just(Op::Exec),
        1 => Just(Op::Fork),
        1 => Just(Op::Drain),
    ]
}

/// One table beside its model.
struct Pair {
    table: FdTable<Named>,
    model: Model,
    names: u32,
}

impl Pair {
    fn new(policy: FdPolicy) -> Pair {
        let table = FdTable::new(policy);
        table.set_limit(1000).unwrap();
        Pair {
            table,
            model: Model {
                limit: 1000,
                ..Model::default()
            },
            names: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        let Pair {
            table,
            model,
            names,
        } = self;
        let g = pin();
        let closings =
            |all: Vec<Closed<'_, Named>>| all.into_iter().map(closed).collect::<Vec<_>>();
        match *op {
            Op::Open { cloexec } => {
                *names += 1;
                let chosen = table.reserve(cloexec).map(|r| r.install(named(*names)));
                model.check_choice(chosen, table.policy());
                model.open.extend(chosen.map(|fd| (fd, (*names, cloexec))));
            }
            Op::ReserveAndDrop => drop(table.reserve(true)),
            Op::Close(fd) => assert_eq!(table.close(fd, &pin()).map(closed), model.close(fd)),
            Op::Dup(fd) => {
                let chosen = table.dup(fd);
                match model.name(fd) {
                    Ok(name) => {
                        model.check_choice(chosen, table.policy());
                        model.open.extend(chosen.map(|fd| (fd, (name, false))));
                    }
                    Err(error) => assert_eq!(chosen, Err(error)),
                }
            }
            Op::Dup2(old, new) if old == new => {
                let answer = table
                    .dup2(old, new, &pin())
                    .map(|before| before.map(closed));
                assert_eq!(answer, model.name(old).map(|_| None));
            }
            Op::Dup2(old, new) => {
                let answer = table
                    .dup2(old, new, &pin())
                    .map(|before| before.map(closed));
                assert_eq!(answer, model.dup2(old, new, false));
            }
            Op::Dup3(old, new, cloexec) => {
                let answer = table
                    .dup3(old, new, cloexec, &pin())
                    .map(|before| before.map(closed));
                let same = old == new;
                let expect = if same {
                    Err(Errno::EINVAL)
                } else {
                    model.dup2(old, new, cloexec)
                };
                assert_eq!(answer, expect);
            }
            Op::DupFd(fd, min, cloexec) => {
                assert_eq!(table.dupfd(fd, min, cloexec), model.dupfd(fd, min, cloexec));
            }
            Op::SetCloexec(fd, cloexec) => {
                let known = model.open.get_mut(&fd).ok_or(Errno::EBADF);
                assert_eq!(
                    table.set_cloexec(fd, cloexec),
                    known.map(|open| open.1 = cloexec)
                );
            }
            Op::Limit(limit) => {
                table.set_limit(limit).unwrap();
                model.limit = limit;
            }
            Op::Exec => assert_eq!(closings(table.close_on_exec(&g)), model.close_all(|c| c)),
            Op::Fork => {
                let child = table.fork();
                let parent = std::mem::replace(table, child);
                assert_eq!(gone(parent.drain(&pin())), 0);
            }
            Op::Drain => assert_eq!(closings(table.drain(&g)), model.close_all(|_| true)),
        }
    }

    fn check(&self) {
        let open = |fd| Some((name(&self.table, fd)?, self.table.is_cloexec(fd).unwrap()));
        let fds = self.table.open_fds().into_iter();
        let found: BTreeMap<_, _> = fds.map(|fd| (fd, open(fd).unwrap())).collect();
        assert_eq!(found, self.model.open);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_lowest_first_table_behaves_like_an_ordered_map(ops in prop::collection::vec(op(), 1..80)) {
        let mut pair = Pair::new(FdPolicy::Lowest);
        for op in &ops {
            pair.apply(op);
            pair.check();
        }
    }

    #[test]
    fn a_per_core_table_behaves_like_an_ordered_map_except_for_the_number_it_chooses(
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut pair = Pair::new(FdPolicy::PerCore);
        for op in &ops {
            pair.apply(op);
            pair.check();
        }
    }
}

//! Random scripts: few names, few descriptors, small trees, so that operations meet often.

mod abilities;
mod calls;
mod contents;
mod quotas;
mod run;
mod waits;
mod words;

use std::ops::Range;

use libc::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub use abilities::Abilities;
pub use calls::op;
pub use contents::{data_script, direct_script};
pub use quotas::quota_script;
pub use run::run_scripts;
pub use waits::waiting_script;
pub use words::path;

use crate::aim::{Shot, aimed};
use crate::bytes::bytes;
use crate::op::{CWD, Op};

/// Scripts of about `len` steps: process and operation. They begin with a few files and open
/// descriptors, and most operations are aimed at existing ones.
pub fn script(abilities: Abilities, len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    (vec(opening(), 0..10), vec(shot(op(abilities)), len)).prop_map(|(opening, shots)| {
        let chmod = Op::Chmod {
            dirfd: CWD,
            path: bytes("/"),
            mode: 0o777,
            flags: 0,
        };
        let chmod = Shot {
            process: 0,
            op: chmod,
            aims: [0; 4],
        };
        aimed(&[vec![chmod], opening, shots].concat())
    })
}

/// The initial steps.
fn opening() -> impl Strategy<Value = Shot> {
    let mode = || select(vec![0o777u32, 0o777, 0o666, 0o755, 0o6777]);
    shot(prop_oneof![
        1 => (path(), mode()).prop_map(|(path, mode)| Op::MakeDir { dirfd: CWD, path, mode }),
        3 => (path(), mode(), select(vec![O_RDWR | O_CREAT, O_RDWR, O_RDONLY | O_DIRECTORY]))
            .prop_map(|(path, mode, flags)| Op::Open { dirfd: CWD, path, flags, mode }),
    ])
}

fn shot(op: impl Strategy<Value = Op>) -> impl Strategy<Value = Shot> {
    (any::<u8>(), op, any::<[u8; 4]>()).prop_map(|(process, op, aims)| Shot { process, op, aims })
}

//! The reference model of Hearth: a plain tree in memory with Linux's semantics and errno, one
//! operation at a time, written to be obviously right rather than fast.
//!
//! An [`Op`] is one system call of one process. [`Model::apply`] does it and gives its
//! [`Outcome`]; [`Model::snapshot`] shows the whole tree in canonical form. The same operations
//! run on the kernel (`tests/kernel.rs`, which is why the model can be trusted) and on the
//! library, and [`Outcome::agrees`] compares.
//!
//! ```
//! use hearth_model::{CWD, Model, Op, Outcome, bytes};
//!
//! let mut model = Model::new();
//! let root = model.add_process(0, 0, &[]);
//! let made = model.apply(root, &Op::MakeDir { dirfd: CWD, path: bytes("d"), mode: 0o755 });
//! assert_eq!(made, Outcome::Done);
//! assert!(model.snapshot().entries.contains_key(&bytes("/d")));
//! ```

mod acl;
mod agree;
#[cfg(feature = "strategy")]
mod aim;
mod bytes;
mod compare;
mod data;
mod keeper;
mod locks;
mod model;
mod node;
mod op;
mod ops;
mod outcome;
mod payer;
mod permission;
mod process;
mod quota;
mod reduce;
pub mod regressions;
mod remount;
mod rule;
mod state;
#[cfg(feature = "strategy")]
pub mod strategy;
mod system;
mod tree;
mod turn;
mod waiter;
mod waiting_lock;
mod walk;

pub use agree::Numbers;
pub use bytes::{Bytes, bytes};
pub use compare::{Difference, compare, compare_trees, listing};
pub use data::PageCount;
pub use keeper::{Keeper, compare_kept, listing_of_steps};
pub use model::Model;
pub use op::{CWD, Fd, Fill, LockKind, LockSpec, Op, SetTime, Target};
pub use ops::STATUS;
pub use outcome::{Attr, Entry, Kind, LockInfo, Outcome, Stamp, StatX};
pub use payer::{Payer, PayerKind, Place, Resource, Usage};
pub use quota::{Ledger, Limit, Met, Quota, Reason, Standing};
pub use reduce::{reduce, reduced};
pub use remount::Former;
pub use rule::{Change, Rule, Step};
pub use state::State;
pub use system::{OBSERVER, PROCESSES, System};
pub use tree::{Tree, TreeEntry};
pub use turn::{Turn, listing_of_turns};
pub use waiter::{Fate, Waiter, compare_waiting};

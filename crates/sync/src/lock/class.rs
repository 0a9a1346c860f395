//! A lock class: the name of what a lock protects, and its rank in the lock order.
//! [`lock_class!`](crate::lock_class) declares one.

/// A lock class: the name of what a lock protects, and its rank in the lock order.
/// [`lock_class!`](crate::lock_class) declares one.
pub trait Class {
    /// The name that messages and profiles show.
    const NAME: &'static str;
    /// The rank in the lock order: a [`Lock`](super::Lock) is taken only while all held locks have
    /// lower ranks.
    const RANK: u32;
}

/// Declares lock classes: `lock_class!(pub InodeLock = "inode", 30);`
#[macro_export]
macro_rules! lock_class {
    ($($(#[$meta:meta])* $vis:vis $class:ident = $name:expr, $rank:expr;)+) => {
        $(
            $(#[$meta])*
            #[doc = concat!("Lock class ", stringify!($name), ", rank ", stringify!($rank), ".")]
            #[derive(Debug)]
            $vis enum $class {}

            impl $crate::lock::Class for $class {
                const NAME: &'static str = $name;
                const RANK: u32 = $rank;
            }
        )+
    };
    ($(#[$meta:meta])* $vis:vis $class:ident = $name:expr, $rank:expr) => {
        $crate::lock_class!($(#[$meta])* $vis $class = $name, $rank;);
    };
}

//! Enums whose values have names that statistics show.

/// An enum with `ALL`, its values in the order of their numbers, and `name`.
macro_rules! named {
    (
        $(#[$about:meta])*
        $Kind:ident { $($value:ident $name:literal),* $(,)? }
    ) => {
        $(#[$about])*
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $Kind { $($value),* }

        impl $Kind {
            /// All values, in the order of their numbers.
            pub const ALL: &'static [$Kind] = &[$($Kind::$value),*];

            /// Lower-case name, the label in `.hearth/stats`.
            pub fn name(self) -> &'static str {
                match self { $($Kind::$value => $name),* }
            }
        }
    };
}

pub(crate) use named;

//! Inode numbers and names with a fixed meaning.

/// The root directory.
pub const ROOT: u64 = 1;

/// First number of the control files; the directory `/.hearth` itself.
pub(crate) const CONTROL: u64 = 1 << 59;

/// Name of the control directory in the root.
pub(crate) const CONTROL_NAME: &[u8] = b".hearth";

/// Whether `name` in directory `parent` is taken by the control directory.
pub(crate) fn is_control_name(parent: u64, name: &[u8]) -> bool {
    parent == ROOT && name == CONTROL_NAME
}

/// Whether this is the number of a control file or directory.
pub fn is_control(ino: u64) -> bool {
    ino >= CONTROL
}

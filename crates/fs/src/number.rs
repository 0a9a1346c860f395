//! Inode numbers that mean something by themselves.

/// The root directory.
pub const ROOT: u64 = 1;

/// First number of the control files; the directory `/.hearth` itself.
pub(crate) const CONTROL: u64 = 1 << 59;

/// Whether this is the number of a control file or directory.
pub fn is_control(ino: u64) -> bool {
    ino >= CONTROL
}

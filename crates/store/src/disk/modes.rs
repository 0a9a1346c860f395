//! Modes of what a volume consists of. Its files hold all contents and know nothing of the modes of
//! the files in it, so whoever opens them reads everything.

/// Of a folder.
pub(crate) const OWN_FOLDER: u32 = 0o700;
/// Of a file.
pub(crate) const OWN_FILE: u32 = 0o600;
/// What those modes keep from others than the owner.
pub(crate) const OTHERS: u32 = 0o077;

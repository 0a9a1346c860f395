//! hearth-fuse

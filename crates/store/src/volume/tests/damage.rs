//! Facts.

//! Hearth volumes in Python: the extension module `hearth_fs._native`.
//!
//! A front end of the library: it decodes arguments, makes one call, and encodes the result.
//! `docs/design/python.md` says when the interpreter's lock is released, who owns a volume, and
//! what a fork may do.

mod amounts;
mod bytes;
mod entry;
mod error;
mod fork;
mod gil;
mod heat;
mod identity;
mod mount;
mod opened;
mod path;
mod process;
mod quota;
mod stat;
mod stats;
mod unwritten;
mod volume;

use pyo3::prelude::*;

/// Hearth volumes: the part of `hearth_fs` that is written in Rust.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<volume::PyVolume>()?;
    module.add_class::<process::PyProcess>()?;
    module.add_class::<mount::Mount>()?;
    module.add_class::<stat::Stat>()?;
    module.add_class::<stat::StatVfs>()?;
    module.add_class::<entry::DirEntry>()?;
    module.add_class::<quota::Quota>()?;
    module.add_class::<quota::QuotaRecord>()?;
    module.add_class::<quota::QuotaUsage>()?;
    module.add_class::<quota::QuotaEvent>()?;
    module.add_class::<heat::Heat>()?;
    module.add_class::<heat::HeatRow>()?;
    module.add_function(wrap_pyfunction!(volume::open, module)?)?;
    module.add_function(wrap_pyfunction!(opened::_close_all, module)?)?;
    module.add_function(wrap_pyfunction!(fork::_forked, module)?)?;
    Ok(())
}

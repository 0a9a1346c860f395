//! Amounts as callers write them: numbers, or text such as `"1GiB"`.

use crate::error;
use hearth::{Errno, LimitUpdate, amount};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A size of a file or a place in one; `EINVAL` for a negative one, as the system says.
pub fn offset(given: i64) -> Result<u64, Errno> {
    u64::try_from(given).map_err(|_| Errno::EINVAL)
}

/// A limit as it was given.
pub enum LimitArg {
    /// `"keep"`.
    Keep,
    /// `None`.
    Lift,
    /// A number.
    To(u64),
    /// A number with a unit.
    Text(String),
}

impl LimitArg {
    /// What it says of a limit of bytes, or of inodes.
    pub fn update(self, is_bytes: bool) -> PyResult<LimitUpdate> {
        let text = match self {
            LimitArg::Keep => return Ok(LimitUpdate::Keep),
            LimitArg::Lift => return Ok(LimitUpdate::Lift),
            LimitArg::To(amount) => return Ok(LimitUpdate::To(amount)),
            LimitArg::Text(text) => text,
        };
        let read = match is_bytes {
            true => amount::bytes(&text),
            false => amount::count(&text),
        };
        read.map(LimitUpdate::To)
            .map_err(|error| error::because(Errno::EINVAL, format!("'{text}': {error}")))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for LimitArg {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<LimitArg> {
        if given.is_none() {
            return Ok(LimitArg::Lift);
        }
        match given.cast::<PyString>() {
            Err(_) => Ok(LimitArg::To(given.extract()?)),
            Ok(text) => Ok(match text.to_str()? {
                "keep" => LimitArg::Keep,
                text => LimitArg::Text(text.to_owned()),
            }),
        }
    }
}

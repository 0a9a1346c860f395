//! A mount option that cannot be used, and why.

use std::fmt;

/// A mount option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option as it was given.
    pub option: String,
    /// What its value may be; `None` if the option itself is unknown.
    pub expected: Option<&'static str>,
}

impl OptionError {
    pub(super) fn bad(option: &str, expected: &'static str) -> OptionError {
        OptionError {
            option: option.to_owned(),
            expected: Some(expected),
        }
    }
}

impl From<hearth::OptionError> for OptionError {
    fn from(error: hearth::OptionError) -> OptionError {
        OptionError {
            option: error.option,
            expected: error.expected,
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected {
            Some(expected) => write!(f, "mount option '{}': expected {expected}", self.option),
            None => write!(f, "unknown mount option '{}'", self.option),
        }
    }
}

impl std::error::Error for OptionError {}

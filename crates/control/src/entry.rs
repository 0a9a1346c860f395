//! A row of the table of control files.

use hearth::{ControlError, ControlStream, Result, Volume};

/// Begins a stream for one open of its file.
pub(crate) type OpenStream = fn(&Volume) -> Box<dyn ControlStream>;

/// A row of the table of control files.
pub(crate) struct Entry {
    /// Path below `.hearth`.
    pub path: &'static str,
    pub text: fn(&Volume) -> String,
    /// What an open reads instead of the text.
    pub stream: Option<OpenStream>,
    pub takes: Takes,
    /// Whether only the owner of the volume may read it.
    pub private: bool,
    /// Whether making the text takes as long as the volume is large, or as it has many tenants.
    pub slow: bool,
}

/// What a write to a control file is.
pub(crate) enum Takes {
    Nothing,
    /// A new value. `EINVAL` for nonsense, which changes nothing.
    Setting(Setting),
    /// A command. Everybody may write one; each command decides what its caller may do.
    Command,
    /// Lines, taken all or none.
    Lines(fn(&Volume, &str) -> std::result::Result<String, ControlError>),
}

/// A value that can be set.
pub(crate) struct Setting {
    pub set: fn(&Volume, &str) -> Result<()>,
    /// What `set` takes, as it follows "expected".
    pub expected: &'static str,
}

impl Entry {
    /// A read-only file that everybody may read.
    pub const fn new(path: &'static str, text: fn(&Volume) -> String) -> Entry {
        Entry {
            path,
            text,
            stream: None,
            takes: Takes::Nothing,
            private: false,
            slow: false,
        }
    }

    /// A file that only the owner of the volume may read, and each open reads as a stream.
    pub const fn streaming(path: &'static str, stream: OpenStream) -> Entry {
        let mut entry = Entry::new(path, |_| String::new()).private();
        entry.stream = Some(stream);
        entry
    }

    pub const fn takes(mut self, takes: Takes) -> Entry {
        self.takes = takes;
        self
    }

    pub const fn sets(self, set: fn(&Volume, &str) -> Result<()>, expected: &'static str) -> Entry {
        self.takes(Takes::Setting(Setting { set, expected }))
    }

    pub const fn private(mut self) -> Entry {
        self.private = true;
        self
    }

    pub const fn slow(mut self) -> Entry {
        self.slow = true;
        self
    }
}

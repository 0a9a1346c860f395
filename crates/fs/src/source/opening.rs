//! From a source and options to the builder of a volume.

#[cfg(feature = "store")]
use super::stored::stored;
use super::{OpenError, Source, VolumeOptions};
use crate::builder::VolumeBuilder;
use crate::volume::Volume;

impl Source {
    /// A builder of the volume that lives there, with these options. `who` is told to others who
    /// want to open it meanwhile.
    ///
    /// # Errors
    /// An option has no meaning there, or the store cannot be opened. Nothing is made unless
    /// `create` is among the options.
    pub fn builder(&self, options: &VolumeOptions, who: &str) -> Result<VolumeBuilder, OpenError> {
        self.takes(options).map_err(OpenError::Option)?;
        let builder = match self {
            Source::Memory => Volume::builder(),
            Source::Store(directory) => stored(directory, options, who)?,
            Source::Host(directory) => return Err(OpenError::Host(directory.clone())),
        };
        Ok(options.apply(builder))
    }
}

/// Where the library has no stores.
#[cfg(not(feature = "store"))]
fn stored(
    directory: &std::path::Path,
    _: &VolumeOptions,
    _: &str,
) -> Result<VolumeBuilder, OpenError> {
    Err(OpenError::Source(super::SourceError {
        source: format!("store:{}", directory.display()),
        fault: super::SourceFault::LeftOut("store"),
    }))
}

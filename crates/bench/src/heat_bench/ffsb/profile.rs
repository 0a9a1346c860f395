//! Profiles: a part of what the configuration files of FFSB can say.

/// A profile, as in `crates/bench/profiles`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Files at the begin.
    pub files: usize,
    /// Directories that they are in.
    pub dirs: usize,
    /// Smallest and largest size of a file.
    pub sizes: (u64, u64),
    /// What is done, each with its weight; one operation is drawn after the other.
    pub weights: Vec<(Verb, u32)>,
    /// Whether reads are at random places of the file.
    pub read_random: bool,
    /// Bytes that one read operation reads.
    pub read_size: u64,
    /// Bytes that it reads at once.
    pub read_block: u64,
    /// The same of writes.
    pub write_random: bool,
    /// See `read_size`.
    pub write_size: u64,
    /// See `read_block`.
    pub write_block: u64,
}

/// An operation of FFSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads `read_size` bytes of a file.
    Read,
    /// Reads a whole file.
    ReadAll,
    /// Overwrites `write_size` bytes of a file.
    Write,
    /// Makes a file and writes it.
    Create,
    /// The same, and `fsync`.
    CreateFsync,
    /// Writes `write_size` bytes at the end of a file, and `fsync`.
    AppendFsync,
    /// Removes a file.
    Delete,
}

/// The profiles.
pub fn all() -> Result<Vec<Profile>, String> {
    let texts = [
        (
            "large_file_create",
            include_str!("../../../profiles/large_file_create.ffsb"),
        ),
        (
            "large_file_seq_read",
            include_str!("../../../profiles/large_file_seq_read.ffsb"),
        ),
        (
            "random_write",
            include_str!("../../../profiles/random_write.ffsb"),
        ),
        (
            "random_read",
            include_str!("../../../profiles/random_read.ffsb"),
        ),
        (
            "mail_server",
            include_str!("../../../profiles/mail_server.ffsb"),
        ),
    ];
    let parse = |(name, text)| Profile::parse(name, text);
    texts.into_iter().map(parse).collect()
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// The line that is not understood.
    pub fn parse(name: &'static str, text: &str) -> Result<Profile, String> {
        let mut profile = Profile {
            name,
            ..Profile::default()
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('[') {
                continue;
            }
            let said = line.split_once('=').and_then(|(key, value)| {
                let value: u64 = value.trim().parse().ok()?;
                profile.set(key.trim(), value)
            });
            said.ok_or_else(|| format!("{name}, line {}: '{line}'", number + 1))?;
        }
        Ok(profile)
    }

    fn set(&mut self, key: &str, value: u64) -> Option<()> {
        match key {
            "num_files" => self.files = value as usize,
            "num_dirs" => self.dirs = value.max(1) as usize,
            "min_filesize" => self.sizes.0 = value,
            "max_filesize" => self.sizes.1 = value,
            "read_random" => self.read_random = value != 0,
            "read_size" => self.read_size = value,
            "read_blocksize" => self.read_block = value,
            "write_random" => self.write_random = value != 0,
            "write_size" => self.write_size = value,
            "write_blocksize" => self.write_block = value,
            weight => {
                let verb = match weight.strip_suffix("_weight")? {
                    "read" => Verb::Read,
                    "readall" => Verb::ReadAll,
                    "write" => Verb::Write,
                    "create" => Verb::Create,
                    "create_fsync" => Verb::CreateFsync,
                    "append_fsync" => Verb::AppendFsync,
                    "delete" => Verb::Delete,
                    _ => return None,
                };
                self.weights.push((verb, u32::try_from(value).ok()?));
            }
        }
        Some(())
    }

    /// Whether the files are afterwards what they were before.
    pub fn stays(&self) -> bool {
        let stays = |verb| matches!(verb, Verb::Read | Verb::ReadAll | Verb::Write);
        self.weights.iter().all(|&(verb, _)| stays(verb))
    }

    /// The operation for a random number.
    pub fn draw(&self, random: u64) -> Verb {
        let sum: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = (random % u64::from(sum.max(1))) as u32;
        for &(verb, weight) in &self.weights {
            if at < weight {
                return verb;
            }
            at -= weight;
        }
        Verb::Delete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_understood() {
        let all = all().unwrap();
        assert_eq!(all.len(), 5);
        let mail = &all[4];
        assert_eq!((mail.files, mail.sizes), (10_000, (1024, 16384)));
        let stays: Vec<bool> = all.iter().map(Profile::stays).collect();
        assert_eq!(stays, [false, true, true, true, false]);
        let mut drawn = [0; 4];
        for random in 0..1000 {
            let verb = mail.draw(random);
            drawn[mail.weights.iter().position(|w| w.0 == verb).unwrap()] += 1;
        }
        assert_eq!(drawn, [500, 200, 100, 200]);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        let said = Profile::parse("p", "num_files=1\nnum_fils=2").unwrap_err();
        assert_eq!(said, "p, line 2: 'num_fils=2'");
        assert!(Profile::parse("p", "num_files=x").is_err());
    }
}

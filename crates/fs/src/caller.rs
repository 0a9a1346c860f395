//! The caller of a request: its credentials, and the front end that it came through.

/// User, group and supplementary groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// User 0, group 0.
    pub fn root() -> Credentials {
        Credentials::default()
    }

    /// A user without supplementary groups.
    pub fn user(uid: u32, gid: u32) -> Credentials {
        Credentials {
            uid,
            gid,
            groups: Vec::new(),
        }
    }
}

/// The front end that a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A [`crate::Process`]: the volume checks permissions.
    Library,
    /// A kernel with `default_permissions`: it has checked mode bits, ACLs and the sticky bit; the
    /// volume checks what a kernel cannot know (inode flags, read-only state).
    Kernel,
}

/// Credentials of one request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
    /// Process id, for lock owners and logs.
    pub pid: u32,
    /// File mode creation mask.
    pub umask: u16,
    /// The front end.
    pub origin: Origin,
}

impl Caller<'_> {
    /// User 0 through the library, umask 0.
    pub const ROOT: Caller<'static> = Caller {
        uid: 0,
        gid: 0,
        groups: &[],
        pid: 0,
        umask: 0,
        origin: Origin::Library,
    };

    /// Its user and groups, to keep.
    pub(crate) fn credentials(&self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.to_vec(),
        }
    }

    /// Whether the caller belongs to `gid`.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the caller may override ownership and mode (Linux: `CAP_FOWNER`, `CAP_DAC_OVERRIDE`,
    /// ...).
    pub fn privileged(&self) -> bool {
        self.uid == 0
    }

    /// Whether the caller manages a volume of `owner`, with its quotas and projects: root does, and
    /// the owner. Linux lets the owner of a file take it out of its project, and so out of the
    /// project's limit.
    pub(crate) fn manages_volume_of(&self, owner: u32) -> bool {
        self.privileged() || self.uid == owner
    }

    pub(crate) fn checks(&self) -> bool {
        self.origin == Origin::Library
    }
}

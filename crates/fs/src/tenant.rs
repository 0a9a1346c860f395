//! Tenants: whose a request is, and who shares the cores.

use hearth_sched::Tenant;
use std::fmt;
use std::str::FromStr;

/// The tenant that a request is charged to: the project of the inode that it names, if that has
/// one, else the user who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TenantId {
    /// A user.
    User(u32),
    /// A project: never 0.
    Project(u32),
    /// The volume's own work.
    System,
}

const PROJECT: u64 = 1 << 32;

impl TenantId {
    /// The tenant that pays for what has this project and owner.
    pub(crate) fn of(project: u32, uid: u32) -> TenantId {
        match project {
            0 => TenantId::User(uid),
            project => TenantId::Project(project),
        }
    }

    /// The number by which the volume's scheduler knows the tenant.
    pub fn number(self) -> u64 {
        match self {
            TenantId::User(id) => u64::from(id),
            TenantId::Project(id) => PROJECT | u64::from(id),
            TenantId::System => Tenant::SYSTEM_ID,
        }
    }

    /// The tenant with this number, if it is one.
    pub fn from_number(number: u64) -> Option<TenantId> {
        let id = number as u32;
        match number >> 32 {
            0 => Some(TenantId::User(id)),
            1 if id != 0 => Some(TenantId::Project(id)),
            _ => (number == Tenant::SYSTEM_ID).then_some(TenantId::System),
        }
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenantId::User(id) => write!(f, "user:{id}"),
            TenantId::Project(id) => write!(f, "project:{id}"),
            TenantId::System => write!(f, "system"),
        }
    }
}

impl FromStr for TenantId {
    /// What the text should have been.
    type Err = &'static str;

    /// `user:ID` or `project:ID`, with numbers.
    fn from_str(text: &str) -> Result<TenantId, &'static str> {
        let expected = "expected user:ID or project:ID with a number, a project's from 1 on";
        let (kind, id) = text.split_once(':').ok_or(expected)?;
        let id = id.parse().map_err(|_| expected)?;
        match (kind, id) {
            ("user", id) => Ok(TenantId::User(id)),
            ("project", 1..) => Ok(TenantId::Project(id)),
            _ => Err(expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        for tenant in [
            TenantId::User(0),
            TenantId::User(u32::MAX),
            TenantId::Project(1),
            TenantId::Project(u32::MAX),
        ] {
            assert_eq!(TenantId::from_number(tenant.number()), Some(tenant));
            assert_eq!(tenant.to_string().parse(), Ok(tenant));
        }
        let system = TenantId::System.number();
        assert_eq!(TenantId::from_number(system), Some(TenantId::System));
        assert_eq!(TenantId::from_number(1 << 32), None);
    }

    #[test]
    fn nonsense_names_nobody() {
        for text in [
            "",
            "alice",
            "user:",
            "user:alice",
            "group:5",
            "project:0",
            "user:-1",
            "system",
        ] {
            assert!(text.parse::<TenantId>().is_err(), "{text}");
        }
    }
}

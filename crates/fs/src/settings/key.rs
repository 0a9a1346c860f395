//! The kinds of settings: prefixes of their keys.

/// Own limits and grace periods of an id, by its name, such as `user:1000`.
pub(crate) const QUOTA_ID: &str = "quota/id/";
/// Defaults, grace periods and enforcement of a kind, by its name.
pub(crate) const QUOTA_KIND: &str = "quota/kind/";
/// Ends of the grace periods that run for an id, by its name.
pub(crate) const QUOTA_GRACE: &str = "quota/grace/";
/// Weight and rate limits of a tenant, by its name.
pub(crate) const TENANT: &str = "sched/";
/// A tunable, by its name.
pub(crate) const TUNABLE: &str = "tune/";
/// Heat of files and ranges, by group.
pub(crate) const HEAT_FILES: &str = "heat/files/";
/// Heat of tenants, by group.
pub(crate) const HEAT_TENANTS: &str = "heat/tenants/";

/// A key.
pub(crate) fn key(prefix: &str, name: impl std::fmt::Display) -> Box<[u8]> {
    format!("{prefix}{name}").into_bytes().into()
}

/// The name behind the prefix, if the key has it; `Some("")` where the name is no text.
pub(crate) fn name_in<'k>(key: &'k [u8], prefix: &str) -> Option<&'k str> {
    let name = key.strip_prefix(prefix.as_bytes())?;
    Some(std::str::from_utf8(name).unwrap_or_default())
}

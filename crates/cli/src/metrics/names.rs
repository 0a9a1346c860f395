//! Names of users, groups and projects, from sources that may be far away.

use crate::question::Question;
use crate::quota::{learn_names_in, with_names};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a scrape waits for names. A user without a name is shown by number.
const PATIENCE: Duration = Duration::from_millis(500);

/// Names that were found so far.
#[derive(Default)]
pub struct Names {
    /// `user:1000` to `user:alice`.
    known: HashMap<String, String>,
    /// A search that had not ended in time.
    open: Option<Question<HashMap<String, String>>>,
}

impl Names {
    /// Looks up those of the tenants whose names are not known.
    pub fn find(&mut self, tenants: impl Iterator<Item = String>) {
        self.learn(Instant::now());
        if self.open.is_some() {
            return;
        }
        let unknown: Vec<String> = tenants
            .filter(|tenant| tenant.contains(':') && !self.known.contains_key(tenant))
            .collect();
        if unknown.is_empty() {
            return;
        }
        let find = move || {
            learn_names_in(unknown.iter().map(String::as_str));
            let named = |tenant: String| (with_names(&tenant), tenant);
            let pairs = unknown.into_iter().map(named);
            let pairs = pairs.filter(|(name, tenant)| name != tenant);
            pairs.map(|(name, tenant)| (tenant, name)).collect()
        };
        self.open = Question::ask(find).ok();
        self.learn(Instant::now() + PATIENCE);
    }

    /// The name, as far as one is known.
    pub fn of<'a>(&'a self, tenant: &'a str) -> &'a str {
        self.known.get(tenant).map_or(tenant, String::as_str)
    }

    fn learn(&mut self, until: Instant) {
        let Some(found) = self.open.as_ref().and_then(|open| open.wait(until)) else {
            return;
        };
        self.known.extend(found);
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_keeps_the_number() {
        let mut names = Names::default();
        let tenants = ["user:0", "user:4294967000", "system"].map(str::to_owned);
        names.find(tenants.into_iter());
        assert_eq!(names.of("user:0"), "user:root");
        assert_eq!(names.of("user:4294967000"), "user:4294967000");
        assert_eq!(names.of("system"), "system");
    }
}

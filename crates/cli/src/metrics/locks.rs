//! The lock profile of a mount, where one was recorded.

use super::exposition::{Exposition, Metric};
use serde_json::Value;

const RUNNING: Metric = Metric::gauge(
    "hearth_lock_profile_running",
    "1 while the lock profile records.",
);
const WAITS: Metric = Metric::counter(
    "hearth_lock_profile_waits_total",
    "Waits for a lock since the profile was reset, by class of lock.",
);
const SECONDS: Metric = Metric::counter(
    "hearth_lock_profile_wait_seconds_total",
    "How long these waits took.",
);

/// Adds what `.hearth/locks.json` says, nothing of a daemon that says something else.
pub fn add(page: &mut Exposition, mount: &str, json: &str) {
    let Ok(profile) = serde_json::from_str::<Value>(json) else {
        return;
    };
    let Some(running) = profile["running"].as_bool() else {
        return;
    };
    page.add(&RUNNING, &[("mount", mount)], f64::from(u8::from(running)));
    for lock in profile["locks"].as_array().into_iter().flatten() {
        let words = lock["class"].as_str().zip(lock["side"].as_str());
        let numbers = lock["waited"].as_f64().zip(lock["wait_ns"].as_f64());
        if let Some(((class, side), (waits, ns))) = words.zip(numbers) {
            let labels = [("mount", mount), ("class", class), ("side", side)];
            page.add(&WAITS, &labels, waits);
            page.add(&SECONDS, &labels, ns / 1e9);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_sides_are_labels() {
        let mut page = Exposition::default();
        let json = r#"{"running":true,"locks":[
            {"class":"inode","side":"write","waited":3,"wait_ns":2500000000,"sites":[]},
            {"class":"of another daemon"}]}"#;
        add(&mut page, "/m", json);
        add(&mut page, "/old", "{}");
        let text = page.text();
        let labels = r#"{mount="/m",class="inode",side="write"}"#;
        assert!(
            text.contains("hearth_lock_profile_running{mount=\"/m\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains(&format!("_waits_total{labels} 3\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!("_seconds_total{labels} 2.5\n")),
            "{text}"
        );
        assert!(
            !text.contains("/old") && !text.contains("another"),
            "{text}"
        );
    }
}

//! Lists of mount options, as they are typed behind `-o`.

/// The options of a list. A comma between double quotes belongs to a value, as in
/// `context="system_u:object_r:tmp_t:s0:c1,c2"`.
pub fn split_options(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    list.split(move |c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    })
    .map(str::trim)
    .filter(|option| !option.is_empty())
}

#[cfg(test)]
mod tests {
    use super::split_options;

    #[test]
    fn a_quoted_comma_does_not_end_an_option() {
        let list = r#"ro,,context="u:r:t:s0:c1,c2", nodev"#;
        let options: Vec<&str> = split_options(list).collect();
        assert_eq!(options, ["ro", r#"context="u:r:t:s0:c1,c2""#, "nodev"]);
    }
}

//! Whether what a command printed is what a page shows, but for figures.

/// Compares line by line. Numbers, units, bars and the transport may differ; `...` stands for any
/// lines.
///
/// # Errors
/// The first line that is not there.
pub fn check(shown: &[String], printed: &[String]) -> Result<(), String> {
    let printed: Vec<String> = printed.iter().map(|line| plain(line)).collect();
    let mut at = 0;
    let mut may_skip = false;
    for line in shown {
        if line.trim() == "..." {
            may_skip = true;
            continue;
        }
        let wanted = plain(line);
        let rest = &printed[at..];
        let found = match may_skip {
            true => rest.iter().position(|line| *line == wanted),
            false => (rest.first() == Some(&wanted)).then_some(0),
        };
        at += 1 + found.ok_or_else(|| format!("nothing like '{line}'"))?;
        may_skip = false;
    }
    match at == printed.len() || may_skip {
        true => Ok(()),
        false => Err(format!("something behind it: '{}'", printed[at])),
    }
}

/// Words without what is another one each time.
fn plain(line: &str) -> String {
    let words = line
        .split_whitespace()
        .filter(|word| !word.chars().all(is_bar));
    let words: Vec<&str> = words.map(word).collect();
    let mut all = words.join(" ");
    while all.contains("N N") {
        all = all.replace("N N", "N");
    }
    all
}

fn is_bar(sign: char) -> bool {
    ('\u{2580}'..='\u{259f}').contains(&sign)
}

fn word(word: &str) -> &str {
    let bare = word.trim_end_matches([',', ';', ')']);
    let has_digit = bare.contains(|sign: char| sign.is_ascii_digit());
    let is_path = bare.contains('/') && bare.contains(|sign: char| sign.is_alphabetic());
    let is_rate = bare.ends_with("/h") || bare.ends_with("/m") || bare.ends_with("/s");
    match bare {
        "B" | "KiB" | "MiB" | "GiB" | "-" | "now" | "hot" | "warm" | "cold" => "N",
        "dev" | "uring" => "transport",
        _ if has_digit && (!is_path || is_rate) => "N",
        _ if is_rate => "N",
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn figures_may_differ_and_words_may_not() {
        let shown = lines(" 95.8  ███▋  hot   23.6/h  152 KiB/h  root  /mnt/main");
        let like = lines(" 5.1  █  cold   -  1.2 MiB/h  root  /mnt/main");
        assert_eq!(check(&shown, &like), Ok(()));
        let other = lines(" 5.1  █  cold   -  1.2 MiB/h  root  /mnt/other");
        assert!(check(&shown, &other).is_err());
        assert!(check(&shown, &[]).is_err());
        assert!(check(&shown, &lines("x\ny")).is_err());
    }

    #[test]
    fn dots_stand_for_any_lines() {
        let shown = lines("first\n...\nlast");
        assert_eq!(check(&shown, &lines("first\na\nb\nlast")), Ok(()));
        assert!(check(&shown, &lines("first\na\nb")).is_err());
        assert!(check(&lines("first"), &lines("first\nmore")).is_err());
        assert_eq!(check(&lines("first\n..."), &lines("first\nmore")), Ok(()));
    }
}

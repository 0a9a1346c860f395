use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

static FILES: AtomicU32 = AtomicU32::new(0);

/// What a file with this text leads to. The file's own name in an answer becomes `FILE`.
fn mount(text: &str, typed: &[&str]) -> Result<MountArgs, String> {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("hearth-config-{}-{number}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("a file");
    let args = MountArgs {
        places: Vec::new(),
        options: typed.iter().map(|&option| option.to_owned()).collect(),
        foreground: true,
        log: None,
        detach: false,
        quiet: false,
        sloppy: false,
        by_hand: true,
        config: Some(path.clone()),
    };
    let done = completed(args);
    let place = mountpoint(&path).ok();
    std::fs::remove_file(&path).expect("removed");
    if let Ok(args) = &done {
        assert_eq!(place.as_deref(), Some(args.mountpoint()));
    }
    done.map_err(|failure| {
        assert_eq!(failure.status, 2, "{failure:?}");
        failure.line.replace(&*path.to_string_lossy(), "FILE")
    })
}

#[test]
fn a_whole_file_is_read_and_what_is_typed_comes_after_it() {
    let text = "source = \"store:/srv/volume\"\nmountpoint = \"/srv/data\"\n\
                options = [\"ro\", \"noatime\"]\nlog = \"/var/log/data.log\"\n";
    let args = mount(text, &["relatime"]).expect("a good file");
    assert_eq!(args.source(), "store:/srv/volume");
    assert_eq!(args.mountpoint(), Path::new("/srv/data"));
    assert_eq!(args.options, ["ro", "noatime", "relatime"]);
    assert_eq!(args.log.as_deref(), Some(Path::new("/var/log/data.log")));
    for key in KEYS {
        let is_written = text.lines().any(|line| line.starts_with(key));
        assert!(is_written, "{key} is a key that nothing reads");
    }
}

#[test]
fn the_source_may_be_left_out_and_options_may_be_one_text() {
    let text = "mountpoint = \"/srv/data\"\noptions = \"nofail,size=1G,ro\"\n";
    let args = mount(text, &[]).expect("a good file");
    assert_eq!((&*args.source(), args.options.len()), ("memory:", 1));
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_known_one() {
    for (key, wanted) in [
        ("mount_point", "did you mean 'mountpoint'?"),
        ("option", "did you mean 'options'?"),
        ("\"sorce\"", "unknown key 'sorce'; did you mean 'source'?"),
        (
            "compression",
            "the keys are source, mountpoint, options, log",
        ),
    ] {
        let said = mount(&format!("# one\n{key} = \"x\"\n"), &[]).expect_err(key);
        assert!(said.starts_with("FILE:2: unknown key"), "{said}");
        assert!(said.contains(wanted), "{key}: {said}");
    }
    let far = mount("compression = 1\n", &[]).expect_err("unknown");
    assert!(!far.contains("did you mean"), "{far}");
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_what_would_be_right() {
    for (text, line, wanted) in [
        (
            "options = []",
            "",
            "no mount point; add a line mountpoint =",
        ),
        ("\nmountpoint = 7", ":2", "invalid type: integer"),
        ("mountpoint = \"srv\"", ":1", "give a path from / on"),
        (
            "mountpoint = \"/m\"\nlog = \"l\"",
            ":2",
            "give a path from / on",
        ),
        (
            "mountpoint = \"/m\"\nsource = \"store:v\"",
            ":2",
            "give a path from / on",
        ),
        (
            "mountpoint = \"/m\"\nsource = \"bogus:\"",
            ":2",
            "use 'memory:'",
        ),
        (
            "mountpoint = \"/m\"\noptions = 3",
            ":2",
            "a list of options, or a string",
        ),
        (
            "mountpoint = \"/m\"\noptions = [\n\"ro\",\n\"size=lots\"]",
            ":4",
            "'size=lots'",
        ),
        (
            "mountpoint = \"/m\"\n\noptions = \"ro,frob\"",
            ":3",
            "'frob'",
        ),
        ("mountpoint = \"/m", ":1", "man hearth-mount"),
        (
            "mountpoint = \"/m\"\nmountpoint = \"/n\"",
            ":2",
            "duplicate key",
        ),
    ] {
        let said = mount(text, &[]).expect_err(text);
        assert!(said.starts_with(&format!("FILE{line}: ")), "{text}: {said}");
        assert!(
            said.contains(wanted) && !said.contains('\n'),
            "{text}: {said}"
        );
    }
}

#[test]
fn options_that_do_not_go_together_are_refused_at_their_line() {
    let text = "mountpoint = \"/m\"\nsource = \"host:/tmp\"\n\
                options = [\"quota=wait\",\n\"observe\"]\n";
    let said = mount(text, &[]).expect_err("both");
    assert!(said.starts_with("FILE:3: option 'observe'"), "{said}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let failure = mountpoint(Path::new("/no/such.toml")).expect_err("nothing");
    assert_eq!(failure.status, 1);
    assert!(
        failure.line.starts_with("/no/such.toml: does not exist; "),
        "{failure:?}"
    );
}

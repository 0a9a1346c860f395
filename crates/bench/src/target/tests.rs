use super::*;
use crate::workload::path;

/// Checks as processes and as threads, on the library and on a directory.
fn each(check: impl Fn(&dyn Client) + Sync) {
    for sharing in [Sharing::Processes, Sharing::Lowest, Sharing::PerCore] {
        check(&*Library::new(sharing).unwrap().client());
    }
    for for_threads in [false, true] {
        let place = Subdirectory::new(&std::env::temp_dir(), for_threads).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| check(&*place.target().client()));
        });
        let path = place.path().to_owned();
        drop(place);
        assert!(!path.exists());
    }
}

#[test]
fn the_library_and_a_directory_do_the_same() {
    each(|client| {
        let (dir, file) = (c"/d", c"/d/f");
        client.mkdir(dir).unwrap();
        assert!(!client.stat(file));
        let handle = client.open(file, libc::O_CREAT | libc::O_RDWR).unwrap();
        assert_eq!(client.write(handle, b"warm", 3).unwrap(), 4);
        let mut out = [1; 8];
        assert_eq!(client.read(handle, &mut out, 0).unwrap(), 7);
        assert_eq!(&out[..7], b"\0\0\0warm");
        client.close(handle).unwrap();
        assert!(client.stat(file));
        for n in 0..700 {
            let made = client.open(&path(format!("/d/{n}")), libc::O_CREAT | libc::O_RDWR);
            client.close(made.unwrap()).unwrap();
        }
        assert_eq!(client.list(dir).unwrap(), 701);
        client.unlink(file).unwrap();
        assert!(!client.stat(file));
        assert!(client.open(file, libc::O_RDONLY).is_err());
    });
}

#[test]
fn names_modes_and_sizes_are_changed() {
    each(|client| {
        client.mkdir(c"/d").unwrap();
        client.mkdir(c"/d/sub").unwrap();
        let flags = libc::O_CREAT | libc::O_RDWR;
        let file = client.open(c"/d/old", flags).unwrap();
        assert_eq!(client.write_next(file, b"abcdef").unwrap(), 6);
        assert_eq!(client.write_next(file, b"gh").unwrap(), 2);
        client.truncate(file, 7).unwrap();
        client.sync(file).unwrap();
        client.close(file).unwrap();
        client.rename(c"/d/old", c"/d/new").unwrap();
        client.chmod(c"/d/new", 0o600).unwrap();
        assert!(client.refuses(c"/d/new", libc::O_CREAT | libc::O_EXCL | libc::O_RDWR));
        assert!(!client.refuses(c"/d/new", libc::O_RDWR));
        let about = client.about(c"/d/new").unwrap();
        assert_eq!((about.size, about.links, about.mode), (7, 1, 0o600));
        assert!(!about.is_dir && about.ino > 0);
        assert!(client.about(c"/d/sub").unwrap().is_dir);
        let file = client.open(c"/d/new", libc::O_RDONLY).unwrap();
        let mut out = [0; 4];
        assert_eq!(client.read_next(file, &mut out).unwrap(), 4);
        assert_eq!(client.read_next(file, &mut out).unwrap(), 3);
        assert_eq!(&out[..3], b"efg");
        client.close(file).unwrap();
        let listed = client.entries(c"/d").unwrap();
        let mut entries: Vec<Entry<'_>> = listed.iter().collect();
        entries.sort();
        let entry = |name, is_dir| Entry { name, is_dir };
        assert_eq!(entries, [entry(b"new", false), entry(b"sub", true)]);
        client.rmdir(c"/d/sub").unwrap();
        assert!(client.rmdir(c"/d").is_err());
        assert_eq!(client.list(c"/").unwrap(), 1);
    });
}

#[test]
fn relative_paths_begin_in_the_working_directory() {
    each(|client| {
        client.mkdir(c"a").unwrap();
        client.mkdir(c"/a/b").unwrap();
        client.chdir(c"a").unwrap();
        client.chdir(c"b").unwrap();
        let file = client.open(c"f", libc::O_CREAT | libc::O_RDWR).unwrap();
        client.close(file).unwrap();
        assert!(client.stat(c"/a/b/f") && client.stat(c"f") && !client.stat(c"b"));
        client.unlink(c"f").unwrap();
        assert_eq!(client.list(c"/a/b").unwrap(), 0);
    });
}

#[test]
fn a_byte_is_locked_against_other_processes_only() {
    let check = |target: &dyn Target, is_shared: bool| {
        let client = target.client();
        let file = client.open(c"/f", libc::O_CREAT | libc::O_RDWR).unwrap();
        client.lock(file, 1, true).unwrap();
        let other = std::thread::scope(|scope| {
            let other = || {
                let client = target.client();
                let file = client.open(c"/f", libc::O_RDWR).unwrap();
                // A close would release the locks of the whole process.
                client.lock(file, 1, true).is_ok()
            };
            scope.spawn(other).join().unwrap()
        });
        assert_eq!(other, is_shared);
        client.lock(file, 1, false).unwrap();
    };
    check(&Library::new(Sharing::Processes).unwrap(), false);
    check(&Library::new(Sharing::Lowest).unwrap(), true);
    for for_threads in [false, true] {
        let place = Subdirectory::new(&std::env::temp_dir(), for_threads).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| check(place.target(), for_threads));
        });
    }
}

#[test]
fn the_end_of_a_process_closes_what_it_has_open() {
    let check = |target: &dyn Target| {
        let client = target.client();
        let flags = libc::O_CREAT | libc::O_RDWR;
        let files: Vec<_> = (0..100)
            .map(|n| client.open(&path(format!("/{n}")), flags).unwrap())
            .collect();
        client.end();
        let client = target.client();
        for file in files {
            assert!(client.read(file, &mut [0; 1], 0).is_err());
        }
    };
    check(&Library::new(Sharing::Processes).unwrap());
    let place = Subdirectory::new(&std::env::temp_dir(), false).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| check(place.target()));
    });
}

#[test]
fn what_is_no_directory_is_named() {
    let file = std::env::temp_dir().join(format!("hearth-test-{}-plain", std::process::id()));
    std::fs::write(&file, "").unwrap();
    for wrong in [file.clone(), file.with_extension("missing")] {
        let said = Subdirectory::new(&wrong, false).err().unwrap();
        assert!(
            said.contains("not a directory") && said.contains("plain"),
            "{said}"
        );
    }
    std::fs::remove_file(&file).unwrap();
}

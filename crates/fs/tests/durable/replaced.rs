//! Files that replace others, and files without a name.

use super::{begin, check, crashed, create, neighbour_syncs, text};

#[test]
fn a_file_that_is_replaced_by_a_rename_is_the_old_one_or_the_whole_new_one() {
    for size in [10, 5_000, 300_000] {
        let (backend, volume, root) = begin();
        let (old, new) = (vec![1; 100_000], vec![2; size]);
        create(&root, "/f", &old);
        volume.sync().unwrap();
        let fd = create(&root, "/f.new", &new);
        root.rename("/f.new", "/f").unwrap();
        assert_eq!(text(&crashed(&backend).2, "/f"), old);
        neighbour_syncs(&root);
        let (after, volume, process) = crashed(&backend);
        assert_eq!(text(&process, "/f"), new);
        check(&after, &volume);
        root.close(fd).unwrap();
    }
}

#[test]
fn a_file_that_is_cut_to_nothing_and_written_again_is_the_old_one_or_the_whole_new_one() {
    for size in [10, 5_000, 300_000] {
        let (backend, volume, root) = begin();
        let (old, new) = (vec![1; 100_000], vec![2; size]);
        create(&root, "/f", &old);
        volume.sync().unwrap();
        let flags = libc::O_WRONLY | libc::O_TRUNC;
        let fd = root.open("/f", flags, 0).unwrap();
        root.write(fd, &new).unwrap();
        assert_eq!(text(&crashed(&backend).2, "/f"), old);
        neighbour_syncs(&root);
        let (after, volume, process) = crashed(&backend);
        assert_eq!(text(&process, "/f"), new);
        check(&after, &volume);
    }
}

/// A commit falls between the truncation and the writes, as often one does.
#[test]
fn a_file_that_is_written_again_after_a_commit_is_whole_once_it_is_closed() {
    let (backend, volume, root) = begin();
    create(&root, "/f", &vec![1; 100_000]);
    volume.sync().unwrap();
    let fd = root.open("/f", libc::O_WRONLY | libc::O_TRUNC, 0).unwrap();
    neighbour_syncs(&root);
    root.write(fd, &vec![2; 60_000]).unwrap();
    root.write(fd, &vec![2; 60_000]).unwrap();
    root.close(fd).unwrap();
    neighbour_syncs(&root);
    assert_eq!(text(&crashed(&backend).2, "/f"), vec![2; 120_000]);
}

/// The write-back of the new file is under way when it gets its name.
#[test]
fn a_file_that_is_renamed_while_it_is_written_back_is_whole() {
    let (backend, volume, root) = begin();
    let (old, new) = (vec![1; 100_000], vec![2; 300_000]);
    create(&root, "/f", &old);
    volume.sync().unwrap();
    let fd = create(&root, "/g", &new);
    for round in 0..20 {
        root.pwrite(fd, &new, 0).unwrap();
        backend.set_delay(std::time::Duration::from_millis(2));
        std::thread::scope(|scope| {
            scope.spawn(|| root.fsync(fd).unwrap());
            std::thread::sleep(std::time::Duration::from_micros(100 * round));
            root.rename("/g", "/f").unwrap();
            neighbour_syncs(&root);
            let found = text(&crashed(&backend).2, "/f");
            assert!(found == new, "round {round}: {} bytes", found.len());
        });
        backend.set_delay(std::time::Duration::ZERO);
        root.rename("/f", "/g").unwrap();
        create(&root, "/f", &old);
        volume.sync().unwrap();
    }
}

#[test]
fn an_open_file_without_a_name_is_gone_after_a_crash_and_its_space_is_back() {
    let (backend, volume, root) = begin();
    let before = root.statfs("/").unwrap();
    create(&root, "/f", &vec![1; 300_000]);
    volume.sync().unwrap();
    root.unlink("/f").unwrap();
    let flags = libc::O_TMPFILE | libc::O_RDWR;
    let nameless = root.open("/", flags, 0o600).unwrap();
    root.write(nameless, &vec![1; 100_000]).unwrap();
    volume.sync().unwrap();
    assert_eq!(backend.inodes(), 3);
    let (after, volume, process) = crashed(&backend);
    assert!(process.stat("/f").is_err());
    let room = process.statfs("/").unwrap();
    assert_eq!((room.files - room.ffree, room.bfree), (1, before.bfree));
    check(&after, &volume);
    assert_eq!(after.inodes(), 1);
    // A crash before its end is committed changes nothing.
    let (again, _, _) = crashed(&backend);
    let (again, volume, _) = crashed(&again);
    check(&again, &volume);
}

//! Where a mount may be, and whose it is.

use super::*;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

fn empty_directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("hearth-mount-{name}-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    dir
}

#[test]
fn a_directory_that_cannot_be_mounted_on_is_refused_with_the_reason() {
    let dir = empty_directory("checked");
    let file = dir.join("file");
    assert!(matches!(
        check(&file, false),
        Err(MountError::Missing { .. })
    ));
    fs::write(&file, b"").unwrap();
    assert!(matches!(
        check(&file, false),
        Err(MountError::NotADirectory { .. })
    ));
    assert!(matches!(
        check(&file.join("x"), false),
        Err(MountError::NotADirectory { .. })
    ));
    assert!(matches!(
        check(&dir, false),
        Err(MountError::NotEmpty { .. })
    ));
    fs::remove_file(&file).unwrap();
    assert_eq!(check(&dir, false).unwrap(), fs::canonicalize(&dir).unwrap());
    fs::remove_dir(&dir).unwrap();
}

/// The kernel gives the number of a mount that is gone to the next one, and a daemon may learn of
/// the unmount when the next daemon has mounted.
#[test]
fn a_daemon_that_ends_late_leaves_the_next_mount_with_its_number_alone() {
    let dir = empty_directory("next");
    let options = MountOptions::default();
    let mounted = || mount(&dir, &options).expect("run this test as root");
    // Mounts of other tests take numbers as well.
    let (late, next) = (0..1000)
        .find_map(|_| {
            let late = mounted();
            assert!(late.is_in_place());
            // SAFETY: the path is a C string.
            let gone = unsafe { libc::umount2(c_string(dir.as_os_str()).unwrap().as_ptr(), 0) };
            assert_eq!(gone, 0, "{}", io::Error::last_os_error());
            let next = mounted();
            (late.number == next.number).then_some((late, next))
        })
        .expect("a number is used again");
    assert!(!late.is_in_place());
    late.detach(false).unwrap();
    drop(late);
    assert!(next.is_in_place());
    assert_eq!(table::find(&dir).map(|entry| entry.minor), next.number);
    drop(next);
    assert_eq!(table::find(&dir), None);
    fs::remove_dir(&dir).unwrap();
}

/// Takes `CAP_SYS_ADMIN` out of effect for this thread alone; programs that it starts as root have
/// it again.
fn drop_admin() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_ADMIN);
    sets.permitted.remove(CapabilitySet::SYS_ADMIN);
    set_capabilities(None, sets).expect("run this test as root");
}

#[test]
fn root_without_the_capability_mounts_through_the_helper() {
    let dir = empty_directory("helper");
    let on_its_thread = dir.clone();
    let thread = std::thread::spawn(move || {
        assert_eq!(mount_right(), MountRight::Own);
        drop_admin();
        assert_eq!(mount_right(), MountRight::Helper);
        let mounted = mount(&on_its_thread, &MountOptions::default()).unwrap();
        assert!(mounted.helper && mounted.is_in_place());
    });
    thread.join().unwrap();
    assert_eq!(table::find(&dir), None);
    fs::remove_dir(&dir).unwrap();
}

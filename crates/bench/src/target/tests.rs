use super::*;
use std::ffi::CString;

fn each(check: impl Fn(&dyn Client) + Sync) {
    for sharing in [Sharing::Processes, Sharing::Lowest, Sharing::PerCore] {
        check(&*Library::new(sharing).unwrap().client());
    }
    let dir = std::env::temp_dir().join(format!("hearth-test-{}-target", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let host = HostDir::new(&dir).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| check(&*host.client()));
    });
    std::fs::remove_dir_all(&dir).unwrap();
}

fn path(text: &str) -> CString {
    CString::new(text).unwrap()
}

#[test]
fn the_library_and_a_directory_do_the_same() {
    each(|client| {
        let (dir, file) = (path("/d"), path("/d/f"));
        client.mkdir(&dir).unwrap();
        assert!(!client.stat(&file));
        let handle = client.open(&file, libc::O_CREAT | libc::O_RDWR).unwrap();
        assert_eq!(client.write(handle, b"warm", 3).unwrap(), 4);
        let mut out = [1; 8];
        assert_eq!(client.read(handle, &mut out, 0).unwrap(), 7);
        assert_eq!(&out[..7], b"\0\0\0warm");
        client.close(handle).unwrap();
        assert!(client.stat(&file));
        for n in 0..700 {
            let made = client.open(&path(&format!("/d/{n}")), libc::O_CREAT | libc::O_RDWR);
            client.close(made.unwrap()).unwrap();
        }
        assert_eq!(client.list(&dir).unwrap(), 701);
        client.unlink(&file).unwrap();
        assert!(!client.stat(&file));
        assert!(client.open(&file, libc::O_RDONLY).is_err());
    });
}

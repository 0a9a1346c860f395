//! A volume that is asked for by name and that something else covers, or that is asked for twice.

use super::server::Server;
use super::{of, typed, value};
use crate::harness::{Mounted, Transport, program, succeed};

/// Once, it had no `hearth_up` at all, so that no alert was raised.
#[test]
fn what_was_asked_for_by_name_and_is_covered_is_down() {
    let mounted = Mounted::new(Transport::Dev, "");
    let at = typed(&mounted);
    let server = Server::start(&["--listen", "127.0.0.1:0", at, at]);
    assert_eq!(value(&server.page(), &of("hearth_up", &mounted)), 1.0);
    succeed(program("mount").args(["-t", "tmpfs", "none", at]));
    let page = server.page();
    succeed(program("umount").arg(at));
    assert_eq!(value(&page, &of("hearth_up", &mounted)), 0.0);
    let lines = page.lines().filter(|line| line.starts_with("hearth_up{"));
    assert_eq!(lines.count(), 1, "{page}");
    assert_eq!(value(&page, "hearth_mounts"), 0.0);
    assert_eq!(value(&server.page(), &of("hearth_up", &mounted)), 1.0);
}

//! The system call `statx`.

use std::mem::MaybeUninit;

use hearth_model::{Attr, Fd, Kind, Outcome, PageCount, Stamp, StatX};

use super::calls::{Answer, call, text};

pub fn statx(dirfd: Fd, path: &[u8], flags: i32, mask: u32) -> Answer {
    let path = text(path);
    let mut out = MaybeUninit::<libc::statx>::zeroed();
    let arguments = [
        dirfd as usize,
        path.as_ptr() as usize,
        flags as usize,
        mask as usize,
        out.as_mut_ptr() as usize,
    ];
    call(libc::SYS_statx, &arguments)?;
    // SAFETY: all bit patterns are valid for this plain struct, and it was zeroed before.
    let out = unsafe { out.assume_init() };
    let kind = Kind::from_mode(u32::from(out.stx_mode)).expect("the kernel knows no other kinds");
    let has_size = matches!(kind, Kind::File | Kind::Symlink);
    let stamp = |time: libc::statx_timestamp| Stamp::of(time.tv_sec, time.tv_nsec);
    Ok(Outcome::StatX(StatX {
        mask: out.stx_mask,
        attributes: out.stx_attributes & StatX::ATTRIBUTES,
        attributes_mask: out.stx_attributes_mask & StatX::ATTRIBUTES,
        blksize: out.stx_blksize,
        attr: Attr {
            ino: out.stx_ino,
            kind,
            perm: out.stx_mode & 0o7777,
            nlink: out.stx_nlink,
            uid: out.stx_uid,
            gid: out.stx_gid,
            rdev: libc::makedev(out.stx_rdev_major, out.stx_rdev_minor) as u32,
            size: if has_size { out.stx_size } else { 0 },
            atime: stamp(out.stx_atime),
            mtime: stamp(out.stx_mtime),
            ctime: stamp(out.stx_ctime),
            pages: PageCount::of_blocks(if kind == Kind::File {
                out.stx_blocks
            } else {
                0
            }),
        },
        birth: (out.stx_btime.tv_sec, out.stx_btime.tv_nsec),
    }))
}

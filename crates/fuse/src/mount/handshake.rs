//! The handshake between `mount` and the first request: INIT and its reply.

use crate::mount::MountError;
use crate::mount::options::{MountOptions, Transport};
use crate::mount::uring_switch::{UringSwitch, uring_switch};
use crate::placement::cpu;
use crate::transport::device::{Device, Incoming};
use crate::wire::reply::out_header;
use crate::wire::{InHeader, InitIn, InitOut, KERNEL_VERSION, Opcode, READ_OVERHEAD};
use std::io;
use zerocopy::{FromBytes, IntoBytes};

/// `transport=uring` on a kernel that will not offer it is refused before anything is mounted.
pub(crate) fn check_switch(options: &MountOptions) -> Result<(), MountError> {
    if options.transport != Transport::Uring {
        return Ok(());
    }
    cpu::possible().map_err(|error| MountError::NoUring {
        reason: format!("io_uring cannot be set up: {error}; use transport=auto"),
    })?;
    let reason = match uring_switch() {
        UringSwitch::Off => {
            "io_uring is switched off in the kernel's FUSE: \
             echo Y > /sys/module/fuse/parameters/enable_uring, then mount again"
        }
        UringSwitch::Absent => {
            "this kernel's FUSE has no io_uring (Linux 6.14 or later has): use transport=auto"
        }
        UringSwitch::On => return Ok(()),
    };
    Err(MountError::NoUring {
        reason: reason.to_owned(),
    })
}

/// Reads INIT, which the kernel sends before anything else.
pub(crate) fn first_request(
    device: &Device,
    options: &MountOptions,
) -> io::Result<(InHeader, InitIn)> {
    let mut buffer = vec![0; options.max_write as usize + READ_OVERHEAD];
    loop {
        match device.receive(&mut buffer)? {
            Incoming::Nothing => continue,
            Incoming::End => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
            Incoming::Request(_) => {}
        }
        let (header, rest) = InHeader::read_from_prefix(&buffer)
            .map_err(|_| io::Error::from_raw_os_error(libc::EPROTO))?;
        let (request, _) = InitIn::read_from_prefix(rest)
            .map_err(|_| io::Error::from_raw_os_error(libc::EPROTO))?;
        if header.opcode != Opcode::Init as u32 {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        if request.major <= KERNEL_VERSION {
            return Ok((header, request));
        }
        // A kernel with a newer major version asks again when it hears of this one.
        let answer = InitOut {
            major: KERNEL_VERSION,
            ..Default::default()
        };
        answer_init(device, header.unique, &answer)?;
    }
}

/// Replies to INIT.
pub(crate) fn answer_init(device: &Device, unique: u64, answer: &InitOut) -> io::Result<()> {
    let body = answer.as_bytes();
    device.send(out_header(unique, Ok(body.len())).as_bytes(), body, &[])
}

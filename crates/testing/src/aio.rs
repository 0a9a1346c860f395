//! Requests of asynchronous I/O, `io_submit(2)`.

use std::fs::File;
use std::os::fd::AsRawFd;

/// `IOCB_CMD_PWRITE`.
const PWRITE: u16 = 1;

/// `struct iocb` of Linux.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

impl Iocb {
    /// A write of `length` bytes from `buffer` at `offset`.
    pub fn write(file: &File, buffer: *const u8, length: usize, offset: i64) -> Iocb {
        Iocb {
            opcode: PWRITE,
            descriptor: file.as_raw_fd() as u32,
            buffer: buffer as u64,
            length: length as u64,
            offset,
            ..Iocb::default()
        }
    }
}

//! A request as bytes and as a typed operation.
//!
//! Both transports hand over the same three parts: header, fixed argument, payload. Decoding checks
//! every length and every name, so that random bytes give an error and never a panic.

use crate::wire::*;
use hearth::Errno;
use zerocopy::FromBytes;

/// A request in the parts in which a transport has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRequest<'a> {
    pub header: InHeader,
    /// The fixed argument; may be longer than the operation needs (ring entries) but not shorter.
    pub args: &'a [u8],
    /// Names, data and extensions.
    pub payload: &'a [u8],
}

impl<'a> RawRequest<'a> {
    /// Splits what was read from `/dev/fuse`. `None` for bytes that are no request.
    pub fn from_buffer(buffer: &'a [u8], setxattr_ext: bool) -> Option<RawRequest<'a>> {
        let (header, rest) = InHeader::read_from_prefix(buffer).ok()?;
        let body = rest.get(..(header.len as usize).checked_sub(size_of::<InHeader>())?)?;
        let fixed = match Opcode::from_number(header.opcode) {
            Some(Opcode::Setxattr) if !setxattr_ext => 8,
            Some(opcode) => opcode.fixed_size(),
            None => 0,
        };
        // A body shorter than its fixed argument stays whole; decoding refuses it with the right
        // errno.
        let (args, payload) = body.split_at(fixed.min(body.len()));
        Some(RawRequest {
            header,
            args,
            payload,
        })
    }

    /// The operation that is asked for.
    ///
    /// # Errors
    /// `ENOSYS` for a number that this crate does not know (the kernel then stops asking), `EINVAL`
    /// for a fixed argument, name or payload that is cut short.
    pub fn operation(&self) -> Result<Operation<'a>, Errno> {
        let opcode = Opcode::from_number(self.header.opcode).ok_or(Errno(libc::ENOSYS))?;
        self.decode(opcode).ok_or(Errno::EINVAL)
    }

    /// Supplementary groups that the kernel sent along with a creation.
    pub fn groups(&self) -> Groups {
        let mut groups = Groups::default();
        let mut rest = self.split_payload().map_or(&[][..], |(_, ext)| ext);
        while let Ok((ext, after)) = ExtHeader::read_from_prefix(rest) {
            let size = ext.size as usize;
            let Some(body) = size
                .checked_sub(size_of::<ExtHeader>())
                .and_then(|n| after.get(..n))
            else {
                break;
            };
            if ext.kind == EXT_GROUPS {
                groups.read(body);
            }
            match after.get(body.len().next_multiple_of(8)..) {
                Some(next) if size > 0 => rest = next,
                _ => break,
            }
        }
        groups
    }

    fn split_payload(&self) -> Option<(&'a [u8], &'a [u8])> {
        let ext = usize::from(self.header.total_extlen) * 8;
        Some(self.payload.split_at(self.payload.len().checked_sub(ext)?))
    }

    fn decode(&self, opcode: Opcode) -> Option<Operation<'a>> {
        use Operation as Op;
        let (payload, _) = self.split_payload()?;
        Some(match opcode {
            Opcode::Lookup => Op::Lookup {
                name: only_name(payload)?,
            },
            Opcode::Forget => Op::Forget {
                count: self.fixed::<ForgetIn>()?.nlookup,
            },
            Opcode::BatchForget => Op::BatchForget {
                items: self.forgets(payload)?,
            },
            Opcode::Getattr => self.fixed::<GetattrIn>().map(|_| Op::Getattr)?,
            Opcode::Statx => self.fixed::<StatxIn>().map(|_| Op::Statx)?,
            Opcode::Setattr => Op::Setattr(self.fixed()?),
            Opcode::Readlink => Op::Readlink,
            Opcode::Unlink => Op::Unlink {
                name: only_name(payload)?,
            },
            Opcode::Rmdir => Op::Rmdir {
                name: only_name(payload)?,
            },
            Opcode::Open => Op::Open(self.fixed()?),
            Opcode::Opendir => Op::Opendir(self.fixed()?),
            Opcode::Tmpfile => Op::Tmpfile(self.fixed()?),
            Opcode::Read => Op::Read(self.fixed()?),
            Opcode::Readdir => Op::Readdir(self.fixed()?),
            Opcode::Readdirplus => Op::Readdirplus(self.fixed()?),
            Opcode::Write => {
                let args: WriteIn = self.fixed()?;
                Op::Write {
                    data: payload.get(..args.size as usize)?,
                    args,
                }
            }
            Opcode::Flush => Op::Flush(self.fixed()?),
            Opcode::Release => Op::Release(self.fixed()?),
            Opcode::Releasedir => Op::Releasedir(self.fixed()?),
            Opcode::Fsync => Op::Fsync(self.fixed()?),
            Opcode::Fsyncdir => Op::Fsyncdir(self.fixed()?),
            Opcode::Syncfs => Op::Syncfs,
            _ => return self.decode_names(opcode, payload),
        })
    }

    /// What makes and moves names.
    fn decode_names(&self, opcode: Opcode, payload: &'a [u8]) -> Option<Operation<'a>> {
        use Operation as Op;
        Some(match opcode {
            Opcode::Symlink => {
                let (name, target) = two_names(payload)?;
                Op::Symlink { name, target }
            }
            Opcode::Mknod => Op::Mknod {
                args: self.fixed()?,
                name: only_name(payload)?,
            },
            Opcode::Mkdir => Op::Mkdir {
                args: self.fixed()?,
                name: only_name(payload)?,
            },
            Opcode::Rename => {
                let newdir = self.fixed::<RenameIn>()?.newdir;
                rename(
                    payload,
                    Rename2In {
                        newdir,
                        ..Default::default()
                    },
                )?
            }
            Opcode::Rename2 => rename(payload, self.fixed()?)?,
            Opcode::Link => Op::Link {
                ino: self.fixed::<LinkIn>()?.oldnodeid,
                name: only_name(payload)?,
            },
            Opcode::Create => Op::Create {
                args: self.fixed()?,
                name: only_name(payload)?,
            },
            _ => return self.decode_rest(opcode, payload),
        })
    }

    fn decode_rest(&self, opcode: Opcode, payload: &'a [u8]) -> Option<Operation<'a>> {
        use Operation as Op;
        Some(match opcode {
            Opcode::Statfs => Op::Statfs,
            Opcode::Access => Op::Access {
                mask: self.fixed::<AccessIn>()?.mask,
            },
            Opcode::Setxattr => self.setxattr(payload)?,
            Opcode::Getxattr => Op::Getxattr {
                size: self.fixed::<GetxattrIn>()?.size,
                name: only_name(payload)?,
            },
            Opcode::Listxattr => Op::Listxattr {
                size: self.fixed::<GetxattrIn>()?.size,
            },
            Opcode::Removexattr => Op::Removexattr {
                name: only_name(payload)?,
            },
            Opcode::Getlk => Op::Getlk(self.fixed()?),
            Opcode::Setlk => Op::Setlk {
                args: self.fixed()?,
                wait: false,
            },
            Opcode::Setlkw => Op::Setlk {
                args: self.fixed()?,
                wait: true,
            },
            Opcode::Ioctl => {
                let args: IoctlIn = self.fixed()?;
                Op::Ioctl {
                    data: payload.get(..args.in_size as usize)?,
                    args,
                }
            }
            Opcode::Fallocate => Op::Fallocate(self.fixed()?),
            Opcode::Lseek => Op::Lseek(self.fixed()?),
            Opcode::CopyFileRange => Op::CopyFileRange {
                args: self.fixed()?,
                wide: false,
            },
            Opcode::CopyFileRange64 => Op::CopyFileRange {
                args: self.fixed()?,
                wide: true,
            },
            Opcode::Interrupt => Op::Interrupt {
                unique: self.fixed::<InterruptIn>()?.unique,
            },
            Opcode::Init => Op::Init,
            Opcode::Destroy => Op::Destroy,
            _ => Op::Unsupported,
        })
    }

    fn fixed<T: FromBytes>(&self) -> Option<T> {
        T::read_from_prefix(self.args).ok().map(|(value, _)| value)
    }

    fn forgets(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let count = self.fixed::<BatchForgetIn>()?.count as usize;
        payload.get(..count.checked_mul(size_of::<ForgetOne>())?)
    }

    fn setxattr(&self, payload: &'a [u8]) -> Option<Operation<'a>> {
        let mut args = SetxattrIn::default();
        let given = self
            .args
            .get(..size_of::<SetxattrIn>().min(self.args.len().max(8)))?;
        zerocopy::IntoBytes::as_mut_bytes(&mut args)[..given.len()].copy_from_slice(given);
        let (name, value) = split_name(payload)?;
        Some(Operation::Setxattr {
            value: value.get(..args.size as usize)?,
            name,
            args,
        })
    }
}

/// What is asked for, with names and data borrowed from the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    /// Packed [`ForgetOne`]s.
    BatchForget {
        items: &'a [u8],
    },
    /// By number: the handle that the kernel may add says nothing more.
    Getattr,
    Statx,
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        args: MknodIn,
        name: &'a [u8],
    },
    Mkdir {
        args: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        args: Rename2In,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        ino: u64,
        name: &'a [u8],
    },
    Open(OpenIn),
    Opendir(OpenIn),
    Create {
        args: CreateIn,
        name: &'a [u8],
    },
    Tmpfile(CreateIn),
    Read(ReadIn),
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Write {
        args: WriteIn,
        data: &'a [u8],
    },
    Flush(FlushIn),
    Release(ReleaseIn),
    Releasedir(ReleaseIn),
    Fsync(FsyncIn),
    Fsyncdir(FsyncIn),
    Syncfs,
    Statfs,
    Access {
        mask: u32,
    },
    Setxattr {
        args: SetxattrIn,
        name: &'a [u8],
        value: &'a [u8],
    },
    Getxattr {
        size: u32,
        name: &'a [u8],
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Getlk(LkIn),
    Setlk {
        args: LkIn,
        wait: bool,
    },
    Ioctl {
        args: IoctlIn,
        data: &'a [u8],
    },
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange {
        args: CopyFileRangeIn,
        wide: bool,
    },
    Interrupt {
        unique: u64,
    },
    Init,
    Destroy,
    /// Known and left to the kernel: BMAP, POLL, NOTIFY_REPLY.
    Unsupported,
}

/// Supplementary groups of a caller, as far as the kernel tells them (it sends the one that
/// matters).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups {
    count: usize,
    ids: [u32; 16],
}

impl Groups {
    /// The group ids.
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.count]
    }

    fn read(&mut self, body: &[u8]) {
        let Ok((count, mut rest)) = u32::read_from_prefix(body) else {
            return;
        };
        for _ in 0..count {
            let (Ok((id, after)), true) =
                (u32::read_from_prefix(rest), self.count < self.ids.len())
            else {
                return;
            };
            self.ids[self.count] = id;
            self.count += 1;
            rest = after;
        }
    }
}

fn rename(payload: &[u8], args: Rename2In) -> Option<Operation<'_>> {
    let (name, new_name) = two_names(payload)?;
    Some(Operation::Rename {
        args,
        name,
        new_name,
    })
}

/// The name up to its NUL, and what follows the NUL.
fn split_name(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = payload.iter().position(|&byte| byte == 0)?;
    (end > 0).then(|| (&payload[..end], &payload[end + 1..]))
}

fn only_name(payload: &[u8]) -> Option<&[u8]> {
    split_name(payload).map(|(name, _)| name)
}

fn two_names(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = split_name(payload)?;
    Some((first, only_name(rest)?))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

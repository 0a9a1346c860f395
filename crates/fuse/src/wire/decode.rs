//! From the bytes of a request to a typed operation.
//!
//! Decoding checks every length and every name: random bytes give an error, never a panic.

use super::opcode::Opcode;
use super::operation::Operation;
use super::request::RawRequest;
use super::*;
use hearth::Errno;
use zerocopy::FromBytes;

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
#[path = "decode_tests.rs"]
mod tests;

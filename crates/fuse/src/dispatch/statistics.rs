//! Under which name operations are counted.

use crate::wire::operation::Operation;
use hearth::Op;

/// The statistic that counts `operation`.
pub(super) fn op(operation: &Operation<'_>) -> Op {
    use Operation as O;
    match operation {
        O::Lookup { .. } => Op::Lookup,
        O::Forget { .. } | O::BatchForget { .. } => Op::Forget,
        O::Getattr | O::Statx => Op::GetAttr,
        O::Setattr(_) => Op::SetAttr,
        O::Readlink => Op::ReadLink,
        O::Symlink { .. } => Op::Symlink,
        O::Mknod { .. } => Op::Mknod,
        O::Mkdir { .. } => Op::Mkdir,
        O::Unlink { .. } => Op::Unlink,
        O::Rmdir { .. } => Op::Rmdir,
        O::Rename { .. } => Op::Rename,
        O::Link { .. } => Op::Link,
        O::Open(_) => Op::Open,
        O::Opendir(_) => Op::OpenDir,
        O::Create { .. } => Op::Create,
        O::Tmpfile(_) => Op::Tmpfile,
        O::Read(_) => Op::Read,
        O::Readdir(_) | O::Readdirplus(_) => Op::ReadDir,
        O::Write { .. } => Op::Write,
        O::Flush(_) => Op::Flush,
        O::Release(_) | O::Releasedir(_) => Op::Release,
        O::Fsync(_) | O::Fsyncdir(_) => Op::Fsync,
        O::Syncfs => Op::SyncFs,
        O::Statfs => Op::StatFs,
        O::Access { .. } => Op::Access,
        O::Setxattr { .. } => Op::SetXattr,
        O::Getxattr { .. } => Op::GetXattr,
        O::Listxattr { .. } => Op::ListXattr,
        O::Removexattr { .. } => Op::RemoveXattr,
        O::Getlk(_) => Op::GetLk,
        O::Setlk { .. } => Op::SetLk,
        O::Ioctl { .. } => Op::Ioctl,
        O::Fallocate(_) => Op::Fallocate,
        O::Lseek(_) => Op::Lseek,
        O::CopyFileRange { .. } => Op::CopyFileRange,
        O::Interrupt { .. } => Op::Interrupt,
        O::Init | O::Destroy | O::Unsupported => Op::Other,
    }
}

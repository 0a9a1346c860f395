//! Request numbers and the size of the fixed argument that follows the header of each.

use super::input::*;

macro_rules! opcodes {
    ($($name:ident $number:literal $size:expr),* $(,)?) => {
        /// What the kernel asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Opcode { $($name = $number),* }

        impl Opcode {
            /// Every request that this crate knows.
            #[cfg(test)]
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name),*];

            /// The request with this number.
            pub fn from_number(number: u32) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// Bytes of the fixed argument; names and data follow it.
            pub fn fixed_size(self) -> usize {
                match self {
                    $(Opcode::$name => $size),*
                }
            }
        }
    };
}

opcodes! {
    Lookup 1 0,
    Forget 2 size_of::<ForgetIn>(),
    Getattr 3 size_of::<GetattrIn>(),
    Setattr 4 size_of::<SetattrIn>(),
    Readlink 5 0,
    Symlink 6 0,
    Mknod 8 size_of::<MknodIn>(),
    Mkdir 9 size_of::<MkdirIn>(),
    Unlink 10 0,
    Rmdir 11 0,
    Rename 12 size_of::<RenameIn>(),
    Link 13 size_of::<LinkIn>(),
    Open 14 size_of::<OpenIn>(),
    Read 15 size_of::<ReadIn>(),
    Write 16 size_of::<WriteIn>(),
    Statfs 17 0,
    Release 18 size_of::<ReleaseIn>(),
    Fsync 20 size_of::<FsyncIn>(),
    Setxattr 21 size_of::<SetxattrIn>(),
    Getxattr 22 size_of::<GetxattrIn>(),
    Listxattr 23 size_of::<GetxattrIn>(),
    Removexattr 24 0,
    Flush 25 size_of::<FlushIn>(),
    Init 26 size_of::<InitIn>(),
    Opendir 27 size_of::<OpenIn>(),
    Readdir 28 size_of::<ReadIn>(),
    Releasedir 29 size_of::<ReleaseIn>(),
    Fsyncdir 30 size_of::<FsyncIn>(),
    Getlk 31 size_of::<LkIn>(),
    Setlk 32 size_of::<LkIn>(),
    Setlkw 33 size_of::<LkIn>(),
    Access 34 size_of::<AccessIn>(),
    Create 35 size_of::<CreateIn>(),
    Interrupt 36 size_of::<InterruptIn>(),
    Bmap 37 size_of::<BmapIn>(),
    Destroy 38 0,
    Ioctl 39 size_of::<IoctlIn>(),
    Poll 40 size_of::<PollIn>(),
    NotifyReply 41 0,
    BatchForget 42 size_of::<BatchForgetIn>(),
    Fallocate 43 size_of::<FallocateIn>(),
    Readdirplus 44 size_of::<ReadIn>(),
    Rename2 45 size_of::<Rename2In>(),
    Lseek 46 size_of::<LseekIn>(),
    CopyFileRange 47 size_of::<CopyFileRangeIn>(),
    Syncfs 50 size_of::<SyncfsIn>(),
    Tmpfile 51 size_of::<CreateIn>(),
    Statx 52 size_of::<StatxIn>(),
    CopyFileRange64 53 size_of::<CopyFileRangeIn>(),
}

//! Defines the address spaces: how large they are, and where they lie among generic addresses.
//!
//! A global address is an address of the process. Shared memory, local memory and parameters have windows of
//! generic addresses that no process uses.

/// The most bytes of shared memory that a block can have.
pub const MOST_SHARED: u64 = 228 << 10;

/// The most bytes of local memory that a thread can have.
pub const MOST_LOCAL: u64 = 512 << 10;

/// Bytes of reserved shared memory, which follows the kernel's own. `%reserved_smem_offset_0` is the address
/// of its first half, `%reserved_smem_offset_1` that of its second half.
pub(crate) const RESERVED: u64 = 1 << 10;

/// The generic address of the first byte of a thread's local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0x7a00_0000_0000_0000;
/// The generic address of the first byte of the shared memory of the thread's own block. The window also has
/// the shared memory of other blocks in the cluster (see [`peer`]).
pub(crate) const SHARED_WINDOW: u64 = 0x7b00_0000_0000_0000;
/// The generic address of the first byte of the kernel's arguments.
pub(crate) const PARAMETER_WINDOW: u64 = 0x7c00_0000_0000_0000;
/// The generic address of the first function. Addresses of functions can't be read or written.
pub(crate) const FUNCTION_WINDOW: u64 = 0x7d00_0000_0000_0000;
pub(crate) const WINDOW_SIZE: u64 = 1 << 32;

/// The bits of a shared address that name a block of the cluster: 0 is the thread's own block, another number
/// is the rank of the block plus one. The 24 bits below are the offset.
const BLOCK: u64 = 0xff << 24;

/// Returns the address with the same offset in the shared memory of the block with this rank in the cluster.
pub(crate) fn peer(address: u64, rank: u32) -> u64 {
    address & !BLOCK | (u64::from(rank) + 1) << 24 & BLOCK
}

/// The address space of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    /// Local memory, with addresses relative to the frame of the running function.
    Frame,
    /// The arguments of the kernel.
    Parameter,
    /// Any of the other spaces, depending on the address.
    Generic,
}

/// A location in memory: an address space and the offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Global(u64),
    /// The block bits of the shared address, and the offset.
    Shared(usize, u64),
    Local(u64),
    Parameter(u64),
}

impl Space {
    /// Returns whether an address of this space may be in global memory.
    pub(crate) fn may_be_global(self) -> bool {
        matches!(self, Self::Global | Self::Generic)
    }

    #[inline]
    pub(crate) fn place(self, address: u64, frame: u64) -> Place {
        match self {
            Self::Global => Place::Global(address),
            Self::Shared => Place::Shared((address & BLOCK) as usize >> 24, address & !BLOCK),
            Self::Local => Place::Local(address),
            Self::Frame => Place::Local(frame.wrapping_add(address)),
            Self::Parameter => Place::Parameter(address),
            Self::Generic => {
                for (window, space) in [
                    (SHARED_WINDOW, Self::Shared),
                    (LOCAL_WINDOW, Self::Local),
                    (PARAMETER_WINDOW, Self::Parameter),
                ] {
                    let offset = address.wrapping_sub(window);
                    if offset < WINDOW_SIZE {
                        return space.place(offset, frame);
                    }
                }
                Place::Global(address)
            }
        }
    }
}

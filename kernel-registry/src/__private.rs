//! What the expansion of `#[gpu_kernel]` calls. Nobody else should: it changes without notice.

pub use inventory;
pub use kernel_registry_format::{Image, Kernel, Params, encode_kernel, encoded_len};

pub use crate::KernelInfo;

/// One kernel in the list that inventory collects before `main`.
pub struct Registration(pub &'static KernelInfo);

inventory::collect!(Registration);

/// The image that an expansion embeds.
pub trait ImageSource {
    const BYTES: &'static [u8];
}

/// The bytes of an image.
///
/// Sixty `include_bytes!` of one file would be sixty copies in a debug binary, where every module
/// is compiled on its own. But the compiler puts all instances of a generic function of another
/// crate into one unit, and there it merges constants that are equal; so this has to be generic,
/// not inlined, and here.
#[inline(never)]
fn image_bytes<S: ImageSource>() -> &'static [u8] {
    S::BYTES
}

pub const fn info<S: ImageSource>(kernel: Kernel<'static>, record: &'static [u8]) -> KernelInfo {
    KernelInfo::new(kernel, image_bytes::<S>, record)
}

/// The threads of a block, checked at compile time where the macro saw no number.
pub const fn block(axes: [u32; 3]) -> [u32; 3] {
    let [x, y, z] = axes;
    assert!(x > 0 && y > 0 && z > 0, "a block has at least one thread along each axis");
    assert!(x <= 1024 && y <= 1024 && z <= 64, "a block has at most 1024 x 1024 x 64 threads along its axes");
    assert!(x * y * z <= 1024, "a block has at most 1024 threads in all");
    axes
}

/// How many kernels there are in all parts together.
pub const fn total(parts: &[&[&KernelInfo]]) -> usize {
    let mut total = 0;
    let mut part = 0;
    while part < parts.len() {
        total += parts[part].len();
        part += 1;
    }
    total
}

/// The parts one after the other. `N` is their [`total`].
pub const fn join<const N: usize>(parts: &[&[&'static KernelInfo]]) -> [&'static KernelInfo; N] {
    let Some(mut rest) = parts.split_first() else {
        assert!(N == 0);
        // Never read: there are no elements.
        return [NONE; N];
    };
    let mut joined = [NONE; N];
    let mut at = 0;
    loop {
        let (first, others) = rest;
        joined.split_at_mut(at).1.split_at_mut(first.len()).0.copy_from_slice(first);
        at += first.len();
        match others.split_first() {
            Some(next) => rest = next,
            None => return joined,
        }
    }
}

/// Fills an array until its elements are known.
const NONE: &KernelInfo = {
    static NONE: KernelInfo = KernelInfo::new(Kernel::EMPTY, || &[], &[]);
    &NONE
};

/// Describes parameters, and requires of their types what kernels require.
pub mod param {
    use kernel_registry_format::Param;

    use crate::KernelParam;

    pub const fn value<T: KernelParam>(name: &'static str, ty: &'static str) -> Param<'static> {
        Param::value::<T>(name, ty)
    }

    pub const fn slice<T: KernelParam>(name: &'static str, ty: &'static str) -> Param<'static> {
        Param::slice::<T>(name, ty)
    }

    pub const fn slice_mut<T: KernelParam>(name: &'static str, ty: &'static str) -> Param<'static> {
        Param::slice_mut::<T>(name, ty)
    }

    pub const fn pointer<T>(name: &'static str, ty: &'static str) -> Param<'static> {
        Param::pointer::<T>(name, ty)
    }

    pub const fn pointer_mut<T>(name: &'static str, ty: &'static str) -> Param<'static> {
        Param::pointer_mut::<T>(name, ty)
    }
}

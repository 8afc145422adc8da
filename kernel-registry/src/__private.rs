//! What the expansion of `#[gpu_kernel]` calls. Nobody else should: it changes without notice.

pub use inventory;
pub use kernel_registry_format::{Encoded, encode};

pub use crate::KernelInfo;
pub use crate::launch::Launch;
use crate::records;
pub use crate::table::Table;

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

/// What the record of a kernel says, with its image.
pub const fn info<S: ImageSource, const FIXED: usize, const PATH: usize, const PARAMS: usize>(
    record: &'static Encoded<FIXED, PATH, PARAMS>,
    table: &'static Table,
) -> KernelInfo {
    KernelInfo::new(records::bytes(record), image_bytes::<S>, table)
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
    static COLD: Table = Table::COLD;
    static NONE: KernelInfo = KernelInfo::new(&[], || &[], &COLD);
    &NONE
};

/// Size and alignment of what a parameter is or points to, of types that a kernel can take, compared with
/// what the image says of it.
pub mod param {
    use crate::KernelParam;
    use crate::param::RustType;

    /// The number types of C++, named as `kernel_registry_image::Scalar` names them.
    #[derive(Clone, Copy)]
    pub enum Scalar {
        Void,
        Bool,
        Char,
        SignedChar,
        UnsignedChar,
        Short,
        UnsignedShort,
        Int,
        UnsignedInt,
        Long,
        UnsignedLong,
        LongLong,
        UnsignedLongLong,
        Float,
        Double,
    }

    /// Of a type of which nothing is known.
    pub const fn any<T: KernelParam>() -> [u32; 2] {
        pointee::<T>()
    }

    /// Of what a pointer points to, which needs not be a parameter itself.
    pub const fn pointee<T>() -> [u32; 2] {
        [size_of::<T>() as u32, align_of::<T>() as u32]
    }

    pub const fn scalar<T: KernelParam>(scalar: Scalar, message: &'static str) -> [u32; 2] {
        let meets = match scalar {
            Scalar::Void => true,
            Scalar::Bool => matches!(T::RUST, RustType::Bool),
            // Whether it has a sign is the platform's affair, and bytes are bytes.
            Scalar::Char => matches!(T::RUST, RustType::I8 | RustType::U8),
            Scalar::SignedChar => matches!(T::RUST, RustType::I8),
            Scalar::UnsignedChar => matches!(T::RUST, RustType::U8),
            Scalar::Short => matches!(T::RUST, RustType::I16),
            Scalar::UnsignedShort => matches!(T::RUST, RustType::U16),
            Scalar::Int => matches!(T::RUST, RustType::I32),
            Scalar::UnsignedInt => matches!(T::RUST, RustType::U32),
            Scalar::Long | Scalar::LongLong => matches!(T::RUST, RustType::I64),
            Scalar::UnsignedLong | Scalar::UnsignedLongLong => matches!(T::RUST, RustType::U64),
            Scalar::Float => matches!(T::RUST, RustType::F32),
            Scalar::Double => matches!(T::RUST, RustType::F64),
        };
        assert!(meets, "{}", message);
        any::<T>()
    }

    pub const fn address<T: KernelParam>(message: &'static str) -> [u32; 2] {
        assert!(matches!(T::RUST, RustType::Pointer), "{}", message);
        any::<T>()
    }

    pub const fn sized<T: KernelParam>(size: u32, align: u32, message: &'static str) -> [u32; 2] {
        let layout = any::<T>();
        assert!(layout[0] == size && (align == 0 || layout[1] == align), "{}", message);
        layout
    }
}

/// Registers a kernel whose type there is already. A macro of the library, because the compiler expands it
/// many times faster than the attribute could write the same tokens.
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    (
        $kernel:ident
        path: $path:literal
        fixed: $fixed:literal $fixed_len:literal
        params: [$($layout:expr,)*] $param_count:literal
        block: $block:tt
        shared: $shared:tt
        image: $image:literal
        about: $about:literal
    ) => {
        #[allow(deprecated)]
        const _: () = {
            #[used]
            // Every object format has its own name for the section: see `kernel_registry_format::section`.
            #[cfg_attr(
                not(any(windows, target_vendor = "apple", target_family = "wasm")),
                unsafe(link_section = "kernel_registry_v1")
            )]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__kernel_reg_v1"))]
            #[cfg_attr(windows, unsafe(link_section = ".krnl1$b"))]
            static __RECORD: $crate::__private::Encoded<
                $fixed_len,
                { ::core::concat!(::core::module_path!(), $path).len() },
                $param_count,
            > = $crate::__private::encode(
                $fixed,
                ::core::concat!(::core::module_path!(), $path),
                $crate::__option!($block),
                $crate::__option!($shared),
                [$($layout),*],
            );

            static __TABLE: $crate::__private::Table = $crate::__private::Table::COLD;

            impl $crate::__private::ImageSource for $kernel {
                const BYTES: &'static [::core::primitive::u8] = ::core::include_bytes!($image);
            }

            $crate::__private::inventory::submit! { $crate::__private::Registration($kernel::INFO) }

            #[doc = $about]
            impl $kernel {
                /// What is known of this kernel without loading it.
                pub const INFO: &'static $crate::KernelInfo =
                    &$crate::__private::info::<$kernel, _, _, _>(&__RECORD, &__TABLE);
            }
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __option {
    (()) => {
        ::core::option::Option::None
    };
    (($value:expr)) => {
        ::core::option::Option::Some($value)
    };
}

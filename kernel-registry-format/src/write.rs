//! Encodes records, in two halves.
//!
//! [`fixed_fields`] runs in the macro, and writes the facts of the declaration. [`encode`] is evaluated by
//! the compiler, and adds the module's path and the sizes of types. The record is a struct of arrays because
//! the compiler's interpreter copies a whole array in one step, but needs a step for each call and for every
//! few bytes of a loop. With a loop over bytes or fields, a thousand kernels took 25 seconds to compile.

use alloc::vec::Vec;

use crate::layout::{self, FIELD_HEADER_LEN, HEADER_LEN, MAGIC, NOT_FIXED, VERSION, kind};
use crate::{KernelRecord, LibraryRecord, Needs, Param, StackFrames};

/// Writes the fields that the macro knows from the declaration and the image: all but path, launch, stack,
/// copy and layouts.
pub fn fixed_fields(kernel: &KernelRecord<'_>, out: &mut impl Extend<u8>) {
    text(layout::kernel::SYMBOL, kernel.symbol, out);
    text(layout::kernel::PACKAGE, kernel.package, out);
    text(layout::kernel::VERSION, kernel.version, out);
    text(layout::kernel::FILE, kernel.file, out);
    numbers(layout::kernel::POSITION, &[kernel.line, kernel.column], out);
    if !kernel.summary.is_empty() {
        text(layout::kernel::SUMMARY, kernel.summary, out);
    }
    for Param { name, ty, pass, nullable, length, .. } in kernel.params {
        let fields = 3 + usize::from(nullable) + usize::from(length.is_some());
        let size = fields * FIELD_HEADER_LEN + name.len() + ty.len() + 1 + usize::from(length.is_some());
        out.extend(field_header(layout::kernel::PARAM, size));
        text(layout::param::NAME, name, out);
        text(layout::param::TYPE, ty, out);
        bytes(layout::param::PASS, &[pass.code()], out);
        if nullable {
            bytes(layout::param::NULLABLE, &[], out);
        }
        if let Some(length) = length {
            bytes(layout::param::LENGTH, &[length.code()], out);
        }
    }
    if !kernel.source_names.is_empty() {
        text(layout::kernel::SOURCE_NAMES, kernel.source_names, out);
    }
    if let Some(arch) = kernel.min_arch {
        numbers(layout::kernel::MIN_ARCH, &[arch], out);
    }
    if kernel.needs != Needs::NONE {
        bytes(layout::kernel::NEEDS, &[kernel.needs.bits()], out);
    }
    if kernel.frames != StackFrames::KNOWN {
        let StackFrames { recursive, launched } = kernel.frames;
        let frames = [recursive.unwrap_or(NOT_FIXED), launched.unwrap_or(NOT_FIXED)];
        numbers(layout::kernel::FRAMES, &frames, out);
    }
    if let Some(image) = kernel.image {
        text(layout::kernel::IMAGE_FILE, image.file, out);
        bytes(layout::kernel::IMAGE_LEN, &image.len.to_le_bytes(), out);
        text(layout::kernel::IMAGE_VARIANTS, image.variants, out);
        if image.separable {
            bytes(layout::kernel::IMAGE_SEPARABLE, &[], out);
        }
    }
}

/// The bytes of a kernel's record in its section. All fields are byte arrays with alignment 1, so there is no
/// padding.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Encoded<const FIXED: usize, const PATH: usize, const PARAMS: usize> {
    header: [u8; HEADER_LEN],
    fixed: [u8; FIXED],
    path_header: [u8; FIELD_HEADER_LEN],
    path: [u8; PATH],
    launch_header: [u8; FIELD_HEADER_LEN],
    launch: [[u8; 4]; 4],
    stack_header: [u8; FIELD_HEADER_LEN],
    stack: [u8; 4],
    copy_header: [u8; FIELD_HEADER_LEN],
    copy: [u8; 8],
    layouts_header: [u8; FIELD_HEADER_LEN],
    layouts: [[[u8; 4]; 2]; PARAMS],
}

impl<const FIXED: usize, const PATH: usize, const PARAMS: usize> Encoded<FIXED, PATH, PARAMS> {
    /// Returns the threads of a block in x, y and z, and the bytes of dynamic shared memory. Each is
    /// [`NOT_FIXED`] if the declaration doesn't fix it.
    pub const fn launch(&self) -> &[[u8; 4]; 4] {
        &self.launch
    }

    /// Returns the bytes of the record in order.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        let (launch, layouts) = (self.launch.as_flattened(), self.layouts.as_flattened().as_flattened());
        let parts: [&[u8]; 12] = [
            &self.header,
            &self.fixed,
            &self.path_header,
            &self.path,
            &self.launch_header,
            launch,
            &self.stack_header,
            &self.stack,
            &self.copy_header,
            &self.copy,
            &self.layouts_header,
            layouts,
        ];
        parts.into_iter().flatten().copied()
    }
}

/// Builds a record. `fixed` is the output of [`fixed_fields`]. Block, `shared` and `stack` are [`NOT_FIXED`]
/// if the declaration doesn't fix them. `layouts` has the size and alignment of each parameter's value or
/// element.
pub const fn encode<const FIXED: usize, const PATH: usize, const PARAMS: usize>(
    fixed: &[u8; FIXED],
    path: &str,
    [x, y, z]: [u32; 3],
    shared: u32,
    stack: u32,
    copy: u64,
    layouts: [[u32; 2]; PARAMS],
) -> Encoded<FIXED, PATH, PARAMS> {
    let Some(path) = path.as_bytes().first_chunk() else { panic!("`PATH` is the length of the path") };
    let mut layout_bytes = [[[0; 4]; 2]; PARAMS];
    let mut index = 0;
    while index < PARAMS {
        let [size, align] = layouts[index];
        layout_bytes[index] = [size.to_le_bytes(), align.to_le_bytes()];
        index += 1;
    }
    let payload = size_of::<Encoded<FIXED, PATH, PARAMS>>() - HEADER_LEN;
    Encoded {
        header: header(kind::KERNEL, payload),
        fixed: *fixed,
        path_header: field_header(layout::kernel::PATH, PATH),
        path: *path,
        launch_header: field_header(layout::kernel::LAUNCH, 16),
        launch: [x.to_le_bytes(), y.to_le_bytes(), z.to_le_bytes(), shared.to_le_bytes()],
        stack_header: field_header(layout::kernel::STACK, 4),
        stack: stack.to_le_bytes(),
        copy_header: field_header(layout::kernel::COPY, 8),
        copy: copy.to_le_bytes(),
        layouts_header: field_header(layout::kernel::LAYOUTS, 8 * PARAMS),
        layouts: layout_bytes,
    }
}

/// Writes the whole record of a kernel.
pub fn write_kernel(kernel: &KernelRecord<'_>, out: &mut impl Extend<u8>) {
    let mut payload = Vec::new();
    kernel_fields(kernel, &mut payload);
    out.extend(header(kind::KERNEL, payload.len()));
    out.extend(payload);
}

fn kernel_fields(kernel: &KernelRecord<'_>, out: &mut impl Extend<u8>) {
    fixed_fields(kernel, out);
    text(layout::kernel::PATH, kernel.path, out);
    let [x, y, z] = kernel.block.unwrap_or([NOT_FIXED; 3]);
    numbers(layout::kernel::LAUNCH, &[x, y, z, kernel.shared.unwrap_or(NOT_FIXED)], out);
    numbers(layout::kernel::STACK, &[kernel.stack.unwrap_or(NOT_FIXED)], out);
    bytes(layout::kernel::COPY, &kernel.copy.to_le_bytes(), out);
    out.extend(field_header(layout::kernel::LAYOUTS, 8 * kernel.params.len()));
    for param in kernel.params {
        out.extend(param.element_size.to_le_bytes());
        out.extend(param.element_align.to_le_bytes());
    }
}

/// Returns the length of a library's record in bytes.
pub const fn encoded_library_len(library: &LibraryRecord<'_>) -> usize {
    HEADER_LEN + 3 * FIELD_HEADER_LEN + library.version.len() + library.compiler.len() + 8
}

/// Builds a library's record. `N` must be [`encoded_library_len`].
pub const fn encode_library<const N: usize>(library: &LibraryRecord<'_>) -> [u8; N] {
    let mut record = [0; N];
    let mut at = put(&mut record, 0, &header(kind::LIBRARY, N - HEADER_LEN));
    at = put(&mut record, at, &field_header(layout::library::VERSION, library.version.len()));
    at = put(&mut record, at, library.version.as_bytes());
    at = put(&mut record, at, &field_header(layout::library::COMPILER, library.compiler.len()));
    at = put(&mut record, at, library.compiler.as_bytes());
    at = put(&mut record, at, &field_header(layout::library::COPY, 8));
    at = put(&mut record, at, &library.copy.to_le_bytes());
    assert!(at == N, "a record takes exactly `encoded_library_len` bytes");
    record
}

const fn header(kind: u16, payload: usize) -> [u8; HEADER_LEN] {
    let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
    let [v0, v1] = VERSION.to_le_bytes();
    let [k0, k1] = kind.to_le_bytes();
    let [l0, l1, l2, l3] = (payload as u32).to_le_bytes();
    [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, k0, k1, l0, l1, l2, l3]
}

const fn field_header(tag: u8, length: usize) -> [u8; FIELD_HEADER_LEN] {
    let [l0, l1, l2, l3] = (length as u32).to_le_bytes();
    [tag, l0, l1, l2, l3]
}

fn text(tag: u8, text: &str, out: &mut impl Extend<u8>) {
    bytes(tag, text.as_bytes(), out);
}

fn numbers(tag: u8, numbers: &[u32], out: &mut impl Extend<u8>) {
    out.extend(field_header(tag, 4 * numbers.len()));
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn bytes(tag: u8, bytes: &[u8], out: &mut impl Extend<u8>) {
    out.extend(field_header(tag, bytes.len()));
    out.extend(bytes.iter().copied());
}

/// Copies bytes into `to` at the offset `at`. Returns the end offset.
const fn put(to: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let mut index = 0;
    while index < bytes.len() {
        to[at + index] = bytes[index];
        index += 1;
    }
    at + index
}

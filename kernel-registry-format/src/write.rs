//! The encoder. It runs at compile time, once to find the length and once to fill the array.

use crate::layout::{self, FIELD_HEADER_LEN, HEADER_LEN, MAGIC, VERSION, kind};
use crate::param::Repr;
use crate::{Kernel, Library, Param};

/// The length of a kernel's record.
pub const fn encoded_len(kernel: &Kernel<'_>) -> usize {
    let mut writer = Writer { bytes: &mut [], at: 0 };
    writer.kernel(kernel);
    writer.at
}

/// A kernel's record. `N` must be [`encoded_len`].
pub const fn encode_kernel<const N: usize>(kernel: &Kernel<'_>) -> [u8; N] {
    let mut bytes = [0; N];
    write_kernel(kernel, &mut bytes);
    bytes
}

/// Writes a kernel's record into `bytes`, which must be [`encoded_len`] long.
pub const fn write_kernel(kernel: &Kernel<'_>, bytes: &mut [u8]) {
    let length = bytes.len();
    let mut writer = Writer { bytes, at: 0 };
    writer.kernel(kernel);
    assert!(writer.at == length, "the record needs exactly `encoded_len` bytes");
}

/// The length of a library's record.
pub const fn encoded_library_len(library: &Library<'_>) -> usize {
    let mut writer = Writer { bytes: &mut [], at: 0 };
    writer.library(library);
    writer.at
}

/// A library's record. `N` must be [`encoded_library_len`].
pub const fn encode_library<const N: usize>(library: &Library<'_>) -> [u8; N] {
    let mut bytes = [0; N];
    let mut writer = Writer { bytes: &mut bytes, at: 0 };
    writer.library(library);
    assert!(writer.at == N, "the record needs exactly `encoded_library_len` bytes");
    bytes
}

/// Writes fields one after the other. Without room it only counts, so that length and content
/// come from the same code.
struct Writer<'b> {
    bytes: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    const fn kernel(&mut self, kernel: &Kernel<'_>) {
        self.header(kind::KERNEL);
        self.text(layout::kernel::PATH, kernel.path);
        self.text(layout::kernel::SYMBOL, kernel.symbol);
        self.text(layout::kernel::PACKAGE, kernel.package);
        self.text(layout::kernel::VERSION, kernel.version);
        self.text(layout::kernel::FILE, kernel.file);
        self.numbers(layout::kernel::POSITION, &[kernel.line, kernel.column]);
        if !kernel.summary.is_empty() {
            self.text(layout::kernel::SUMMARY, kernel.summary);
        }
        match kernel.params.0 {
            Repr::Declared(params) => {
                let mut index = 0;
                while index < params.len() {
                    self.param(&params[index]);
                    index += 1;
                }
            }
            Repr::Recorded(mut fields) => {
                while let Some((header, rest)) = fields.split_first_chunk::<FIELD_HEADER_LEN>() {
                    let [tag, length @ ..] = *header;
                    let (bytes, rest) = rest.split_at(u32::from_le_bytes(length) as usize);
                    if tag == layout::kernel::PARAM {
                        self.field(tag, bytes);
                    }
                    fields = rest;
                }
            }
        }
        if let Some(arch) = kernel.min_arch {
            self.numbers(layout::kernel::MIN_ARCH, &[arch]);
        }
        if let Some(block) = &kernel.block {
            self.numbers(layout::kernel::BLOCK, block);
        }
        if let Some(shared) = kernel.shared {
            self.numbers(layout::kernel::SHARED, &[shared]);
        }
        if let Some(image) = &kernel.image {
            self.text(layout::kernel::IMAGE_FILE, image.file);
            self.field(layout::kernel::IMAGE_LEN, &image.len.to_le_bytes());
        }
        self.patch_length(HEADER_LEN - 4, HEADER_LEN);
    }

    const fn param(&mut self, param: &Param<'_>) {
        self.put(&[layout::kernel::PARAM]);
        let length = self.at;
        self.put(&[0; 4]);
        self.text(layout::param::NAME, param.name);
        self.text(layout::param::TYPE, param.ty);
        self.field(layout::param::PASS, &[param.pass.code()]);
        let layout = [param.size, param.align, param.element_size, param.element_align];
        self.numbers(layout::param::LAYOUT, &layout);
        self.patch_length(length, length + 4);
    }

    const fn library(&mut self, library: &Library<'_>) {
        self.header(kind::LIBRARY);
        self.text(layout::library::VERSION, library.version);
        self.text(layout::library::COMPILER, library.compiler);
        self.patch_length(HEADER_LEN - 4, HEADER_LEN);
    }

    /// The header, its length yet to be patched.
    const fn header(&mut self, kind: u16) {
        self.put(&MAGIC);
        self.put(&VERSION.to_le_bytes());
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]);
    }

    const fn text(&mut self, tag: u8, text: &str) {
        self.field(tag, text.as_bytes());
    }

    const fn numbers(&mut self, tag: u8, numbers: &[u32]) {
        self.put(&[tag]);
        self.put(&(4 * numbers.len() as u32).to_le_bytes());
        let mut index = 0;
        while index < numbers.len() {
            self.put(&numbers[index].to_le_bytes());
            index += 1;
        }
    }

    const fn field(&mut self, tag: u8, bytes: &[u8]) {
        self.put(&[tag]);
        self.put(&(bytes.len() as u32).to_le_bytes());
        self.put(bytes);
    }

    /// Writes at `at`, now that it is known, the length of everything from `start` on.
    const fn patch_length(&mut self, at: usize, start: usize) {
        if !self.bytes.is_empty() {
            let length = ((self.at - start) as u32).to_le_bytes();
            self.bytes.split_at_mut(at).1.split_at_mut(4).0.copy_from_slice(&length);
        }
    }

    const fn put(&mut self, bytes: &[u8]) {
        if !self.bytes.is_empty() {
            // `split_at_mut` and `copy_from_slice` are single steps for the compile-time
            // interpreter; a loop over bytes would be most of the cost of a kernel.
            self.bytes.split_at_mut(self.at).1.split_at_mut(bytes.len()).0.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
}

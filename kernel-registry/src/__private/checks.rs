//! Checks that the compiler evaluates, because they need the layout of a type or the value of a constant, which the macro does not
//! know. The macro puts each check into a separate constant that nothing refers to, and each function is `#[track_caller]`. So the
//! compiler shows the message of a failed check once, at the declaration, and nothing else.

pub use kernel_registry_format::Scalar;
use kernel_registry_format::same_layout;

use super::param::Field;
use crate::KernelParam;
use crate::param::{RustType, layout};

/// The message of a failed check, cut to the length of the buffer.
struct Message {
    bytes: [u8; 2048],
    len: usize,
}

impl Message {
    const fn new(text: &str) -> Self {
        Message { bytes: [0; 2048], len: 0 }.text(text)
    }

    const fn text(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        let mut index = 0;
        while index < text.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = text[index];
            self.len += 1;
            index += 1;
        }
        self
    }

    const fn number(self, number: u32) -> Self {
        const DIGITS: &str = "0123456789";
        let written = if number < 10 { self } else { self.number(number / 10) };
        let (_, from) = DIGITS.split_at((number % 10) as usize);
        written.text(from.split_at(1).0)
    }

    #[track_caller]
    const fn panic(&self) -> ! {
        match str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(message) => panic!("{}", message),
            Err(_) => panic!("the declaration does not fit the kernel"),
        }
    }
}

/// Checks that a Rust type can stand for a C++ number type.
#[track_caller]
pub const fn scalar<T: KernelParam>(scalar: Scalar, message: &'static str) {
    if !scalar.accepts(T::RUST) {
        panic!("{}", message);
    }
}

/// Checks that a type is a device pointer.
#[track_caller]
pub const fn address<T: KernelParam>(message: &'static str) {
    if !matches!(T::RUST, RustType::Pointer) {
        panic!("{}", message);
    }
}

/// Checks the size and alignment of a type. An alignment of 0 means that the alignment is not known.
#[track_caller]
pub const fn sized<T: KernelParam>(size: u32, align: u32, message: &'static str) {
    let [own_size, own_align] = layout::<T>();
    if same_layout([own_size, own_align], [size, align]) {
        return;
    }
    let message = Message::new(message).text("; here it has ").number(own_size).text(" bytes, aligned to ");
    let message = message.number(own_align);
    if own_align < align && own_size.next_multiple_of(align) == size {
        message.text(": a struct with `#[repr(C, align(").number(align).text("))]` fits").panic();
    }
    message.panic();
}

/// A field of a struct in CUDA: its name, its declaration, its offset, its size, and whether it is a floating-point number. The
/// size is 0 unless the field is a number or a pointer.
pub type CudaField = (&'static str, &'static str, u32, u32, bool);

/// Checks the size and alignment of a struct, and its fields, if the Rust type lists them.
#[track_caller]
pub const fn fields<T: KernelParam>(size: u32, align: u32, there: &[CudaField], message: &'static str) {
    sized::<T>(size, align, message);
    let mut index = 0;
    while index < there.len() && !T::FIELDS.is_empty() {
        field(T::FIELDS, there[index], message);
        index += 1;
    }
}

/// Checks a field in CUDA against the fields in Rust. Fields of the same name must begin at the same byte. Numbers and pointers that
/// begin at the same byte must have the same size, and both must be floating point, or neither. No field in CUDA may lie in padding
/// of the Rust type. An array or struct in Rust may stand for several fields in CUDA.
#[track_caller]
const fn field(here: &[Field], (name, declared, offset, size, is_float): CudaField, message: &'static str) {
    let mut is_there = false;
    let mut index = 0;
    while index < here.len() {
        let own = &here[index];
        let own_is_float = matches!(own.rust, RustType::F32 | RustType::F64);
        let is_wrong = match own.rust.size() {
            _ if own.offset != offset => equal(own.name.as_bytes(), name.as_bytes()),
            Some(own_size) if size != 0 => own_size != size || own_is_float != is_float,
            _ => false,
        };
        if is_wrong {
            let message = Message::new(message).text("; `").text(own.name).text(": ").text(own.spelled);
            let message =
                message.text("` is at byte ").number(own.offset).text(" here, and `").text(declared);
            fail_at_field(message, offset);
        }
        is_there |= own.offset <= offset && offset < own.offset + own.size;
        index += 1;
    }
    if !is_there {
        fail_at_field(Message::new(message).text("; no field is there here for `").text(declared), offset);
    }
}

#[track_caller]
const fn fail_at_field(message: Message, offset: u32) -> ! {
    let message = message.text("` at byte ").number(offset);
    message.text(" there: declare the fields in CUDA's order, with CUDA's types").panic()
}

/// Checks a type that CUDA's headers define: by size and alignment, and also by name if the Rust type has names in these headers.
#[track_caller]
pub const fn named<T: KernelParam>(name: &'static str, size: u32, align: u32, message: &'static str) {
    let names = T::RUST.cuda_names();
    if !names.is_empty() && !has(names, name) {
        panic!("{}", message);
    }
    sized::<T>(size, align, message);
}

const fn has(names: &[&str], name: &str) -> bool {
    let mut index = 0;
    while index < names.len() {
        if equal(names[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// Checks the threads of a block against the limits of the hardware.
#[track_caller]
pub const fn block(block: [u32; 3]) {
    let [x, y, z] = block;
    if x == 0 || y == 0 || z == 0 {
        fail_for_block("a block has at least one thread along each axis", block);
    }
    if x > 1024 || y > 1024 || z > 64 {
        fail_for_block("a block has at most 1024 x 1024 x 64 threads along its axes", block);
    }
    if x * y * z > 1024 {
        fail_for_block("a block has at most 1024 threads in all", block);
    }
}

/// Checks the threads of a block, for a kernel that was compiled for blocks of exactly this shape.
#[track_caller]
pub const fn block_exactly(given: [u32; 3], [a, b, c]: [u32; 3], message: &'static str) {
    block(given);
    let [x, y, z] = given;
    if x != a || y != b || z != c {
        fail_for_block(message, given);
    }
}

/// Checks the threads of a block, for a kernel that was compiled for blocks of at most this many threads.
#[track_caller]
pub const fn block_at_most(given: [u32; 3], threads: u32, message: &'static str) {
    block(given);
    let [x, y, z] = given;
    if x * y * z > threads {
        fail_for_block(message, given);
    }
}

#[track_caller]
const fn fail_for_block(message: &'static str, [x, y, z]: [u32; 3]) -> ! {
    let message = Message::new(message).text(", and this one has ").number(x).text(" x ").number(y);
    message.text(" x ").number(z).panic()
}

/// Checks a number of bytes. The number is written after `message`.
#[track_caller]
pub const fn bytes(bytes: u32, most: u32, message: &'static str) {
    if bytes > most {
        Message::new(message).number(bytes).panic();
    }
}

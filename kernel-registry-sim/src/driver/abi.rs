//! Where pointers of callers become values and results: what the functions of the driver have as arguments.
//!
//! Who calls a function of the driver promises what its documentation asks for: that a pointer which is not null points to
//! what the function reads or writes there. Each function here relies on that, and looks for null.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::slice;

use super::result::{Answer, Code};

/// Where a result goes.
#[repr(transparent)]
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(super) fn set(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and then the caller promises room for a `T`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// For results that a caller may do without.
    pub(super) fn set_if_wanted(&self, value: T) {
        let _ = self.set(value);
    }

    /// As many of these as there is room for.
    pub(super) fn set_all(&self, values: impl IntoIterator<Item = T>, room: usize) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for (index, value) in values.into_iter().take(room).enumerate() {
            // SAFETY: it is not null, and the caller promises room for that many.
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }
}

impl<T> From<*mut T> for Out<T> {
    fn from(pointer: *mut T) -> Self {
        Out(pointer)
    }
}

impl<T> Out<T> {
    /// For a result that nobody wants.
    pub(super) fn null() -> Self {
        Out(ptr::null_mut())
    }

    /// The same place for a result of another type, where that depends on another argument.
    pub(super) fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// What is there before, where a value is exchanged.
    pub(super) fn get(&self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and then the caller promises a `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// A structure, or an array of them.
#[repr(transparent)]
pub(super) struct In<T>(*const T);

impl<T> From<*const T> for In<T> {
    fn from(pointer: *const T) -> Self {
        In(pointer)
    }
}

impl<T: Copy> In<T> {
    pub(super) fn null() -> Self {
        In(ptr::null())
    }

    pub(super) fn get(&self) -> Answer<T> {
        self.all(1).map(|all| all[0])
    }

    /// That many. None of nothing is no error.
    pub(super) fn all(&self, count: usize) -> Answer<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and then the caller promises that many.
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

/// A name.
#[repr(transparent)]
pub(super) struct Name(*const c_char);

impl Name {
    pub(super) fn get(&self) -> Answer<&str> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and then the caller promises a text that ends with a zero, and stays for the call.
        unsafe { CStr::from_ptr(self.0) }.to_str().map_err(|_| Code::INVALID_VALUE)
    }
}

/// Writes a text that ends with a zero, as much of it as there is room for.
pub(super) fn write_text(to: Out<u8>, room: usize, text: &str) -> Answer {
    let end = text.len().min(room.checked_sub(1).ok_or(Code::INVALID_VALUE)?);
    to.set_all(text.bytes().take(end).chain([0]), room)
}

/// An image of kernels, whose size only its own bytes say.
#[repr(transparent)]
pub(super) struct Image(*const c_void);

impl Image {
    /// A copy of it.
    pub(super) fn get(&self) -> Answer<Vec<u8>> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and then the caller promises a whole image: text up to a zero, or a file that begins with
        // a header which says how long it is. None of them is shorter than what is compared here, as far as it is equal.
        unsafe {
            let bytes = self.0.cast::<u8>();
            let starts_with =
                |magic: &[u8]| magic.iter().enumerate().all(|(at, byte)| *bytes.add(at) == *byte);
            let size = if starts_with(&FATBIN) {
                16 + bytes.add(8).cast::<u64>().read_unaligned() as usize
            } else if starts_with(b"\x7fELF") {
                // The section headers are the end of what compilers write; the program headers, of what `nvlink` does.
                let end = |at: usize, size: usize, count: usize| {
                    let at = bytes.add(at).cast::<u64>().read_unaligned() as usize;
                    let word = |at: usize| bytes.add(at).cast::<u16>().read_unaligned() as usize;
                    at + word(size) * word(count)
                };
                end(32, 54, 56).max(end(40, 58, 60))
            } else {
                CStr::from_ptr(bytes.cast()).count_bytes()
            };
            Ok(slice::from_raw_parts(bytes, size).to_vec())
        }
    }
}

const FATBIN: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();

/// The arguments of a launch: a pointer to each value.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Arguments(*const *const c_void);

impl From<&[usize]> for Arguments {
    /// Addresses of values.
    fn from(addresses: &[usize]) -> Self {
        Arguments(addresses.as_ptr().cast())
    }
}

impl Arguments {
    /// One after the other, each at its offset and with its size.
    pub(super) fn get(&self, parameters: &[(usize, usize)]) -> Answer<Vec<u8>> {
        let size = parameters.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
        let mut bytes = vec![0; size];
        if !parameters.is_empty() && self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for (index, (offset, size)) in parameters.iter().enumerate() {
            // SAFETY: it is not null, and then the caller promises as many pointers as the kernel has parameters.
            let value = unsafe { self.0.add(index).read_unaligned() };
            if value.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: it is not null, and then the caller promises a value of the parameter's size.
            unsafe { ptr::copy_nonoverlapping(value.cast(), bytes[*offset..].as_mut_ptr(), *size) };
        }
        Ok(bytes)
    }
}

/// Options of the JIT compiler: numbers, each with a value in the place of a pointer.
#[derive(Clone, Debug)]
pub(super) struct JitOptions(pub(super) Vec<(u32, usize)>);

impl JitOptions {
    pub(super) fn get(count: u32, options: &In<u32>, values: &In<usize>) -> Answer<Self> {
        let (options, values) = (options.all(count as usize)?, values.all(count as usize)?);
        Ok(JitOptions(options.into_iter().zip(values).collect()))
    }

    /// These, or others if there are none.
    pub(super) fn or(self, others: &JitOptions) -> Self {
        if self.0.is_empty() { others.clone() } else { self }
    }

    /// Writes what is wrong with an image to where the caller wants to read it. Says whether it wants to.
    pub(super) fn write_log(&self, text: &str) -> bool {
        const ERROR_LOG: u32 = 5;
        const ERROR_LOG_SIZE: u32 = 6;
        let value = |which| self.0.iter().find(|(option, _)| *option == which).map(|(_, value)| *value);
        match (value(ERROR_LOG), value(ERROR_LOG_SIZE)) {
            (Some(log), Some(size)) => {
                write_text(Out(ptr::with_exposed_provenance_mut(log)), size, text).is_ok()
            }
            _ => false,
        }
    }
}

/// A function of the host that a stream calls.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct HostFunction(Option<unsafe extern "C" fn(*mut c_void)>);

impl HostFunction {
    pub(super) fn is_null(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn call(self, data: usize) {
        if let Some(function) = self.0 {
            // SAFETY: the caller of `cuLaunchHostFunc` promises a function that takes this pointer, in any thread.
            unsafe { function(ptr::with_exposed_provenance_mut(data)) };
        }
    }
}

/// A function of the host that a stream calls with itself and how it is.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct StreamFunction(Option<unsafe extern "C" fn(usize, u32, *mut c_void)>);

impl StreamFunction {
    pub(super) fn is_null(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn call(self, stream: usize, data: usize) {
        const SUCCESS: u32 = 0;
        if let Some(function) = self.0 {
            // SAFETY: the caller of `cuStreamAddCallback` promises a function that takes this, in any thread; a stream is a
            // number in the place of a pointer.
            unsafe { function(stream, SUCCESS, ptr::with_exposed_provenance_mut(data)) };
        }
    }
}

/// A function of the host that says how much shared memory a block of so many threads has.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct SharedMemory(Option<unsafe extern "C" fn(i32) -> usize>);

impl SharedMemory {
    pub(super) fn call(self, block: i32) -> Option<usize> {
        // SAFETY: whoever asks for an occupancy promises a function that takes a number.
        self.0.map(|function| unsafe { function(block) })
    }
}

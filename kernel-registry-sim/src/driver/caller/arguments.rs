//! Defines the types of the driver functions' arguments: pointers of the caller that are read and written safely.
//!
//! No pointer is trusted: [`caller`] copies by system calls, which report an address that is not mapped.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use crate::driver::caller::{self, Access};
use crate::driver::result::{Answer, Code};

/// A pointer to memory for a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    fn address(&self) -> usize {
        self.0.expose_provenance()
    }

    /// Checks that the result can be written. Called before an object is created, whose handle would otherwise be lost.
    pub(crate) fn ready(&self) -> Answer {
        let mut before = MaybeUninit::<T>::uninit();
        // SAFETY: the buffer has room for the bytes of a `T`.
        unsafe {
            caller::copy_from(self.address(), before.as_mut_ptr().cast(), size_of::<T>())?;
            caller::copy_to(self.address(), before.as_ptr().cast(), size_of::<T>())
        }
    }

    pub(crate) fn set(&self, value: T) -> Answer {
        // SAFETY: the bytes of a value can be read.
        unsafe { caller::copy_to(self.address(), (&raw const value).cast(), size_of::<T>()) }
    }

    /// Writes an optional result. A null pointer means that the caller does not want the result.
    pub(crate) fn set_if_wanted(&self, value: T) -> Answer {
        if self.is_null() { Ok(()) } else { self.set(value) }
    }

    /// Casts the pointer. Used where another argument decides the type of the result.
    pub(crate) fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Writes up to `room` values.
    pub(crate) fn set_all(&self, values: impl IntoIterator<Item = T>, room: usize) -> Answer {
        const AT_ONCE: usize = 1024;
        let mut values = values.into_iter().take(room);
        let mut at = self.address();
        // Writes in parts, because the caller's size may be absurdly large.
        loop {
            let part: Vec<T> = values.by_ref().take(AT_ONCE).collect();
            // SAFETY: the bytes of a vector can be read.
            unsafe { caller::copy_to(at, part.as_ptr().cast(), size_of_val(&part[..])) }?;
            if part.len() < AT_ONCE {
                return Ok(());
            }
            at = at.checked_add(size_of_val(&part[..])).ok_or(Code::INVALID_VALUE)?;
        }
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value that is there, for functions that exchange it.
    pub(crate) fn get(&self) -> Answer<T> {
        In::from(self.0.cast_const()).get()
    }
}

/// A pointer to a structure or an array of numbers and pointers, for which any bytes are a valid value.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> From<*const T> for In<T> {
    fn from(pointer: *const T) -> Self {
        In(pointer)
    }
}

impl<T: Copy> In<T> {
    pub(crate) fn get(&self) -> Answer<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the buffer has room for a `T`, and any bytes are a valid `T`.
        unsafe {
            caller::copy_from(self.0.expose_provenance(), value.as_mut_ptr().cast(), size_of::<T>())?;
            Ok(value.assume_init())
        }
    }

    /// Reads an array. An absurdly large count is an error. An empty array may have any address.
    pub(crate) fn read_all(&self, count: usize) -> Answer<Vec<T>> {
        const MOST: usize = 1 << 16;
        if count > MOST {
            return Err(Code::INVALID_VALUE);
        }
        let mut values = Vec::with_capacity(count);
        // SAFETY: the vector has room for `count` values, and any bytes are valid values.
        unsafe {
            let to: *mut T = values.as_mut_ptr();
            caller::copy_from(self.0.expose_provenance(), to.cast(), count * size_of::<T>())?;
            values.set_len(count);
        }
        Ok(values)
    }
}

/// A pointer to a text that ends with a zero byte.
#[repr(transparent)]
pub(crate) struct Name(*const c_char);

impl Name {
    pub(crate) fn get(&self) -> Answer<String> {
        String::from_utf8(caller::read_text(self.0.expose_provenance())?).map_err(|_| Code::INVALID_VALUE)
    }
}

/// Writes as much of a text as there is room for, followed by a zero byte.
pub(crate) fn write_text(to: Out<u8>, room: usize, text: &str) -> Answer {
    let end = text.len().min(room.checked_sub(1).ok_or(Code::INVALID_VALUE)?);
    to.set_all(text.bytes().take(end).chain([0]), room)
}

/// A pointer to an image of kernels. Only the image's own header gives its size.
#[repr(transparent)]
pub(crate) struct Image(*const c_void);

impl Image {
    /// Copies the image. PTX ends at a zero byte. The length of a fatbin or an ELF file is in its header.
    pub(crate) fn get(&self) -> Answer<Vec<u8>> {
        let address = self.0.expose_provenance();
        // Only a text can be shorter than 4 bytes.
        let Ok(magic) = caller::read(address, 4) else { return caller::read_text(address) };
        let size = if magic == FATBIN {
            let header = caller::read(address, 16)?;
            number(&header, 8, 8).checked_add(16)
        } else if magic == *b"\x7fELF" {
            let header = caller::read(address, 64)?;
            // ELF files of compilers end with the section headers. ELF files of `nvlink` end with the program headers.
            let end = |at, size, count| {
                let all = number(&header, size, 2) * number(&header, count, 2);
                number(&header, at, 8).checked_add(all)
            };
            end(32, 54, 56).max(end(40, 58, 60))
        } else {
            return caller::read_text(address);
        };
        const MOST: usize = 4 << 30;
        let size = size.filter(|size| *size <= MOST).ok_or(Code::INVALID_IMAGE)?;
        caller::read(address, size)
    }
}

/// Reads a little-endian number of a header.
fn number(header: &[u8], at: usize, bytes: usize) -> usize {
    header[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

const FATBIN: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();

/// The arguments of a launch: an array with a pointer to each value.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Arguments(*const *const c_void);

impl Arguments {
    /// Copies the arguments into one buffer, each to its offset. `parameters` has offset and size of each.
    pub(crate) fn get(&self, parameters: &[(usize, usize)]) -> Answer<Vec<u8>> {
        let size = parameters.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
        let addresses = In::from(self.0.cast::<usize>()).read_all(parameters.len())?;
        let mut bytes = vec![0; size];
        for (address, (offset, size)) in addresses.into_iter().zip(parameters) {
            let to = &mut bytes[*offset..offset + size];
            // SAFETY: the slice has that many bytes.
            unsafe { caller::copy_from(address, to.as_mut_ptr(), *size)? };
        }
        Ok(bytes)
    }
}

/// The `extra` argument of a launch, which passes all arguments in one buffer. It is not simulated.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Packed(*const usize);

impl Packed {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Options for the driver's JIT compiler, each with its number and its value.
#[derive(Clone)]
pub(crate) struct JitOptions(pub(crate) Vec<(u32, usize)>);

impl JitOptions {
    /// Reads the options. A driver of an older `version` refuses options that it does not know.
    pub(crate) fn get(count: u32, options: &In<u32>, values: &In<usize>, version: i32) -> Answer<Self> {
        const SPLIT_COMPILE: u32 = 34;
        let (options, values) = (options.read_all(count as usize)?, values.read_all(count as usize)?);
        if version < 13_000 && options.contains(&SPLIT_COMPILE) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(JitOptions(options.into_iter().zip(values).collect()))
    }

    /// Writes the error log to the caller's buffer. Returns whether there is such a buffer.
    pub(crate) fn write_log(&self, text: &str) -> bool {
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

/// A callback that a stream calls on the host.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HostFunction(Option<unsafe extern "C" fn(*mut c_void)>);

impl HostFunction {
    /// Returns whether the pointer is to executable memory.
    pub(crate) fn is_there(self) -> bool {
        self.0.is_some_and(|function| caller::allows(function as usize, 1, Access::Execute))
    }

    pub(crate) fn call(self, data: usize) {
        if let Some(function) = self.0 {
            // SAFETY: the caller of `cuLaunchHostFunc` promises a function that takes this pointer, in any thread.
            unsafe { function(ptr::with_exposed_provenance_mut(data)) };
        }
    }
}

/// A callback that computes the bytes of dynamic shared memory from the number of threads of a block.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SharedMemory(Option<unsafe extern "C" fn(i32) -> usize>);

impl SharedMemory {
    /// Returns whether the pointer is null, which is allowed, or to executable memory.
    pub(crate) fn is_sound(self) -> bool {
        self.0.is_none_or(|function| caller::allows(function as usize, 1, Access::Execute))
    }

    pub(crate) fn call(self, block: i32) -> Option<usize> {
        // SAFETY: callers that ask for an occupancy pass a function that takes a number.
        self.0.map(|function| unsafe { function(block) })
    }
}

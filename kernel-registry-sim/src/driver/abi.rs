//! Where pointers of callers become values and results: what the functions of the driver have as arguments.
//!
//! None of them is trusted: [`caller`] looks whether there is memory.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use super::caller::{self, Access};
use super::result::{Answer, Code};

/// Where a result goes.
#[repr(transparent)]
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    fn address(&self) -> usize {
        self.0.expose_provenance()
    }

    /// Finds out whether there is room, before something is made whose handle would be lost otherwise.
    pub(super) fn ready(&self) -> Answer {
        let mut before = MaybeUninit::<T>::uninit();
        // SAFETY: the bytes go to where there is room for them, and come back from there.
        unsafe {
            caller::copy_from(self.address(), before.as_mut_ptr().cast(), size_of::<T>())?;
            caller::copy_to(self.address(), before.as_ptr().cast(), size_of::<T>())
        }
    }

    pub(super) fn set(&self, value: T) -> Answer {
        // SAFETY: the bytes of a value can be read.
        unsafe { caller::copy_to(self.address(), (&raw const value).cast(), size_of::<T>()) }
    }

    /// For results that a caller may do without.
    pub(super) fn set_if_wanted(&self, value: T) -> Answer {
        if self.is_null() { Ok(()) } else { self.set(value) }
    }

    /// Whether that many can be written. What a caller says of that may be nonsense.
    pub(super) fn has_room(&self, count: usize) -> bool {
        let bytes = count.checked_mul(size_of::<T>());
        bytes.is_some_and(|bytes| caller::allows(self.address(), bytes, Access::Write))
    }

    /// As many of these as there is room for.
    pub(super) fn set_all(&self, values: impl IntoIterator<Item = T>, room: usize) -> Answer {
        const AT_ONCE: usize = 1024;
        let mut values = values.into_iter().take(room);
        let mut at = self.address();
        // In parts, because what a caller says of the room may be nonsense.
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

impl<T> From<*mut T> for Out<T> {
    fn from(pointer: *mut T) -> Self {
        Out(pointer)
    }
}

impl<T> Out<T> {
    /// The same place for a result of another type, where that depends on another argument.
    pub(super) fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// What is there before, where a value is exchanged.
    pub(super) fn get(&self) -> Answer<T> {
        In::from(self.0.cast_const()).get()
    }
}

/// A structure, or an array of them: of numbers and pointers, for which any bytes will do.
#[repr(transparent)]
pub(super) struct In<T>(*const T);

impl<T> From<*const T> for In<T> {
    fn from(pointer: *const T) -> Self {
        In(pointer)
    }
}

impl<T: Copy> In<T> {
    pub(super) fn get(&self) -> Answer<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: there is room for the bytes of a value, and any bytes are one.
        unsafe {
            caller::copy_from(self.0.expose_provenance(), value.as_mut_ptr().cast(), size_of::<T>())?;
            Ok(value.assume_init())
        }
    }

    /// That many, if that is not absurd. None of nothing is no error.
    pub(super) fn all(&self, count: usize) -> Answer<Vec<T>> {
        const MOST: usize = 1 << 16;
        if count > MOST {
            return Err(Code::INVALID_VALUE);
        }
        let mut values = Vec::with_capacity(count);
        // SAFETY: there is room for so many, and any bytes are values.
        unsafe {
            let to: *mut T = values.as_mut_ptr();
            caller::copy_from(self.0.expose_provenance(), to.cast(), count * size_of::<T>())?;
            values.set_len(count);
        }
        Ok(values)
    }
}

/// A name.
#[repr(transparent)]
pub(super) struct Name(*const c_char);

impl Name {
    pub(super) fn get(&self) -> Answer<String> {
        String::from_utf8(caller::read_text(self.0.expose_provenance())?).map_err(|_| Code::INVALID_VALUE)
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
    /// A copy of it: text up to a zero, or a file that begins with a header which says how long it is.
    pub(super) fn get(&self) -> Answer<Vec<u8>> {
        let address = self.0.expose_provenance();
        // Nothing is shorter than this, but a text.
        let Ok(magic) = caller::read(address, 4) else { return caller::read_text(address) };
        let size = if magic == FATBIN {
            let header = caller::read(address, 16)?;
            number(&header, 8, 8).checked_add(16)
        } else if magic == *b"\x7fELF" {
            let header = caller::read(address, 64)?;
            // The section headers are the end of what compilers write; the program headers, of what `nvlink` does.
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

/// A number of a header.
fn number(header: &[u8], at: usize, bytes: usize) -> usize {
    header[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

const FATBIN: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();

/// The arguments of a launch: a pointer to each value.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Arguments(*const *const c_void);

impl Arguments {
    /// One after the other, each at its offset and with its size. They may also be in one buffer already.
    pub(super) fn get(&self, parameters: &[(usize, usize)], packed: &Packed) -> Answer<Vec<u8>> {
        let size = parameters.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
        if let Some(bytes) = packed.get(size)? {
            return if self.0.is_null() { Ok(bytes) } else { Err(Code::INVALID_VALUE) };
        }
        let addresses = In::from(self.0.cast::<usize>()).all(parameters.len())?;
        let pieces: Vec<_> = addresses.into_iter().zip(parameters.iter().copied()).collect();
        let mut bytes = vec![0; size];
        caller::read_pieces(&mut bytes, &pieces)?;
        Ok(bytes)
    }
}

/// The arguments of a launch in another way: a list of what is what.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Packed(*const usize);

impl Packed {
    pub(super) fn null() -> Self {
        Packed(ptr::null())
    }

    /// The bytes of all arguments, if they are given so; there may be more than they need.
    fn get(&self, size: usize) -> Answer<Option<Vec<u8>>> {
        const END: usize = 0;
        const BUFFER: usize = 1;
        const SIZE: usize = 2;
        if self.0.is_null() {
            return Ok(None);
        }
        let (mut buffer, mut room) = (0, 0);
        let mut place = self.0;
        // Each of them once, and the end.
        for _ in 0..3 {
            match In::from(place).get()? {
                END => {
                    let fits = buffer != 0 && room >= size;
                    return if fits {
                        caller::read(buffer, size).map(Some)
                    } else {
                        Err(Code::INVALID_VALUE)
                    };
                }
                BUFFER => buffer = In::from(place.wrapping_add(1)).get()?,
                SIZE => {
                    let size = In::from(place.wrapping_add(1)).get()?;
                    room = In::from(ptr::with_exposed_provenance::<usize>(size)).get()?;
                }
                _ => return Err(Code::INVALID_VALUE),
            }
            place = place.wrapping_add(2);
        }
        Err(Code::INVALID_VALUE)
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
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct HostFunction(Option<unsafe extern "C" fn(*mut c_void)>);

impl HostFunction {
    /// Whether there is code. What it is, only the caller knows.
    pub(super) fn is_there(self) -> bool {
        self.0.is_some_and(|function| caller::allows(function as usize, 1, Access::Execute))
    }

    pub(super) fn call(self, data: usize) {
        if let Some(function) = self.0 {
            // SAFETY: the caller of `cuLaunchHostFunc` promises a function that takes this pointer, in any thread.
            unsafe { function(ptr::with_exposed_provenance_mut(data)) };
        }
    }
}

/// A function of the host that says how much shared memory a block of so many threads has.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct SharedMemory(Option<unsafe extern "C" fn(i32) -> usize>);

impl SharedMemory {
    /// Whether there is code, or no function, which is allowed.
    pub(super) fn is_sound(self) -> bool {
        self.0.is_none_or(|function| caller::allows(function as usize, 1, Access::Execute))
    }

    pub(super) fn call(self, block: i32) -> Option<usize> {
        // SAFETY: whoever asks for an occupancy promises a function that takes a number.
        self.0.map(|function| unsafe { function(block) })
    }
}

//! The options of a call for the driver's compiler.

use std::ffi::{c_uint, c_void};
use std::{ptr, slice};

use cudarc::driver::sys::{CUjit_option, CUresult};

/// The options, as the program passes them.
#[derive(Clone, Copy)]
pub(super) struct JitOptions {
    pub(super) count: c_uint,
    pub(super) options: *mut CUjit_option,
    pub(super) values: *mut *mut c_void,
}

impl JitOptions {
    pub(super) const NONE: JitOptions =
        JitOptions { count: 0, options: ptr::null_mut(), values: ptr::null_mut() };

    pub(super) fn is_none(self) -> bool {
        self.count == 0
    }

    /// Describes the options that change the machine code, as a preload does: `maxrregcount=64`. Returns `None` if there are others than those that a
    /// compiler can be told.
    pub(super) fn describe(self) -> Option<String> {
        const MAX_REGISTERS: c_uint = CUjit_option::CU_JIT_MAX_REGISTERS as c_uint;
        const LEVEL: c_uint = CUjit_option::CU_JIT_OPTIMIZATION_LEVEL as c_uint;
        const DEBUG: c_uint = CUjit_option::CU_JIT_GENERATE_DEBUG_INFO as c_uint;
        const LINES: c_uint = CUjit_option::CU_JIT_GENERATE_LINE_INFO as c_uint;
        /// Buffers for the compiler's log, and what it measures.
        const LOG: std::ops::RangeInclusive<c_uint> = CUjit_option::CU_JIT_WALL_TIME as c_uint
            ..=CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint;
        const VERBOSE: c_uint = CUjit_option::CU_JIT_LOG_VERBOSE as c_uint;
        /// The architecture is that of the context, and what to do without machine code for it.
        const CONTEXT: c_uint = CUjit_option::CU_JIT_TARGET_FROM_CUCONTEXT as c_uint;
        const FALLBACK: c_uint = CUjit_option::CU_JIT_FALLBACK_STRATEGY as c_uint;
        if self.is_none() {
            return Some(String::new());
        }
        if self.options.is_null() || self.values.is_null() {
            return None;
        }
        let mut words = Vec::new();
        for index in 0..self.count as usize {
            // SAFETY: the program passes so many options and values. It may use numbers that these bindings do not know.
            let (option, value) = unsafe {
                (self.options.cast::<c_uint>().add(index).read(), self.values.add(index).read().addr() as u32)
            };
            match option {
                MAX_REGISTERS => words.push(format!("maxrregcount={value}")),
                LEVEL => words.push(format!("optlevel={value}")),
                DEBUG | LINES if value == 0 => {}
                VERBOSE | CONTEXT | FALLBACK => {}
                _ if LOG.contains(&option) => {}
                _ => return None,
            }
        }
        // In the order of the compiler's options.
        words.sort();
        Some(words.join(","))
    }

    /// Makes a call that the driver may refuse, with copies of the values and with log buffers of its own. What the driver writes reaches the program
    /// only if the call succeeds. The options are those that can be [described](Self::describe).
    pub(super) fn try_call(self, call: impl FnOnce(JitOptions) -> Option<CUresult>) -> Option<CUresult> {
        const LOGS: [(c_uint, c_uint); 2] = [
            (
                CUjit_option::CU_JIT_INFO_LOG_BUFFER as c_uint,
                CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES as c_uint,
            ),
            (
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER as c_uint,
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint,
            ),
        ];
        if self.is_none() {
            return call(self);
        }
        // SAFETY: the program passes so many options and values. Nobody else uses the values during the call.
        let (numbers, values) = unsafe {
            let count = self.count as usize;
            (
                slice::from_raw_parts(self.options.cast::<c_uint>(), count),
                slice::from_raw_parts_mut(self.values, count),
            )
        };
        let mut passed = values.to_vec();
        let mut logs = Vec::new();
        for (buffer, size) in LOGS {
            let place = |option| numbers.iter().position(|number| *number == option);
            let Some(at) = place(buffer).filter(|at| !values[*at].is_null()) else { continue };
            let size_at = place(size);
            let size = size_at.map_or(0, |at| values[at].addr() as u32 as usize);
            let mut log = Log::new(size);
            passed[at] = log.bytes.as_mut_ptr().cast();
            if let Some(size_at) = size_at {
                passed[size_at] = ptr::without_provenance_mut(log.bytes.len());
            }
            logs.push((at, log));
        }
        let mut own = passed.clone();
        let result = call(JitOptions { values: own.as_mut_ptr(), ..self });
        if result != Some(CUresult::CUDA_SUCCESS) {
            return result;
        }
        for (at, log) in &logs {
            // SAFETY: the program's buffer has at least the size that the driver was told.
            unsafe { log.write(values[*at].cast()) };
        }
        for ((value, passed), own) in values.iter_mut().zip(passed).zip(own) {
            if own != passed {
                *value = own;
            }
        }
        result
    }
}

/// A buffer for a log of the driver.
struct Log {
    bytes: Vec<u8>,
}

impl Log {
    /// No text has this byte.
    const UNWRITTEN: u8 = 0xff;
    /// The driver says little of machine code, and a program can name a size that its buffer does not have.
    const LONGEST: usize = 1 << 16;

    fn new(size: usize) -> Self {
        Log { bytes: vec![Self::UNWRITTEN; size.min(Self::LONGEST)] }
    }

    /// Copies what the driver wrote.
    ///
    /// # Safety
    ///
    /// There must be room for it.
    unsafe fn write(&self, to: *mut u8) {
        let end = self.bytes.iter().rposition(|byte| *byte != Self::UNWRITTEN).map_or(0, |last| last + 1);
        // SAFETY: the caller promises it.
        unsafe { to.copy_from_nonoverlapping(self.bytes.as_ptr(), end) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries a call with log buffers, sizes and a time. Returns the buffer for information and all values after a call with this result.
    fn tried(result: Option<CUresult>) -> (Vec<u8>, Vec<usize>) {
        let mut info = vec![7_u8; 8];
        let mut error = vec![7_u8; 8];
        let buffers = [info.as_mut_ptr().cast::<c_void>(), error.as_mut_ptr().cast()];
        let sized = |size| ptr::without_provenance_mut(size);
        let mut numbers = [3_u32, 4, 2, 5, 6, 0];
        let mut values = [buffers[0], sized(8), sized(0), buffers[1], sized(8), sized(64)];
        let options =
            JitOptions { count: 6, options: numbers.as_mut_ptr().cast(), values: values.as_mut_ptr() };
        let made = options.try_call(|own| {
            // SAFETY: there are six values, and the buffer has eight bytes.
            unsafe {
                assert_eq!(own.values.add(1).read().addr(), 8);
                assert_eq!(own.values.add(5).read().addr(), 64);
                own.values.read().cast::<[u8; 3]>().write(*b"ok\0");
                own.values.add(1).write(sized(3));
                own.values.add(2).write(sized(1234));
            }
            result
        });
        assert_eq!(made, result);
        assert_eq!(error, [7; 8], "nothing was written there");
        assert_eq!((values[0], values[3]), (buffers[0], buffers[1]));
        (info, [1, 2, 4, 5].map(|at| values[at].addr()).to_vec())
    }

    #[test]
    fn the_program_gets_what_the_driver_writes_of_code_that_it_takes() {
        let (info, values) = tried(Some(CUresult::CUDA_SUCCESS));
        assert_eq!((&*info, &*values), (b"ok\0\x07\x07\x07\x07\x07".as_slice(), [3, 1234, 8, 64].as_slice()));
    }

    #[test]
    fn code_that_is_refused_leaves_logs_and_values() {
        for result in [Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU), None] {
            let (info, values) = tried(result);
            assert_eq!((&*info, &*values), ([7; 8].as_slice(), [8, 0, 8, 64].as_slice()));
        }
    }

    #[test]
    fn options_are_those_that_change_the_code() {
        let describe = |options: &[(u32, usize)]| {
            let (mut numbers, mut values): (Vec<u32>, Vec<_>) =
                options.iter().map(|(option, value)| (*option, ptr::without_provenance_mut(*value))).unzip();
            let (options, values) = (numbers.as_mut_ptr().cast(), values.as_mut_ptr());
            JitOptions { count: numbers.len() as u32, options, values }.describe()
        };
        assert_eq!(describe(&[]), Some(String::new()));
        // Log buffers, and the context's architecture.
        assert_eq!(
            describe(&[(3, 4096), (4, 100), (5, 4096), (6, 100), (8, 0), (12, 1)]),
            Some(String::new())
        );
        assert_eq!(describe(&[(7, 2), (0, 64)]).as_deref(), Some("maxrregcount=64,optlevel=2"));
        assert_eq!(describe(&[(11, 0), (13, 0)]), Some(String::new()));
        for unknown in [(11, 1), (13, 1), (9, 90), (14, 2), (99, 0)] {
            assert_eq!(describe(&[unknown]), None, "{unknown:?}");
        }
        assert_eq!(JitOptions { count: 1, ..JitOptions::NONE }.describe(), None);
    }
}

//! The options of a call for the driver's compiler.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys::CUjit_option;

/// The options, as the program passes them.
#[derive(Clone, Copy)]
pub(super) struct JitOptions {
    pub(super) count: c_uint,
    pub(super) options: *mut CUjit_option,
    pub(super) values: *mut *mut c_void,
}

impl JitOptions {
    pub(super) const NONE: JitOptions =
        JitOptions { count: 0, options: std::ptr::null_mut(), values: std::ptr::null_mut() };

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
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

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

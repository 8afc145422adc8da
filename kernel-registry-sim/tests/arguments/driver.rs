//! Calling functions of the driver by their names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::io::Write;
use std::mem;

use kernel_registry_sim::Config;

pub const NOT_SUPPORTED: u32 = 801;

pub struct Driver {
    library: *mut c_void,
    functions: RefCell<HashMap<String, Called>>,
}

type Called =
    extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize) -> u32;

impl Driver {
    /// Two devices of little memory, initialised, and a driver that has every function.
    pub fn install() -> Self {
        Config::default().driver((13, 9)).devices(2).memory(4 << 30).install().unwrap();
        // SAFETY: the library is open already, and has no code of its own.
        let library = unsafe { libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        let driver = Driver { library, functions: RefCell::default() };
        assert_eq!(driver.call("cuInit", &[0]), 0);
        driver
    }

    /// Says what it calls, because it may not return.
    pub fn call(&self, name: &str, words: &[usize]) -> u32 {
        let line = format!("{name}{words:x?}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        self.call_quietly(name, words)
    }

    pub fn call_quietly(&self, name: &str, words: &[usize]) -> u32 {
        let mut functions = self.functions.borrow_mut();
        let function = *functions.entry(name.to_owned()).or_insert_with(|| {
            let c_name = CString::new(name).unwrap();
            // SAFETY: each function takes at most so many words, numbers and pointers, and leaves alone those that it does not
            // have.
            unsafe {
                let found = libc::dlsym(self.library, c_name.as_ptr());
                assert!(!found.is_null(), "{name} is not there");
                mem::transmute::<*mut c_void, Called>(found)
            }
        });
        let word = |place| words.get(place).copied().unwrap_or(0);
        function(
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
            word(7),
            word(8),
            word(9),
            word(10),
        )
    }

    /// A call that has to succeed, and writes a handle or an address to its first argument.
    pub fn made(&self, name: &str, words: &[usize]) -> usize {
        let mut made = 0_usize;
        let words: Vec<_> = [(&raw mut made).expose_provenance()].iter().chain(words).copied().collect();
        let code = self.call_quietly(name, &words);
        assert_eq!(code, 0, "{name}");
        made
    }

    /// Whether that is a result that CUDA has.
    pub fn knows(&self, code: u32) -> bool {
        let mut text = 0_usize;
        self.call_quietly("cuGetErrorName", &[code as usize, (&raw mut text).expose_provenance()]) == 0
    }
}

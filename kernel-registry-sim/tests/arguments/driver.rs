//! Installs the driver, and calls its functions with a trace of the arguments.

use std::io::Write;

use kernel_registry_sim::Config;

use super::device::{self, ok, place};

/// Two devices of little memory, initialised, and a driver that has every function.
pub fn install() {
    Config::default().driver((13, 9)).devices(2).memory(4 << 30).contained(true).install().unwrap();
    ok("cuInit", &[0]);
}

/// Calls a function. Prints its name first, because it may not return.
pub fn call(name: &str, words: &[usize]) -> u32 {
    let line = format!("{name}{words:x?}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    device::call(name, words)
}

/// Whether that is a result that CUDA has.
pub fn knows(code: u32) -> bool {
    device::call("cuGetErrorName", &[code as usize, place(&mut 0_usize)]) == 0
}

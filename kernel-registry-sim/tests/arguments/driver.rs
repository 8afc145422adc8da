//! Installs the driver, and calls its functions after printing the call.

use std::io::Write;

use kernel_registry_sim::Config;

use super::device::{self, ok, place};

/// Installs and initialises a driver that has every function, with two devices of little memory.
pub fn install() {
    Config::default().driver((13, 9)).devices(2).memory(4 << 30).contained(true).install().unwrap();
    ok("cuInit", &[0]);
}

/// Calls a function. Prints the name and the arguments first, because the call may crash or hang.
pub fn call(name: &str, words: &[usize]) -> u32 {
    let line = format!("{name}{words:x?}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    device::call(name, words)
}

/// Returns whether CUDA has a result with this code.
pub fn knows(code: u32) -> bool {
    device::call("cuGetErrorName", &[code as usize, place(&mut 0_usize)]) == 0
}

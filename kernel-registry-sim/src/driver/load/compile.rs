//! Compiles images. Compiling takes simulated time.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::image::{Image, Refused};
use super::kept;
use crate::driver::caller::arguments::JitOptions;
use crate::driver::config::Config;
use crate::driver::report::failures::report;
use crate::driver::result::Code;

/// Whether several threads can compile at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Compiling {
    /// In parallel, as `cuLibraryLoadData` does.
    Parallel,
    /// One at a time, as `cuModuleLoadData` does.
    Serial,
}

/// A compiler. It works without the lock of the driver's state, because compiling takes long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiler {
    version: i32,
    /// The time for 1 KiB of PTX.
    kibibyte: Duration,
    how: Compiling,
}

impl Compiler {
    pub(crate) fn new(config: &Config, how: Compiling) -> Self {
        Compiler { version: config.version, kibibyte: config.jit, how }
    }

    /// Compiles an image for an architecture.
    pub(crate) fn compile(self, bytes: &[u8], arch: u32) -> Result<Arc<Image>, Refused> {
        let image = kept::read(bytes, arch, self.version)?;
        self.pass_time(image.compiled);
        Ok(image)
    }

    fn pass_time(self, text: usize) {
        static ONE: Mutex<()> = Mutex::new(());
        let time = self.kibibyte.mul_f64(text as f64 / 1024.0);
        if time.is_zero() {
            return;
        }
        let is_serial = self.how == Compiling::Serial;
        let _turn = is_serial.then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner));
        thread::sleep(time);
    }
}

/// Writes to the caller's log, or else to standard error, why an image was refused.
pub(crate) fn report_refusal(refused: &Refused, options: &JitOptions) -> Code {
    if !options.write_log(&refused.log) {
        report(&format!("an image was refused: {}", refused.log));
    }
    refused.code
}

//! Compiling images, and how long that seems to take.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::abi::JitOptions;
use super::image::{Image, Refused};
use super::result::Code;
use super::state::State;

/// How compiling goes together with compiling in other threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compiling {
    /// In as many threads as ask for it, as by the functions of libraries.
    Together,
    /// One image after the other, as by the functions of modules.
    Alone,
}

/// What compiles, without the lock on what the driver knows: it takes long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compiler {
    version: i32,
    /// What a KiB of text takes.
    kibibyte: Duration,
    how: Compiling,
}

impl Compiler {
    pub(super) fn new(state: &State, how: Compiling) -> Self {
        Compiler { version: state.config.version, kibibyte: state.config.jit, how }
    }

    /// An image as it is for devices of an architecture.
    pub(super) fn compile(self, bytes: &[u8], arch: u32) -> Result<Arc<Image>, Refused> {
        let image = Image::read(bytes, arch, self.version)?;
        self.pass_time(image.compiled);
        Ok(Arc::new(image))
    }

    fn pass_time(self, text: usize) {
        static ONE: Mutex<()> = Mutex::new(());
        let time = self.kibibyte.mul_f64(text as f64 / 1024.0);
        if time.is_zero() {
            return;
        }
        let alone = self.how == Compiling::Alone;
        let _turn = alone.then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner));
        thread::sleep(time);
    }
}

/// Tells the caller, or else everybody, why an image was refused.
pub(super) fn tell(refused: &Refused, options: &JitOptions) -> Code {
    if !options.write_log(&refused.log) {
        eprintln!("simulated CUDA driver: an image was refused: {}", refused.log);
    }
    refused.code
}

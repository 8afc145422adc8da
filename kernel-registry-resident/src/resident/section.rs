//! Defines `Section`, which exists while a resident kernel runs. Dropping it ends the kernel.

use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use kernel_registry::__private_0_1::resident::Driver;
use kernel_registry::{DriverCallError, MainError};
use kernel_registry_cuda::OnWait;

use super::{Fit, SectionError};
use crate::control::{BlocksMissing, Control, Ended, Presence, poll};
use crate::driver;
use crate::sections::Guard;

/// The options of a [`Resident`](super::Resident) that its section needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) limit: Option<Duration>,
    pub(super) on_wait: OnWait,
    pub(super) stop_within: Duration,
}

/// A resident kernel on the device, until it's told to end.
///
/// While the kernel runs, this library refuses calls that would wait for it: late loads, warm-ups with
/// something to do, and launches in the kernel's stream. Its frees are delayed until no resident kernel is
/// left. An audit in front of the driver (`kernel_audit::install`) sees all driver calls of the process.
/// [`Resident::on_wait`](super::Resident::on_wait) sets what it does with those that would wait.
///
/// Dropping a section does the same as [`stop`](Self::stop), but prints an error to standard error. A
/// forgotten section (`std::mem::forget`) never ends: even after the kernel has ended, calls are refused, and
/// deferred calls aren't made.
#[must_use = "dropping it ends the kernel"]
pub struct Section {
    kernel: &'static str,
    fit: Fit,
    stop_within: Duration,
    on_stop: Vec<Box<dyn FnOnce() + Send>>,
    /// The section shares the control block with the launch, because it reads it after the kernel has ended.
    control: Arc<Control>,
    running: Option<Running>,
}

/// A kernel that runs, or may run, on the device.
struct Running {
    /// Refuses calls that would wait for the kernel, until it's dropped.
    guard: Guard,
    kernel: OnDevice,
}

/// Everything that must live until the kernel has ended.
struct OnDevice {
    /// Whether the launch has begun. Until then, there is no kernel to wait for.
    launched: AtomicBool,
    /// The kernel's stream. It has no other work, so it's idle when the kernel has ended.
    stream: Arc<CudaStream>,
    _control: Arc<Control>,
    driver: &'static Driver,
    /// The number of the audit's section.
    audit: Option<u64>,
}

impl Section {
    /// Begins a section, before the launch.
    pub(super) fn begin(
        driver: &'static Driver,
        kernel: &'static str,
        stream: &Arc<CudaStream>,
        control: Control,
        guard: Guard,
        fit: Fit,
        options: &Options,
    ) -> Section {
        let control = Arc::new(control);
        let audit = driver::begin_section(driver, kernel, stream, options.on_wait);
        let launched = AtomicBool::new(false);
        let on_device =
            OnDevice { launched, stream: stream.clone(), _control: control.clone(), driver, audit };
        let running = Some(Running { guard, kernel: on_device });
        Section { kernel, fit, stop_within: options.stop_within, on_stop: Vec::new(), control, running }
    }

    /// Returns the flag that the launch sets before it calls the driver.
    pub(super) fn launched_flag(&self) -> &AtomicBool {
        static ENDED: AtomicBool = AtomicBool::new(true);
        self.running.as_ref().map_or(&ENDED, |running| &running.kernel.launched)
    }

    /// Tells the guard about the launch, if there was one, and returns whether there was. Call it after the
    /// closure that launches.
    pub(super) fn launched(&mut self) -> bool {
        let launched = self.launched_flag().load(Ordering::Relaxed);
        if let Some(Running { guard, kernel }) = &self.running
            && launched
        {
            guard.launched(&kernel.stream);
        }
        launched
    }

    /// Returns the path of the kernel.
    pub fn kernel(&self) -> &'static str {
        self.kernel
    }

    /// Returns what fits next to the kernel.
    pub fn fit(&self) -> &Fit {
        &self.fit
    }

    /// Returns the control block. The kernel was launched with it, if the kernel takes one.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Waits until all blocks of the kernel are on the device, but no longer than `limit`, and not beyond the
    /// kernel's end. The kernel must use the control block.
    ///
    /// # Errors
    ///
    /// Fails with [`BlocksMissing`], which names the blocks that aren't on the device.
    pub fn wait_for_blocks(&self, limit: Duration) -> Result<(), BlocksMissing> {
        poll(limit, || self.control.arrived().is_ok() || !self.is_running());
        self.control.arrived()
    }

    /// Sets a function to call when the kernel is told to end, for a kernel with its own stop flag. If the
    /// function panics, the panic is printed and otherwise ignored.
    pub fn on_stop(&mut self, stop: impl FnOnce() + Send + 'static) {
        self.on_stop.push(Box::new(stop));
    }

    /// Returns whether the kernel runs or has not begun yet. Returns false for a kernel that has failed.
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !has_ended(&running.kernel.ask()))
    }

    /// Tells the kernel to end, and waits until it has ended, but no longer than
    /// [`Resident::stop_within`](super::Resident::stop_within) allows.
    ///
    /// # Errors
    ///
    /// Fails with a [`SectionError`]. After [`SectionError::StillRuns`] the kernel stays guarded until it has
    /// ended.
    pub fn stop(mut self) -> Result<(), SectionError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SectionError> {
        let kernel = self.kernel;
        if Driver::get().is_err() {
            // The kernel belongs to the parent of this forked child.
            mem::forget(self.running.take());
            return Ok(());
        }
        if !self.control.is_there() {
            self.running = None;
            return Err(SectionError::Reset { kernel });
        }
        // If the closure panicked after it launched the kernel, the guard doesn't know of the launch yet.
        self.launched();
        self.control.stop();
        for stop in self.on_stop.drain(..) {
            // The panic was printed, and must not prevent the waiting below.
            let _ = panic::catch_unwind(AssertUnwindSafe(stop));
        }
        let Some(Running { guard, kernel: on_device }) = self.running.take() else { return Ok(()) };
        let (begun, mut answer) = (Instant::now(), Ok(false));
        let ended = poll(self.stop_within, || {
            answer = on_device.ask();
            has_ended(&answer)
        });
        if ended {
            // Dropped first, so that the audit makes its deferred calls before the guard allows new ones.
            drop(on_device);
            drop(guard);
            return answer
                .map_err(|error| SectionError::Driver { kernel, error })
                .and_then(|_| self.why_ended());
        }
        // The kernel hasn't ended, or an error leaves that unknown, so it stays guarded.
        guard.outlive(move || has_ended(&on_device.ask()));
        answer.map_err(|error| SectionError::Driver { kernel, error })?;
        Err(SectionError::StillRuns { kernel, waited: begun.elapsed() })
    }

    /// Returns an error unless the kernel was stopped, ran out of time, or returned by itself.
    fn why_ended(&self) -> Result<(), SectionError> {
        match self.control.presence() {
            Presence::Ended(why) if !matches!(why, Ended::Stopped | Ended::Limit | Ended::ByItself) => {
                Err(SectionError::Ended { kernel: self.kernel, why })
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether the driver's answer means that the kernel has ended. After a sticky error, nothing runs on
/// the device. Other errors leave it unknown.
fn has_ended(answer: &Result<bool, DriverCallError>) -> bool {
    answer.as_ref().map_or_else(DriverCallError::is_sticky, |ended| *ended)
}

impl OnDevice {
    /// Asks the driver whether the kernel has ended.
    fn ask(&self) -> Result<bool, DriverCallError> {
        if !self.launched.load(Ordering::Relaxed) {
            return Ok(true);
        }
        driver::is_done(&self.stream)
    }
}

/// Tells the audit that the kernel has ended.
impl Drop for OnDevice {
    fn drop(&mut self) {
        if let Some(number) = self.audit {
            driver::end_section(self.driver, number);
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            // The text of a `MainError` includes the error's sources.
            let error = MainError::from(error);
            #[cfg(feature = "tracing")]
            tracing::error!(kernel = self.kernel, "{error:?}");
            // Writing fails if standard error is closed.
            let _ = writeln!(io::stderr(), "kernel-registry: {error:?}");
        }
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Section { kernel, stop_within, .. } = self;
        f.debug_struct("Section")
            .field("kernel", kernel)
            .field("stop_within", stop_within)
            .finish_non_exhaustive()
    }
}

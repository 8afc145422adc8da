//! A section: the time in which a kernel is resident, as a value.

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

/// What the section needs of a [`Resident`](super::Resident).
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) limit: Option<Duration>,
    pub(super) on_wait: OnWait,
    pub(super) stop_within: Duration,
}

/// A resident kernel on the device, until it is told to end.
///
/// While it runs, this library refuses calls that would wait for it: late loads, warm-ups that have something to do, and launches
/// in its stream. Frees by this library are delayed until no resident kernel is left. An audit in front of the driver
/// (`kernel_audit::install`) sees all calls of the process, and does with those that would wait what
/// [`Resident::on_wait`](super::Resident::on_wait) says.
///
/// Dropping it is [`stop`](Self::stop), whose error is then a line on standard error. One that is forgotten (`std::mem::forget`) never
/// ends: what would wait is refused even when the kernel has ended, and no deferred call is made.
#[must_use = "dropping it ends the kernel"]
pub struct Section {
    kernel: &'static str,
    fit: Fit,
    stop_within: Duration,
    on_stop: Vec<Box<dyn FnOnce() + Send>>,
    /// Kept here, too: it is read after the kernel has ended.
    control: Arc<Control>,
    running: Option<Running>,
}

/// The kernel on the device.
struct Running {
    /// Refuses what would wait, until it is dropped.
    guard: Guard,
    kernel: OnDevice,
}

/// What is kept until the kernel has ended.
struct OnDevice {
    /// Whether the launch has begun. Until then there is nothing to wait for.
    launched: AtomicBool,
    /// Its only work is the kernel, so it is done when the kernel has ended.
    stream: Arc<CudaStream>,
    _control: Arc<Control>,
    driver: &'static Driver,
    /// The number of the audit's section.
    audit: Option<u64>,
}

impl Section {
    /// Before the launch.
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

    /// What the launch sets before it calls the driver.
    pub(super) fn launched_flag(&self) -> &AtomicBool {
        static ENDED: AtomicBool = AtomicBool::new(true);
        self.running.as_ref().map_or(&ENDED, |running| &running.kernel.launched)
    }

    /// After the launch: whether there was one.
    pub(super) fn launched(&mut self) -> bool {
        let launched = self.launched_flag().load(Ordering::Relaxed);
        if let Some(Running { guard, kernel }) = &self.running
            && launched
        {
            guard.launched(&kernel.stream);
        }
        launched
    }

    /// The path of the kernel.
    pub fn kernel(&self) -> &'static str {
        self.kernel
    }

    /// What fits beside it.
    pub fn fit(&self) -> &Fit {
        &self.fit
    }

    /// The control block, with which the kernel was launched if it takes one.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Waits until all blocks of the kernel are on the device, for a kernel that uses the control block, but not beyond its end.
    ///
    /// # Errors
    ///
    /// [`BlocksMissing`] names those that are not.
    pub fn wait_for_blocks(&self, limit: Duration) -> Result<(), BlocksMissing> {
        poll(limit, || self.control.arrived().is_ok() || !self.is_running());
        self.control.arrived()
    }

    /// Calls this function when the kernel is told to end: for a kernel that has a stop flag of its own. A panic in it is printed, and
    /// goes no further.
    pub fn on_stop(&mut self, stop: impl FnOnce() + Send + 'static) {
        self.on_stop.push(Box::new(stop));
    }

    /// Whether the kernel is still on the device, or has not begun. After a kernel that went wrong it is false.
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !has_ended(&running.kernel.ask()))
    }

    /// Tells the kernel to end, and waits until it has, for as long as [`Resident::stop_within`](super::Resident::stop_within) says.
    ///
    /// # Errors
    ///
    /// [`SectionError::StillRuns`]: then the section goes on until the kernel has ended after all.
    pub fn stop(mut self) -> Result<(), SectionError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SectionError> {
        let kernel = self.kernel;
        if Driver::get().is_err() {
            // In a forked child: the kernel is the parent's.
            mem::forget(self.running.take());
            return Ok(());
        }
        if !self.control.is_there() {
            self.running = None;
            return Err(SectionError::Reset { kernel });
        }
        // Not said yet if the launch has panicked, perhaps after the kernel was launched.
        self.launched();
        self.control.stop();
        for stop in self.on_stop.drain(..) {
            // A panic, which was printed, ends neither the section nor the waiting.
            let _ = panic::catch_unwind(AssertUnwindSafe(stop));
        }
        let Some(Running { guard, kernel: on_device }) = self.running.take() else { return Ok(()) };
        let (begun, mut answer) = (Instant::now(), Ok(false));
        let ended = poll(self.stop_within, || {
            answer = on_device.ask();
            has_ended(&answer)
        });
        if ended {
            // Deferred calls are made before other calls of this library may wait for something else.
            drop(on_device);
            drop(guard);
            return answer
                .map_err(|error| SectionError::Driver { kernel, error })
                .and_then(|_| self.why_ended());
        }
        // An error that says nothing of the kernel leaves it guarded.
        guard.outlive(move || has_ended(&on_device.ask()));
        answer.map_err(|error| SectionError::Driver { kernel, error })?;
        Err(SectionError::StillRuns { kernel, waited: begun.elapsed() })
    }

    /// An error, unless the kernel was stopped, its time was over, or it returned by itself.
    fn why_ended(&self) -> Result<(), SectionError> {
        match self.control.presence() {
            Presence::Ended(why) if !matches!(why, Ended::Stopped | Ended::Limit | Ended::ByItself) => {
                Err(SectionError::Ended { kernel: self.kernel, why })
            }
            _ => Ok(()),
        }
    }
}

/// After a sticky error nothing runs on the device. Other errors say nothing of the kernel.
fn has_ended(answer: &Result<bool, DriverCallError>) -> bool {
    answer.as_ref().map_or_else(DriverCallError::is_sticky, |ended| *ended)
}

impl OnDevice {
    /// Whether the kernel has ended.
    fn ask(&self) -> Result<bool, DriverCallError> {
        if !self.launched.load(Ordering::Relaxed) {
            return Ok(true);
        }
        driver::is_done(&self.stream)
    }
}

/// The kernel has ended.
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
            // Its text has the causes.
            let error = MainError::from(error);
            #[cfg(feature = "tracing")]
            tracing::error!(kernel = self.kernel, "{error:?}");
            // Standard error may be closed.
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

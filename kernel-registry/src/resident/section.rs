//! The time in which a kernel stays, as a value.

use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaEvent, CudaStream};

use super::{Fit, Options, SectionError};
use crate::control::poll;
use crate::driver::{Driver, DriverError, Relaxed};
use crate::{Control, Ended, Missing, Presence, sections};

/// A kernel that stays on the device, until it is told to end.
///
/// While it stays, this library refuses calls that would wait for it: late loads, warm-ups that have something to do, and launches
/// in its stream. What the library frees is freed when no kernel stays any more. An audit in front of the driver
/// (`kernel_registry_audit::install`) sees all calls of the process, and does with those that would wait what
/// [`Resident::on_wait`](super::Resident::on_wait) says.
///
/// Dropping it is [`stop`](Self::stop), whose error is then a line on standard error. One that is forgotten (`std::mem::forget`) never
/// ends: what would wait is refused even when the kernel has ended, and nothing that was put off is done.
#[must_use = "dropping it ends the kernel"]
pub struct Section {
    kernel: &'static str,
    fit: Fit,
    stop_within: Duration,
    on_stop: Vec<Box<dyn FnOnce() + Send>>,
    /// Here, too, so that it can be asked when the kernel has ended.
    control: Arc<Control>,
    running: Option<Running>,
}

/// The kernel on the device.
struct Running {
    /// Refuses what would wait, until it is dropped.
    live: sections::Section,
    stays: Stays,
}

/// What is kept until the kernel has ended.
struct Stays {
    /// Reached when the kernel has ended. `None` before the launch, or if it could not be recorded.
    ended: Option<CudaEvent>,
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
        live: sections::Section,
        fit: Fit,
        options: &Options,
    ) -> Section {
        let control = Arc::new(control);
        let audit = driver.begin_section(kernel, stream, options.on_wait);
        let stays = Stays { ended: None, stream: stream.clone(), _control: control.clone(), driver, audit };
        let running = Some(Running { live, stays });
        Section { kernel, fit, stop_within: options.stop_within, on_stop: Vec::new(), control, running }
    }

    /// After the launch, even if it failed.
    pub(super) fn launched(&mut self) -> Result<(), DriverError> {
        if let Some(Running { live, stays }) = &mut self.running
            && stays.ended.is_none()
        {
            let recorded = stays.stream.record_event(None);
            stays.ended = Some(recorded.map_err(|error| DriverError::new("cuEventRecord", error.0))?);
            live.launched(&stays.stream);
        }
        Ok(())
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
    /// [`Missing`] names those that are not.
    pub fn wait_for_blocks(&self, limit: Duration) -> Result<(), Missing> {
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
        self.running.as_ref().is_some_and(|running| matches!(running.stays.has_ended(), Ok(false)))
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
        // Not recorded yet if the launch has panicked, perhaps after the kernel was launched.
        let launched = self.launched();
        self.control.stop();
        for stop in self.on_stop.drain(..) {
            // A panic, which was printed, ends neither the section nor the waiting.
            let _ = panic::catch_unwind(AssertUnwindSafe(stop));
        }
        let Some(Running { live, stays }) = self.running.take() else { return Ok(()) };
        launched.map_err(|error| SectionError::Driver { kernel, error })?;
        let begun = Instant::now();
        loop {
            match stays.has_ended() {
                // What was put off is done before other calls of this library may wait for something else.
                Ok(true) => {
                    drop(stays);
                    drop(live);
                    return self.why_ended();
                }
                Err(error) => return Err(SectionError::Driver { kernel, error }),
                Ok(false) if begun.elapsed() >= self.stop_within => break,
                Ok(false) if begun.elapsed() < BUSY => thread::yield_now(),
                Ok(false) => thread::sleep(PAUSE),
            }
        }
        live.abandon(move || stays.has_ended() != Ok(false));
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

/// Most kernels end within this time after they were told, so it is spent asking.
const BUSY: Duration = Duration::from_millis(1);

/// Between two questions afterwards.
const PAUSE: Duration = Duration::from_micros(100);

impl Stays {
    fn has_ended(&self) -> Result<bool, DriverError> {
        let Some(event) = &self.ended else { return Ok(true) };
        let _relaxed = Relaxed::new()?;
        event.try_is_complete().map_err(|error| DriverError::new("cuEventQuery", error.0))
    }
}

/// It has ended.
impl Drop for Stays {
    fn drop(&mut self) {
        if let Some(number) = self.audit {
            self.driver.end_section(number);
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            #[cfg(feature = "tracing")]
            tracing::error!(kernel = self.kernel, "{error}");
            eprintln!("kernel-registry: {error}");
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

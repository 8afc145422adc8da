//! Options of the audit: as the program sets them, or the variables of the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{environment, variables};

/// The treatment of calls that are late after the program is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterReady {
    /// A late call is a finding in the record.
    #[default]
    Report,
    /// A late call returns `CUDA_ERROR_NOT_PERMITTED`, and the standard error output names call, kernel and remedy.
    Refuse,
    /// A late call aborts the process.
    Abort,
}

/// The reaction to a call that does not return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnHang {
    /// The hang is explained, on the standard error output and in the record.
    #[default]
    Report,
    /// The hang is explained, and then the process is aborted. A call that may only wait for work that takes long, such
    /// as `cuStreamSynchronize`, has ten times as long.
    Abort,
}

/// When a [preload](crate::preload) is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreloadAt {
    /// In each context, as soon as the context exists.
    #[default]
    Context,
    /// When the program calls `kernel_registry_audit_preload`, in the context that is current then.
    Call,
}

/// An audit with options; [`install`](crate::install) uses the defaults. [`variables`] of the environment that are set
/// win over options, so whoever runs a program can change what was built into it.
///
/// ```no_run
/// # use kernel_audit_hooks as kernel_audit;
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
/// use kernel_audit::{AfterReady, Audit};
///
/// let audit = Audit::new().after_ready(AfterReady::Refuse).hang_after(Duration::from_secs(2));
/// audit.install()?;
/// # Ok::<(), kernel_audit::InstallError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing is watched before `install` is called"]
pub struct Audit {
    pub(crate) driver: Option<PathBuf>,
    pub(crate) records: Option<PathBuf>,
    /// A word in the file name of the record.
    pub(crate) run: Option<String>,
    pub(crate) after_ready: AfterReady,
    pub(crate) ready_after: Option<Duration>,
    pub(crate) ready_file: Option<PathBuf>,
    /// When the command started the program.
    pub(crate) began: Option<SystemTime>,
    pub(crate) events: u32,
    pub(crate) hang_after: Duration,
    pub(crate) on_hang: OnHang,
    /// The process that may debug this one once a call hangs, and the namespace of its number.
    pub(crate) debugger: Option<(u32, PathBuf)>,
    pub(crate) slow: Duration,
    pub(crate) preload: Option<PathBuf>,
    pub(crate) preload_at: PreloadAt,
    pub(crate) images: Option<PathBuf>,
    pub(crate) first: Option<Duration>,
    /// Whether late loads are only recorded, and not logged.
    pub(crate) quiet: bool,
}

static CHOSEN: OnceLock<Audit> = OnceLock::new();

impl Audit {
    /// Returns the audit with default options, as [`install`](crate::install) uses it.
    pub fn new() -> Self {
        Audit {
            driver: None,
            records: None,
            run: None,
            after_ready: AfterReady::default(),
            ready_after: None,
            ready_file: None,
            began: None,
            events: 65_536,
            hang_after: Duration::from_secs(5),
            on_hang: OnHang::default(),
            debugger: None,
            slow: Duration::from_millis(10),
            preload: None,
            preload_at: PreloadAt::default(),
            images: None,
            first: None,
            quiet: false,
        }
    }

    /// Sets the file of the driver. By default that is the file which the loader finds, or the simulated driver if that
    /// is installed.
    pub fn driver(self, path: impl Into<PathBuf>) -> Self {
        Audit { driver: Some(path.into()), ..self }
    }

    /// Sets the folder for the record, a file named after the process. Without a folder the record is in memory only.
    pub fn records(self, folder: impl Into<PathBuf>) -> Self {
        Audit { records: Some(folder.into()), ..self }
    }

    /// Sets what happens to calls that are late after the program is [ready](crate::ready).
    pub fn after_ready(self, after_ready: AfterReady) -> Self {
        Audit { after_ready, ..self }
    }

    /// Sets the time after which the program counts as ready, from its first watched call on.
    pub fn ready_after(self, time: Duration) -> Self {
        Audit { ready_after: Some(time), ..self }
    }

    /// Sets a file that makes the program ready: it is ready once the file exists.
    pub fn ready_file(self, path: impl Into<PathBuf>) -> Self {
        Audit { ready_file: Some(path.into()), ..self }
    }

    /// Sets how many events of 104 bytes the record has room for: 65,536 by default, and 16,777,216 at most.
    pub fn events(self, number: u32) -> Self {
        Audit { events: number, ..self }
    }

    /// Sets the time after which a call counts as hanging: 5 seconds by default.
    pub fn hang_after(self, time: Duration) -> Self {
        Audit { hang_after: time, ..self }
    }

    /// Sets what happens when a call hangs.
    pub fn on_hang(self, on_hang: OnHang) -> Self {
        Audit { on_hang, ..self }
    }

    /// Sets the time from which a call is recorded as slow, if it is no other kind of event: 10 milliseconds by
    /// default.
    pub fn slow(self, time: Duration) -> Self {
        Audit { slow: time, ..self }
    }

    /// Sets a [preload](crate::preload), a file that names what to load as soon as there is a context.
    pub fn preload(self, file: impl Into<PathBuf>) -> Self {
        Audit { preload: Some(file.into()), ..self }
    }

    /// Sets when the preload is loaded.
    pub fn preload_at(self, at: PreloadAt) -> Self {
        Audit { preload_at: at, ..self }
    }

    /// Sets for how long the record says where the time goes: from ready on, or from each [mark](crate::mark) on. An audit
    /// without this looks at nothing.
    pub fn first(self, time: Duration) -> Self {
        Audit { first: Some(time), ..self }
    }

    /// Logs no late loads while the program runs. The report has them.
    pub fn quiet(self) -> Self {
        Audit { quiet: true, ..self }
    }

    /// Sets the folder for copies of images that are in no file, because the program has compiled or unpacked them. The
    /// copies can be preloaded. Without a folder there are no copies.
    pub fn images(self, folder: impl Into<PathBuf>) -> Self {
        Audit { images: Some(folder.into()), ..self }
    }

    /// Replaces options by the variables that are set. Ignores a variable if its value means nothing, and all variables
    /// if the process is privileged.
    pub(crate) fn or_environment(self) -> Self {
        self.or(environment::variable)
    }

    fn or(self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        fn number<T: FromStr>(text: Option<OsString>) -> Option<T> {
            text?.to_str()?.parse().ok()
        }
        fn meaning<T: Copy>(text: Option<String>, words: &[(&str, T)]) -> Option<T> {
            words.iter().find(|(word, _)| text.as_deref() == Some(*word)).map(|(_, meaning)| *meaning)
        }
        let path = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let seconds = |name| Duration::try_from_secs_f64(number(variable(name))?).ok();
        let text = |name| variable(name).and_then(|text| text.into_string().ok());
        let after_ready = meaning(
            text(variables::AFTER_READY),
            &[("report", AfterReady::Report), ("refuse", AfterReady::Refuse), ("abort", AfterReady::Abort)],
        );
        let on_hang =
            meaning(text(variables::ON_HANG), &[("report", OnHang::Report), ("abort", OnHang::Abort)]);
        let preload_at = meaning(
            text(variables::PRELOAD_AT),
            &[("context", PreloadAt::Context), ("call", PreloadAt::Call)],
        );
        let debugger = |text: String| {
            let (number, namespace) = text.split_once(' ')?;
            Some((number.parse().ok()?, namespace.into()))
        };
        let slow = number(variable(variables::SLOW_MS)).map(Duration::from_millis);
        let is_word = |text: &String| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let run = text(variables::RUN).filter(is_word);
        Audit {
            driver: path(variables::DRIVER).or(self.driver),
            records: path(variables::RECORDS).or(self.records),
            run: run.or(self.run),
            after_ready: after_ready.unwrap_or(self.after_ready),
            ready_after: seconds(variables::READY_AFTER).or(self.ready_after),
            ready_file: path(variables::READY_FILE).or(self.ready_file),
            began: seconds(variables::BEGAN).and_then(|since| UNIX_EPOCH.checked_add(since)).or(self.began),
            events: number(variable(variables::EVENTS)).unwrap_or(self.events),
            hang_after: seconds(variables::HANG_AFTER).unwrap_or(self.hang_after),
            on_hang: on_hang.unwrap_or(self.on_hang),
            debugger: text(variables::DEBUGGER).and_then(debugger).or(self.debugger),
            slow: slow.unwrap_or(self.slow),
            preload: path(variables::PRELOAD).or(self.preload),
            preload_at: preload_at.unwrap_or(self.preload_at),
            images: path(variables::IMAGES).or(self.images),
            first: seconds(variables::FIRST).filter(|time| !time.is_zero()).or(self.first),
            quiet: self.quiet || variable(variables::QUIET).is_some(),
        }
    }

    /// Returns the audit of this process. If none was installed, the environment configures it.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub(crate) fn chosen() -> &'static Audit {
        crate::watch::process::fork::once(&CHOSEN, || Audit::new().or_environment())
    }

    /// Returns how long a call may take that may only wait for work that takes long, before [`OnHang::Abort`] ends the
    /// process.
    pub(crate) fn patience(&self) -> Duration {
        self.hang_after.saturating_mul(10)
    }

    /// Returns whether images are preloaded, or copied for a later preload.
    pub(crate) fn preloads(&self) -> bool {
        self.preload.is_some() || self.images.is_some()
    }

    /// Returns whether all options are the same, leaving out the driver if only `other` names it.
    pub(crate) fn same_but_driver(&self, other: &Audit) -> bool {
        let driver = self.driver.as_ref().or(other.driver.as_ref()).cloned();
        Audit { driver, ..self.clone() } == *other
    }

    /// Makes this the audit of the process, unless the process has one.
    pub(crate) fn choose(self) {
        let _ = CHOSEN.set(self);
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_mean_something_win() {
        let built_in = || Audit::new().after_ready(AfterReady::Refuse).hang_after(Duration::from_secs(2));
        let with = |name: &'static str, value: &'static str| {
            built_in().or(move |asked| (asked == name).then(|| value.into()))
        };
        assert_eq!(with(variables::AFTER_READY, "report").after_ready, AfterReady::Report);
        assert_eq!(with(variables::AFTER_READY, "perhaps").after_ready, AfterReady::Refuse);
        assert_eq!(with(variables::HANG_AFTER, "0.5").hang_after, Duration::from_millis(500));
        assert_eq!(with(variables::HANG_AFTER, "-1").hang_after, Duration::from_secs(2));
        assert_eq!(with(variables::SLOW_MS, "3").slow, Duration::from_millis(3));
        assert_eq!(with(variables::RECORDS, "").records, None);
        assert_eq!(with(variables::RUN, "../x").run, None);
    }
}

//! Runs a test in many orders, and reports the shortest that fails.

mod children;
mod report;
mod settings;

use std::cell::RefCell;
use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Termination};
use std::thread;

use kernel_registry_schedule::variables::SCHEDULE;
use kernel_registry_schedule::{Kind, Plan, Report, search};

use self::children::Children;
use self::report::Failed;
pub use self::settings::{Explore, Explored};

/// In a process that explores for another one: a folder with the results of the test's earlier calls of [`explore`], by their
/// numbers, which gets the result of the next one.
const CONDUCTS: &str = "KERNEL_REGISTRY_SIM_EXPLORING";

thread_local! {
    /// The results of this test's calls of [`explore`].
    static RESULTS: RefCell<Vec<Result<Explored, Failed>>> = const { RefCell::new(Vec::new()) };
}

/// Runs a test many times, each time in another order, and panics if it fails in any: with the reason, and with a file of the
/// shortest schedule that fails.
///
/// Each run is a process of its own, in which the test installs the driver as usual. Chosen are: which thread goes on at each call
/// of the driver, which stream does its next work, which block starts next where not all have room, and which threads of
/// kernels run before each access to memory whose order others can see. First come all orders that differ from the usual one
/// in one choice, then all that differ in two, and so on. When there are too many, the rest are chosen by chance (probabilistic
/// concurrency testing).
///
/// A run fails if the test panics or returns an error, if no thread, stream or kernel can continue, and if there's a race: two
/// accesses that nothing orders. How weakly ordered accesses of correct programs are seen by other threads isn't chosen, because code that depends on
/// it has a race.
///
/// The environment variable `KERNEL_REGISTRY_SCHEDULE` names a schedule's file, which is then repeated instead.
///
/// # Panics
///
/// If the test fails in any order. Also if the driver was already initialised, because the test can't begin anew then.
///
/// ```no_run
/// use kernel_registry_sim::{Explore, explore};
///
/// #[test]
/// fn the_handshake_holds() {
///     let explored = explore(Explore::default(), || {
///         kernel_registry_sim::install()?;
///         // The test as it is.
///         Ok::<(), kernel_registry_sim::InstallError>(())
///     });
///     println!("it holds in {explored}");
/// }
/// ```
pub fn explore<T: Termination>(settings: Explore, test: impl FnOnce() -> T) -> Explored {
    let name = thread::current().name().filter(|name| *name != "main").map(str::to_owned);
    let number = RESULTS.with_borrow(Vec::len);
    let found = match (env::var_os(CONDUCTS).map(PathBuf::from), &name) {
        (Some(folder), _) => {
            let file = folder.join(number.to_string());
            match fs::read_to_string(&file) {
                Ok(text) => report::from_text(&text),
                Err(_) => {
                    let found = conduct(&settings, name.as_deref(), test);
                    let written = fs::write(&file, report::to_text(&found));
                    process::exit(written.is_err().into());
                }
            }
        }
        (None, Some(test)) => elsewhere(test),
        (None, None) => conduct(&settings, None, test),
    };
    RESULTS.with_borrow_mut(|results| results.push(found.clone()));
    match found {
        Ok(explored) => {
            println!("explored {explored}");
            explored
        }
        Err(failed) => panic!("{failed}"),
    }
}

/// Explores in a new process, which has no other threads: runs this test alone there.
fn elsewhere(test: &str) -> Result<Explored, Failed> {
    let folder = Folder::new()?;
    let number = RESULTS.with_borrow(|results| {
        for (number, result) in results.iter().enumerate() {
            fs::write(folder.0.join(number.to_string()), report::to_text(result))?;
        }
        Ok::<_, io::Error>(results.len())
    })?;
    let mut command = Command::new(env::current_exe()?);
    command.args([test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
    // SAFETY: the function makes one system call, and allocates nothing.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let output = command.env(CONDUCTS, &folder.0).output()?;
    if let Ok(text) = fs::read_to_string(folder.0.join(number.to_string())) {
        return report::from_text(&text);
    }
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let words =
        format!("the process that should explore `{test}` ended with {}:\n{out}{error}", output.status);
    Err(Failed::new(words))
}

/// Explores in this process, by processes that are forked from it.
fn conduct<T: Termination>(
    settings: &Explore,
    name: Option<&str>,
    test: impl FnOnce() -> T,
) -> Result<Explored, Failed> {
    let folder = Folder::new()?;
    let mut children = Children::new(settings, &folder.0, test)?;
    if let Some(file) = env::var_os(SCHEDULE) {
        return repeat(Path::new(&file), &mut children);
    }
    let found = search(&settings.limits, &mut children)?;
    match found.failure {
        None => Ok(Explored::from(&found.coverage)),
        Some(failure) => {
            let record = children.in_detail(&failure.plan)?;
            let report = Report { failure: &failure, record: &record, coverage: &found.coverage };
            Err(report::failed(name, &report))
        }
    }
}

/// Runs a schedule from a file.
fn repeat<T: Termination, F: FnOnce() -> T>(
    file: &Path,
    children: &mut Children<'_, F>,
) -> Result<Explored, Failed> {
    let unreadable =
        |error: &dyn fmt::Display| Failed::new(format!("`{}` can't be repeated: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let plan: Plan = text.parse().map_err(|error| unreadable(&error))?;
    if !plan.strict {
        return Err(unreadable(&"its end is missing"));
    }
    let record = children.in_detail(&plan)?;
    match record.kind() {
        Kind::Passed => {
            let words = format!("the schedule in `{}`", file.display());
            Ok(Explored { schedules: 1, is_complete: false, words })
        }
        _ => Err(report::repeated(file, &record)),
    }
}

/// A temporary folder, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let mut number = 0;
        loop {
            let folder = env::temp_dir().join(format!("kernel-registry-{}-{number}", process::id()));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => return made.map(|()| Folder(folder)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

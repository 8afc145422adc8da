//! Runs a program in a chosen order: one scheduler decides who takes the next step, among threads of the host at their calls,
//! streams, blocks and warps.
//!
//! A test runs many times, each in a process of its own. In such a process, [`hosts`] stops threads at their calls,
//! [`rest`] finds out when all of them have stopped, and [`scheduler`] lets one of the parties take a step, on the thread that
//! otherwise does the work of streams. [`words`] describes steps and deadlocks.

pub(crate) mod choices;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod rest;
pub(crate) mod scheduler;
pub(crate) mod words;

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use kernel_registry_schedule::variables::{DETAILED, PLAN, RECORD, ROOM};
use kernel_registry_schedule::{ENDED, Entry, Kind, Plan};

use crate::driver::clock;
use crate::driver::report::failures::report_at_once;
use crate::driver::watched;

/// A plan to follow, and where to write what happens.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) record: PathBuf,
    /// Whether each step is described, which is slow.
    pub(crate) is_detailed: bool,
    /// Whether kernels may have room for one block only.
    pub(crate) has_little_room: bool,
}

static RUN: OnceLock<Run> = OnceLock::new();

impl Run {
    /// Makes the drivers of this process follow the plan.
    pub(crate) fn begin(self) {
        let _ = RUN.set(self);
    }

    /// Returns what the driver of this process has to follow, if anything.
    pub(crate) fn current() -> Option<&'static Run> {
        static READ: OnceLock<()> = OnceLock::new();
        READ.get_or_init(|| {
            if let Some((plan, record)) = env::var_os(PLAN).zip(env::var_os(RECORD)) {
                let read = fs::read_to_string(&plan).map_err(|error| error.to_string());
                let plan = read.and_then(|text| text.parse().map_err(|error| format!("{error}")));
                match plan {
                    Ok(plan) => {
                        let is_detailed = env::var_os(DETAILED).is_some();
                        let has_little_room = env::var(ROOM).is_ok_and(|room| room == "little");
                        Run { plan, record: record.into(), is_detailed, has_little_room }.begin();
                    }
                    Err(error) => report_at_once(&format!("`{PLAN}` can't be followed: {error}")),
                }
            }
        });
        RUN.get()
    }
}

/// The file that gets what happens.
pub(crate) struct Recorder(File);

impl Recorder {
    /// Makes the file of a run. Of several processes of a program, the first that initialises a driver has it.
    pub(crate) fn new(run: &Run) -> io::Result<Self> {
        File::create_new(&run.record).map(Recorder)
    }

    pub(crate) fn write(&mut self, entry: &Entry) {
        // Each entry at once: the process may end at any time.
        let _ = self.0.write_all(format!("{entry}\n").as_bytes());
    }

    /// Ends the process, because the run is over.
    pub(crate) fn end(&mut self, kind: Kind, text: String) -> ! {
        self.write(&Entry::Outcome { kind, text });
        let _ = io::stdout().flush();
        // SAFETY: ends the process without running destructors, which could wait for threads that never go on.
        unsafe { libc::_exit(ENDED) }
    }
}

/// Notes that this process is explored, from the initialisation of its driver.
pub(crate) fn start() {
    clock::simulate();
    watched::set(watched::EXPLORED, true);
}

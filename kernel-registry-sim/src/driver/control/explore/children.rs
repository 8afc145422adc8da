//! Runs a test in child processes, each of which follows a plan.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};
use std::time::{Duration, Instant};

use kernel_registry_schedule::{End, Plan, Record, Runner};

use super::settings::Explore;
use crate::driver::load::kept;
use crate::driver::state::explore::Run;
use crate::driver::state::simulator::Simulator;

/// The exit status of a child whose test has failed.
const FAILED: i32 = 101;

/// Forks children that run the test.
pub(super) struct Children<'s, F> {
    settings: &'s Explore,
    folder: &'s Path,
    /// The test, which only children take.
    test: Option<F>,
    number: u64,
    is_detailed: bool,
    /// The processors that children may use.
    processors: Vec<usize>,
}

/// A running child.
struct Child {
    id: i32,
    handle: OwnedFd,
    /// The processor that it has for itself.
    processor: Option<usize>,
    begun: Instant,
    /// The index of its plan.
    plan: usize,
    record: PathBuf,
    output: PathBuf,
}

impl<'s, F> Children<'s, F> {
    pub(super) fn new(settings: &'s Explore, folder: &'s Path, test: F) -> io::Result<Self> {
        if Simulator::is_initialised() {
            let words = "the simulated driver was initialised before `explore` was called, so that the test can't begin anew; \
                         move everything that calls the driver into the closure";
            return Err(io::Error::other(words));
        }
        kept::keep_in(folder);
        Ok(Children {
            settings,
            folder,
            test: Some(test),
            number: 0,
            is_detailed: false,
            processors: processors(),
        })
    }
}

impl<T: Termination, F: FnOnce() -> T> Children<'_, F> {
    /// Runs a plan, and records each step with its text.
    pub(super) fn in_detail(&mut self, plan: &Plan) -> io::Result<Record> {
        self.is_detailed = true;
        let mut records = self.run(std::slice::from_ref(plan))?;
        self.is_detailed = false;
        records.pop().ok_or_else(|| io::Error::other("a run has no record"))
    }

    fn start(&mut self, index: usize, plan: &Plan, running: &[Child]) -> io::Result<Child> {
        self.number += 1;
        kept::learn();
        let is_used = |processor: &usize| running.iter().any(|child| child.processor == Some(*processor));
        let processor = self.processors.iter().copied().find(|processor| !is_used(processor));
        let [record, output] =
            ["record", "output"].map(|kind| self.folder.join(format!("{}.{kind}", self.number)));
        let written = File::create(&output)?;
        let _ = io::stdout().flush();
        // SAFETY: the process has no other threads whose locks the child could miss: it runs only this test, or it's the
        // main thread of a program that hasn't begun others.
        let id = unsafe { libc::fork() };
        match id {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let run = Run {
                    plan: plan.clone(),
                    record,
                    is_detailed: self.is_detailed,
                    has_little_room: self.settings.has_little_room,
                };
                self.child(run, &written, processor)
            }
            id => {
                // SAFETY: the call takes numbers, and returns a descriptor of the child that nothing else owns.
                let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
                if handle < 0 {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: as above.
                let handle = unsafe { OwnedFd::from_raw_fd(handle as i32) };
                Ok(Child { id, handle, processor, begun: Instant::now(), plan: index, record, output })
            }
        }
    }

    /// Runs the test, in the child.
    fn child(&mut self, run: Run, output: &File, processor: Option<usize>) -> ! {
        // SAFETY: these calls take numbers. The descriptors are open.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::dup2(output.as_raw_fd(), 1);
            libc::dup2(output.as_raw_fd(), 2);
        }
        processor.into_iter().for_each(use_only);
        run.begin();
        let test = self.test.take();
        let ended = panic::catch_unwind(AssertUnwindSafe(|| test.map(|test| test().report())));
        let has_passed = matches!(ended, Ok(Some(code)) if code == ExitCode::SUCCESS);
        let _ = io::stdout().flush();
        // SAFETY: ends the process without running destructors, which could wait for threads that never go on.
        unsafe { libc::_exit(if has_passed { 0 } else { FAILED }) }
    }

    /// Waits for one of the children, and returns its plan's index and its record.
    fn wait(&self, plans: &[Plan], running: &mut Vec<Child>) -> io::Result<(usize, Record)> {
        let longest = self.settings.longest;
        loop {
            let event = |child: &Child| libc::pollfd {
                fd: child.handle.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let mut events: Vec<_> = running.iter().map(event).collect();
            // SAFETY: the array has as many elements as the call is told.
            unsafe { libc::poll(events.as_mut_ptr(), events.len() as libc::nfds_t, 1000) };
            let ended = events.iter().position(|event| event.revents != 0);
            let late = || running.iter().position(|child| child.begun.elapsed() > longest);
            let Some(index) = ended.or_else(late) else { continue };
            let child = running.swap_remove(index);
            let mut status = 0;
            // SAFETY: the child is one of this process, and wasn't waited for. The pointer is to a local variable.
            unsafe {
                if ended.is_none() {
                    libc::kill(child.id, libc::SIGKILL);
                }
                libc::waitpid(child.id, &mut status, 0);
            }
            return Ok((child.plan, child.record(plans, ended.is_none().then_some(longest), status)?));
        }
    }
}

impl Child {
    /// Reads the record of a child that has ended, and adds the outcome that it couldn't write itself.
    fn record(&self, plans: &[Plan], late: Option<Duration>, status: i32) -> io::Result<Record> {
        let written = fs::read_to_string(&self.record).unwrap_or_default();
        let mut record = Record::read(&written).map_err(io::Error::other)?;
        let output = fs::read(&self.output).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let _ = fs::remove_file(&self.record).and_then(|()| fs::remove_file(&self.output));
        let end = match late {
            Some(longest) => End::Late(longest),
            None if libc::WIFEXITED(status) => End::Code(libc::WEXITSTATUS(status)),
            None => End::Signal(libc::WTERMSIG(status)),
        };
        record.close(end, &output, &plans[self.plan]);
        Ok(record)
    }
}

impl<T: Termination, F: FnOnce() -> T> Runner for Children<'_, F> {
    type Error = io::Error;

    fn run(&mut self, plans: &[Plan]) -> io::Result<Vec<Record>> {
        let mut records = vec![Record::default(); plans.len()];
        let mut running = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            if running.len() >= self.settings.limits.width.max(1) {
                let (index, record) = self.wait(plans, &mut running)?;
                records[index] = record;
            }
            let child = self.start(index, plan, &running)?;
            running.push(child);
        }
        while !running.is_empty() {
            let (index, record) = self.wait(plans, &mut running)?;
            records[index] = record;
        }
        Ok(records)
    }
}

/// Returns the processors that this process may use.
fn processors() -> Vec<usize> {
    // SAFETY: the type is a set of bits, for which zeros are valid, and the call gets its size.
    let (set, found) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let found = libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (set, found == 0)
    };
    // SAFETY: the numbers are below the size of the set.
    let is_in = |processor: &usize| found && unsafe { libc::CPU_ISSET(*processor, &set) };
    let mut all: Vec<_> = (0..libc::CPU_SETSIZE as usize).filter(is_in).collect();
    // Processes that explore at the same time begin with different ones.
    let first = std::process::id() as usize % all.len().max(1);
    all.rotate_left(first);
    all
}

/// Makes the calling thread, and those that it begins, run on one processor: threads of the test then take turns where no call of
/// the driver orders them, and libraries that use a thread for each processor use one.
fn use_only(processor: usize) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

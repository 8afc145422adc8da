//! Lists the process's running threads, from `/proc/self/task`.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

use crate::watch::caller::unwind::Registers;
use crate::watch::process::system::processor_time;

/// A thread that's runnable or waits for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) number: u32,
    /// Whether it waits for a disk.
    pub(super) waits: bool,
    is_askable: bool,
}

impl Running {
    /// Returns whether the thread would take the signal within this time: it has a processor, and doesn't block it.
    ///
    /// A thread that waits for a processor or a disk would take it later. By then the program may have its
    /// own handler, or the thread may be in a call such as `sigwait`. Even a runnable thread that doesn't
    /// block the signal can be in one: it leaves the call only once it gets a processor.
    pub(super) fn takes(&self, signal: c_int, within: Duration) -> bool {
        self.is_askable
            && is_on_processor(self.number, within)
            && read(self.number).is_some_and(|now| now.runs() && !now.blocks(signal))
    }
}

/// Returns whether a thread is on a processor, or has run within this time without sleeping.
fn is_on_processor(thread: u32, within: Duration) -> bool {
    /// How long a thread that gets a processor takes to leave the call in which it slept.
    const EXIT_TIME: Duration = Duration::from_micros(20);
    let time = || processor_time(thread).unwrap_or_default();
    let before = time();
    if time() > before {
        return true;
    }
    if within.is_zero() {
        return false;
    }
    let (slept, before) = (times_slept(thread), time());
    thread::sleep(within);
    time().saturating_sub(before) > EXIT_TIME && slept.is_some() && times_slept(thread) == slept
}

/// The histories of the threads that existed at the last sample.
#[derive(Default)]
pub(super) struct Threads(HashMap<u32, History>);

/// The history of a thread, in samples.
#[derive(Clone, Copy, Default)]
struct History {
    slept: u32,
    /// Samples in which it ran, and wasn't just leaving a call.
    ran: u32,
    /// Those of `ran` in which it blocked the signal.
    blocked: u32,
    /// The first sample in which it ran since it slept: how many times it had slept, and its processor time.
    awake: Option<(u64, Duration)>,
    /// Whether it was seen in a call such as `sigwait`. During the call, it seems not to block the signals.
    waits_for_signals: bool,
}

impl History {
    /// Returns whether the thread may be sent the signal. Most threads block signals at times, for instance
    /// while they start another one, but one that does so often may receive them by `sigwait`.
    fn is_askable(self) -> bool {
        self.ran - self.blocked > MIN_RAN
            && !self.waits_for_signals
            && self.blocked <= 1 + self.ran / RAN_PER_BLOCKED
    }

    /// Returns whether the running thread has left the call in which it slept, judging by its processor time.
    fn has_run(&mut self, number: u32) -> bool {
        let Some(now) = times_slept(number).zip(processor_time(number)) else { return false };
        let (slept, since) = *self.awake.get_or_insert(now);
        if slept != now.0 {
            self.awake = Some(now);
        }
        slept == now.0 && now.1.saturating_sub(since) > SOON
    }

    /// Returns whether to read the sleeping thread's system call in this sample.
    fn is_call_due(self) -> bool {
        self.slept < INITIAL_CALLS || self.slept.is_multiple_of(CALL_INTERVAL)
    }
}

/// A thread may be asked after it ran without blocking the signal in more samples than this.
const MIN_RAN: u32 = 2;

/// A thread may block the signal in one of this many samples.
const RAN_PER_BLOCKED: u32 = 8;

/// A sleeping thread's system call is read in this many samples at first, and then in one of `CALL_INTERVAL`.
const INITIAL_CALLS: u32 = 8;
const CALL_INTERVAL: u32 = 64;

impl Threads {
    /// Takes a sample of all threads, and returns the program's running ones, without those of the audit.
    pub(super) fn running(&mut self, signal: Option<c_int>) -> Vec<Running> {
        let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| number(entry.file_name().as_bytes()));
        let mut running = Vec::new();
        let mut known = HashMap::new();
        for number in numbers {
            let Some(seen) = read(number).filter(|seen| !seen.is_own) else { continue };
            let mut thread = self.0.get(&number).copied().unwrap_or_default();
            if seen.state == b'S' {
                thread.waits_for_signals |= thread.is_call_due() && is_in_call(number, SIGNALS);
                thread.slept = thread.slept.saturating_add(1);
            }
            if seen.runs() {
                if thread.has_run(number) {
                    thread.ran = thread.ran.saturating_add(1);
                    thread.blocked += u32::from(signal.is_some_and(|signal| seen.blocks(signal)));
                }
                let (waits, is_askable) = (seen.state == b'D', thread.is_askable());
                running.push(Running { number, waits, is_askable });
            }
            known.insert(number, thread);
        }
        self.0 = known;
        running
    }
}

/// The system call of `sigwait`.
const SIGNALS: libc::c_long = libc::SYS_rt_sigtimedwait;

/// Returns whether a sleeping thread is in this system call.
fn is_in_call(number: u32, call: libc::c_long) -> bool {
    let text = fs::read_to_string(format!("/proc/self/task/{number}/syscall")).unwrap_or_default();
    text.split(' ').next().and_then(|its| its.parse().ok()) == Some(call)
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A thread's state, from `/proc/self/task/*/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    /// The mask of blocked signals, of the first 31.
    blocked: u64,
    /// Whether it's the audit's.
    is_own: bool,
}

impl Stat {
    fn runs(self) -> bool {
        matches!(self.state, b'R' | b'D')
    }

    fn blocks(self, signal: c_int) -> bool {
        self.blocked >> (signal - 1) & 1 == 1
    }
}

fn read(number: u32) -> Option<Stat> {
    let mut text = [0; 1024];
    let length = File::open(format!("/proc/self/task/{number}/stat")).ok()?.read(&mut text).ok()?;
    parse(&text[..length])
}

fn times_slept(number: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{number}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// How long a thread may take to get the processor that it shares with this thread.
pub(super) const SOON: Duration = Duration::from_micros(100);

/// Returns the registers of a waiting thread, as far as Linux reports them.
pub(super) fn registers_of_waiting(thread: u32) -> Option<Registers> {
    registers(&fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?)
}

/// Parses `/proc/self/task/*/syscall`. The last words are the stack pointer and the program counter.
fn registers(line: &str) -> Option<Registers> {
    let mut words = line
        .split_ascii_whitespace()
        .rev()
        .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let (pc, sp) = (words.next()??, words.next()??);
    Some(Registers { pc: pc.wrapping_add(1), sp, fp: 0 })
}

/// Parses a line of `stat`: number, name in parentheses, state, and numbers.
fn parse(line: &[u8]) -> Option<Stat> {
    let name = line.iter().position(|byte| *byte == b'(')? + 1;
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(line.get(end + 1..)?).ok()?.split_ascii_whitespace();
    let is_own = line.get(name..end)? == b"kernel-registry";
    let state = *fields.next()?.as_bytes().first()?;
    /// The fields between the state and the blocked signals.
    const BETWEEN: usize = 28;
    Some(Stat { state, blocked: fields.nth(BETWEEN)?.parse().ok()?, is_own })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::process::system::thread_number;

    #[test]
    fn a_thread_is_known_by_its_line() {
        let line = |name: &str, state: &str| {
            format!(
                "7 ({name}) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9 9 9 9 1 1 0 0 0 0 4194304 4096 0"
            )
        };
        let parsed = |name, state| parse(line(name, state).as_bytes()).expect("a line");
        let runs = parsed(") R (", "R");
        assert_eq!(runs, Stat { state: b'R', blocked: 1 << 22, is_own: false });
        assert!(runs.blocks(libc::SIGURG) && !runs.blocks(libc::SIGINT));
        assert!(parsed("a", "D").runs() && !parsed("a", "S").runs() && parsed("kernel-registry", "R").is_own);
        assert_eq!(parse(b"7 (a"), None);
    }

    #[test]
    fn the_registers_of_a_thread_that_waits_are_read() {
        for line in ["-1 0x7ffd0 0x7f10\n", "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd0 0x7f10\n"] {
            let its = registers(line).expect("registers");
            assert_eq!((its.pc, its.sp, its.fp), (0x7f11, 0x7ffd0, 0), "{line}");
        }
        assert!(registers("running\n").is_none() && registers("").is_none());
    }

    #[test]
    fn a_thread_is_asked_after_a_few_looks() {
        let (mut threads, own, signal) = (Threads::default(), thread_number(), libc::SIGURG);
        let mut is_asked = || {
            let running = threads.running(Some(signal));
            let this = running.iter().find(|thread| thread.number == own).expect("it runs");
            this.takes(signal, SOON)
        };
        for _ in 0..MIN_RAN {
            assert!(!is_asked());
        }
        // A sample doesn't count if other programs take the processor in it.
        assert!((0..10_000).any(|_| is_asked()));
        let known = History { ran: 8, blocked: 2, ..History::default() };
        assert!(known.is_askable() && !History { blocked: 3, ..known }.is_askable());
        assert!(!History { slept: 90, ran: 2, blocked: 0, ..known }.is_askable());
        threads.0.insert(own, History { waits_for_signals: true, ..known });
        assert!(
            threads.running(None).iter().all(|thread| thread.number != own || !thread.takes(signal, SOON))
        );
    }
}

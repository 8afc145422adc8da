//! Lists the threads of this process, and which of them run.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

use crate::watch::caller::unwind::Registers;
use crate::watch::process::system::processor_time;

/// A thread that runs, or waits for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) number: u32,
    /// Whether it waits for a disk.
    pub(super) waits: bool,
    /// Whether it may be sent a signal.
    may_be_asked: bool,
}

impl Running {
    /// Returns whether the thread takes the signal at once: it comes to a processor within this time, and doesn't block the signal.
    ///
    /// A thread that waits for a processor or a disk would take it later. By then the program may have a handler of its own for the signal, or
    /// the thread may be in a call such as `sigwait`: one that took a signal there counts as one that runs and doesn't block it until a
    /// processor is free for it, and only then leaves the call.
    pub(super) fn takes(&self, signal: c_int, within: Duration) -> bool {
        self.may_be_asked
            && is_on_processor(self.number, within)
            && read(self.number).is_some_and(|now| now.runs() && !now.blocks(signal))
    }
}

/// Returns whether a thread is on a processor, or has run within this time and not slept.
fn is_on_processor(thread: u32, within: Duration) -> bool {
    /// The time in which a thread that has come to a processor leaves the call in which it slept.
    const LEAVES: Duration = Duration::from_micros(20);
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
    time().saturating_sub(before) > LEAVES && slept.is_some() && times_slept(thread) == slept
}

/// The threads that were there at the last look.
#[derive(Default)]
pub(super) struct Threads(HashMap<u32, Known>);

/// What is known of a thread.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The number of looks in which it slept.
    slept: u32,
    /// The number of looks in which it ran, and was not at the end of a call.
    ran: u32,
    /// The number of these looks in which it blocked the signal.
    blocked: u32,
    /// The first look at which it ran since it slept: how many times it had slept, and how long it had run by then.
    awake: Option<(u64, Duration)>,
    /// Whether it was seen to take signals by a call such as `sigwait`. While such a call lasts, the thread counts as
    /// one that does not block them.
    waits_for_signals: bool,
}

impl Known {
    /// Returns whether the thread may be asked. Most threads block signals at times, for instance while they start
    /// another thread. A thread that blocks them often may be one that takes them by `sigwait`.
    fn may_be_asked(self) -> bool {
        self.ran - self.blocked > FEW && !self.waits_for_signals && self.blocked <= 1 + self.ran / SELDOM
    }

    /// Returns whether the thread has run since it slept. It runs at this look, so it has left the call in which it slept.
    fn has_run(&mut self, number: u32) -> bool {
        let Some(now) = times_slept(number).zip(processor_time(number)) else { return false };
        let (slept, since) = *self.awake.get_or_insert(now);
        if slept != now.0 {
            self.awake = Some(now);
        }
        slept == now.0 && now.1.saturating_sub(since) > SOON
    }

    /// Returns whether the thread's system call is read at this look, at which it sleeps.
    fn is_call_due(self) -> bool {
        self.slept < FIRST || self.slept.is_multiple_of(MANY)
    }
}

/// A thread may be asked after more than so many looks at which it ran and did not block the signal.
const FEW: u32 = 2;

/// A thread blocks the signal seldom if it does so in one of so many looks.
const SELDOM: u32 = 8;

/// In so many first looks at which it sleeps, a thread's system call is read each time.
const FIRST: u32 = 8;

/// Later, a thread's system call is read after each so many looks at which it sleeps.
const MANY: u32 = 64;

impl Threads {
    /// Lists the threads of the program that run, without those of the audit. Only threads that take this signal may be
    /// asked.
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
                let (waits, may_be_asked) = (seen.state == b'D', thread.may_be_asked());
                running.push(Running { number, waits, may_be_asked });
            }
            known.insert(number, thread);
        }
        self.0 = known;
        running
    }
}

/// The system call that takes signals.
const SIGNALS: libc::c_long = libc::SYS_rt_sigtimedwait;

/// Returns whether a thread that sleeps is in this system call.
fn is_in_call(number: u32, call: libc::c_long) -> bool {
    let text = fs::read_to_string(format!("/proc/self/task/{number}/syscall")).unwrap_or_default();
    text.split(' ').next().and_then(|its| its.parse().ok()) == Some(call)
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A thread's state, as Linux reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    state: u8,
    /// The signals that the thread blocks, of the first 31.
    blocked: u64,
    /// Whether it is a thread of the audit.
    is_own: bool,
}

impl Seen {
    fn runs(self) -> bool {
        matches!(self.state, b'R' | b'D')
    }

    fn blocks(self, signal: c_int) -> bool {
        self.blocked >> (signal - 1) & 1 == 1
    }
}

fn read(number: u32) -> Option<Seen> {
    let mut text = [0; 1024];
    let length = File::open(format!("/proc/self/task/{number}/stat")).ok()?.read(&mut text).ok()?;
    parse(&text[..length])
}

/// Returns how many times a thread has slept.
fn times_slept(number: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{number}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// How long a thread has to come to a processor that it shares with this thread.
pub(super) const SOON: Duration = Duration::from_micros(100);

/// Returns the registers of a thread that waits, as far as Linux tells them.
pub(super) fn registers_of_waiting(thread: u32) -> Option<Registers> {
    registers(&fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?)
}

/// Parses the line of a thread that waits. The last words are the stack pointer and the address of the next instruction.
fn registers(line: &str) -> Option<Registers> {
    let mut words = line
        .split_ascii_whitespace()
        .rev()
        .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let (pc, sp) = (words.next()??, words.next()??);
    Some(Registers { pc: pc.wrapping_add(1), sp, fp: 0 })
}

/// Parses the line of a thread: its number, its name in brackets, its state, and numbers.
fn parse(line: &[u8]) -> Option<Seen> {
    let name = line.iter().position(|byte| *byte == b'(')? + 1;
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(line.get(end + 1..)?).ok()?.split_ascii_whitespace();
    let is_own = line.get(name..end)? == b"kernel-registry";
    let state = *fields.next()?.as_bytes().first()?;
    /// The fields between the state and the blocked signals.
    const BETWEEN: usize = 28;
    Some(Seen { state, blocked: fields.nth(BETWEEN)?.parse().ok()?, is_own })
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
        assert_eq!(runs, Seen { state: b'R', blocked: 1 << 22, is_own: false });
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
        for _ in 0..FEW {
            assert!(!is_asked());
        }
        // Where other programs take the processor during a look, that look does not count.
        assert!((0..10_000).any(|_| is_asked()));
        let known = Known { ran: 8, blocked: 2, ..Known::default() };
        assert!(known.may_be_asked() && !Known { blocked: 3, ..known }.may_be_asked());
        assert!(!Known { slept: 90, ran: 2, blocked: 0, ..known }.may_be_asked());
        threads.0.insert(own, Known { waits_for_signals: true, ..known });
        assert!(
            threads.running(None).iter().all(|thread| thread.number != own || !thread.takes(signal, SOON))
        );
    }
}

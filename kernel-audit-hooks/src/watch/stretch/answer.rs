//! Takes the stack of a thread that runs. The thread copies its registers, the upper part of its stack and its Python
//! frames, in the handler of a signal; another thread reads them.
//!
//! The signal is `SIGURG`, which does nothing where nobody handles it: a signal that reaches a thread which just executes
//! another program would otherwise end that. A program that handles it itself, as those of Go do, is not interrupted;
//! neither is a thread that blocks it.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::native::Unwinder;
use super::threads::{self, Running};
use crate::record::Slot;
use crate::watch::asked::{self, Taken};
use crate::watch::caller::unwind::{Registers, Stack};
use crate::watch::process::memory;
use crate::watch::process::system::{processor_time, thread_number};
use crate::watch::python::structures::Structures;
use crate::watch::python::{self, Frame, Texts, copied};
use crate::watch::record::slots;

/// How long a thread may take: it can have to wait for a processor after all.
const MOMENT: Duration = Duration::from_millis(100);

/// The words of a stack that are copied.
const WORDS: usize = 4096;

/// What a thread leaves.
struct Answer {
    registers: Registers,
    count: usize,
    words: [u64; WORDS],
    /// The thread's time on a processor that this took.
    took: Duration,
}

struct Shared(UnsafeCell<Answer>);

// SAFETY: the thread that is asked writes to it, and the thread that asks reads it afterwards; `asked` lets one thread ask
// at a time.
unsafe impl Sync for Shared {}

static ANSWER: Shared = Shared(UnsafeCell::new(Answer {
    registers: Registers { pc: 0, sp: 0, fp: 0 },
    count: 0,
    words: [0; WORDS],
    took: Duration::ZERO,
}));

fn write_down(context: &libc::ucontext_t) {
    let time = || processor_time(thread_number()).unwrap_or_default();
    let begun = time();
    // SAFETY: this thread was asked, and nobody else uses the answer before it is done.
    let answer = unsafe { &mut *ANSWER.0.get() };
    answer.registers = Registers::interrupted(context);
    answer.count = memory::read(answer.registers.sp & !7, &mut answer.words);
    // SAFETY: as above.
    unsafe { copied::copy() };
    answer.took = time().saturating_sub(begun);
}

/// Where a thread is: its functions, and its Python functions, both with the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub(super) functions: Vec<u64>,
    pub(super) python: Vec<Frame>,
}

/// Reads where threads are.
#[derive(Default)]
pub(super) struct Reader {
    unwinder: Unwinder,
    texts: Texts,
    python: Option<Structures>,
    /// The Python states of threads that have answered.
    states: HashMap<u32, u64>,
    /// How long this thread has waited for answers.
    pub(super) waited: Duration,
    /// How long the slowest thread was interrupted since this was last read.
    pub(super) interrupted: Duration,
}

impl Reader {
    /// Looks for the interpreter, which can have been opened or closed since.
    pub(super) fn prepare(&mut self) {
        let found = Structures::find();
        if found != self.python {
            Structures::keep(found);
            self.python = found;
            self.states.clear();
        }
    }

    /// Takes the signal by which threads are asked.
    pub(super) fn signal() -> Option<c_int> {
        static TAKEN: Taken = Taken::new();
        asked::take(&TAKEN, [libc::SIGURG])
    }

    /// Asks a thread, if it comes to a processor within this time.
    pub(super) fn ask(&mut self, signal: c_int, thread: &Running, within: Duration) -> Option<Position> {
        if !thread.takes(signal, within) {
            return None;
        }
        let thread = thread.number;
        let begun = Instant::now();
        let texts = &mut self.texts;
        let answered = asked::ask(signal, thread, write_down, MOMENT, || {
            // SAFETY: the thread has answered, and nobody else is asked meanwhile.
            let (answer, python) = unsafe { (&*ANSWER.0.get(), copied::read(texts)) };
            let stack = Stack::copied(answer.registers.sp & !7, &answer.words[..answer.count]);
            (answer.registers, stack, answer.took, python)
        });
        self.waited += begun.elapsed();
        let (registers, stack, took, (state, python)) = answered?;
        self.interrupted = self.interrupted.max(took);
        if state != 0 {
            self.states.insert(thread, state);
        }
        Some(Position { functions: self.unwinder.functions(registers, stack), python })
    }

    /// Reads the position of a thread that is in a call of the driver and does not run. If the call goes on afterwards, the thread has stayed
    /// in it.
    pub(super) fn read_call(&mut self, slot: &Slot, thread: u32) -> Position {
        let functions = self.unwinder.functions(slots::call_site(slot), Stack::new());
        Position { functions, python: self.frames(thread) }
    }

    /// Reads the position of a thread that is not asked and does not run: the functions of one that waits for a disk, and the Python functions
    /// of one that has answered before. Returns none if it runs: it could free what it is in.
    pub(super) fn read_still(&mut self, thread: &Running) -> Position {
        let still = python::while_it_stands_still(thread.number, || {
            let registers = if thread.waits { threads::registers_of_waiting(thread.number) } else { None };
            let unwind = |registers| self.unwinder.functions(registers, Stack::new());
            let functions = registers.map_or(Vec::new(), unwind);
            Position { functions, python: self.frames(thread.number) }
        });
        still.unwrap_or_default()
    }

    fn frames(&mut self, thread: u32) -> Vec<Frame> {
        let state = self.states.get(&thread).copied().unwrap_or(0);
        self.python.map_or(Vec::new(), |python| python.frames(state, &mut self.texts))
    }
}

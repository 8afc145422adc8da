//! Takes the stack of a running thread. In a signal handler, the thread copies its registers, the top of its
//! stack and its Python frames, which the sampling thread reads.
//!
//! The signal is `SIGURG`, which is ignored by default: any other would end a program that this thread is
//! just about to execute. Programs that handle it, as in Go, and threads that block it aren't interrupted.

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

/// How long a thread may take to answer: it may lose its processor.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The number of words copied from the stack.
const WORDS: usize = 4096;

/// The state that a thread has copied.
struct Answer {
    registers: Registers,
    count: usize,
    words: [u64; WORDS],
    /// The processor time that this took the thread.
    took: Duration,
}

struct Shared(UnsafeCell<Answer>);

// SAFETY: the asked thread writes to it, then the one that asked reads it. `asked` allows one at a time.
unsafe impl Sync for Shared {}

static ANSWER: Shared = Shared(UnsafeCell::new(Answer {
    registers: Registers { pc: 0, sp: 0, fp: 0 },
    count: 0,
    words: [0; WORDS],
    took: Duration::ZERO,
}));

fn copy_state(context: &libc::ucontext_t) {
    let time = || processor_time(thread_number()).unwrap_or_default();
    let begun = time();
    // SAFETY: this thread was asked, and no other one uses the answer before it's done.
    let answer = unsafe { &mut *ANSWER.0.get() };
    answer.registers = Registers::interrupted(context);
    answer.count = memory::read(answer.registers.sp & !7, &mut answer.words);
    // SAFETY: as above.
    unsafe { copied::copy() };
    answer.took = time().saturating_sub(begun);
}

/// A thread's stack: native functions and Python frames, both with the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub(super) functions: Vec<u64>,
    pub(super) python: Vec<Frame>,
}

/// Reads the positions of threads.
#[derive(Default)]
pub(super) struct Reader {
    unwinder: Unwinder,
    texts: Texts,
    python: Option<Structures>,
    /// The Python states of threads that have answered.
    states: HashMap<u32, u64>,
    /// How long this thread has waited for answers.
    pub(super) waited: Duration,
    /// The longest interruption of a thread since this was last reset.
    pub(super) interrupted: Duration,
}

impl Reader {
    /// Looks up the interpreter, which can appear and disappear.
    pub(super) fn prepare(&mut self) {
        let found = Structures::find();
        if found != self.python {
            Structures::set_current(found);
            self.python = found;
            self.states.clear();
        }
    }

    /// Returns the signal for asking threads, if the program doesn't use it.
    pub(super) fn signal() -> Option<c_int> {
        static TAKEN: Taken = Taken::new();
        asked::take(&TAKEN, [libc::SIGURG])
    }

    /// Asks a thread for its position, if it's on a processor within this time.
    pub(super) fn ask(&mut self, signal: c_int, thread: &Running, within: Duration) -> Option<Position> {
        if !thread.takes(signal, within) {
            return None;
        }
        let thread = thread.number;
        let begun = Instant::now();
        let texts = &mut self.texts;
        let answered = asked::ask(signal, thread, copy_state, TIMEOUT, || {
            // SAFETY: the thread has answered, and no other one is asked before this returns.
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

    /// Reads the position of a thread that waits in a driver call, and must still be in it afterwards.
    pub(super) fn read_call(&mut self, slot: &Slot, thread: u32) -> Position {
        let functions = self.unwinder.functions(slots::call_site(slot), Stack::new());
        Position { functions, python: self.frames(thread) }
    }

    /// Reads the position of a thread that isn't running: native functions if it waits for a disk, and Python
    /// frames if it has answered before. Empty if the thread ran at the same time.
    pub(super) fn read_still(&mut self, thread: &Running) -> Position {
        let position = python::while_stopped(thread.number, || {
            let registers = if thread.waits { threads::registers_of_waiting(thread.number) } else { None };
            let unwind = |registers| self.unwinder.functions(registers, Stack::new());
            let functions = registers.map_or(Vec::new(), unwind);
            Position { functions, python: self.frames(thread.number) }
        });
        position.unwrap_or_default()
    }

    fn frames(&mut self, thread: u32) -> Vec<Frame> {
        let state = self.states.get(&thread).copied().unwrap_or(0);
        self.python.map_or(Vec::new(), |python| python.frames(state, &mut self.texts))
    }
}

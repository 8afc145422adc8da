//! Takes the stack of a thread that runs. The thread copies its registers, the upper part of its stack and the places of
//! its Python frames, in the handler of a signal; another thread reads them.
//!
//! The signal is `SIGURG`, which does nothing where nobody handles it: a signal that reaches a thread which just executes
//! another program would otherwise end that. A program that handles it itself, as those of Go do, is not interrupted;
//! neither is a thread that blocks it.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::native::Unwinder;
use super::threads::Running;
use crate::record::Slot;
use crate::watch::asked::{self, Taken};
use crate::watch::caller::unwind::{Registers, Stack};
use crate::watch::process::memory;
use crate::watch::python::Frame;
use crate::watch::python::structures::{Codes, DEPTH, Place, Structures};
use crate::watch::record::slots;

/// How long a thread may take that runs: it can wait for a processor.
const MOMENT: Duration = Duration::from_millis(100);
/// How long a thread may take that waits for a disk, or for a child of `vfork`.
const SHORT: Duration = Duration::from_millis(1);

/// The words of a stack that are copied.
const WORDS: usize = 4096;

/// What a thread leaves.
struct Answer {
    registers: Registers,
    count: usize,
    words: [u64; WORDS],
    /// The address of the thread's Python state, or 0.
    state: u64,
    places: [Place; DEPTH],
    frames: usize,
}

struct Shared(UnsafeCell<Answer>);

// SAFETY: the thread that is asked writes to it, and the thread that asks reads it afterwards; `asked` lets one thread ask
// at a time.
unsafe impl Sync for Shared {}

static ANSWER: Shared = Shared(UnsafeCell::new(Answer {
    registers: Registers { pc: 0, sp: 0, fp: 0 },
    count: 0,
    words: [0; WORDS],
    state: 0,
    places: [Place::NONE; DEPTH],
    frames: 0,
}));

fn write_down(context: &libc::ucontext_t) {
    // SAFETY: this thread was asked, and nobody else uses the answer before it is done.
    let answer = unsafe { &mut *ANSWER.0.get() };
    answer.registers = Registers::interrupted(context);
    answer.count = memory::read(answer.registers.sp & !7, &mut answer.words);
    let python = Structures::kept();
    answer.state = python.map_or(0, Structures::state);
    answer.frames = python.map_or(0, |python| python.copy(answer.state, &mut answer.places));
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
    codes: Codes,
    python: Option<Structures>,
    /// The Python states of threads that have answered.
    states: HashMap<u32, u64>,
    /// How long threads took to answer.
    pub(super) waited: Duration,
}

impl Reader {
    /// Looks for the interpreter, which can have been opened or closed since.
    pub(super) fn prepare(&mut self) {
        let found = Structures::find();
        if found != self.python {
            Structures::keep(found);
            (self.python, self.codes) = (found, Codes::default());
            self.states.clear();
        }
    }

    /// Takes the signal by which threads are asked.
    pub(super) fn signal() -> Option<c_int> {
        static TAKEN: Taken = Taken::new();
        asked::take(&TAKEN, [libc::SIGURG])
    }

    /// Asks a thread that runs.
    pub(super) fn ask(&mut self, signal: c_int, thread: &Running) -> Option<Position> {
        if !thread.takes(signal) {
            return None;
        }
        let (thread, within) = (thread.number, if thread.waits { SHORT } else { MOMENT });
        let begun = Instant::now();
        let answered = asked::ask(signal, thread, write_down, within, || {
            // SAFETY: the thread has answered, and nobody else is asked meanwhile.
            let answer = unsafe { &*ANSWER.0.get() };
            let stack = Stack::copied(answer.registers.sp & !7, &answer.words[..answer.count]);
            (answer.registers, stack, answer.state, answer.places[..answer.frames].to_vec())
        });
        self.waited += begun.elapsed();
        let (registers, stack, state, places) = answered?;
        if state != 0 {
            self.states.insert(thread, state);
        }
        Some(Position { functions: self.unwinder.functions(registers, stack), python: self.name(&places) })
    }

    /// Reads the position of a thread that is in a call of the driver and does not run.
    pub(super) fn read_call(&mut self, slot: &Slot, thread: u32) -> Position {
        let functions = self.unwinder.functions(slots::call_site(slot), Stack::new());
        Position { functions, ..self.read_python(thread) }
    }

    /// Reads the Python functions of a thread that cannot be asked, but has answered before.
    pub(super) fn read_python(&mut self, thread: u32) -> Position {
        let mut places = [Place::NONE; DEPTH];
        let state = self.states.get(&thread).copied().unwrap_or(0);
        let count = self.python.map_or(0, |python| python.copy(state, &mut places));
        Position { functions: Vec::new(), python: self.name(&places[..count]) }
    }

    fn name(&mut self, places: &[Place]) -> Vec<Frame> {
        let Some(python) = self.python else { return Vec::new() };
        places.iter().filter_map(|place| self.codes.name(&python, *place)).collect()
    }
}

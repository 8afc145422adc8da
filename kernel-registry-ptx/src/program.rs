//! Defines programs, which are decoded PTX texts, and modules, which are programs with addresses for their
//! variables.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::address::{FUNCTION_WINDOW, Space};
use crate::op::{Instruction, Op, Sizes};
use crate::slot::Slot;

/// A decoded PTX text.
///
/// ```
/// use kernel_registry_ptx::Program;
///
/// let program = Program::load(".version 8.0 .target sm_75 .address_size 64 .visible .entry nothing() { ret; }")?;
/// assert_eq!(program.kernels().collect::<Vec<_>>(), ["nothing"]);
/// # Ok::<(), kernel_registry_ptx::LoadError>(())
/// ```
pub struct Program {
    /// Tells programs apart, in the order in which they were loaded.
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) functions: Vec<Function>,
    pub(crate) kernels: HashMap<String, Kernel>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) variables: Vec<Variable>,
}

/// A constant operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Constant {
    Bits(u64),
    /// The address of a variable plus an offset.
    Address {
        variable: usize,
        offset: i64,
    },
    /// The address of a variable in shared memory plus an offset. Each kernel has its own layout of shared
    /// memory.
    Shared {
        variable: usize,
        offset: i64,
    },
}

/// Returns the address of a function. The address can be called, but not read or written.
pub(crate) fn function_address(function: usize) -> u64 {
    FUNCTION_WINDOW + 16 * function as u64
}

/// Returns the function at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FUNCTION_WINDOW)?;
    offset.is_multiple_of(16).then_some((offset / 16) as usize)
}

/// A kernel, or another function that kernels call.
#[derive(Default)]
pub(crate) struct Function {
    pub name: String,
    pub entry: bool,
    pub start: u32,
    pub registers: usize,
    /// How many 32-bit registers of the hardware each register takes: none for a predicate, two for 64 bits.
    pub widths: Vec<u8>,
    /// Bytes of the frame in local memory: variables, parameters of functions, arguments of calls.
    pub frame: u64,
    /// Offset and size of each parameter, in the arguments of a kernel or in the frame.
    pub parameters: Vec<(u64, u64)>,
    pub returns: Vec<(u64, u64)>,
    /// The variables in shared memory that the function names.
    pub shared: BTreeSet<usize>,
    /// Whether the function names the reserved shared memory.
    pub reserved: bool,
    /// Bytes of the function's own variables in local memory.
    pub local: u64,
    pub max_threads: Option<u64>,
    pub cluster: Option<[u64; 3]>,
    /// Whether a register's value depends on a clock, for each register.
    pub timed: Vec<bool>,
    /// The first instruction that the interpreter doesn't know.
    pub lacking: Option<Lacking>,
}

impl Function {
    /// Returns whether the function can be called with parameters and results of these sizes.
    pub(crate) fn takes(&self, sizes: &Sizes) -> bool {
        let same = |places: &[(u64, u64)], sizes: &[u64]| places.iter().map(|(_, size)| size).eq(sizes);
        !self.entry && same(&self.parameters, &sizes.parameters) && same(&self.returns, &sizes.returns)
    }
}

/// A kernel, which is a function that can be launched.
pub(crate) struct Kernel {
    pub function: usize,
    /// The needs of the kernel and of all functions that it may call.
    pub reach: Reach,
    /// Why the kernel can't be launched, if it can't.
    pub lacking: Option<Lacking>,
    /// The estimate of [`Program::registers`], once it is computed.
    pub registers: OnceLock<u32>,
}

/// The needs of a kernel and of all functions that it may call.
#[derive(Default, Debug)]
pub(crate) struct Reach {
    /// Bytes of static shared memory.
    pub shared: u64,
    /// The offsets of variables in shared memory.
    pub places: BTreeMap<usize, u64>,
    /// Bytes of local memory for all frames on the deepest chain of calls. A recursive function counts once.
    pub frames: u64,
    /// Bytes of local memory for the variables of the source only, on the deepest chain of calls.
    pub local: u64,
    /// The part of `local` for the kernel's own variables.
    pub own: u64,
    /// Whether calls may be nested without bound.
    pub recursive: bool,
    /// Whether the reserved shared memory is used.
    pub reserved: bool,
    /// The first function with an instruction that the interpreter doesn't know.
    pub lacking: Option<usize>,
}

/// Something that the interpreter doesn't know: an instruction (perhaps only with these types and
/// modifiers), a register or a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The line of the instruction in the PTX, counted from 1.
    pub line: u32,
    /// The opcode with its types and modifiers, or the name of the register or function.
    pub what: String,
    /// The text of the instruction.
    pub instruction: String,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, what, instruction } = self;
        write!(f, "the interpreter does not have `{what}` (line {line} of the PTX: `{instruction}`)")
    }
}

/// A `.global` or `.const` variable.
pub struct Variable {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// The first bytes of the initial value. The rest is zeros.
    pub(crate) initial: Vec<u8>,
    /// The pointers in `initial`. Each has an offset in `initial`, the variable that it points to, and an
    /// offset in that variable.
    pub(crate) pointers: Vec<(usize, usize, i64)>,
}

impl Variable {
    /// Returns the name of the variable in the text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the variable in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Program {
    /// Iterates over the names of the kernels, in no particular order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// Returns the bytes of local memory that a thread needs for the variables of a kernel and of the
    /// functions that it calls.
    pub fn frame(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.local)
    }

    /// Returns the bytes of local memory that a thread needs for a kernel's own variables, without the
    /// functions that it calls.
    pub fn own_frame(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.own)
    }

    /// Returns whether a kernel's calls may be nested without bound, so that no compiler knows how much stack
    /// the kernel needs.
    pub fn is_recursive(&self, kernel: &str) -> Option<bool> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.recursive)
    }

    /// Returns the bytes of static shared memory of a kernel.
    pub fn shared(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.shared)
    }

    /// Returns the variables of the program. The caller allocates memory for them.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns offset and size of each parameter of a kernel among its arguments.
    pub fn parameters(&self, kernel: &str) -> Option<&[(u64, u64)]> {
        self.kernels.get(kernel).map(|kernel| &self.functions[kernel.function].parameters[..])
    }

    /// Returns the reason why a kernel can't be launched: a part that the interpreter doesn't know, in the
    /// kernel or in a function that the kernel may call.
    pub fn lacking(&self, kernel: &str) -> Option<&Lacking> {
        self.kernels.get(kernel)?.lacking.as_ref()
    }

    /// Returns the indices of a function's instructions.
    pub(crate) fn range(&self, function: usize) -> Range<usize> {
        let next = self.functions.get(function + 1);
        let end = next.map_or(self.instructions.len(), |next| next.start as usize);
        self.functions[function].start as usize..end
    }

    /// Returns whether a loop only waits for a clock: the loop reads a clock, and nothing that other threads
    /// can change. `body` has the indices of the loop's instructions.
    pub(crate) fn is_delay(&self, body: Range<usize>) -> bool {
        let ops = || self.instructions[body.clone()].iter().map(|instruction| &instruction.op);
        let waits_for_others = |op: &Op| match op {
            Op::Load { address, .. } => !matches!(address.space, Space::Frame | Space::Parameter),
            Op::Atomic { .. } | Op::Call { .. } | Op::Collective { .. } | Op::Switch { .. } => true,
            _ => false,
        };
        ops().any(|op| matches!(op, Op::Clock { .. })) && !ops().any(waits_for_others)
    }

    /// Returns whether a compare-and-swap compares what the loads of a line of the PTX have read.
    pub(crate) fn is_compared(&self, line: u32) -> bool {
        let within = |function: usize| &self.instructions[self.range(function)];
        let has_line = |function: &usize| within(*function).iter().any(|its| its.line == line);
        let Some(function) = (0..self.functions.len()).find(has_line) else { return false };
        let mut read: HashSet<Slot> = HashSet::new();
        for _ in 0..4 {
            // Follows copies of the loaded value, also around loops.
            for instruction in within(function) {
                match &instruction.op {
                    Op::Load { to, .. } if instruction.line == line => read.extend(to.iter()),
                    Op::One(_, _, to, from) if read.contains(from) => _ = read.insert(*to),
                    _ => {}
                }
            }
        }
        within(function).iter().any(|instruction| match &instruction.op {
            Op::Atomic { operands: [compared, new], .. } => compared != new && read.contains(compared),
            _ => false,
        })
    }

    /// Returns the source line that a line of the PTX was compiled from, such as `kernel.cu:7`. Only PTX
    /// that was compiled with `-lineinfo` names source lines.
    pub(crate) fn place(&self, line: u32) -> Option<String> {
        let mut found = None;
        for text in self.text.lines().take(line as usize) {
            let mut words = text.split_whitespace();
            match words.next() {
                Some(".loc") => found = words.next().zip(words.next()),
                _ if text.contains(".entry ") || text.contains(".func ") => found = None,
                _ => {}
            }
        }
        let (file, line) = found?;
        let name = self.text.lines().find_map(|text| {
            let (number, name) = text.trim_start().strip_prefix(".file")?.trim_start().split_once('"')?;
            (number.trim() == file).then(|| name.split('"').next()).flatten()
        });
        Some(format!("{}:{line}", name?))
    }

    pub(crate) fn source(&self, line: u32) -> &str {
        self.text.lines().nth((line as usize).wrapping_sub(1)).unwrap_or("").trim()
    }

    /// Returns the first instruction of a function that the interpreter doesn't know. A long list of
    /// operands is cut off.
    pub(crate) fn lacking_of(&self, function: usize) -> Option<Lacking> {
        const LONGEST: usize = 160;
        let Lacking { line, what, instruction: opcode } = self.functions[function].lacking.clone()?;
        let source = self.source(line);
        let statement = source.find(&opcode).map_or(source, |start| &source[start..]);
        let statement = statement.split_inclusive(';').next().unwrap_or("");
        let mut instruction: String = statement.chars().take(LONGEST).collect();
        if instruction.len() < statement.len() {
            instruction.push_str(" ..");
        }
        Some(Lacking { line, what, instruction })
    }
}

/// A program with an address for each of its variables.
///
/// ```
/// use std::sync::{Arc, OnceLock};
/// use kernel_registry_ptx::{Module, Program};
///
/// let program = Arc::new(Program::load(".global .u32 five = 5; .visible .entry nothing() { ret; }")?);
/// let module = Module::new(program, vec![0x1000]);
/// assert_eq!(module.initial(0), [5, 0, 0, 0]);
/// # Ok::<(), kernel_registry_ptx::LoadError>(())
/// ```
pub struct Module {
    pub(crate) program: Arc<Program>,
    addresses: Vec<u64>,
}

impl Module {
    /// Makes a module from the addresses of [`Program::variables`], in their order.
    ///
    /// # Panics
    ///
    /// Panics if the number of addresses differs from the number of variables.
    pub fn new(program: Arc<Program>, addresses: Vec<u64>) -> Self {
        assert_eq!(program.variables.len(), addresses.len(), "a module needs an address for each variable");
        Self { program, addresses }
    }

    /// Returns the program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the addresses of the variables, in the order of [`Program::variables`].
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Returns the first bytes of a variable's initial value. The caller writes them to the variable's
    /// address, and zeros after them.
    pub fn initial(&self, variable: usize) -> Vec<u8> {
        let variable = &self.program.variables[variable];
        let mut bytes = variable.initial.clone();
        for &(at, target, offset) in &variable.pointers {
            let address = self.addresses[target].wrapping_add_signed(offset);
            bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
        }
        bytes
    }

    /// Returns the value of a constant in this module.
    pub(crate) fn value(&self, kernel: &Kernel, constant: Constant) -> u64 {
        match constant {
            Constant::Bits(bits) => bits,
            Constant::Address { variable, offset } => self.addresses[variable].wrapping_add_signed(offset),
            Constant::Shared { variable, offset } => {
                let start = kernel.reach.places.get(&variable).copied().unwrap_or(0);
                start.wrapping_add_signed(offset)
            }
        }
    }
}

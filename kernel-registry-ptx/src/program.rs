//! A program, which is decoded PTX, and a module, which is a program with addresses for its variables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::address::{FUNCTION_WINDOW, Space};
use crate::op::{Instruction, Op, Sizes};

/// A PTX text, decoded.
///
/// ```
/// use kernel_registry_ptx::Program;
///
/// let program = Program::load(".version 8.0 .target sm_75 .address_size 64 .visible .entry nothing() { ret; }")?;
/// assert_eq!(program.kernels().collect::<Vec<_>>(), ["nothing"]);
/// # Ok::<(), kernel_registry_ptx::LoadError>(())
/// ```
pub struct Program {
    pub(crate) text: String,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) functions: Vec<Function>,
    pub(crate) kernels: HashMap<String, Kernel>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) variables: Vec<Variable>,
}

/// A constant operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Constant {
    Bits(u64),
    /// The address of a variable plus an offset.
    Address {
        variable: usize,
        offset: i64,
    },
    /// The address of a variable in shared memory, where each kernel has a layout of its own, plus an offset.
    Shared {
        variable: usize,
        offset: i64,
    },
}

/// The address of a function, which cannot be read or written.
pub(crate) fn function_address(function: usize) -> u64 {
    FUNCTION_WINDOW + 16 * function as u64
}

/// The function at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FUNCTION_WINDOW)?;
    offset.is_multiple_of(16).then_some((offset / 16) as usize)
}

/// A kernel, or a function that kernels call.
#[derive(Default)]
pub(crate) struct Function {
    pub name: String,
    pub entry: bool,
    pub start: u32,
    pub registers: usize,
    /// How many registers of the machine each register takes: none for a predicate, two for 64 bits.
    pub widths: Vec<u8>,
    /// Bytes of local memory: variables, parameters of functions, arguments of calls.
    pub frame: u64,
    /// Offset and size of each parameter, in the arguments of a kernel or in the frame.
    pub parameters: Vec<(u64, u64)>,
    pub returns: Vec<(u64, u64)>,
    /// The variables in shared memory that it names.
    pub shared: BTreeSet<usize>,
    /// Whether it names the reserved shared memory.
    pub reserved: bool,
    /// Bytes of its variables in local memory.
    pub local: u64,
    pub max_threads: Option<u64>,
    pub cluster: Option<[u64; 3]>,
    /// Whether the value of each register depends on a clock.
    pub timed: Vec<bool>,
    /// The first instruction that the interpreter does not have.
    pub lacking: Option<Lacking>,
}

impl Function {
    /// Whether it can be called with parameters and results of these sizes.
    pub(crate) fn takes(&self, sizes: &Sizes) -> bool {
        let same = |places: &[(u64, u64)], sizes: &[u64]| places.iter().map(|(_, size)| size).eq(sizes);
        !self.entry && same(&self.parameters, &sizes.parameters) && same(&self.returns, &sizes.returns)
    }
}

/// A function that can be launched.
pub(crate) struct Kernel {
    pub function: usize,
    /// What it reaches through calls.
    pub reach: Reach,
    /// Why it cannot be launched.
    pub lacking: Option<Lacking>,
    /// See [`Program::registers`].
    pub registers: OnceLock<u32>,
}

/// What a kernel needs, together with all functions that it may call.
#[derive(Default, Debug)]
pub(crate) struct Reach {
    /// Bytes of shared memory, without the dynamic one.
    pub shared: u64,
    /// The offsets of variables in it.
    pub places: BTreeMap<usize, u64>,
    /// Bytes of local memory for the deepest chain of calls, where a recursive function counts once.
    pub frames: u64,
    /// Bytes of local memory for the source's variables alone, for the deepest chain of calls.
    pub local: u64,
    /// The kernel's own part of `local`.
    pub own: u64,
    /// Whether calls may be nested without bound.
    pub recursive: bool,
    /// Whether the reserved shared memory is used.
    pub reserved: bool,
    /// The first function with an instruction that the interpreter does not have.
    pub lacking: Option<usize>,
}

/// Something that the interpreter does not have: an instruction, perhaps only with such types and modifiers, a
/// register or a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The line of the instruction in the PTX, from 1.
    pub line: u32,
    /// The instruction's name with types and modifiers, the register or the function.
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
    /// Its first bytes; zeros follow.
    pub(crate) initial: Vec<u8>,
    /// Pointers in `initial`: an offset there, and a variable with an offset in it.
    pub(crate) pointers: Vec<(usize, usize, i64)>,
}

impl Variable {
    /// Its name in the text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Program {
    /// The names of its kernels, in no particular order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// Bytes of local memory that a thread needs for variables of a kernel and of the functions that it calls.
    pub fn frame(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.local)
    }

    /// Bytes of local memory that a thread needs for variables of a kernel, without the functions that it calls.
    pub fn own_frame(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.own)
    }

    /// Whether a kernel's calls may be nested without bound, so that no compiler knows how much stack it needs.
    pub fn is_recursive(&self, kernel: &str) -> Option<bool> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.recursive)
    }

    /// Bytes of static shared memory of a kernel.
    pub fn shared(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.shared)
    }

    /// The variables of the program. The caller allocates memory for them.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Offset and size of each parameter of a kernel among its arguments.
    pub fn parameters(&self, kernel: &str) -> Option<&[(u64, u64)]> {
        self.kernels.get(kernel).map(|kernel| &self.functions[kernel.function].parameters[..])
    }

    /// Why a kernel cannot be launched: what the interpreter does not have, in the kernel or in a function that it may call.
    pub fn lacking(&self, kernel: &str) -> Option<&Lacking> {
        self.kernels.get(kernel)?.lacking.as_ref()
    }

    /// The instructions of a function.
    pub(crate) fn range(&self, function: usize) -> Range<usize> {
        let next = self.functions.get(function + 1);
        let end = next.map_or(self.instructions.len(), |next| next.start as usize);
        self.functions[function].start as usize..end
    }

    /// Whether a loop of these instructions only waits for a clock: it reads one, and nothing that other threads change.
    pub(crate) fn is_delay(&self, body: Range<usize>) -> bool {
        let ops = || self.instructions[body.clone()].iter().map(|instruction| &instruction.op);
        let waits_for_others = |op: &Op| match op {
            Op::Load { address, .. } => !matches!(address.space, Space::Frame | Space::Parameter),
            Op::Atomic { .. } | Op::Call { .. } | Op::Collective { .. } | Op::Switch { .. } => true,
            _ => false,
        };
        ops().any(|op| matches!(op, Op::Clock { .. })) && !ops().any(waits_for_others)
    }

    /// The line of the source that a line of the text was compiled from, as `-lineinfo` notes it: `kernel.cu:7`.
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

    /// What a function lacks. Long lists of operands are cut.
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
    /// If the number of addresses is not that of the variables.
    pub fn new(program: Arc<Program>, addresses: Vec<u64>) -> Self {
        assert_eq!(program.variables.len(), addresses.len(), "a module needs an address for each variable");
        Self { program, addresses }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The addresses of the variables, in the order of [`Program::variables`].
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// The first bytes of a variable, which the caller writes to its address; zeros follow.
    pub fn initial(&self, variable: usize) -> Vec<u8> {
        let variable = &self.program.variables[variable];
        let mut bytes = variable.initial.clone();
        for &(place, target, offset) in &variable.pointers {
            let address = self.addresses[target].wrapping_add_signed(offset);
            bytes[place..place + 8].copy_from_slice(&address.to_le_bytes());
        }
        bytes
    }

    /// The value of a constant in this module.
    pub(crate) fn value(&self, kernel: &Kernel, constant: Constant) -> u64 {
        match constant {
            Constant::Bits(bits) => bits,
            Constant::Address { variable, offset } => self.addresses[variable].wrapping_add_signed(offset),
            Constant::Shared { variable, offset } => {
                let place = kernel.reach.places.get(&variable).copied().unwrap_or(0);
                place.wrapping_add_signed(offset)
            }
        }
    }
}

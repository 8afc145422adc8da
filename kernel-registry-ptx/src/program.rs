//! A program: everything that a PTX text defines, decoded once for any number of launches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::address::FUNCTION_WINDOW;
use crate::op::{Instruction, Sizes};

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

/// A value that instructions name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Constant {
    Bits(u64),
    /// So many bytes from the start of a variable.
    Address {
        variable: usize,
        offset: i64,
    },
    /// The same in shared memory, where each kernel has its own places for variables.
    Shared {
        variable: usize,
        offset: i64,
    },
}

/// What a program has as the address of a function: nothing can be read or written there.
pub(crate) fn function_address(function: usize) -> u64 {
    FUNCTION_WINDOW + 16 * function as u64
}

/// The function whose address that is.
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
    /// Bytes of local memory: variables, parameters of functions, arguments of calls.
    pub frame: u64,
    /// Place and size of each parameter, in the arguments of a kernel or in the frame.
    pub parameters: Vec<(u64, u64)>,
    pub returns: Vec<(u64, u64)>,
    /// The variables in shared memory that it names, in their order.
    pub shared: BTreeSet<usize>,
    /// Bytes of its variables in local memory.
    pub local: u64,
    pub max_threads: Option<u64>,
    pub cluster: Option<[u64; 3]>,
    /// For each register whether a clock decides what it holds.
    pub timed: Vec<bool>,
}

impl Function {
    /// Whether it can be called with arguments of these sizes, for results of these.
    pub(crate) fn takes(&self, sizes: &Sizes) -> bool {
        let same = |places: &[(u64, u64)], sizes: &[u64]| places.iter().map(|(_, size)| size).eq(sizes);
        !self.entry && same(&self.parameters, &sizes.parameters) && same(&self.returns, &sizes.returns)
    }
}

/// What can be launched.
pub(crate) struct Kernel {
    pub function: usize,
    /// What it reaches through calls.
    pub reach: Reach,
}

/// What a kernel needs, with all functions that it may call.
#[derive(Default, Debug)]
pub(crate) struct Reach {
    /// Bytes of shared memory, without the dynamic one.
    pub shared: u64,
    /// Where the variables in it are.
    pub places: BTreeMap<usize, u64>,
    /// The most bytes of local memory that frames of nested calls take, with a function that calls itself counted once.
    pub frames: u64,
    /// The same of what the source has in local memory.
    pub local: u64,
    /// Of that, what the kernel itself has.
    pub own: u64,
    /// Whether calls may be nested as deep as they like.
    pub recursive: bool,
}

/// A `.global` or `.const` variable.
pub struct Variable {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// Zeros follow.
    pub(crate) initial: Vec<u8>,
    /// Where in `initial` the address of which variable belongs, plus how much.
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

    /// What its address must be a multiple of.
    pub fn align(&self) -> u64 {
        self.align
    }
}

impl Program {
    /// The names of its kernels, in no order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// Bytes of local memory that a thread of a kernel takes for variables, with those of the functions that it calls.
    pub fn frame(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.local)
    }

    /// The same without the functions that it calls.
    pub fn own_frame(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.own)
    }

    /// Whether calls of a kernel may be nested as deep as they like, so that no compiler knows how much stack it needs.
    pub fn is_recursive(&self, kernel: &str) -> Option<bool> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.recursive)
    }

    /// Bytes of static shared memory of a kernel.
    pub fn shared(&self, kernel: &str) -> Option<u64> {
        self.kernels.get(kernel).map(|kernel| kernel.reach.shared)
    }

    /// Its variables, which whoever loads the program finds room for.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Place and size of each parameter of a kernel among its arguments.
    pub fn parameters(&self, kernel: &str) -> Option<&[(u64, u64)]> {
        self.kernels.get(kernel).map(|kernel| &self.functions[kernel.function].parameters[..])
    }

    /// Where the instructions of a function are.
    pub(crate) fn range(&self, function: usize) -> Range<usize> {
        let next = self.functions.get(function + 1);
        let end = next.map_or(self.instructions.len(), |next| next.start as usize);
        self.functions[function].start as usize..end
    }

    pub(crate) fn source(&self, line: u32) -> &str {
        self.text.lines().nth((line as usize).wrapping_sub(1)).unwrap_or("").trim()
    }
}

/// A program with a place for each of its variables: what is loaded into one context.
///
/// ```
/// use std::sync::Arc;
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
    /// Takes the address of each of [`Program::variables`].
    ///
    /// # Panics
    ///
    /// If there are not as many.
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

    /// What a variable begins with when the module was loaded, which whoever loads it writes to its address; zeros follow.
    pub fn initial(&self, variable: usize) -> Vec<u8> {
        let variable = &self.program.variables[variable];
        let mut bytes = variable.initial.clone();
        for &(place, target, offset) in &variable.pointers {
            let address = self.addresses[target].wrapping_add_signed(offset);
            bytes[place..place + 8].copy_from_slice(&address.to_le_bytes());
        }
        bytes
    }

    /// The value of a constant, now that addresses are known.
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

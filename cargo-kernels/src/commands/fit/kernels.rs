//! Reads the kernels of all files, with the figures of their machine code.

use kernel_registry_image::Target;

use crate::cli::Fit;
use crate::document::unread::Unread;
use crate::document::{self, DeclaredKernel, Limits, Resources, Variant, VariantKind};
use crate::failure::Failure;
use crate::kernels;
use crate::kernels::names::{is_cuda_name, is_path, nearest};

pub(super) struct Kernels {
    kernels: Vec<Kernel>,
    pub(super) unread: Unread,
}

pub(super) struct Kernel {
    /// The path of a declared kernel; the C++ name or symbol of a kernel without declaration.
    pub(super) name: String,
    pub(super) symbol: String,
    is_declared: bool,
    /// The threads of a block, and below the bytes of dynamic shared memory, if the declaration fixes them.
    block: Option<u32>,
    pub(super) shared: Option<u32>,
    code: Vec<Code>,
    /// The names of all variants.
    variants: Vec<String>,
}

/// The machine code of a kernel for one architecture.
pub(super) struct Code {
    pub(super) target: Target,
    pub(super) resources: Resources,
    pub(super) limits: Limits,
}

impl Kernels {
    pub(super) fn read(options: &Fit) -> Result<Self, Failure> {
        let mut all = Kernels { kernels: Vec::new(), unread: Unread::default() };
        let documents = match options.path.is_empty() {
            true => vec![kernels::describe_package(&options.build)?],
            false => {
                options.path.iter().map(|path| kernels::describe_file(path)).collect::<Result<_, _>>()?
            }
        };
        for document in documents {
            all.unread.merge(document.unread());
            all.kernels.extend(document.kernels.into_iter().map(Kernel::from));
        }
        Ok(all)
    }

    /// Finds a kernel by its path or symbol, or else by its C++ name.
    pub(super) fn named(&self, name: &str) -> Result<&Kernel, Failure> {
        let by_declaration =
            |kernel: &&Kernel| kernel.is_declared && is_path(&kernel.name, name) || kernel.symbol == name;
        let by_cuda = |kernel: &&Kernel| is_cuda_name(&kernel.symbol, name);
        let mut found: Vec<_> = self.kernels.iter().filter(by_declaration).collect();
        if found.is_empty() {
            found = self.kernels.iter().filter(by_cuda).collect();
        }
        match *found.as_slice() {
            [kernel] => Ok(kernel),
            [] => {
                let kernels = self.kernels.iter().map(|kernel| {
                    let last = kernel.name.rsplit("::").next().unwrap_or_default();
                    ([kernel.name.as_str(), last, kernel.symbol.as_str()], kernel.name.as_str())
                });
                Err(Failure::NoneNamed { name: name.to_owned(), near: nearest(name, kernels) })
            }
            _ => {
                let mut there: Vec<_> = found.iter().map(|kernel| format!("`{}`", kernel.name)).collect();
                there.dedup();
                if there.len() == 1 {
                    there = found.iter().map(|kernel| format!("`{}`", kernel.symbol)).collect();
                }
                Err(Failure::Several { name: name.to_owned(), there })
            }
        }
    }
}

impl From<document::Kernel> for Kernel {
    fn from(kernel: document::Kernel) -> Self {
        let (name, symbol, variants, declaration) = match kernel {
            document::Kernel::Declared(kernel) => {
                let DeclaredKernel { declaration, variants, .. } = *kernel;
                (declaration.place.path.clone(), declaration.symbol.clone(), variants, Some(declaration))
            }
            document::Kernel::Undeclared(kernel) => (kernel.name(), kernel.symbol, kernel.variants, None),
        };
        Kernel {
            name,
            symbol,
            is_declared: declaration.is_some(),
            block: declaration.as_ref().and_then(|kernel| kernel.block).map(product),
            shared: declaration.as_ref().and_then(|kernel| kernel.shared),
            variants: variants.iter().map(name_of).collect(),
            code: variants.into_iter().filter_map(Code::from_variant).collect(),
        }
    }
}

impl Kernel {
    /// Returns the architectures of the kernel's machine code, ascending.
    pub(super) fn architectures(&self) -> Vec<u32> {
        let mut all: Vec<_> = self.code.iter().map(|code| code.target.sm).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the machine code that a GPU of this architecture would run: the newest that runs there.
    pub(super) fn code(&self, gpu: u32) -> Result<&Code, Failure> {
        let runs = self.code.iter().filter(|code| code.target.binary_runs_on((gpu / 10, gpu % 10)));
        runs.max_by_key(|code| code.target.sm).ok_or_else(|| self.no_code(Some(gpu)))
    }

    pub(super) fn no_code(&self, gpu: Option<u32>) -> Failure {
        let there = match self.variants.as_slice() {
            [] => "no image that was found".to_owned(),
            variants => variants.join(", "),
        };
        Failure::NoMachineCode { kernel: self.name.clone(), gpu, there }
    }

    /// Returns the threads of a block: the given number, or that of the declaration or of the code.
    pub(super) fn threads(&self, given: Option<u32>, code: &Code, gpu: u32) -> Result<u32, Failure> {
        let required = code.limits.required_threads.map(product);
        let threads = given.or(self.block).or(required);
        let threads = threads.ok_or_else(|| Failure::NoBlock { kernel: self.name.clone() })?;
        let cannot = |why| Failure::CannotRun { kernel: self.name.clone(), gpu, why };
        match (required, code.limits.max_threads) {
            (Some(required), _) if threads != required => Err(cannot(format!(
                "a block of {threads} threads is not the one that it requires; use {required} threads"
            ))),
            (_, Some(most)) if threads > most => Err(cannot(format!(
                "a block of {threads} threads is too large for its launch bounds; use {most} at most"
            ))),
            _ => Ok(threads),
        }
    }
}

impl Code {
    fn from_variant(variant: Variant) -> Option<Self> {
        let resources = variant.resources.filter(|_| variant.kind == VariantKind::Cubin)?;
        Some(Code { target: variant.target.parse().ok()?, resources, limits: variant.limits })
    }

    /// Returns the blocks of a cluster, if the kernel must be launched in clusters.
    pub(super) fn cluster(&self) -> Option<u32> {
        self.limits.cluster.map(product)
    }
}

/// Returns the name that nvcc gives a variant.
fn name_of(variant: &Variant) -> String {
    match variant.kind {
        VariantKind::Ptx => variant.target.replacen("sm_", "compute_", 1),
        VariantKind::Cubin => variant.target.clone(),
    }
}

fn product(sizes: [u32; 3]) -> u32 {
    sizes.into_iter().fold(1, u32::saturating_mul)
}

//! The kernels of all files, with the figures of their machine code.

use kernel_registry_image::{Entry, Limits, Resources, Target, Variant, VariantKind};

use crate::cli::Fit;
use crate::failure::Failure;
use crate::kernel_name::{is_cuda_name, is_path, nearest};
use crate::shown::{Compiled, with_compiled};
use crate::unread::Unread;

pub(super) struct Kernels {
    kernels: Vec<Kernel>,
    pub(super) unread: Unread,
}

pub(super) struct Kernel {
    /// Its path; or for a kernel of an image alone, its C++ name or symbol.
    pub(super) name: String,
    pub(super) symbol: String,
    is_declared: bool,
    /// What its declaration fixes.
    block: Option<u32>,
    pub(super) shared: Option<u32>,
    code: Vec<Code>,
    /// The names of all variants.
    variants: Vec<String>,
}

/// Its machine code for one architecture.
pub(super) struct Code {
    pub(super) target: Target,
    pub(super) resources: Resources,
    pub(super) limits: Limits,
}

impl Kernels {
    pub(super) fn read(options: &Fit) -> Result<Self, Failure> {
        let mut all = Kernels { kernels: Vec::new(), unread: Unread::default() };
        let mut add = |path| {
            with_compiled(path, &options.build, |compiled, unread| {
                all.kernels.extend(compiled.iter().map(Kernel::from_compiled));
                all.unread.merge(unread);
            })
        };
        for path in &options.path {
            add(Some(path))?;
        }
        if options.path.is_empty() {
            add(None)?;
        }
        Ok(all)
    }

    /// The kernel of a name: by path or symbol, or else by C++ name.
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

impl Kernel {
    fn from_compiled(compiled: &Compiled<'_>) -> Self {
        let first = compiled.variants.first().map(|(_, entry)| *entry);
        let symbol = match (&compiled.declared, first) {
            (Some(declared), _) => declared.symbol,
            (None, first) => first.map_or("", |entry| &entry.symbol),
        };
        let name = match (&compiled.declared, first) {
            (Some(declared), _) => declared.path,
            (None, first) => first.map_or("", Entry::name),
        };
        let declared = compiled.declared.as_ref();
        Kernel {
            name: name.to_owned(),
            symbol: symbol.to_owned(),
            is_declared: declared.is_some(),
            block: declared.and_then(|kernel| kernel.block).map(product),
            shared: declared.and_then(|kernel| kernel.shared),
            code: compiled.variants.iter().filter_map(Code::from_variant).collect(),
            variants: compiled.variants.iter().map(|(variant, _)| name_of(variant)).collect(),
        }
    }

    /// The architectures of its machine code, ascending.
    pub(super) fn architectures(&self) -> Vec<u32> {
        let mut all: Vec<_> = self.code.iter().map(|code| code.target.sm).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Its machine code that a GPU would run: the newest of those that it can.
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

    /// The threads of its blocks: those that are given, or as the declaration or the code says.
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
    fn from_variant((variant, entry): &(&Variant, &Entry)) -> Option<Self> {
        let is_code = variant.kind == VariantKind::Cubin;
        let resources = entry.resources.filter(|_| is_code)?;
        Some(Code { target: variant.target, resources, limits: entry.limits.clone() })
    }

    /// Blocks of the cluster that it must be launched with.
    pub(super) fn cluster(&self) -> Option<u32> {
        self.limits.cluster.map(product)
    }
}

/// As nvcc calls it.
fn name_of(variant: &Variant) -> String {
    match variant.kind {
        VariantKind::Ptx { .. } => variant.target.to_string().replacen("sm_", "compute_", 1),
        VariantKind::Cubin => variant.target.to_string(),
    }
}

fn product(sizes: [u32; 3]) -> u32 {
    sizes.into_iter().fold(1, u32::saturating_mul)
}

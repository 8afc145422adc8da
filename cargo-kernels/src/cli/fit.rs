//! The command line of `fit`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use kernel_registry_cuda::fit::{Device, Product};

use super::build::{Build, OF_BUILDS};
use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Fit {
    /// The resident kernel: its path or the last parts of the path, its symbol, or its C++ name
    pub(crate) kernel: String,

    /// Executables, shared libraries, archives, object files or images to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    pub(crate) path: Vec<PathBuf>,

    /// Blocks of its grid
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u64).range(1..=i32::MAX as u64))]
    pub(crate) grid: u64,

    /// Threads of its blocks; by default as its declaration or its image says
    #[arg(long, value_name = "THREADS")]
    pub(crate) block: Option<u32>,

    /// Dynamic shared memory of its blocks; by default as its declaration says, or none
    #[arg(long, value_name = "BYTES")]
    pub(crate) shared: Option<u32>,

    /// Blocks of its clusters; by default as its image says
    #[arg(long, value_name = "BLOCKS")]
    pub(crate) cluster: Option<u32>,

    /// Its preferred carve-out (`PREFERRED_SHARED_MEMORY_CARVEOUT`); by default the driver chooses
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) carveout: Option<u32>,

    /// Kernels that should run beside it, separated by commas: `NAME`, `NAME@THREADS`, or `NAME@THREADS+BYTES` with dynamic
    /// shared memory; can be repeated
    #[arg(long, value_name = "KERNELS", value_parser = companions)]
    beside: Vec<Companions>,

    /// The GPU's name, as in `A100`, or its architecture, as in `sm_90`; by default each architecture that the image has
    /// machine code for
    #[arg(long, value_name = "GPU", value_parser = gpu)]
    pub(crate) gpu: Option<GpuChoice>,

    /// Number of the GPU's multiprocessors; by default as the named GPU has, or a common product
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) sms: Option<u32>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) build: Build,
}

impl Fit {
    pub(crate) fn beside(&self) -> impl Iterator<Item = &Companion> {
        self.beside.iter().flat_map(|Companions(companions)| companions)
    }
}

/// The kernels that one option names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Companions(Vec<Companion>);

/// A kernel that should run beside the resident kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Companion {
    pub(crate) name: String,
    pub(crate) threads: Option<u32>,
    pub(crate) shared: Option<u32>,
}

impl FromStr for Companion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write it as reduce, reduce@256 or reduce@256+4096";
        let Some((name, figures)) = text.rsplit_once('@') else {
            return Ok(Companion { name: text.to_owned(), threads: None, shared: None });
        };
        let number = |text: &str| text.parse().map_err(|_| FORM);
        let (threads, shared) = match figures.split_once('+') {
            Some((threads, shared)) => (number(threads)?, Some(number(shared)?)),
            None => (number(figures)?, None),
        };
        Ok(Companion { name: name.to_owned(), threads: Some(threads), shared })
    }
}

/// Splits a list of kernels at its commas, except those between the arguments of a template.
fn companions(text: &str) -> Result<Companions, &'static str> {
    let mut depth = 0;
    let names = text.split(|character| {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    Ok(Companions(names.map(|name| name.trim().parse()).collect::<Result<_, _>>()?))
}

/// The GPU that an option names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuChoice {
    pub(crate) sm: u32,
    /// The GPU's product, if the option names a product.
    pub(crate) product: Option<&'static Product>,
}

/// Finds a GPU by the name of a product or of an architecture.
fn gpu(text: &str) -> Result<GpuChoice, String> {
    if let Some(product) = Product::named(text) {
        if Device::of(product.sm).is_none() {
            let first = Device::all().first().map_or(0, |device| device.sm);
            return Err(format!(
                "{} is sm_{}, and what fits is known from sm_{first} on",
                product.name, product.sm
            ));
        }
        return Ok(GpuChoice { sm: product.sm, product: Some(product) });
    }
    let digits = text.strip_prefix("sm_").unwrap_or(text).trim_end_matches(['a', 'f']);
    let known = digits.parse().ok().and_then(Device::of);
    known.map(|device| GpuChoice { sm: device.sm, product: None }).ok_or_else(|| {
        let known: Vec<_> = Device::all().iter().map(|device| format!("sm_{}", device.sm)).collect();
        let products = Product::all().iter().filter(|product| Device::of(product.sm).is_some());
        let products: Vec<_> = products.map(|product| product.name).collect();
        format!("known are {}, and {}", known.join(", "), products.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_have_figures_after_their_names() {
        let of = |text: &str| text.parse::<Companion>();
        let companion = |threads, shared| Ok(Companion { name: "a::reduce".to_owned(), threads, shared });
        assert_eq!(of("a::reduce"), companion(None, None));
        assert_eq!(of("a::reduce@256"), companion(Some(256), None));
        assert_eq!(of("a::reduce@256+4096"), companion(Some(256), Some(4096)));
        assert!(of("a::reduce@many").is_err() && of("a::reduce@256+").is_err());
    }

    #[test]
    fn commas_separate_kernels_and_not_template_arguments() {
        let Companions(all) = companions("scale,reduce<float, 256u>@256,last").unwrap();
        let names: Vec<_> = all.iter().map(|companion| companion.name.as_str()).collect();
        assert_eq!(names, ["scale", "reduce<float, 256u>", "last"]);
    }

    #[test]
    fn architectures_are_those_of_known_devices() {
        let architecture = GpuChoice { sm: 90, product: None };
        for name in ["sm_90", "90", "sm_90a"] {
            assert_eq!(gpu(name), Ok(architecture));
        }
        assert!(gpu("sm_70").is_err_and(|known| known.contains("sm_75") && known.contains("A100")));
    }

    #[test]
    fn gpus_have_names() {
        let of = |name: &str| gpu(name).map(|gpu| (gpu.sm, gpu.product.map(|product| product.processors)));
        assert_eq!((of("A100"), of("a100")), (Ok((80, Some(108))), Ok((80, Some(108)))));
        assert_eq!(of("rtx-3090"), Ok((86, Some(82))));
        let volta = "V100 is sm_70, and what fits is known from sm_75 on";
        assert_eq!(of("V100"), Err(volta.to_owned()));
    }
}

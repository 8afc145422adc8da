//! Defines real architectures (`sm_90`, machine code) and virtual architectures (`compute_75`, PTX).

use std::fmt;

use kernel_registry_cuda::fatbin::flag;
use kernel_registry_image::{Portability, Target};

use crate::{Error, Result};

/// The real architectures by default.
const ARCHS: [u32; 2] = [80, 90];

/// The default virtual architecture, 75 for `compute_75`. It's the lowest of CUDA 13, because every newer
/// device runs its PTX.
pub const OLDEST: u32 = 75;

/// The architectures that a source is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Architectures of machine code.
    real: Vec<Target>,
    /// Architectures of PTX, one at least.
    ptx: Vec<Target>,
}

impl Targets {
    /// Returns the requested architectures, or the defaults if none are requested. Adds PTX of the lowest
    /// architecture if only machine code was requested, because machine code alone doesn't run on the next
    /// generation of devices.
    pub(crate) fn new(archs: &[String], ptx: &[String]) -> Result<Self> {
        if archs.is_empty() && ptx.is_empty() {
            return Ok(Targets { real: ARCHS.map(forward).to_vec(), ptx: vec![forward(OLDEST)] });
        }
        let real = parsed(archs, "sm_", "sm_90")?;
        let mut ptx = parsed(ptx, "compute_", "compute_75")?;
        if ptx.is_empty() {
            ptx.extend(real.iter().min_by_key(|target| target.sm));
        }
        Ok(Targets { real, ptx })
    }

    /// Returns the architectures of machine code, as `sm_90`.
    pub(crate) fn real(&self) -> impl Iterator<Item = Arch> {
        self.real.iter().map(|target| Arch { prefix: "sm_", target: *target })
    }

    /// Returns the architectures of PTX, as `compute_90`.
    pub(crate) fn ptx(&self) -> impl Iterator<Item = Arch> {
        self.ptx.iter().map(|target| Arch { prefix: "compute_", target: *target })
    }

    /// Returns nvcc's arguments for these architectures.
    pub(crate) fn gencode(&self) -> impl Iterator<Item = String> {
        let code = |arch: Arch| format!("arch=compute_{},code={arch}", arch.name());
        self.real().chain(self.ptx()).flat_map(move |arch| ["-gencode".to_owned(), code(arch)])
    }

    /// Returns the lowest requested architecture, as a virtual one. Committed images are PTX for it: all
    /// targets can run that, unless it has a suffix such as `90a`.
    pub(crate) fn lowest(&self) -> String {
        let lowest = self.real().chain(self.ptx()).min_by_key(|arch| arch.target.sm);
        lowest.map_or(format!("compute_{OLDEST}"), |arch| format!("compute_{}", arch.name()))
    }
}

/// One architecture, real or virtual.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arch {
    prefix: &'static str,
    pub(crate) target: Target,
}

impl Arch {
    /// Returns number and suffix: `90a` of `sm_90a` and `compute_90a`.
    fn name(&self) -> String {
        self.target.to_string().replacen("sm_", "", 1)
    }

    /// Returns the flags that the architecture's entry has in a fatbin.
    pub(crate) fn fatbin_flags(&self) -> u64 {
        match self.target.portability {
            Portability::Exact => flag::ARCH,
            Portability::Family => flag::FAMILY,
            Portability::Forward => 0,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.name())
    }
}

/// Returns the warning that the image lacks machine code for an architecture.
pub(crate) fn no_machine_code(source: &str, compiler: &str, arch: &Arch) -> String {
    format!(
        "{source}: there is no machine code for {arch}, which {compiler} does not know: install one that does, or \
         leave {arch} out and let the driver compile the PTX"
    )
}

fn forward(sm: u32) -> Target {
    Target { sm, portability: Portability::Forward }
}

fn parsed(names: &[String], prefix: &str, like: &'static str) -> Result<Vec<Target>> {
    let mut found: Vec<Target> = Vec::new();
    for name in names {
        let target = Some(name).filter(|name| name.starts_with(prefix)).and_then(|name| name.parse().ok());
        let target = target.ok_or_else(|| Error::NotAnArch { arch: name.clone(), like })?;
        if !found.contains(&target) {
            found.push(target);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(archs: &[&str], ptx: &[&str]) -> Result<(String, String)> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let targets = Targets::new(&owned(archs), &owned(ptx))?;
        let gencode: Vec<String> = targets.gencode().filter(|word| word != "-gencode").collect();
        Ok((gencode.join(" "), targets.lowest()))
    }

    #[test]
    fn architectures_have_defaults() {
        let (gencode, lowest) = targets(&[], &[]).unwrap();
        assert_eq!(
            gencode,
            "arch=compute_80,code=sm_80 arch=compute_90,code=sm_90 arch=compute_75,code=compute_75"
        );
        assert_eq!(lowest, "compute_75");
    }

    #[test]
    fn machine_code_comes_with_ptx() {
        let (gencode, lowest) = targets(&["sm_100", "sm_90a", "sm_90a"], &[]).unwrap();
        assert_eq!(
            gencode,
            "arch=compute_100,code=sm_100 arch=compute_90a,code=sm_90a arch=compute_90a,code=compute_90a"
        );
        assert_eq!(lowest, "compute_90a");
        assert_eq!(targets(&[], &["compute_90"]).unwrap().0, "arch=compute_90,code=compute_90");
    }

    #[test]
    fn malformed_names_are_refused() {
        for arch in ["90", "sm_", "sm_9", "compute_90", "sm_90x", "sm_90 -o x"] {
            let error = targets(&[arch], &[]).unwrap_err().to_string();
            assert_eq!(error, format!("`{arch}` is not the name of an architecture: write it like `sm_90`"));
        }
    }
}

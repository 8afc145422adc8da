//! Architectures: real ones (`sm_90`, machine code) and virtual ones (`compute_75`, PTX).

use std::fmt;

use kernel_registry_format::fatbin::flag;

use crate::{Error, Result};

/// The real architectures by default.
const ARCHS: &[&str] = &["sm_80", "sm_90"];
/// The virtual architecture by default: the lowest of CUDA 13, because every newer device runs its PTX.
const PTX: &str = "compute_75";

/// The architectures that a source is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Architectures of machine code, such as `90` or `90a`.
    real: Vec<String>,
    /// Architectures of PTX, written the same way.
    ptx: Vec<String>,
}

impl Targets {
    /// The requested architectures, or the defaults if none are requested. Machine code without PTX gets PTX of its
    /// lowest architecture, because machine code alone does not run on the next generation of devices.
    pub(crate) fn new(archs: &[String], ptx: &[String]) -> Result<Self> {
        if archs.is_empty() && ptx.is_empty() {
            let real = ARCHS.iter().filter_map(|arch| suffix(arch, "sm_")).collect();
            return Ok(Targets { real, ptx: suffix(PTX, "compute_").into_iter().collect() });
        }
        let real = suffixes(archs, "sm_", "sm_90")?;
        let mut ptx = suffixes(ptx, "compute_", "compute_75")?;
        if ptx.is_empty() {
            ptx.extend(real.iter().min_by_key(|arch| number(arch)).cloned());
        }
        Ok(Targets { real, ptx })
    }

    /// The architectures of machine code, as `sm_90`.
    pub(crate) fn real(&self) -> impl Iterator<Item = Arch<'_>> {
        self.real.iter().map(|name| Arch { prefix: "sm_", name })
    }

    /// The architectures of PTX, as `compute_90`.
    pub(crate) fn ptx(&self) -> impl Iterator<Item = Arch<'_>> {
        self.ptx.iter().map(|name| Arch { prefix: "compute_", name })
    }

    /// The arguments of nvcc.
    pub(crate) fn gencode(&self) -> impl Iterator<Item = String> + '_ {
        let real = self.real.iter().map(|arch| format!("arch=compute_{arch},code=sm_{arch}"));
        let ptx = self.ptx.iter().map(|arch| format!("arch=compute_{arch},code=compute_{arch}"));
        real.chain(ptx).flat_map(|code| ["-gencode".to_owned(), code])
    }

    /// The virtual architecture that all targets can run. Committed images are PTX for this one.
    pub(crate) fn lowest(&self) -> String {
        let lowest = self.real.iter().chain(&self.ptx).min_by_key(|arch| number(arch));
        lowest.map_or(PTX.to_owned(), |arch| format!("compute_{arch}"))
    }
}

/// One architecture, real or virtual.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arch<'a> {
    prefix: &'static str,
    /// `90a` of `sm_90a` and `compute_90a`.
    pub(crate) name: &'a str,
}

impl Arch<'_> {
    /// 90 of `sm_90a`.
    pub(crate) fn number(&self) -> u32 {
        number(self.name)
    }

    /// The flags that an entry of a fatbin has for it.
    pub(crate) fn fatbin_flags(&self) -> u64 {
        match self.name.as_bytes().last() {
            Some(b'a') => flag::ARCH,
            Some(b'f') => flag::FAMILY,
            _ => 0,
        }
    }
}

impl fmt::Display for Arch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.name)
    }
}

/// A warning: an architecture has no machine code. It names the remedy.
pub(crate) fn no_machine_code(source: &str, compiler: &str, arch: &Arch<'_>) -> String {
    format!(
        "{source}: there is no machine code for {arch}, which {compiler} does not know: install one that does, or \
         leave {arch} out and let the driver compile the PTX"
    )
}

fn suffixes(names: &[String], prefix: &str, like: &'static str) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let arch = suffix(name, prefix).ok_or_else(|| Error::NotAnArch { arch: name.clone(), like })?;
        if !found.contains(&arch) {
            found.push(arch);
        }
    }
    Ok(found)
}

/// Returns `90a` for `sm_90a`.
fn suffix(name: &str, prefix: &str) -> Option<String> {
    let arch = name.strip_prefix(prefix)?;
    let digits = arch.strip_suffix(['a', 'f']).unwrap_or(arch);
    let is_number = (2..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| arch.to_owned())
}

fn number(arch: &str) -> u32 {
    arch.trim_end_matches(['a', 'f']).parse().unwrap_or(u32::MAX)
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

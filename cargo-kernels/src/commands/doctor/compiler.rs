//! Checks which CUDA compiler build scripts would use, and whether the driver takes its images.

use kernel_registry_build::Available;
use kernel_registry_cuda::CudaVersion;

use super::facts::{Facts, cuda_version};
use super::line::Line;

const ABOUT: &str = "compiler";

pub(super) fn check(facts: &Facts) -> Vec<Line> {
    match &facts.compiler {
        Ok(Available::Compiler { name, file }) => {
            let location = file.as_ref().map(|file| format!(" (`{}`)", file.display())).unwrap_or_default();
            let found = Line::ok(ABOUT, format!("{name}{location}"));
            [Some(found), against_driver(name, facts.driver_version())].into_iter().flatten().collect()
        }
        Ok(Available::Without { why }) => vec![Line::note(
            ABOUT,
            format!("{why}: CUDA sources have only the images that `cargo kernels prebuild` made"),
            "set `CUDA_HOME` to a toolkit, or install one, or NVRTC alone; leave `KERNEL_REGISTRY_COMPILER` unset",
        )],
        Err(why) => {
            vec![Line::problem(ABOUT, why, "repair it, or choose another with `KERNEL_REGISTRY_COMPILER`")]
        }
    }
}

/// Compares versions: a driver takes machine code of its own major version, and PTX of its own version and older.
fn against_driver(compiler: &str, driver: Option<CudaVersion>) -> Option<Line> {
    let version = cuda_version(compiler.split(' ').next_back()?)?;
    let driver = driver.filter(|driver| driver.newest_ptx() < version.newest_ptx())?;
    let remedy = format!("install a newer driver, or compile with a toolkit of CUDA {driver} or older");
    let text = format!("{compiler} is newer than the driver's CUDA {driver}: its PTX is refused here");
    let only_ptx = compiler.starts_with("NVRTC");
    Some(if version.major() > driver.major() {
        Line::problem(ABOUT, format!("{text}, and its machine code too"), remedy)
    } else if only_ptx {
        Line::problem(ABOUT, format!("{text}, and it makes nothing else"), remedy)
    } else {
        Line::note(ABOUT, format!("{text}, its machine code is not"), remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    /// Returns the levels of the check's lines for a compiler and a driver of these versions.
    fn levels(compiler: &str, driver: u32) -> Vec<Level> {
        let mut facts = Facts::good();
        facts.compiler = Ok(Available::Compiler { name: compiler.to_owned(), file: None });
        facts.found().version = Some(CudaVersion::from_number(driver));
        check(&facts).iter().map(|line| line.level).collect()
    }

    #[test]
    fn a_compiler_is_compared_with_the_driver() {
        assert_eq!(levels("nvcc 13.0.88", 13_000), [Level::Ok]);
        assert_eq!(levels("NVRTC 12.0", 13_000), [Level::Ok]);
        assert_eq!(levels("NVRTC 12.6", 12_050), [Level::Ok]);
        assert_eq!(levels("nvcc 12.8.1", 12_040), [Level::Ok, Level::Note]);
        assert_eq!(levels("NVRTC 12.8", 12_040), [Level::Ok, Level::Problem]);
        assert_eq!(levels("nvcc 13.0.88", 12_090), [Level::Ok, Level::Problem]);
    }

    #[test]
    fn no_compiler_is_a_note_and_a_broken_one_a_problem() {
        let mut facts = Facts::good();
        facts.compiler = Ok(Available::Without { why: "there is no CUDA compiler".to_owned() });
        assert_eq!(check(&facts)[0].level, Level::Note);
        facts.compiler = Err("nvcc gives no version".to_owned());
        assert_eq!(check(&facts)[0].level, Level::Problem);
    }
}

//! Checks the CUDA driver: that it's installed, starts, and is new enough.

use kernel_registry_command::driver::Refused;
use kernel_registry_cuda::CudaVersion;

use super::facts::{Driver, Facts, Found};
use super::line::Line;

const LIBRARY: &str = "driver library";
const DRIVER: &str = "driver";

/// The first version with `cuLibraryLoadData` and `cuLaunchKernelEx`, which kernel-registry needs.
const NEEDED: CudaVersion = CudaVersion::new(12, 0);
/// The first version with `cuFuncLoad` and `cuFuncIsLoaded`.
const PROVABLE: CudaVersion = CudaVersion::new(12, 4);

pub(super) fn check(facts: &Facts) -> Vec<Line> {
    match &facts.driver {
        Driver::Missing { why } => vec![Line::problem(
            DRIVER,
            format!("not found, so no kernel can be loaded or launched here ({why})"),
            if cfg!(target_os = "linux") {
                "install NVIDIA's driver; a container gets the host's with `--gpus all`. Building and `cargo kernels list` \
                 need none, and `cargo kernels sim PROGRAM` brings a simulated one"
            } else {
                "install NVIDIA's driver. Building and `cargo kernels list` need none"
            },
        )],
        Driver::Silent { call, seconds } => vec![Line::problem(
            DRIVER,
            format!("`{call}` did not return within {seconds} s"),
            "see with `nvidia-smi` what holds the GPU, and end it; if that does not return either, restart the machine",
        )],
        Driver::Found(found) => {
            let refused = found.started.as_ref().err().filter(|_| !found.is_stub());
            let refused = refused.map(|refused| does_not_start(refused, found.is_compat()));
            [library(found), age(found), refused].into_iter().flatten().collect()
        }
    }
}

/// Describes the library that the loader chose, if that is known.
fn library(found: &Found) -> Option<Line> {
    let file = found.library.as_ref().map(|path| path.display().to_string());
    let name = file.clone().unwrap_or_else(|| "libcuda.so".to_owned());
    if found.is_stub() {
        return Some(Line::problem(
            LIBRARY,
            format!("`{name}` is a toolkit's stub, made for linking: every call to it fails"),
            "take the folder `stubs` out of `LD_LIBRARY_PATH` and /etc/ld.so.conf.d, so that the driver's own library \
             is found",
        ));
    }
    if found.simulated {
        return Some(Line::note(
            LIBRARY,
            format!("`{name}` is simulated by kernel-registry-sim: nothing runs on a GPU"),
            "without `cargo kernels sim`, and without its folder in `LD_LIBRARY_PATH`, the machine's own driver is found",
        ));
    }
    let file = file?;
    if found.is_compat() {
        return Some(Line::note(
            LIBRARY,
            format!(
                "`{file}` is a toolkit's forward compatibility package, in place of the installed driver"
            ),
            "on other than data centre GPUs, and where the installed driver is newer, take `compat` out of \
             `LD_LIBRARY_PATH`",
        ));
    }
    Some(Line::ok(LIBRARY, format!("`{file}`")))
}

/// Describes what the driver's version supports.
fn age(found: &Found) -> Option<Line> {
    let version = found.version?;
    let release = found.release().map(|release| format!(" (release {release})")).unwrap_or_default();
    let (major, minor) = version.newest_ptx();
    let is = format!("CUDA {version}{release}, takes PTX up to {major}.{minor}");
    Some(if version < NEEDED {
        let text = format!("{is}: kernel-registry needs functions of CUDA 12.0");
        Line::problem(DRIVER, text, "install release 525 or newer")
    } else if version < PROVABLE {
        let text = format!(
            "{is}: kernels can be warmed, but not verified: `cuFuncIsLoaded` came with 12.4, so the report says of \
             each kernel that it is not known to be loaded"
        );
        Line::note(DRIVER, text, "install release 550 or newer to have it proven")
    } else {
        Line::ok(DRIVER, is)
    })
}

/// Describes why the driver does not start, and what to do. The codes are errors of cuda.h.
fn does_not_start(refused: &Refused, compat: bool) -> Line {
    let remedy = match refused.code {
        803 | 804 if compat => {
            "this GPU or the installed driver does not go with the forward compatibility package: take `compat` out of \
             `LD_LIBRARY_PATH`"
        }
        100 => {
            "see whether `nvidia-smi` lists a GPU, whether `CUDA_VISIBLE_DEVICES` hides it, and whether the container \
             was started with `--gpus all`"
        }
        802 => "start NVIDIA's fabric manager of the driver's release: machines with NVSwitch need it",
        803 => "library and kernel module have different releases: restart the machine after a driver update",
        _ => {
            "check whether `nvidia-smi` works and what `dmesg` says about NVRM; restart the machine after an update"
        }
    };
    Line::problem(DRIVER, format!("it does not start: {refused}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    fn with_version(version: u32) -> Line {
        let mut facts = Facts::good();
        facts.found().version = Some(CudaVersion::from_number(version));
        check(&facts).remove(1)
    }

    fn with_library(path: &str) -> Line {
        let mut facts = Facts::good();
        facts.found().library = Some(path.into());
        check(&facts).remove(0)
    }

    #[test]
    fn a_simulated_driver_is_noted() {
        let mut facts = Facts::good();
        facts.found().simulated = true;
        let line = check(&facts).remove(0);
        assert_eq!(line.level, Level::Note);
        assert!(line.text.contains("simulated"), "{}", line.text);
    }

    fn not_starting(code: i32) -> Vec<Line> {
        let mut facts = Facts::good();
        facts.found().started = Err(Refused { call: "cuInit", code, name: "CUDA_ERROR_X".to_owned() });
        check(&facts)
    }

    #[test]
    fn a_driver_is_described_with_its_release() {
        let lines = check(&Facts::good());
        assert_eq!(lines[0], Line::ok(LIBRARY, "`/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05`"));
        assert_eq!(lines[1], Line::ok(DRIVER, "CUDA 13.0 (release 580.95.05), takes PTX up to 9.0"));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn age_is_judged_by_what_is_missing() {
        let ages = [(11_080, "12.0"), (12_030, "`cuFuncIsLoaded`"), (12_040, "8.4")];
        let levels = ages.map(|(version, word)| {
            let line = with_version(version);
            assert!(line.text.contains(word), "{}", line.text);
            line.level
        });
        assert_eq!(levels, [Level::Problem, Level::Note, Level::Ok]);
    }

    #[test]
    fn a_missing_driver_is_a_problem_in_the_loaders_words() {
        let mut facts = Facts::good();
        facts.driver = Driver::Missing { why: "libcuda.so.1: cannot open".to_owned() };
        let lines = check(&facts);
        assert_eq!((lines.len(), lines[0].level), (1, Level::Problem));
        assert!(lines[0].text.contains("libcuda.so.1: cannot open"));
    }

    #[test]
    fn a_call_that_never_returns_is_named() {
        let mut facts = Facts::good();
        facts.driver = Driver::Silent { call: "cuInit", seconds: 30 };
        assert_eq!(check(&facts)[0].text, "`cuInit` did not return within 30 s");
    }

    #[test]
    fn a_stub_is_recognised_by_its_folder_or_by_its_error() {
        assert_eq!(with_library("/cuda/lib64/stubs/libcuda.so").level, Level::Problem);
        let lines = not_starting(34);
        assert_eq!(lines[0].level, Level::Problem);
        assert!(lines.iter().all(|line| !line.text.contains("does not start")));
    }

    #[test]
    fn a_compatibility_package_is_noted() {
        let line = with_library("/usr/local/cuda-13.0/compat/libcuda.so.580.95.05");
        assert_eq!(line.level, Level::Note);
    }

    #[test]
    fn a_driver_that_does_not_start_has_a_remedy_for_its_code() {
        let library = "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05";
        let mut facts = Facts::good();
        facts.found().library = Some(library.into());
        facts.found().started = Err(Refused { call: "cuInit", code: 803, name: String::new() });
        assert!(check(&facts).pop().unwrap().remedy.unwrap().contains("`compat`"));
        for (code, word) in [(100, "--gpus all"), (802, "fabric"), (803, "restart"), (999, "dmesg")] {
            let line = not_starting(code).pop().unwrap();
            assert!(line.text.contains(&format!("`cuInit` returned CUDA_ERROR_X ({code})")));
            assert!(line.remedy.unwrap().contains(word));
        }
    }
}

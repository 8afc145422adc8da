//! Tests `kernel_audit::install`, by which a Rust program is audited without the command. The driver is the simulated one. Each test
//! runs in a process of its own, because the audit can be installed only once in a process.

mod messages;
mod sections;

use std::env;
use std::error::Error;
use std::ffi::CStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use kernel_audit::preload::Preload;
use kernel_audit::record::{Event, Kind, Subject};
use kernel_audit::{
    AfterReady, Audit, InstallError, Installed, NotWatched, assert_no_findings, findings, install, ready,
    report, variables,
};
use kernel_registry::cudarc::driver::{CudaContext, CudaStream, DevicePtr, LaunchConfig, sys};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{DeviceAddress, LaunchError, MainError, Prepared, Warmup, warm_all};
use kernel_registry_resident::{Control, Mapped};
use kernels::waiting::{spin_until_flag, touch};
use tests::{cargo_kernels_command, scratch_folder};

kernel_registry::link_kernels!(kernels);

type Outcome = Result<(), Box<dyn Error>>;

/// The variable that names the test to run in a child process.
const HERE: &str = "AUDIT_IN_PROCESS";

/// Runs a test in a child process with these variables, and returns the child's output. In the child itself, runs `body` and returns
/// `None`.
fn apart(test: &str, variables: &[(&str, &str)], body: impl FnOnce() -> Outcome) -> Option<Output> {
    if env::var_os(HERE).is_some_and(|here| here == test) {
        body().unwrap_or_else(|error| panic!("{error}"));
        return None;
    }
    let mut command = Command::new(env::current_exe().expect("a running test has a path"));
    command.args(arguments(test)).env(HERE, test).envs(variables.iter().copied());
    let output = command.output().expect("the test starts again");
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    Some(output)
}

fn arguments(test: &str) -> [&str; 3] {
    ["--exact", test, "--nocapture"]
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Installs the simulated driver and the audit, and returns a context.
fn watched(audit: Audit) -> Result<Arc<CudaContext>, Box<dyn Error>> {
    kernel_registry_sim::install()?;
    assert_eq!(audit.install()?, Installed::Now);
    Ok(kernel_registry::context(0)?)
}

/// The PTX of kernels that no registry knows.
const CODE: &CStr = c".version 7.0
.target sm_60
.address_size 64
.visible .entry late() { ret; }
.visible .entry later() { ret; }
";

/// Returns a kernel of a library that is not loaded. The kernel's launch will load it.
fn cold(name: &CStr) -> Result<sys::CUfunction, Box<dyn Error>> {
    let (mut library, mut kernel) = (ptr::null_mut(), ptr::null_mut());
    let (options, values) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the code ends with a zero byte, and a context is current.
    unsafe {
        let code = CODE.as_ptr().cast();
        let (choices, theirs) = (ptr::null_mut(), ptr::null_mut());
        sys::cuLibraryLoadData(&mut library, code, options, values, 0, choices, theirs, 0).result()?;
        sys::cuLibraryGetKernel(&mut kernel, library, name.as_ptr()).result()?;
    }
    Ok(kernel.cast())
}

/// Launches a kernel without parameters.
fn launch(kernel: sys::CUfunction, stream: &CudaStream) -> sys::CUresult {
    // SAFETY: the kernel takes no parameters.
    unsafe {
        sys::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream.cu_stream(), ptr::null_mut(), ptr::null_mut())
    }
}

/// Returns the kind, the call, and the kernel or the format of the image of each event.
fn said(events: &[Event]) -> Vec<(Kind, &str, &str)> {
    fn of(event: &Event) -> &str {
        match &event.subject {
            Subject::Kernel { symbol, .. } => symbol,
            Subject::Image(image) => image.format.as_str(),
            _ => "",
        }
    }
    events.iter().map(|event| (event.kind, &*event.call, of(event))).collect()
}

fn is_late(event: &Event) -> bool {
    event.subject.kernel().is_some_and(|symbol| **symbol == *"late")
}

#[test]
fn late_loads_are_found() {
    apart("late_loads_are_found", &[], || {
        assert_eq!(
            findings().map_err(|error| error.to_string()).expect_err("not watched yet"),
            NotWatched::NotInstalled.to_string()
        );
        let context = watched(Audit::new())?;
        assert_eq!(install()?, Installed::Before);
        let others = Audit::new().after_ready(AfterReady::Refuse).install();
        assert!(matches!(others, Err(InstallError::OtherOptions)), "{others:?}");
        assert_no_findings();
        let stream = context.new_stream()?;
        let kernels = [cold(c"late")?, cold(c"later")?];
        assert_eq!(launch(kernels[0], &stream), sys::CUresult::CUDA_SUCCESS);
        assert!(report()?.events.iter().any(|event| event.kind == Kind::Load && is_late(event)));
        assert_eq!(findings()?, []);

        ready()?;
        assert_eq!(launch(kernels[0], &stream), sys::CUresult::CUDA_SUCCESS);
        assert_eq!(findings()?, []);
        assert_eq!(launch(kernels[1], &stream), sys::CUresult::CUDA_SUCCESS);
        let found = findings()?;
        assert_eq!(said(&found), [(Kind::Load, "cuLaunchKernel", "later")]);
        let panicked = panic::catch_unwind(assert_no_findings).expect_err("there is one");
        let words = panicked.downcast_ref::<String>().expect("text");
        for part in [
            "1 kernel was loaded after the program was ready (`cuLaunchKernel` of `later`)",
            "Remedy: call `warm_all`",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        // The caller is a function of this program, and not of the audit that is linked into the program.
        assert!(found[0].caller.starts_with("audit_in_process"), "{found:?}");

        // cudarc finds functions by name and by `cuGetProcAddress`. The audit watches both.
        context.load_module(Ptx::from_src(CODE.to_str()?))?;
        assert_eq!(said(&findings()?)[1..], [(Kind::Image, "cuModuleLoadData", "PTX")]);
        Ok(())
    });
}

#[test]
fn late_loads_are_preloaded_in_the_next_process() {
    let file = scratch_folder().join("late.preload");
    let late = || -> Outcome {
        let file = PathBuf::from(env::var_os("PRELOAD").ok_or("no file")?);
        let context = watched(if file.exists() { Audit::new().preload(&file) } else { Audit::new() })?;
        let stream = context.new_stream()?;
        ready()?;
        assert_eq!(launch(cold(c"late")?, &stream), sys::CUresult::CUDA_SUCCESS);
        let (found, preloaded) = (findings()?, report()?.preloaded);
        if file.exists() {
            assert_eq!(said(&found), []);
            assert!(preloaded.iter().any(|event| is_late(event) && event.result == 0), "{preloaded:?}");
            return Ok(());
        }
        let mut preload = Preload::default();
        for event in &found {
            let kernel = event.subject.kernel().map(|symbol| &**symbol);
            preload.add(event.subject.any_image().ok_or("no image")?.origin.parse()?, kernel);
        }
        assert_eq!(preload.kernels(), 1, "{found:?}");
        Ok(fs::write(file, preload.to_string())?)
    };
    let variables = [("PRELOAD", file.to_str().expect("UTF-8"))];
    for _ in 0..2 {
        if apart("late_loads_are_preloaded_in_the_next_process", &variables, late).is_none() {
            return;
        }
    }
    assert!(file.exists());
}

#[test]
fn a_sealed_program_refuses_within_10_ms_and_goes_on() {
    let output = apart("a_sealed_program_refuses_within_10_ms_and_goes_on", &[], || {
        let context = watched(Audit::new().after_ready(AfterReady::Refuse))?;
        let stream = context.new_stream()?;
        let later = cold(c"later")?;
        let (flag, control) = (Mapped::<AtomicU32>::zeroed(&context, 1)?, Control::new(&context, 1)?);
        control.limit(Duration::from_secs(20));
        let sealed =
            |kernel: &kernel_registry::KernelInfo| [touch::INFO, spin_until_flag::INFO].contains(&kernel);
        let warm = Warmup::new().only(sealed).warm(&context)?;
        warm.seal();
        let x = stream.alloc_zeros::<u32>(1)?;

        let resident = context.new_stream()?;
        // SAFETY: the kernel ends before the memory of its arguments is freed, because freeing waits for the kernel.
        unsafe { spin_until_flag::launch(&resident, spin_until_flag::over(1), &flag, &control)? };
        let refuse = || {
            let begun = Instant::now();
            assert_eq!(launch(later, &stream), sys::CUresult::CUDA_ERROR_NOT_PERMITTED);
            begun.elapsed()
        };
        // The fastest of five tries counts, because other processes run on this machine.
        let fastest = (0..5).map(|_| refuse()).min();
        assert!(fastest < Some(Duration::from_millis(10)), "{fastest:?}");
        let error = context.load_module(Ptx::from_src(CODE.to_str()?)).expect_err("it is late");
        assert_eq!(error.0, sys::CUresult::CUDA_ERROR_NOT_PERMITTED);

        // kernel-registry itself refuses registered kernels.
        let cold = kernels::waiting::set_flag::INFO;
        let config = cold.over(1);
        let refused = Prepared::untyped(cold, &context, config);
        assert!(matches!(refused, Err(LaunchError::NotWarm { .. })), "{refused:?}");
        // kernel-registry explains the error that the driver returns.
        let other = warm_all(&context).expect_err("images are not loaded any more");
        let other = format!("{:?}", MainError::from(other));
        assert!(other.contains("sealed (`Warm::seal`)"), "{other}");

        // The program goes on.
        // SAFETY: the kernel adds to one word.
        unsafe { touch::launch(&stream, touch::over(1), DeviceAddress(x.device_ptr(&stream).0))? };
        stream.synchronize()?;
        control.stop();
        resident.synchronize()?;
        warm.recheck()?;
        let refusals = findings()?;
        assert!(refusals.iter().all(|event| event.kind == Kind::Refused && event.took == 0), "{refusals:?}");
        assert_eq!(said(&refusals)[0], (Kind::Refused, "cuLaunchKernel", "later"));
        Ok(())
    });
    let Some(output) = output else { return };
    let said = text(&output.stderr);
    let words = "REFUSED after the program was ready: `cuLaunchKernel` of kernel `later`, which is not loaded; load it before";
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_warm_program_has_no_finding() {
    apart("a_warm_program_has_no_finding", &[], || {
        let context = watched(Audit::new())?;
        warm_all(&context)?.seal();
        let stream = context.new_stream()?;
        let x = stream.clone_htod(&[1.0_f32; 64])?;
        let mut y = stream.clone_htod(&[2.0_f32; 64])?;
        // SAFETY: both vectors have 64 elements.
        unsafe {
            kernels::blas1::saxpy::launch(&stream, kernels::blas1::saxpy::over(64), 64, 2.0, &x, &mut y)?
        };
        assert_eq!(stream.clone_dtoh(&y)?, [4.0; 64]);
        assert_eq!(findings()?, []);
        let report = report()?;
        assert!(report.ready.is_some() && report.launches > 0, "{report:?}");
        Ok(())
    });
}

#[test]
fn many_threads_are_counted() {
    apart("many_threads_are_counted", &[], || {
        const LAUNCHES: u64 = 20;
        let context = watched(Audit::new())?;
        warm_all(&context)?.seal();
        let before = report()?.launches;
        let threads = (0..64).map(|_| {
            let context = context.clone();
            std::thread::spawn(move || {
                let stream = context.new_stream().expect("a stream");
                let module = cold_function(&context);
                for _ in 0..LAUNCHES {
                    let config =
                        LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
                    // SAFETY: the kernel takes no parameters.
                    unsafe { stream.launch_builder(&module).launch(config) }.expect("launched");
                }
                stream.synchronize().expect("done");
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let report = report()?;
        assert_eq!(report.launches - before, 64 * LAUNCHES);
        // A kernel whose function was looked up while others ran is loaded by its launch.
        let images = findings()?.iter().filter(|event| event.kind == Kind::Image).count();
        assert_eq!(images, 64, "each thread loads a module late");
        assert_eq!(report.in_progress, []);
        Ok(())
    });
}

#[test]
fn threads_that_are_not_watched_are_counted() {
    apart("threads_that_are_not_watched_are_counted", &[], || {
        let context = watched(Audit::new())?;
        let (begun, end) = (Barrier::new(1_101), Barrier::new(1_101));
        std::thread::scope(|scope| {
            for _ in 0..1_100 {
                scope.spawn(|| {
                    let is_bound = context.bind_to_thread().and_then(|()| context.synchronize());
                    begun.wait();
                    end.wait();
                    is_bound.expect("the context is there");
                });
            }
            begun.wait();
            end.wait();
        });
        let report = report()?;
        assert!((70..200).contains(&report.unwatched_threads), "{}", report.unwatched_threads);
        Ok(())
    });
}

fn cold_function(context: &Arc<CudaContext>) -> kernel_registry::cudarc::driver::CudaFunction {
    let module = context.load_module(Ptx::from_src(CODE.to_str().expect("ASCII"))).expect("it is valid");
    module.load_function("late").expect("it is there")
}

/// Runs `body` in a forked child, and checks that `body` returns true there.
fn in_child(body: impl FnOnce() -> bool) {
    let mut status = 0;
    // SAFETY: this process has no other thread that holds a lock which the child needs.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::alarm(30);
            libc::_exit(i32::from(!body()));
        }
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
    }
    assert!(std::process::ExitStatus::from_raw(status).success(), "{status:#x}");
}

#[test]
fn children_are_watched_if_the_driver_was_not_used_before() {
    apart("children_are_watched_if_the_driver_was_not_used_before", &[], || {
        kernel_registry_sim::install()?;
        install()?;
        in_child(|| {
            let Ok(context) = kernel_registry::context(0) else { return false };
            let Ok(stream) = context.new_stream() else { return false };
            cold(c"late").is_ok_and(|late| launch(late, &stream) == sys::CUresult::CUDA_SUCCESS)
                && ready().is_ok()
                && report().is_ok_and(|report| report.process == std::process::id() && report.launches == 1)
        });
        // The parent has neither the child's events nor the child's readiness.
        let context = kernel_registry::context(0)?;
        let stream = context.new_stream()?;
        assert_eq!(launch(cold(c"late")?, &stream), sys::CUresult::CUDA_SUCCESS);
        assert_eq!((report()?.launches, report()?.ready), (1, None));
        in_child(|| matches!(install(), Err(InstallError::Forked)));
        Ok(())
    });
}

#[test]
fn reasons_that_prevent_watching_are_returned() {
    apart("reasons_that_prevent_watching_are_returned", &[], || {
        let missing = Audit::new().driver("/nowhere/libcuda.so.1").install().expect_err("no file");
        assert!(missing.to_string().contains("`/nowhere/libcuda.so.1` isn't a file"), "{missing}");
        let no_library = Audit::new().driver("/proc/self/exe").install();
        assert!(no_library.is_err(), "{no_library:?}");
        Ok(())
    });
}

#[test]
fn a_driver_that_is_open_is_left_alone() {
    apart("a_driver_that_is_open_is_left_alone", &[], || {
        kernel_registry_sim::install()?;
        let context = kernel_registry::context(0)?;
        let error = install().expect_err("cudarc has it open");
        assert!(matches!(error, InstallError::AlreadyOpen), "{error}");
        assert!(error.to_string().contains("call `install` first in `main`"), "{error}");
        // The driver works as before.
        warm_all(&context)?.seal();
        Ok(())
    });
}

#[test]
fn variables_win_and_the_record_can_be_a_file() {
    let folder = scratch_folder();
    let (records, after) = (folder.to_str().expect("UTF-8"), "refuse");
    let variables = [(variables::RECORDS, records), (variables::AFTER_READY, after)];
    let output = apart("variables_win_and_the_record_can_be_a_file", &variables, || {
        let context = watched(Audit::new().after_ready(AfterReady::Abort))?;
        let later = cold(c"later")?;
        ready()?;
        assert_eq!(launch(later, &context.default_stream()), sys::CUresult::CUDA_ERROR_NOT_PERMITTED);
        Ok(())
    });
    if output.is_some() {
        let file = fs::read_dir(folder).expect("a folder").next().expect("a record").expect("a name");
        let report = kernel_audit::record::read(&fs::read(file.path()).expect("a file")).expect("a record");
        assert!(report.ended && report.events.iter().any(|event| event.kind == Kind::Refused), "{report:?}");
    }
}

/// Here the driver is a file, as NVIDIA's is, and cannot be closed: the library that `cargo kernels sim` builds.
#[test]
fn the_loader_finds_the_driver() {
    const TEST: &str = "the_loader_finds_the_driver";
    if env::var_os(HERE).is_some_and(|here| here == TEST) {
        let watched = || -> Outcome {
            assert_eq!(install()?, Installed::Now);
            let context = kernel_registry::context(0)?;
            warm_all(&context)?.seal();
            let late = launch(cold(c"late")?, &context.default_stream());
            assert_eq!(late, sys::CUresult::CUDA_SUCCESS);
            let findings = findings()?;
            let calls: Vec<_> = findings.iter().map(|event| &*event.call).collect();
            assert_eq!(calls, ["cuLibraryLoadData", "cuLaunchKernel"]);
            Ok(())
        };
        return watched().unwrap_or_else(|error| panic!("{error}"));
    }
    let program = env::current_exe().expect("a running test has a path");
    let mut command = cargo_kernels_command();
    command.args(["sim", "--offline", "--"]).arg(program).args(arguments(TEST)).env(HERE, TEST);
    let output = command.output().expect("the tool runs");
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn under_the_command_its_hooks_stay_in_front() {
    const TEST: &str = "under_the_command_its_hooks_stay_in_front";
    if env::var_os(HERE).is_some_and(|here| here == TEST) {
        let watched = || -> Outcome {
            assert_eq!(install()?, Installed::FromOutside);
            assert_eq!(install()?, Installed::FromOutside);
            let context = kernel_registry::context(0)?;
            let later = cold(c"later")?;
            warm_all(&context)?.seal();
            assert_eq!(launch(later, &context.default_stream()), sys::CUresult::CUDA_SUCCESS);
            assert_eq!(said(&findings()?), [(Kind::Load, "cuLaunchKernel", "later")]);
            Ok(())
        };
        return watched().unwrap_or_else(|error| panic!("{error}"));
    }
    let program = env::current_exe().expect("a running test has a path");
    let mut command = cargo_kernels_command();
    command
        .args(["audit", "--sim", "--offline", "--fail-on-findings", "--"])
        .arg(program)
        .args(arguments(TEST))
        .env(HERE, TEST);
    let output = command.output().expect("the tool runs");
    // The program itself succeeds, and the exit code 12 of the command tells that there is a finding.
    assert_eq!(output.status.code(), Some(12), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let findings =
        text(&output.stderr).lines().filter(|line| line.starts_with('!') && line.contains(" cu")).count();
    assert_eq!(findings, 1, "hooks that are there twice record it twice: {}", text(&output.stderr));
}

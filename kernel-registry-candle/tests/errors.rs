//! What fails: another device than CUDA's, a hook, and a call of the driver. What was warm stays so, and candle goes on.

use std::cell::RefCell;
use std::env;
use std::error::Error as _;
use std::iter;
use std::process::Command;

use candle_core::{Device, Result, Tensor};
use kernel_registry_candle::{Error, Warmup, kernel_registry, warm_all};

const KERNEL: &str = "candle_kernels::affine::affine_f32";

/// A warm-up of one module, which takes little time.
fn warmup<'a>() -> Warmup<'a> {
    Warmup::new().only(|kernel| kernel.path().starts_with("candle_kernels::affine::"))
}

fn computes(device: &Device) -> Result<()> {
    let y = Tensor::new(&[1_f32, 2.0, 3.0], device)?.affine(2.0, 1.0)?;
    assert_eq!(y.to_vec1::<f32>()?, [3.0, 5.0, 7.0]);
    Ok(())
}

/// Returns the text of an error with its causes.
fn text(error: &Error) -> String {
    let causes = iter::successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[test]
fn a_device_that_is_not_cudas_is_an_error() {
    let error = warm_all(&Device::Cpu).unwrap_err();
    assert!(matches!(error, Error::NotCuda), "{error:?}");
    assert_eq!(
        text(&error),
        "the device is not a CUDA device, so candle loads no kernels on it: warm only `Device::new_cuda(..)`"
    );
}

#[test]
fn hooks_run_once_and_in_order_when_the_kernels_are_warm() {
    let device = Device::new_cuda(0).unwrap();
    let calls = RefCell::new(Vec::new());
    let hook = |name| {
        let calls = &calls;
        move |device: &Device| {
            calls.borrow_mut().push(name);
            let context = device.as_cuda_device()?.cuda_stream().context().clone();
            kernel_registry::find(KERNEL).unwrap().cu_function(&context).unwrap();
            computes(device)
        }
    };
    let warmup = warmup().options(|warmup| warmup.late(kernel_registry::Late::Deny));
    let report = warmup.hook(hook("first")).hook(hook("second")).warm(&device).unwrap();
    assert_eq!(*calls.borrow(), ["first", "second"]);
    assert!(!report.hooks_in.is_zero() && report.to_string().contains(", hooks in "), "{report}");
}

#[test]
fn a_hook_that_fails_leaves_the_kernels_warm() {
    let device = Device::new_cuda(0).unwrap();
    let failing = |_: &Device| -> Result<()> { candle_core::bail!("no weights") };
    let unreached = |_: &Device| -> Result<()> { unreachable!("the hook before it failed") };
    let error = warmup().hook(failing).hook(unreached).warm(&device).unwrap_err();
    assert!(matches!(error, Error::Hook(_)), "{error:?}");
    assert!(text(&error).starts_with("a hook of the warm-up failed: no weights"), "{}", text(&error));
    assert_eq!(warmup().warm(&device).unwrap().registry.images_loaded, 0);
    computes(&device).unwrap();
}

/// Runs a test of this file anew, on a driver one of whose calls fails.
fn with_fault(test: &str, fault: &str) -> bool {
    const FAULTS: &str = "KERNEL_REGISTRY_SIM_FAULTS";
    if env::var_os(FAULTS).is_some() {
        return true;
    }
    let device = Device::new_cuda(0).unwrap();
    if !device.as_cuda_device().unwrap().cuda_stream().context().name().unwrap().starts_with("simulated") {
        eprintln!("LEFT OUT: only calls of the simulated driver can be made to fail");
        return false;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(FAULTS, fault).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    false
}

#[test]
fn a_driver_that_loads_no_image_is_an_error_and_candle_goes_on() {
    let test = "a_driver_that_loads_no_image_is_an_error_and_candle_goes_on";
    if with_fault(test, "cuLibraryLoadData=CUDA_ERROR_OUT_OF_MEMORY") {
        let device = Device::new_cuda(0).unwrap();
        let error = warmup().warm(&device).unwrap_err();
        assert!(matches!(error, Error::Warm(_)), "{error:?}");
        let text = text(&error);
        assert!(text.starts_with("candle's kernels could not be warmed: "), "{text}");
        assert!(text.contains("affine") && text.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{text}");
        computes(&device).unwrap();
    }
}

//! Tests that errors have their causes as `source`, and that no text in a chain of causes repeats another.

use std::error::Error;
use std::fmt;

use kernel_registry::cudarc::driver::{CudaContext, DriverError, sys::CUresult};
use kernel_registry::{
    DriverUnavailable, LaunchError, LoadError, MainError, RecheckError, RegistryError, WarmError,
};
use kernel_registry_resident::{CannotRun, PartitionError, ResidentError, SectionError};
use kernel_registry_sim::Config;
use kernels::blas1::saxpy;

/// Returns the texts of an error and of its causes.
fn texts(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        texts.push(cause.to_string());
        source = cause.source();
    }
    texts
}

#[test]
fn every_cause_is_said_once() -> Result<(), Box<dyn Error>> {
    Config::default().install()?;
    let no_device = kernel_registry::context(99).expect_err("there is no such device");
    let DriverUnavailable::Failed(call) = no_device else { panic!("{no_device}") };
    let (info, kernel, missing) = (saxpy::INFO, saxpy::INFO.path(), DriverUnavailable::Missing);
    let late = WarmError::DriverUnavailable(no_device);
    let gone = RecheckError::Driver(call);

    // Each error, with words of its causes. The last cause is first.
    let own: &[&str] = &[];
    let from_call: &[&str] = &["CUDA_ERROR_INVALID_DEVICE"];
    let from_driver: &[&str] = &["CUDA_ERROR_INVALID_DEVICE", "nvidia-smi"];
    let from_recheck: &[&str] = &["CUDA_ERROR_INVALID_DEVICE", "could not be checked"];
    let table: [(Box<dyn Error>, &[&str]); 25] = [
        (Box::new(call), own),
        (Box::new(missing), own),
        (Box::new(no_device), from_call),
        (Box::new(RegistryError::SymbolNotFound { symbol: String::new(), near: Vec::new() }), own),
        (Box::new(LoadError::OtherContext), own),
        (Box::new(LoadError::Driver(call)), from_call),
        (Box::new(LaunchError::NotWarm { kernel: info }), own),
        (Box::new(LaunchError::Driver { kernel: info, error: call }), from_call),
        (Box::new(LaunchError::DriverUnavailable { kernel: info, error: no_device }), from_driver),
        (Box::new(LaunchError::Late { kernel: info, error: Box::new(late.clone()) }), from_driver),
        (Box::new(late), from_call),
        (Box::new(WarmError::DriverUnavailable(missing)), own),
        (Box::new(WarmError::from(call)), from_call),
        (Box::new(RecheckError::Reset), own),
        (Box::new(RecheckError::DriverUnavailable(no_device)), from_call),
        (Box::new(gone.clone()), from_call),
        (Box::new(ResidentError::NotWarm { kernel, error: gone }), from_recheck),
        (Box::new(ResidentError::Launch(LaunchError::Driver { kernel: info, error: call })), from_call),
        (Box::new(ResidentError::CannotRun { kernel, why: CannotRun::Empty }), &["at least one"]),
        (Box::new(ResidentError::DriverUnavailable { kernel, error: no_device }), from_driver),
        (Box::new(ResidentError::Driver { kernel, error: call }), from_call),
        (Box::new(SectionError::Reset { kernel }), own),
        (Box::new(SectionError::Driver { kernel, error: call }), from_call),
        (Box::new(PartitionError::DriverUnavailable(no_device)), from_call),
        (Box::new(PartitionError::Driver(call)), from_call),
    ];
    for (error, causes) in table {
        let said = texts(&*error);
        assert_eq!(said.len() - 1, causes.len(), "{said:?}");
        for (text, words) in said.iter().rev().zip(causes) {
            assert!(text.contains(words), "`{words}` in {said:?}");
            assert_eq!(said.iter().filter(|text| text.contains(words)).count(), 1, "{said:?}");
        }
    }
    // The text that `main` prints contains all causes.
    let printed = format!("{:?}", MainError::from(no_device));
    assert!(from_driver.iter().all(|words| printed.contains(words)), "{printed}");
    Ok(())
}

/// An error of a program, whose cause is cudarc's.
#[derive(Debug)]
struct NoSum(DriverError);

impl fmt::Display for NoSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sum was not computed")
    }
}

impl Error for NoSum {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn an_error_of_cudarc_is_a_sentence_with_a_remedy() -> Result<(), Box<dyn Error>> {
    Config::default().install()?;
    let printed = |error: DriverError| format!("{:?}", MainError::from(error));
    let no_device = CudaContext::new(99).expect_err("there is no such device");
    assert_eq!(
        printed(no_device),
        "the driver returned CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal; no device has this number; devices are \
         counted from 0, `nvidia-smi` lists them, and `CUDA_VISIBLE_DEVICES` may hide some"
    );
    let remedies = [
        (
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            "(2): out of memory; the device has too little memory; `nvidia-smi`",
        ),
        (CUresult::CUDA_ERROR_NO_DEVICE, "; make sure that `nvidia-smi` shows a device"),
        (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "; this error is sticky (a kernel used an illegal address): "),
        (CUresult::CUDA_ERROR_NOT_PERMITTED, "; if an audit has refused the call, "),
    ];
    for (result, remedy) in remedies {
        let said = printed(DriverError(result));
        assert!(said.starts_with(&format!("the driver returned {result:?} ({})", result as u32)), "{said}");
        assert!(said.contains(remedy), "{said}");
    }
    let said = printed(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE));
    assert_eq!(said, "the driver returned CUDA_ERROR_INVALID_VALUE (1): invalid argument");
    let said = format!("{:?}", MainError::from(NoSum(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE))));
    assert_eq!(
        said,
        format!("the sum was not computed: {}", printed(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE)))
    );
    Ok(())
}

//! Tests splitting simulated devices into parts, which are the driver's green contexts.

mod child;
mod serial;

use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::{Warmup, warm_all};
use kernel_registry_resident::{Control, Partition, PartitionError, Resident, ResidentError};
use kernel_registry_sim::{Config, Device, Fault, live};
use kernels::blas1::saxpy;
use kernels::memory::pair_sum;
use kernels::waiting::{spin_until_flag, touch};
use serial::Turn;
use sys::CUresult;

kernel_registry::link_kernels!(kernels);

type Tested = Result<(), Box<dyn Error>>;
type Contexts = Vec<Arc<CudaContext>>;

const REST: u32 = Partition::REST;

/// Installs an H200, an A100 and a T4, and returns their contexts with a turn. Tests take turns, because one test
/// counts objects that another would create. The turn is dropped last.
fn devices() -> Result<(Turn, Contexts), Box<dyn Error>> {
    let turn = serial::take();
    Config::with_devices([Device::h200(), Device::a100(), Device::t4()]).install()?;
    Ok((turn, kernel_registry::contexts()?))
}

fn sizes<const N: usize>(context: &Arc<CudaContext>, sizes: [u32; N]) -> Result<[u32; N], PartitionError> {
    Ok(Partition::new(context).sms(sizes)?.map(|part| part.sms()))
}

fn sms_of(stream: Arc<CudaStream>) -> Result<Option<u32>, PartitionError> {
    Partition::sms_of(&stream)
}

#[test]
fn the_sizes_of_parts_are_rounded_up() -> Tested {
    let (_turn, contexts) = devices()?;
    let [h200, a100, t4] = [0, 1, 2].map(|device| &contexts[device]);
    assert_eq!(sizes(h200, [8, REST])?, [8, 124]);
    assert_eq!(sizes(h200, [REST, 1])?, [124, 8]);
    assert_eq!(sizes(h200, [9])?, [16]);
    assert_eq!(sizes(h200, [16, 16, REST])?, [16, 16, 100]);
    assert_eq!(sizes(h200, [8, REST, 24])?, [8, 100, 24]);
    assert_eq!(sizes(h200, [60, 64])?, [64, 64]);
    assert_eq!(sizes(h200, [132])?, [132]);
    assert_eq!(sizes(a100, [5, REST])?, [6, 102]);
    assert_eq!(sizes(t4, [3, REST])?, [4, 36]);
    Ok(())
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_the_numbers() -> Tested {
    let (_turn, contexts) = devices()?;
    let refused = |error: PartitionError| match error {
        PartitionError::TooFew { group, groups, has, .. } => (group, groups, has, error.to_string()),
        other => panic!("{other}"),
    };
    let context = &contexts[0];
    let (group, groups, has, words) = refused(sizes(context, [72, 64]).expect_err("they are 136"));
    assert_eq!((group, groups, has), (8, 16, 132));
    assert_eq!(
        words,
        "parts of [72, 64] multiprocessors do not fit: each takes whole groups of 8, and the device's 132 make 16 of them; \
         ask for fewer"
    );
    let (group, groups, has, words) = refused(sizes(context, [132, REST]).expect_err("nothing is left"));
    assert_eq!((group, groups, has), (132, 1, 132));
    assert!(words.starts_with("parts of [132, REST] multiprocessors"), "{words}");
    refused(sizes(context, [u32::MAX - 1, 8]).expect_err("it is too much"));
    refused(sizes(context, [128, 1]).expect_err("4 are left, and a part has at least 8"));
    assert!(matches!(sizes(context, []), Err(PartitionError::Sizes { .. })));
    for wrong in [[REST, REST], [0, 8], [REST, 0]] {
        let error = sizes(context, wrong).expect_err("these are no sizes");
        assert!(matches!(error, PartitionError::Sizes { .. }), "{error}");
        assert!(error.to_string().contains("REST"), "{error}");
    }
    Ok(())
}

#[test]
fn contexts_and_devices_that_cannot_be_split_are_refused() -> Tested {
    let (_turn, contexts) = devices()?;
    let device = contexts[0].cu_device();
    // SAFETY: the context is new, and belongs to the `CudaContext` from here on.
    let other = unsafe {
        let mut other = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut other, ptr::null_mut(), 0, device).result()?;
        CudaContext::from_raw_context(0, device, other)?
    };
    assert_eq!(sizes(&other, [8]), Err(PartitionError::NotPrimary));
    let fault = Fault::fails("cuDeviceGetDevResource", CUresult::CUDA_ERROR_NOT_SUPPORTED as u32).inject()?;
    assert_eq!(sizes(&contexts[1], [8]), Err(PartitionError::Unsupported { device: 1 }));
    drop(fault);
    for call in ["cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc", "cuGreenCtxCreate"] {
        let before = live();
        let fault = Fault::fails(call, CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32).nth(2).inject()?;
        match sizes(&contexts[0], [8, REST]) {
            Err(PartitionError::Driver(error)) => assert_eq!(error.call, call),
            other => panic!("{call}: {other:?}"),
        }
        assert_eq!((fault.hits(), live()), (1, before), "{call}");
    }
    Ok(())
}

/// Allocates two words that device and host share. They are zero, and never freed.
fn words(context: &CudaContext) -> Result<*mut u32, Box<dyn Error>> {
    context.bind_to_thread()?;
    let mut words = ptr::null_mut();
    // SAFETY: a context is current, and `words` has room for an address.
    unsafe { sys::cuMemHostAlloc(&mut words, 8, 2).result()? };
    Ok(words.cast())
}

/// A resident kernel that fills the multiprocessors of its stream until it is released.
struct Stays {
    stream: Arc<CudaStream>,
    control: Control,
}

impl Stays {
    fn start(stream: Arc<CudaStream>, sms: u32) -> Result<Self, Box<dyn Error>> {
        let (flag, control) = (words(stream.context())?, Control::new(stream.context(), sms * 2)?);
        control.limit(Duration::from_secs(60));
        let config = spin_until_flag::config(sms * 2).block(1024);
        // SAFETY: the flag is never freed. The control block is freed after the kernel has ended.
        unsafe { spin_until_flag::launch(&stream, config, flag, &control)? };
        Ok(Stays { stream, control })
    }

    fn release(self) -> Tested {
        self.control.stop();
        Ok(self.stream.synchronize()?)
    }
}

/// The time limit for a kernel that must run, even on a busy machine.
const LONG: Duration = Duration::from_secs(50);
/// The time limit for a kernel that must wait.
const SHORT: Duration = Duration::from_millis(500);

/// Returns whether a small kernel runs in a stream within this time.
fn runs(stream: &Arc<CudaStream>, window: Duration) -> Result<bool, Box<dyn Error>> {
    let out = words(stream.context())?;
    // SAFETY: the kernel adds one to a word that is never freed.
    unsafe { touch::launch(stream, touch::over(1), out)? };
    let begun = Instant::now();
    while begun.elapsed() < window {
        // SAFETY: the stream exists.
        if unsafe { sys::cuStreamQuery(stream.cu_stream()) } == CUresult::CUDA_SUCCESS {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

#[test]
fn a_kernel_that_fills_its_part_leaves_the_others_free() -> Tested {
    let (_turn, contexts) = devices()?;
    let context = &contexts[0];
    let warm = warm_all(context)?;
    let [small, rest] = Partition::new(context).sms([8, REST])?;
    let whole = context.new_stream()?;
    let [streams, others] = [[small.stream()?, small.stream()?], [rest.stream()?, rest.stream()?]];
    let stays = Stays::start(streams[0].clone(), small.sms())?;
    assert!(runs(&others[0], LONG)?, "the other part is free");
    assert!(runs(&whole, LONG)?, "so is the device");
    assert!(!runs(&streams[1], SHORT)?, "its own part is full");
    warm.recheck()?;
    stays.release()?;
    streams[1].synchronize()?;

    let stays = Stays::start(others[0].clone(), rest.sms())?;
    assert!(runs(&streams[0], LONG)?, "the small part is free");
    assert!(!runs(&others[1], SHORT)?, "the rest is full");
    stays.release()?;

    let stays = Stays::start(whole.clone(), 132)?;
    assert!(!runs(&streams[0], SHORT)?, "the device is full, and the part with it");
    stays.release()?;
    context.synchronize()?;
    Ok(())
}

#[test]
fn kernels_compute_in_a_part_with_the_occupancy_of_the_part() -> Tested {
    let (_turn, contexts) = devices()?;
    let context = &contexts[0];
    let [small, rest] = Partition::new(context).sms([8, REST])?;
    assert!(context.is_in_multi_stream_mode(), "or cudarc would not order work on slices");
    // Kernels that are warmed after the split are warm in the parts too, because parts share the kernels of their
    // context.
    let _warm = Warmup::new().only(|kernel| kernel == saxpy::INFO).warm(context)?;
    const N: u32 = 10_000;
    for part in [&small, &rest] {
        let stream = part.stream()?;
        assert_eq!(stream.context(), part.context());
        assert_eq!(sms_of(stream.clone())?, Some(part.sms()));
        // One slice belongs to another stream, and cudarc makes this stream wait for the other stream.
        let x = context.default_stream().clone_htod(&[1.0_f32; N as usize])?;
        let mut y = stream.clone_htod(&[2.0_f32; N as usize])?;
        // SAFETY: both vectors have `N` elements.
        unsafe { saxpy::launch(&stream, saxpy::over(N), N, 3.0, &x, &mut y)? };
        assert_eq!(stream.clone_dtoh(&y)?, [5.0; N as usize]);
        assert_eq!(part.blocks_at_once(saxpy::INFO, &saxpy::over(N))?, 8 * part.sms());
    }
    assert_eq!(sms_of(context.new_stream()?)?, None);
    assert_eq!(sms_of(context.default_stream())?, None);
    Ok(())
}

/// A grid whose blocks wait for each other must have room in its part.
#[test]
fn a_resident_kernel_is_checked_in_its_part() -> Tested {
    let (_turn, contexts) = devices()?;
    let context = &contexts[0];
    let warm = warm_all(context)?;
    let [small, rest] = Partition::new(context).sms([8, REST])?;
    let spin = |blocks| Resident::<spin_until_flag>::new(spin_until_flag::config(blocks).block(1024));
    let error = spin(17).within(&small).check(&warm).expect_err("16 have room");
    assert!(matches!(error, ResidentError::GridTooLarge { grid: 17, capacity: 16, .. }), "{error}");
    let flag = words(context)?;
    let launch = |resident: Resident<_>, stream: &Arc<_>| {
        // SAFETY: the flag is never freed.
        resident.check(&warm)?.launch(stream, |launch| unsafe {
            spin_until_flag::launch(stream, launch, flag, launch.control())
        })
    };
    let (stream, whole) = (small.stream()?, context.new_stream()?);
    for (resident, stream) in
        [(spin(8).within(&small), &whole), (spin(8), &stream), (spin(8).within(&rest), &stream)]
    {
        let error = launch(resident, stream).expect_err("the stream is elsewhere");
        assert!(matches!(error, ResidentError::OtherPart { .. }), "{error}");
    }
    let section = launch(spin(16).within(&small), &stream)?;
    // This part is full, and the other part is as free as before.
    let beside = launch(spin(248).within(&rest), &rest.stream()?)?;
    let full = spin(1).within(&small).check(&warm).expect_err("no room is left");
    assert!(matches!(full, ResidentError::GridTooLarge { capacity: 0, .. }), "{full}");
    let error = Partition::new(context).sms([8]).expect_err("it would wait");
    assert!(
        error.to_string().contains("`cuGreenCtxCreate` would wait for `kernels::waiting::spin_until_flag`"),
        "{error}"
    );
    section.stop()?;
    Ok(beside.stop()?)
}

#[test]
fn a_kernel_that_the_device_does_not_have_is_named() -> Tested {
    let (_turn, contexts) = devices()?;
    let warm = warm_all(&contexts[2])?;
    let spin = Resident::<spin_until_flag>::new(spin_until_flag::config(1).block(32));
    let error = spin.beside(pair_sum::INFO, pair_sum::config(2)).check(&warm).expect_err("it is a T4");
    assert!(error.to_string().contains("it asks for `arch = \">=90\"`, and this device has 75"), "{error}");
    Ok(())
}

#[test]
fn a_cooperative_grid_is_as_large_as_its_part() -> Tested {
    let (_turn, contexts) = devices()?;
    let context = &contexts[0];
    let _warm = Warmup::new().only(|kernel| kernel == touch::INFO).warm(context)?;
    let [small] = Partition::new(context).sms([8])?;
    let (stream, whole) = (small.stream()?, context.new_stream()?);
    let out = words(context)?;
    let launch = |stream: &Arc<CudaStream>, blocks: u32| {
        // SAFETY: the kernel adds to a word that is never freed.
        unsafe { touch::launch(stream, touch::config(blocks).block(1024).cooperative(), out) }
    };
    launch(&stream, 16)?;
    launch(&whole, 17)?;
    let error = launch(&stream, 17).expect_err("it would wait for ever").to_string();
    assert!(
        error.ends_with("; launch fewer or smaller ones, `cargo kernels fit` computes how many fit"),
        "{error}"
    );
    // SAFETY: as above.
    let refused = unsafe { touch::launch(&whole, touch::config(32).block(32).cluster(32), out) };
    let error = refused.expect_err("no device has such clusters").to_string();
    assert!(error.ends_with("every device that has clusters has room for those of 8 blocks"), "{error}");
    context.synchronize()?;
    Ok(())
}

#[test]
fn a_part_exists_as_long_as_its_streams_are_used() -> Tested {
    let (_turn, mut contexts) = devices()?;
    let before = live();
    let context = contexts.swap_remove(0);
    drop(contexts);
    let _warm = warm_all(&context)?;
    let [small, other, rest] = Partition::new(&context).sms([8, 8, REST])?;
    let (one, unused) = (small.stream()?, small.stream()?);
    drop((unused, rest));
    let slice = one.clone_htod(&[1_u32, 2])?;
    drop((small, one));
    // The slice keeps the stream alive.
    let stream = slice.stream().clone();
    assert_eq!(sms_of(stream.clone())?, Some(8));
    assert_eq!(stream.clone_dtoh(&slice)?, [1, 2]);

    // The same holds for a stream with unfinished work.
    let stays = Stays::start(stream, 8)?;
    let Stays { stream, control } = stays;
    drop((slice, stream));
    let streams = live().streams;
    drop(other);
    assert_eq!(live().streams, streams, "the stream of a kernel that runs stays, and nothing waits for it");
    control.stop();
    context.synchronize()?;
    drop(Partition::new(&context).sms([8])?);
    assert_eq!(live().streams, before.streams, "the next split destroys what is left");
    Ok(())
}

#[test]
fn a_split_beside_a_resident_kernel_is_an_error() -> Tested {
    let (_turn, contexts) = devices()?;
    let context = &contexts[0];
    let warmup = Warmup::new().only(|kernel| kernel == spin_until_flag::INFO);
    let _warm = warmup.timeout(Duration::from_millis(100)).warm(context)?;
    let [small] = Partition::new(context).sms([8])?;
    let stays = Stays::start(small.stream()?, 8)?;
    let timeout = Duration::from_millis(100);
    assert_eq!(sizes(context, [8]), Err(PartitionError::Waiting { timeout }));
    let error = PartitionError::Waiting { timeout }.to_string();
    assert!(error.contains("has waited for 0.1 s") && error.contains("split it before"), "{error}");
    stays.release()?;
    let _warm = Warmup::new().timeout(Duration::from_secs(30)).warm(context)?;
    assert_eq!(sizes(context, [8])?, [8]);
    Ok(())
}

#[test]
fn an_old_driver_is_an_error_that_says_which_to_install() {
    for driver in ["12.0", "12.3"] {
        let words = child::run("refuse", &[("KERNEL_REGISTRY_SIM_DRIVER", driver)]);
        let expected =
            format!("the driver supports CUDA {driver}, and a GPU is split with functions of CUDA 12.4");
        assert!(words.contains(&expected) && words.contains("550 series"), "{words}");
    }
    // A driver before 13.0 does not tell the alignment of a part's size.
    child::run("split_with_an_older_driver", &[("KERNEL_REGISTRY_SIM_DRIVER", "12.4")]);
}

#[test]
#[ignore = "run by the test above, for one driver version"]
fn refuse() -> Tested {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    let error = Partition::new(&context).sms([8, REST]).expect_err("it is too old");
    assert!(matches!(error, PartitionError::TooOld { .. }), "{error}");
    assert_eq!(sms_of(context.new_stream()?)?, None);
    println!("{error}");
    Ok(())
}

#[test]
#[ignore = "run by the test above, for one driver version"]
fn split_with_an_older_driver() -> Tested {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    assert_eq!(sizes(&context, [9, REST])?, [16, 116]);
    assert_eq!(sizes(&context, [8, 20, REST])?, [8, 24, 100]);
    Ok(())
}

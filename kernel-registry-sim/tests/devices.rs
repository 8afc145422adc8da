//! Tests several different devices in one machine, and devices with little memory.

mod saxpy_check;
mod serial;

use std::collections::HashSet;
use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{Cause, DynArg, LaunchError, MainError, WarmError, Warmup, launch_dyn, warm_all};
use kernel_registry_resident::{Control, Mapped, Queue};
use kernel_registry_sim::{Config, Device, leave_memory};
use kernels::blas1::saxpy;
use kernels::memory::{histogram, pair_sum, shuffle};
use kernels::waiting::{Task, set_flag, worker};
use serial::Turn;
use sys::{CUdevice_attribute_enum as Attribute, CUresult};

kernel_registry::link_kernels!(kernels);

type Contexts = Vec<Arc<CudaContext>>;

/// Installs an H200, a T4, and a small part of an H100, and returns their contexts with a turn. Tests take turns,
/// because one test takes the memory that another needs. The turn is dropped last.
fn devices() -> Result<(Turn, Contexts), Box<dyn Error>> {
    let turn = serial::take();
    Config::with_devices([Device::h200(), Device::t4(), Device::h100_1g()]).install()?;
    Ok((turn, kernel_registry::contexts()?))
}

#[test]
fn each_device_has_attributes_of_its_own() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    let facts = |context: &CudaContext| -> Result<_, Box<dyn Error>> {
        Ok((
            context.name()?,
            context.compute_capability()?,
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)?,
            context.total_mem()? >> 20,
        ))
    };
    let name = |name: &str| name.to_owned();
    assert_eq!(
        facts(&contexts[0])?,
        (name("simulated NVIDIA H200"), (9, 0), 132, 2048, 227 << 10, 1, 143_360)
    );
    assert_eq!(facts(&contexts[1])?, (name("simulated Tesla T4"), (7, 5), 40, 1024, 64 << 10, 0, 15_095));
    let part = name("simulated NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    assert_eq!(facts(&contexts[2])?, (part, (9, 0), 16, 2048, 227 << 10, 1, 9856));
    Ok(())
}

#[test]
fn an_ordinal_that_no_device_has_is_an_error() -> Result<(), Box<dyn Error>> {
    let _devices = devices()?;
    for ordinal in [3, 1 << 31, 1 << 32, (1 << 32) + 1, usize::MAX] {
        let error = kernel_registry::context(ordinal).expect_err("there are three devices");
        let said = format!("{:?}", MainError::from(error));
        assert!(said.contains("CUDA_ERROR_INVALID_DEVICE"), "{ordinal}: {said}");
        assert!(said.contains("no device has this number; ") && !said.contains("does not work"), "{said}");
    }
    Ok(())
}

/// A kernel that one device cannot run is reported as unavailable on that device only.
#[test]
fn kernels_are_warm_where_they_can_run() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    let warm = contexts.iter().map(warm_all).collect::<Result<Vec<_>, _>>()?;
    let unavailable = |device: usize| {
        let kernels = warm[device].report().unavailable.iter();
        kernels.map(|kernel| (kernel.path, kernel.min_arch)).collect::<Vec<_>>()
    };
    assert_eq!([unavailable(0), unavailable(2)], [[], []]);
    assert_eq!(unavailable(1), [(histogram::INFO.path(), 80), (pair_sum::INFO.path(), 90)]);
    for (context, binary_version) in contexts.iter().zip([90, 75, 90]) {
        let report = warm.iter().find(|warm| warm.context() == context).ok_or("not warm")?.report();
        assert!(
            report.verified && report.kernels.iter().all(|kernel| kernel.binary_version == binary_version)
        );
        saxpy_check::saxpy(context, 100)?;
    }
    let stream = contexts[1].new_stream()?;
    let (x, mut out) = (stream.alloc_zeros::<f32>(16)?, stream.alloc_zeros::<f32>(16)?);
    // SAFETY: nothing is launched.
    let refused = unsafe { pair_sum::launch(&stream, pair_sum::over(16), 16, &x, &mut out) };
    let error = refused.expect_err("it needs clusters");
    assert!(matches!(error, LaunchError::Unavailable { min_arch: 90, arch: 75, .. }), "{error}");
    Ok(())
}

/// Every device can access mapped memory, but freeing it waits only for kernels of its own context.
#[test]
fn memory_of_another_context_is_refused() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    for context in &contexts {
        Warmup::new().only(|kernel| kernel == set_flag::INFO || kernel == worker::INFO).warm(context)?;
    }
    for (context, other) in [(&contexts[0], &contexts[1]), (&contexts[1], &contexts[0])] {
        let stream = context.new_stream()?;
        let flags = |context| Mapped::<AtomicU32>::zeroed(context, 1);
        let (flag, control, queue) = (flags(other)?, Control::new(other, 1)?, Queue::<Task>::new(other, 1)?);
        let own = (flags(context)?, Control::new(context, 1)?, Queue::<Task>::new(context, 1)?);
        let config = worker::config(1).block(1);
        // SAFETY: launches that are not refused have ended before the memory is freed.
        let refused = unsafe {
            [
                set_flag::launch(&stream, set_flag::config(1).block(1), &flag, 1),
                worker::launch(&stream, config, &control, &own.2),
                worker::launch(&stream, config, &own.1, &queue),
                launch_dyn(
                    set_flag::INFO,
                    &stream,
                    set_flag::config(1).block(1),
                    [DynArg::pointer(&flag), DynArg::value(&1_u32)],
                ),
            ]
        };
        for refused in refused {
            let said = refused.expect_err("the memory is another context's").to_string();
            assert!(said.contains("is of another context than this stream's"), "{said}");
        }
        // SAFETY: launches have ended before the memory is freed, also where they get a plain address.
        unsafe {
            set_flag::launch(&stream, set_flag::config(1).block(1), &own.0, 1)?;
            worker::launch(&stream, config, &own.1, &own.2)?;
            set_flag::launch(&stream, set_flag::config(1).block(1), flag[0].as_ptr(), 2)?;
        }
        stream.synchronize()?;
        assert_eq!([&flag, &own.0].map(|flag| flag[0].load(Ordering::Acquire)), [2, 1]);
    }
    Ok(())
}

/// 2 KiB more stack for each thread are 264 MiB on an H200, 40 MiB on a T4, and 32 MiB on the part of an H100.
#[test]
fn stacks_take_memory_for_all_threads_of_the_device() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    for (context, cost) in contexts.iter().zip([264_u64, 40, 32]) {
        let only = Warmup::new().only(|kernel| kernel == shuffle::INFO);
        let before = context.mem_get_info()?.0;
        let warm = only.warm(context)?;
        let taken = (before - context.mem_get_info()?.0) as u64;
        assert!((cost << 20..(cost + 1) << 20).contains(&taken), "{taken}");
        drop(warm);
    }
    Ok(())
}

#[test]
fn occupancy_depends_on_the_device() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    for context in &contexts {
        Warmup::new().only(|kernel| kernel == saxpy::INFO).warm(context)?;
    }
    for (context, [free, much]) in contexts.iter().zip([[8, 7], [4, 2], [8, 7]]) {
        context.bind_to_thread()?;
        let function = saxpy::INFO.cu_function(context)?;
        for (shared, expected) in [(0, free), (30 << 10, much)] {
            let mut blocks = 0;
            // SAFETY: the function belongs to this context.
            unsafe {
                sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 256, shared)
                    .result()?
            };
            assert_eq!(blocks, expected, "{shared} bytes on {}", context.name()?);
        }
    }
    Ok(())
}

/// The error names the kernel with the largest frame, with numbers. The other kernels are warm.
#[test]
fn a_stack_beyond_the_budget_is_an_error_of_its_kernel() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    let pressure = leave_memory(0, 2 << 30);
    let error = warm_all(&contexts[0]).expect_err("a sixteenth of that is 128 MiB");
    let words = error.to_string();
    let WarmError::Kernels { report } = error else { panic!("{words}") };
    assert_eq!(report.failures.len(), 1, "{words}");
    assert_eq!(report.failures[0].kernel, shuffle::INFO.path());
    assert!(matches!(report.failures[0].cause, Cause::StackBudget { needed: 0x1080_0000, .. }), "{words}");
    assert!(words.contains("264 MiB") && words.contains("Warmup::stack_budget"), "{words}");
    assert_eq!(report.kernels.len(), kernel_registry::kernels()?.len() - 1);
    // This budget is just large enough, and the memory is free.
    Warmup::new().stack_budget(264 << 20).warm(&contexts[0])?;
    drop(pressure);
    Ok(())
}

/// The error of every kernel says that there is no memory, and what to do. When memory is free again, warming succeeds.
#[test]
fn no_memory_for_code_is_the_error_of_each_kernel() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    let pressure = leave_memory(2, 0);
    let error = warm_all(&contexts[2]).expect_err("there is no memory");
    let words = error.to_string();
    let WarmError::Kernels { report } = error else { panic!("{words}") };
    assert_eq!(report.failures.len(), kernel_registry::kernels()?.len());
    assert!(
        report.failures.iter().all(|failure| matches!(failure.cause, Cause::OutOfMemory { free: 0, .. })),
        "{words}"
    );
    assert!(words.contains("warm kernels before anything takes the device's memory"), "{words}");
    // All kernels of an image share one line.
    let images: HashSet<_> = report.failures.iter().map(|failure| failure.image).collect();
    assert!(images.len() < report.failures.len());
    assert_eq!(words.lines().count(), 1 + images.len(), "{words}");
    drop(pressure);
    warm_all(&contexts[2])?;
    Ok(())
}

/// Creating a context takes memory too.
#[test]
fn no_memory_for_a_context_is_an_error_that_names_possible_causes() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    drop(contexts);
    let pressure = leave_memory(1, 100 << 20);
    let error = kernel_registry::context(1).expect_err("there are 100 MiB");
    let words = format!("{:?}", MainError::from(error));
    assert!(words.contains("CUDA_ERROR_OUT_OF_MEMORY") && words.contains("another process"), "{words}");
    drop(pressure);
    kernel_registry::context(1)?;
    Ok(())
}

/// A library can be used on the devices that can run it. If there are none, loading it is refused.
#[test]
fn libraries_can_be_used_on_devices_that_can_run_them() -> Result<(), Box<dyn Error>> {
    let (_turn, contexts) = devices()?;
    let load = |arch: u32| {
        let text =
            format!(".version 8.0\n.target sm_{arch}\n.address_size 64\n.visible .entry k() {{ ret; }}\n\0");
        let (mut library, none) = (ptr::null_mut(), ptr::null_mut());
        let (options, values) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the text ends with a zero byte, and there are no options.
        let loaded = unsafe {
            sys::cuLibraryLoadData(
                &mut library,
                text.as_ptr().cast(),
                options,
                values,
                0,
                none,
                none.cast(),
                0,
            )
        };
        loaded.result().map(|()| library)
    };
    let library = load(90)?;
    let mut kernel = ptr::null_mut();
    // SAFETY: the library is loaded, and the name ends with a zero byte.
    unsafe { sys::cuLibraryGetKernel(&mut kernel, library, c"k".as_ptr()).result()? };
    for (context, expected) in contexts.iter().zip([
        CUresult::CUDA_SUCCESS,
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUresult::CUDA_SUCCESS,
    ]) {
        context.bind_to_thread()?;
        let mut function = ptr::null_mut();
        // SAFETY: the kernel belongs to that library.
        assert_eq!(unsafe { sys::cuKernelGetFunction(&mut function, kernel) }, expected);
        let (which, mut version) = (sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION, 0);
        // SAFETY: the kernel belongs to that library.
        let asked = unsafe { sys::cuKernelGetAttribute(&mut version, which, kernel, context.cu_device()) };
        assert_eq!((asked, version == 90), (expected, expected == CUresult::CUDA_SUCCESS));
    }
    assert_eq!(load(100).map_err(|error| error.0), Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU));
    Ok(())
}

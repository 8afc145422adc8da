//! Tests calls that are deferred until no kernel is resident any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel_audit::record::Subject;

use super::*;

/// Returns the processor time of this thread, which does not depend on other work of the machine.
fn computed() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[test]
fn calls_that_free_are_deferred() {
    apart("sections::deferred::calls_that_free_are_deferred", &[], || {
        let context = ready(Audit::new())?;
        let (stream, waiting) = (context.new_stream()?, Waiting::new()?);
        let resident = Resident::new(&context, DEFER)?;
        all_are(&waiting.try_refused(&resident.stream, &stream), REFUSED);
        let before = findings()?.len();
        let tried = waiting.try_deferred();
        all_are(&tried, DONE);
        let found = findings()?.split_off(before);
        assert_eq!(said(&found).iter().map(|(kind, call, _)| (*kind, *call)).collect::<Vec<_>>(), {
            names(&tried).into_iter().map(|call| (Kind::Deferred, call)).collect::<Vec<_>>()
        });
        // The objects exist until the section ends, but a second free or unload is an error, as without a section.
        assert!(is_there(waiting.memory));
        assert_eq!(free(waiting.memory), CUresult::CUDA_ERROR_INVALID_VALUE);
        // SAFETY: the driver still has the module.
        let again = unsafe { sys::cuModuleUnload(waiting.module) };
        assert_eq!(again, CUresult::CUDA_ERROR_INVALID_HANDLE);
        try_harmless(&context, &stream)?;
        assert_eq!(findings()?.len(), before + 3);
        assert_eq!(resident.end(), 3);
        assert!(!is_there(waiting.memory));
        assert_eq!(free(waiting.memory), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(end(1), 0, "it has ended");
        Ok(())
    });
}

#[test]
fn many_frees_are_deferred_and_all_are_made() {
    apart("sections::deferred::many_frees_are_deferred_and_all_are_made", &[], || {
        const MANY: usize = 100_000;
        let context = ready(Audit::new())?;
        let resident_first = Resident::new(&context, DEFER)?;
        assert_eq!(resident_first.end(), 0);
        let before = free_memory();
        let memory = (0..MANY).map(|_| device(512)).collect::<Result<Vec<_>, _>>()?;
        let resident = Resident::new(&context, DEFER)?;
        let took = memory.chunks(MANY / 4).map(|quarter| {
            let before_frees = computed();
            assert!(quarter.iter().all(|address| free(*address) == DONE));
            computed() - before_frees
        });
        let took: Vec<_> = took.collect();
        assert!(free_memory() < before - 512 * MANY + 1);
        assert_eq!(resident.end(), MANY as u64);
        assert_eq!(free_memory(), before);
        assert!(took[3] < took[0] * 4, "a free takes as long however many were deferred: {took:?}");
        // The record names the first frees, and counts the rest.
        let found = findings()?;
        assert_eq!(found.len(), 101);
        assert_eq!(said(&found)[100], (Kind::Deferred, "cuMemFree_v2", ""));
        assert_eq!(found[100].subject, Subject::More { count: 99_900 });
        Ok(())
    });
}

/// The next primary context has the same address, and may allocate memory at the same address.
#[test]
fn memory_of_a_context_that_is_gone_is_not_freed() {
    apart("sections::deferred::memory_of_a_context_that_is_gone_is_not_freed", &[], || {
        Config::with_devices([Device::h200(), Device::h200()]).install()?;
        assert_eq!(install()?, Installed::Now);
        let [first, second] = [kernel_registry::context(0)?, kernel_registry::context(1)?];
        first.bind_to_thread()?;
        warm(&first)?;
        let resident = Resident::new(&first, DEFER)?;
        second.bind_to_thread()?;
        // SAFETY: the memory was allocated.
        assert_eq!(unsafe { sys::cuMemFreeHost(host(4096)?) }, DONE);
        // SAFETY: nothing else uses the context.
        unsafe { sys::cuDevicePrimaryCtxReset_v2(1).result()? };
        let again = CudaContext::new(1)?;
        assert_eq!(again.cu_ctx(), second.cu_ctx());
        first.bind_to_thread()?;
        assert_eq!(resident.end(), 0);
        Ok(())
    });
}

#[test]
fn nested_sections_end_in_any_order() {
    apart("sections::deferred::nested_sections_end_in_any_order", &[], || {
        let context = ready(Audit::new())?;
        let [one, two] = [device(512)?, device(512)?];
        let outer = Resident::new(&context, DEFER)?;
        assert_eq!(free(one), DONE);
        let inner = Resident::new(&context, DEFER)?;
        assert_eq!(free(two), DONE);
        // The outer section ends first; the calls stay deferred, because they would wait for the inner kernel.
        assert_eq!(outer.end(), 0);
        assert!(is_there(one) && is_there(two));
        // A deferred call waits for sections of all modes, and the strictest mode holds.
        let strict = Resident::new(&context, REFUSE)?;
        assert_eq!(free(device(512)?), REFUSED);
        assert_eq!(inner.end(), 0);
        assert!(is_there(one) && is_there(two));
        assert_eq!(strict.end(), 2);
        assert!(!is_there(one) && !is_there(two));
        Ok(())
    });
}

/// Sections of many threads begin and end while deferred calls of other sections are made.
#[test]
fn sections_of_many_threads_lose_nothing() {
    apart("sections::deferred::sections_of_many_threads_lose_nothing", &[], || {
        const THREADS: u64 = 8;
        const ROUNDS: u64 = 50;
        const FREES: u64 = 20;
        let context = ready(Audit::new())?;
        // cudarc synchronizes the context when it creates the first stream, so that happens before the sections.
        let _first = context.new_stream()?;
        let before = free_memory();
        let made = AtomicU64::new(0);
        let work = || -> Outcome {
            context.bind_to_thread()?;
            let stream = context.new_stream()?;
            for _ in 0..ROUNDS {
                let section = begin(c"worker", &stream, DEFER);
                for _ in 0..FREES {
                    assert_eq!(free(device(512)?), DONE);
                }
                made.fetch_add(end(section), Ordering::Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| work().unwrap_or_else(|error| panic!("{error}")));
            }
        });
        assert_eq!(made.into_inner(), THREADS * ROUNDS * FREES);
        assert_eq!(free_memory(), before);
        Ok(())
    });
}

#[test]
fn pinned_memory_of_cudarc_is_freed_later() {
    apart("sections::deferred::pinned_memory_of_cudarc_is_freed_later", &[], || {
        let context = ready(Audit::new())?;
        // SAFETY: nothing reads the memory.
        let slice = unsafe { context.alloc_pinned::<f32>(1024)? };
        let address = slice.as_ptr()? as sys::CUdeviceptr;
        let resident = Resident::new(&context, DEFER)?;
        drop(slice);
        assert!(is_there(address));
        assert_eq!(resident.end(), 1);
        assert!(!is_there(address));
        context.check_err()?;
        Ok(())
    });
}

#[test]
fn calls_that_the_driver_would_refuse_are_not_deferred() {
    apart("sections::deferred::calls_that_the_driver_would_refuse_are_not_deferred", &[], || {
        const WRONG: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
        let context = ready(Audit::new())?;
        let (memory, pinned) = (device(4096)?, host(4096)?);
        let resident = Resident::new(&context, DEFER)?;
        assert_eq!(free(memory + 256), WRONG, "it begins elsewhere");
        // SAFETY: the driver refuses an address that is no host memory of its own.
        let of_device = unsafe { sys::cuMemFreeHost(ptr::with_exposed_provenance_mut(memory as usize)) };
        assert_eq!(of_device, WRONG);
        // SAFETY: as above.
        assert_eq!([free(0), unsafe { sys::cuMemFreeHost(ptr::null_mut()) }], [DONE; 2]);
        assert_eq!(findings()?, []);
        assert_eq!(free(memory), DONE);
        // SAFETY: the memory was allocated.
        assert_eq!(unsafe { sys::cuMemFreeHost(pinned) }, DONE);
        assert_eq!(resident.end(), 2);
        assert!(!is_there(memory) && !is_there(pinned as sys::CUdeviceptr));
        Ok(())
    });
}

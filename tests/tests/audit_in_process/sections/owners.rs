//! Tests that a deferred free or unload acts on the context that owns the object, or on the process, not on the caller's current context.

use super::*;

const WRONG: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn two_devices() -> Result<[Arc<CudaContext>; 2], Box<dyn Error>> {
    Config::with_devices([Device::h200(), Device::h200()]).install()?;
    assert_eq!(install()?, Installed::Now);
    let [first, second] = [kernel_registry::context(0)?, kernel_registry::context(1)?];
    second.bind_to_thread()?;
    first.bind_to_thread()?;
    warm(&first)?;
    Ok([first, second])
}

fn free_host(address: *mut c_void) -> CUresult {
    // SAFETY: the driver refuses an address that it did not allocate.
    unsafe { sys::cuMemFreeHost(address) }
}

#[test]
fn memory_is_freed_by_the_context_that_owns_it() {
    apart("sections::owners::memory_is_freed_by_the_context_that_owns_it", &[], || {
        let [first, second] = two_devices()?;
        let memory = device(4096)?;
        let resident = Resident::new(&first, DEFER)?;
        second.bind_to_thread()?;
        assert_eq!(free(memory), DONE);
        // The current context ends here. The memory belongs to another context.
        // SAFETY: nothing else uses the context.
        unsafe { sys::cuDevicePrimaryCtxReset_v2(1).result()? };
        first.bind_to_thread()?;
        assert!(is_there(memory));
        assert_eq!(resident.end(), 1);
        assert!(!is_there(memory));
        Ok(())
    });
}

#[test]
fn memory_of_a_context_that_is_gone_is_left_to_the_next() {
    apart("sections::owners::memory_of_a_context_that_is_gone_is_left_to_the_next", &[], || {
        let [first, second] = two_devices()?;
        second.bind_to_thread()?;
        let pinned = host(4096)?;
        first.bind_to_thread()?;
        let resident = Resident::new(&first, DEFER)?;
        assert_eq!(free_host(pinned), DONE);
        // SAFETY: nothing else uses the context.
        unsafe { sys::cuDevicePrimaryCtxReset_v2(1).result()? };
        assert_eq!(resident.end(), 0, "it would be somebody else's by now");
        Ok(())
    });
}

#[test]
fn a_library_belongs_to_the_process() {
    apart("sections::owners::a_library_belongs_to_the_process", &[], || {
        let [first, second] = two_devices()?;
        let (kept, library) = (library(&mut [])?, library(&mut [])?);
        let resident = Resident::new(&first, DEFER)?;
        second.bind_to_thread()?;
        // SAFETY: the library is loaded.
        assert_eq!(unsafe { sys::cuLibraryUnload(library) }, DONE);
        // SAFETY: nothing else uses the context.
        unsafe { sys::cuDevicePrimaryCtxReset_v2(1).result()? };
        first.bind_to_thread()?;
        assert_eq!(resident.end(), 1);
        // SAFETY: the driver refuses a library that was unloaded.
        let [again, other] = unsafe { [sys::cuLibraryUnload(library), sys::cuLibraryUnload(kept)] };
        assert_eq!((again == DONE, other), (false, DONE));
        Ok(())
    });
}

fn library(options: &mut [sys::CUlibraryOption]) -> Result<sys::CUlibrary, Box<dyn Error>> {
    let mut library = ptr::null_mut();
    let mut values = vec![ptr::without_provenance_mut::<c_void>(1); options.len()];
    let (none, no_values) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the code ends with a zero byte and is never freed, and each option has a value.
    unsafe {
        let (code, count) = (CODE.as_ptr().cast(), options.len() as u32);
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        sys::cuLibraryLoadData(&mut library, code, none, no_values, 0, options, values, count).result()?;
    }
    Ok(library)
}

/// The program promised the driver to keep the code until it unloads the library. After the unload call the program may free the code,
/// so the call must not be deferred.
#[test]
fn a_library_whose_code_the_program_keeps_is_not_unloaded_later() {
    apart("sections::owners::a_library_whose_code_the_program_keeps_is_not_unloaded_later", &[], || {
        let context = ready(Audit::new())?;
        let library = library(&mut [sys::CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED])?;
        let resident = Resident::new(&context, DEFER)?;
        // SAFETY: the library is loaded.
        assert_eq!(unsafe { sys::cuLibraryUnload(library) }, REFUSED);
        assert_eq!(resident.end(), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { sys::cuLibraryUnload(library) }, DONE);
        Ok(())
    });
}

#[test]
fn a_second_free_of_deferred_memory_is_an_error() {
    apart("sections::owners::a_second_free_of_deferred_memory_is_an_error", &[], || {
        let context = ready(Audit::new())?;
        let (stream, memory, pinned) = (context.new_stream()?, device(4096)?, host(4096)?);
        let resident = Resident::new(&context, DEFER)?;
        assert_eq!([free(memory), free_host(pinned)], [DONE; 2]);
        // SAFETY: the driver refuses an address that it did not allocate.
        let tried = unsafe {
            [
                free(memory),
                sys::cuMemFreeAsync(memory, stream.cu_stream()),
                free(pinned as sys::CUdeviceptr),
                free_host(pinned),
                sys::cuMemHostUnregister(pinned),
            ]
        };
        assert_eq!(tried, [WRONG; 5]);
        assert_eq!(resident.end(), 2);
        assert!(!is_there(memory) && !is_there(pinned as sys::CUdeviceptr));
        Ok(())
    });
}

#[test]
fn a_wrong_free_is_the_drivers_error_at_once() {
    apart("sections::owners::a_wrong_free_is_the_drivers_error_at_once", &[], || {
        let context = ready(Audit::new())?;
        let pinned = host(4096)?;
        let registered: *mut c_void = Box::leak(vec![0_u64; 512].into_boxed_slice()).as_mut_ptr().cast();
        // SAFETY: the memory is never freed.
        unsafe { sys::cuMemHostRegister_v2(registered, 4096, 0).result()? };
        let wrong = || {
            // SAFETY: the driver refuses to free what was not allocated or registered by that call.
            let unregistered = unsafe { sys::cuMemHostUnregister(pinned) };
            [free_host(registered), unregistered, free(pinned as sys::CUdeviceptr)]
        };
        let expected = wrong();
        assert!(!expected.contains(&DONE), "{expected:?}");
        for on_wait in [REFUSE, DEFER] {
            let resident = Resident::new(&context, on_wait)?;
            assert_eq!(wrong(), expected);
            assert_eq!(resident.end(), 0);
        }
        assert_eq!(findings()?, []);
        Ok(())
    });
}

#[test]
fn a_failed_allocation_names_the_deferred_frees() {
    let output = apart("sections::owners::a_failed_allocation_names_the_deferred_frees", &[], || {
        let context = ready(Audit::new())?;
        let large = free_memory() / 4 * 3;
        let memory = device(large)?;
        let resident = Resident::new(&context, DEFER)?;
        assert_eq!(free(memory), DONE);
        assert!(device(large).is_err());
        assert_eq!(resident.end(), 1);
        assert_eq!(free(device(large)?), DONE);
        Ok(())
    });
    let Some(output) = output else { return };
    let said = text(&output.stderr);
    for words in ["found no memory", "bytes wait to be freed until kernel `worker` ends", "`cuMemFreeAsync`"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

//! Tests kernels of modules that are not loaded. A kernel whose handle is looked up beside a resident kernel is loaded by its launch,
//! and then waits for the resident kernel.

use super::*;

fn fresh_module() -> Result<sys::CUmodule, Box<dyn Error>> {
    let mut module = ptr::null_mut();
    // SAFETY: a context is current, and the code ends with a zero byte.
    unsafe { sys::cuModuleLoadData(&mut module, CODE.as_ptr().cast()).result()? };
    Ok(module)
}

fn take(module: sys::CUmodule, kernel: &CStr) -> Result<sys::CUfunction, CUresult> {
    let mut function = ptr::null_mut();
    // SAFETY: the module is loaded, and the name ends with a zero byte.
    match unsafe { sys::cuModuleGetFunction(&mut function, module, kernel.as_ptr()) } {
        DONE => Ok(function),
        error => Err(error),
    }
}

#[test]
fn a_cold_kernel_is_not_taken_beside_a_resident_one() {
    let output = apart("sections::cold::a_cold_kernel_is_not_taken_beside_a_resident_one", &[], || {
        let context = ready(Audit::new())?;
        let (stream, warm, module) = (context.new_stream()?, fresh_module()?, fresh_module()?);
        let loaded = take(warm, c"later").map_err(|error| format!("{error:?}"))?;
        for on_wait in [REFUSE, DEFER] {
            let before = findings()?.len();
            let resident = Resident::new(&context, on_wait)?;
            assert_eq!(take(module, c"late"), Err(REFUSED));
            assert_eq!(said(&findings()?[before..]), [(Kind::Refused, "cuModuleGetFunction", "late")]);
            // A loaded kernel is looked up and launched as usual.
            assert_eq!(take(warm, c"later"), Ok(loaded));
            assert_eq!(launch(loaded, &stream), DONE);
            assert_eq!(take(warm, c"late"), Err(REFUSED), "a sibling is loaded, and this one is not");
            stream.synchronize()?;
            assert_eq!(resident.end(), 0);
        }
        let before = findings()?.len();
        let resident = Resident::new(&context, REPORT)?;
        let late = take(module, c"late").map_err(|error| format!("{error:?}"))?;
        assert_eq!(said(&findings()?[before..]), [(Kind::Waits, "cuModuleGetFunction", "late")]);
        assert_eq!(take(module, c"late"), Ok(late));
        assert_eq!(resident.end(), 0);
        assert_eq!(launch(late, &stream), DONE);
        Ok(())
    });
    let Some(output) = output else { return };
    let words = "REFUSED while kernel `worker` is resident: `cuModuleGetFunction` of kernel `late`, which is not loaded: a kernel is loaded only";
    assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
}

/// This is the most common hang: the launch returns, and the next synchronization waits.
#[test]
fn the_hang_of_a_cold_kernel_is_explained_by_its_cause() {
    let hang_after = Duration::from_millis(300);
    let output = apart("sections::cold::the_hang_of_a_cold_kernel_is_explained_by_its_cause", &[], || {
        let context = ready(Audit::new().hang_after(hang_after))?;
        let (stream, module) = (context.new_stream()?, fresh_module()?);
        let control = Control::new(&context, 1)?;
        control.limit(Duration::from_secs(2));
        let flag: *mut u32 = host(4)?.cast();
        let spins = context.new_stream()?;
        // SAFETY: the memory of the arguments is not freed before the kernel ends.
        unsafe { spin_until_flag::launch(&spins, spin_until_flag::over(1), flag, &control)? };
        let late = take(module, c"late").map_err(|error| format!("{error:?}"))?;
        assert_eq!(launch(late, &stream), DONE);
        stream.synchronize()?;
        spins.synchronize()?;
        let report = kernel_audit::report()?;
        let hang = report.events.iter().find(|event| event.kind == Kind::Hang).ok_or("no hang")?;
        assert_eq!(&*hang.call, "cuStreamSynchronize");
        Ok(())
    });
    let Some(output) = output else { return };
    let (_, hang) = text(&output.stderr).split_once("HANG").expect("it is explained");
    let hang = hang.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "kernel `late` was not loaded when thread ",
        " (at audit_in_process",
        "spin_until_flag",
        " ran in stream ",
        "it waits on the device until nothing runs there",
        " cure call `warm_all` before work starts",
    ] {
        assert!(hang.contains(words), "{words}: {hang}");
    }
    assert!(!hang.contains("find out why"), "{hang}");
}

/// A library is loaded into each context that needs it, and that load waits for a resident kernel.
#[test]
fn a_library_is_not_loaded_into_a_context_beside_a_resident_kernel() {
    apart("sections::cold::a_library_is_not_loaded_into_a_context_beside_a_resident_kernel", &[], || {
        let context = ready(Audit::new())?;
        let (mut library, mut module) = (ptr::null_mut(), ptr::null_mut());
        let (none, values) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a context is current, and the code ends with a zero byte.
        unsafe {
            let code = CODE.as_ptr().cast();
            sys::cuLibraryLoadData(&mut library, code, none, values, 0, ptr::null_mut(), values, 0)
                .result()?;
        }
        let resident = Resident::new(&context, DEFER)?;
        // SAFETY: the library is loaded.
        assert_eq!(unsafe { sys::cuLibraryGetModule(&mut module, library) }, REFUSED);
        resident.end();
        // SAFETY: as above.
        assert_eq!(unsafe { sys::cuLibraryGetModule(&mut module, library) }, DONE);
        let resident = Resident::new(&context, DEFER)?;
        // SAFETY: as above.
        assert_eq!(unsafe { sys::cuLibraryGetModule(&mut module, library) }, DONE);
        resident.end();
        Ok(())
    });
}

#[test]
fn a_cold_kernel_is_not_taken_after_the_program_is_ready() {
    apart("sections::cold::a_cold_kernel_is_not_taken_after_the_program_is_ready", &[], || {
        let context = ready(Audit::new().after_ready(AfterReady::Refuse))?;
        let (stream, warm, module) = (context.new_stream()?, fresh_module()?, fresh_module()?);
        let loaded = take(warm, c"later").map_err(|error| format!("{error:?}"))?;
        kernel_audit::ready()?;
        assert_eq!(take(module, c"late"), Err(REFUSED));
        assert_eq!(take(warm, c"later"), Ok(loaded));
        assert_eq!(launch(loaded, &stream), DONE);
        assert_eq!(said(&findings()?), [(Kind::Refused, "cuModuleGetFunction", "late")]);
        Ok(())
    });
}

/// Checks with many kernels on several devices that every loaded kernel is accepted, and every other kernel is refused.
#[test]
fn many_kernels_are_known() {
    apart("sections::cold::many_kernels_are_known", &[], || {
        const MODULES: usize = 70;
        const KERNELS: usize = 1_000;
        let context = ready(Audit::new().after_ready(AfterReady::Refuse))?;
        let stream = context.new_stream()?;
        let mut code = String::from(".version 7.0\n.target sm_60\n.address_size 64\n");
        (0..KERNELS).for_each(|number| code.push_str(&format!(".visible .entry k{number}() {{ ret; }}\n")));
        let code = CString::new(code)?;
        let mut last = ptr::null_mut();
        for _ in 0..MODULES {
            let mut module = ptr::null_mut();
            // SAFETY: a context is current, and the code ends with a zero byte.
            unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()).result()? };
            for number in 0..KERNELS {
                let name = CString::new(format!("k{number}"))?;
                last = take(module, &name).map_err(|error| format!("{number}: {error:?}"))?;
            }
        }
        let late = cold(c"late")?;
        kernel_audit::ready()?;
        assert_eq!(launch(last, &stream), DONE);
        assert_eq!(launch(late, &stream), REFUSED, "a full table would let it pass");
        Ok(())
    });
}

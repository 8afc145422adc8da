//! Tests which streams a section accepts, and which launch in the stream counts as the resident kernel's.

use super::*;

#[test]
fn a_section_wants_a_stream_that_waits_for_no_other() {
    let output = apart("sections::streams::a_section_wants_a_stream_that_waits_for_no_other", &[], || {
        let context = ready(Audit::new())?;
        let mut blocking = ptr::null_mut();
        // SAFETY: a context is current.
        unsafe { sys::cuStreamCreate(&mut blocking, 0).result()? };
        // SAFETY: `Begin` is the function's type.
        let begin = unsafe { own::<Begin>(c"kernel_registry_audit_section_begin") };
        for stream in
            [blocking, ptr::null_mut(), ptr::without_provenance_mut(1), ptr::without_provenance_mut(2)]
        {
            // SAFETY: the name ends with a zero byte.
            assert_eq!(unsafe { begin(c"worker".as_ptr(), context.cu_ctx(), stream, DEFER) }, 0);
        }
        assert_eq!(end(0), 0);
        // No section has begun, so nothing is refused.
        assert_eq!(free(device(512)?), DONE);
        Ok(())
    });
    let Some(output) = output else { return };
    let said = text(&output.stderr);
    for words in ["no section for kernel `worker`", "`CU_STREAM_NON_BLOCKING`"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_launch_that_fails_is_not_the_resident_kernel() {
    apart("sections::streams::a_launch_that_fails_is_not_the_resident_kernel", &[], || {
        let context = ready(Audit::new())?;
        let (stream, x) = (context.new_stream()?, context.default_stream().alloc_zeros::<u32>(1)?);
        let late = cold(c"late")?;
        assert_eq!(launch(late, &context.default_stream()), DONE);
        let section = begin(c"worker", &stream, DEFER);
        // SAFETY: the kernel takes no parameters; the driver refuses so many threads.
        let failed = unsafe {
            sys::cuLaunchKernel(
                late,
                1,
                1,
                1,
                2000,
                1,
                1,
                0,
                stream.cu_stream(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        assert_ne!(failed, DONE);
        // No kernel runs in the stream yet.
        stream.synchronize()?;
        touch_on(&stream, &x)?;
        assert!(touch_on(&stream, &x).is_err());
        end(section);
        Ok(())
    });
}

//! C++ code launches kernels with `<<<>>>`, each for the first time while a resident kernel runs. Rust only calls a C++ function. One
//! line in build.rs makes the linker pass the kernels to kernel-registry, and one line here warms them.
//!
//! With `--cold` the kernels are not warmed: each waits until the resident kernel's time is over.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(has_linked)]
    return story::main();
    #[cfg(not(has_linked))]
    {
        eprintln!(
            "LEFT OUT: this was built without nvcc, so no kernels are linked: install it, or set `CUDA_HOME`, and build again"
        );
        ExitCode::from(2)
    }
}

#[cfg(has_linked)]
mod story {
    use std::ffi::{CStr, c_char, c_int};
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::time::Duration;

    use examples::{Ending, LIMIT, Outcome, cold, tell};
    use kernel_registry::Warmup;
    use kernel_registry::cudarc::driver::CudaContext;

    // These functions are in `cuda/linked.cu`.
    unsafe extern "C" {
        safe fn linked_kinds() -> c_int;
        safe fn linked_is_possible(kind: c_int) -> c_int;
        safe fn linked_name(kind: c_int) -> *const c_char;
        safe fn linked_error(code: c_int) -> *const c_char;
        safe fn linked_set_up() -> c_int;
        fn linked_beside(kind: c_int, seconds: f64, ran: *mut c_int) -> c_int;
        fn linked_count(count: *mut c_int) -> c_int;
    }

    pub fn main() -> ExitCode {
        tell(story)
    }

    fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
        let linked = kernel_registry::kernels()?.iter().filter(|kernel| kernel.is_linked()).count();
        println!("{linked} kernels are linked");
        if !cold() {
            let warm = Warmup::new().only(|kernel| kernel.is_linked()).warm(&context)?;
            warm.seal();
            println!("{}", warm.report());
        }
        checked(linked_set_up())?;

        let (mut waited, mut launched) = (Vec::new(), 0);
        for kind in 0..linked_kinds() {
            let name = text(linked_name(kind));
            if linked_is_possible(kind) == 0 {
                println!("{name:<40} left out: not with this device, or not without `-rdc=true`");
                continue;
            }
            let (mut ran, limit): (_, Duration) = (0, LIMIT);
            // SAFETY: `kind` is below `linked_kinds()`, and `ran` exists during the call.
            checked(unsafe { linked_beside(kind, limit.as_secs_f64(), &mut ran) })?;
            println!("{name:<40} {}", if ran == 0 { "WAITED" } else { "ran beside it" });
            launched += 1;
            if ran == 0 {
                waited.push(name);
            }
        }
        let mut count = 0;
        // SAFETY: `count` exists during the call.
        checked(unsafe { linked_count(&mut count) })?;
        if count != launched {
            return Err(format!("{launched} kernels were launched, and {count} ran").into());
        }
        Ok(match waited[..] {
            [] => Ending::Completed(format!(
                "each of {launched} kernels ran at its first launch beside a resident kernel"
            )),
            _ => Ending::Deadlock(format!(
                "{} of {launched} kernels waited at their first launch for a resident kernel. Only its limit of {LIMIT:?} ended that",
                waited.len()
            )),
        })
    }

    fn text(text: *const c_char) -> &'static str {
        // SAFETY: the functions above return static texts.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("unknown")
    }

    fn checked(code: c_int) -> Outcome {
        if code == 0 { Ok(()) } else { Err(text(linked_error(code)).into()) }
    }
}

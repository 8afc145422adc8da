//! Two `#[warmup]` functions, whose order and effects the checks compare.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{WarmContext, warmup};

/// The number of times that hooks have run.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// The PTX of a kernel that isn't registered, with a frame of 4 KiB.
const FOREIGN: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry foreign(.param .u64 out)
{
    .local .align 4 .b8 frame[4096];
    .reg .u32 %r<2>;
    .reg .u64 %a<4>;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %a0, %r0, 4;
    mov.u64 %a1, frame;
    add.u64 %a1, %a1, %a0;
    st.local.u32 [%a1], %r0;
    ld.local.u32 %r1, [%a1];
    ld.param.u64 %a2, [out];
    cvta.to.global.u64 %a2, %a2;
    st.global.u32 [%a2], %r1;
    ret;
}
";

#[warmup(order = 2)]
fn second(_: &WarmContext<'_>) -> Result<(), String> {
    match RUNS.fetch_add(1, Ordering::Relaxed) {
        0 => Err("it was the first to run".to_owned()),
        _ => Ok(()),
    }
}

#[warmup(order = 1)]
fn first(warm: &WarmContext<'_>) -> Result<(), Box<dyn Error>> {
    // Only the first warm-up runs the hook, because later checks warm other contexts, and some of them
    // measure the stack.
    if RUNS.fetch_add(1, Ordering::Relaxed) > 0 {
        return Ok(());
    }
    let module = warm.context().load_module(Ptx::from_src(FOREIGN))?;
    let function = module.load_function("foreign")?;
    Ok(warm.load_function(&function)?)
}

/// Returns the number of times that hooks have run.
pub(crate) fn runs() -> u32 {
    RUNS.load(Ordering::Relaxed)
}

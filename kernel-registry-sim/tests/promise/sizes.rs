//! Tests the sizes of the printf buffer and the heap, which are fixed once the driver has set them up.

use kernel_registry::cudarc::driver::sys::{self, CUlimit};
use kernel_registry::{FrozenLimit, WarmError, Warmup, warm_all};

use super::{Outcome, alone};

const MIB: u64 = 1 << 20;

fn limit(which: CUlimit) -> u64 {
    let mut bytes = 0;
    // SAFETY: a context is current, and `bytes` has room for the result.
    unsafe { sys::cuCtxGetLimit(&mut bytes, which).result().expect("it is a limit") };
    bytes as u64
}

#[test]
fn both_sizes_are_enlarged_before_they_are_fixed() -> Outcome {
    let alone = alone()?;
    Warmup::new().printf_fifo(32 * MIB).heap(64 * MIB).warm(&alone.context)?;
    assert!(limit(CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE) >= 32 * MIB);
    assert!(limit(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE) >= 64 * MIB);
    // A size that is not larger than the current one is not set again.
    Warmup::new().printf_fifo(MIB).heap(64 * MIB).warm(&alone.context)?;
    Ok(())
}

#[test]
fn asking_for_a_size_too_late_is_an_error_that_says_why() -> Outcome {
    let alone = alone()?;
    // SAFETY: the call affects only the current context, in which nothing was launched.
    unsafe { sys::cuCtxSetLimit(CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, MIB as usize).result()? };
    let warm = warm_all(&alone.context)?;
    let error = Warmup::new().printf_fifo(2 * MIB).warm(&alone.context).expect_err("it is fixed");
    let words = error.to_string();
    assert!(
        matches!(error, WarmError::LimitFrozen { limit: FrozenLimit::PrintfFifo, asked, size } if (asked, size) == (2 * MIB, MIB)),
        "{words}"
    );
    assert!(words.contains("1 MiB") || words.contains("1024 KiB"), "{words}");
    assert!(words.contains("Warmup::printf_fifo") && words.contains("first warm-up"), "{words}");
    warm.recheck()?;
    Ok(())
}

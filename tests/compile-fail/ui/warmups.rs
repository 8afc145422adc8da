//! Arguments and signatures of `#[warmup]`.

mod arguments {
    use kernel_registry::{WarmContext, warmup};

    #[warmup(order = "first")]
    fn text(_: &WarmContext<'_>) {}

    #[warmup(after = 1)]
    fn unknown(_: &WarmContext<'_>) {}

    #[warmup(order)]
    fn bare(_: &WarmContext<'_>) {}

    #[warmup]
    struct Handle;
}

mod signatures {
    use kernel_registry::{WarmContext, warmup};

    #[warmup]
    fn nothing() {}

    #[warmup]
    fn two(_: &WarmContext<'_>, _: u32) {}

    #[warmup]
    async fn later(_: &WarmContext<'_>) {}

    #[warmup]
    fn any<T>(_: &WarmContext<'_>) {}

    #[warmup]
    unsafe fn careless(_: &WarmContext<'_>) {}
}

fn main() {}

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

fn main() {}

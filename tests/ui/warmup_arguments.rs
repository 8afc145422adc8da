use kernel_registry::{WarmContext, warmup};

#[warmup(order = "first")]
fn text(_: &WarmContext<'_>) {}

#[warmup(after = 1)]
fn unknown(_: &WarmContext<'_>) {}

#[warmup(order)]
fn bare(_: &WarmContext<'_>) {}

#[warmup]
struct Handle;

fn main() {}

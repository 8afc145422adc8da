use kernel_registry::{WarmContext, warmup};

#[warmup]
fn number(_: &WarmContext<'_>) -> u32 {
    1
}

#[warmup]
fn value(_: &WarmContext<'_>) -> Result<u32, std::fmt::Error> {
    Ok(1)
}

#[warmup]
fn other(_: &u32) {}

fn main() {}

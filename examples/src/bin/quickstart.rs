//! Prints the kernels that this program knows: those of the crate `kernels`, found without naming one.

kernel_registry::link_kernels!(kernels);

fn main() -> Result<(), kernel_registry::Error> {
    let kernels = kernel_registry::kernels()?;
    println!("{} kernels in {} images", kernels.len(), images(kernels));
    for kernel in kernels {
        println!("  {:<36} {}", kernel.path(), kernel.signature());
    }
    Ok(())
}

/// How many images the kernels come from: those of one file share its bytes.
fn images(kernels: &[&kernel_registry::KernelInfo]) -> usize {
    let mut images: Vec<_> =
        kernels.iter().filter_map(|kernel| Some(kernel.image()?.bytes().as_ptr())).collect();
    images.sort();
    images.dedup();
    images.len()
}

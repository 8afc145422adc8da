//! Lists the kernels of the crate `kernels`, warms them and launches one of them, on a GPU, or on the simulated driver if there is no
//! CUDA driver.

use std::error::Error;
use std::process::ExitCode;

use examples::{device, print_error};
use kernel_registry::{KernelInfo, warm_all};
use kernels::blas1::saxpy;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let kernels = kernel_registry::kernels()?;
    println!("{} kernels in {} images", kernels.len(), images(kernels));
    for kernel in kernels {
        println!("  {:<36} {}", kernel.path(), kernel.signature());
    }

    let context = device()?;
    let warm = warm_all(&context)?;
    println!("\n{}", warm.report());

    const N: u32 = 1 << 20;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&vec![1.0_f32; N as usize])?;
    let mut y = stream.clone_htod(&vec![2.0_f32; N as usize])?;
    // SAFETY: both vectors have `N` elements.
    unsafe { saxpy::launch(&stream, saxpy::over(N), N, 3.0, &x, &mut y)? };

    let y = stream.clone_dtoh(&y)?;
    match y.iter().position(|y| *y != 5.0) {
        None => println!("\n`{}` computed {N} elements, all of them right", saxpy::INFO.path()),
        Some(index) => return Err(format!("element {index} is {} and not 5", y[index]).into()),
    }
    Ok(())
}

/// Returns the number of images. Kernels of one file share the image's bytes.
fn images(kernels: &[&KernelInfo]) -> usize {
    let mut images: Vec<_> =
        kernels.iter().filter_map(|kernel| Some(kernel.image()?.bytes().as_ptr())).collect();
    images.sort();
    images.dedup();
    images.len()
}

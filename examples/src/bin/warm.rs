//! Makes the kernels of the crate `kernels` ready, prints what that took, and launches one by its name.

use std::error::Error;
use std::process::ExitCode;

use kernel_registry::{DynArg, find, launch_dyn, warm_all};

kernel_registry::link_kernels!(kernels);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let context = kernel_registry::context(0)?;
    let warm = warm_all(&context)?;
    println!("{}", warm.report());

    const N: u32 = 1 << 20;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&vec![1.0_f32; N as usize])?;
    let mut y = stream.clone_htod(&vec![2.0_f32; N as usize])?;
    let saxpy = find("kernels::blas1::saxpy")?;
    let args = [DynArg::value(&N), DynArg::value(&3.0_f32), DynArg::slice(&x), DynArg::slice_mut(&mut y)];
    // SAFETY: these are its parameters, and both vectors have `N` elements.
    unsafe { launch_dyn(saxpy, &stream, saxpy.over(N), args)? };

    let y = stream.clone_dtoh(&y)?;
    match y.iter().position(|y| *y != 5.0) {
        None => println!("\n`{}` computed {N} elements, all of them right", saxpy.path()),
        Some(index) => return Err(format!("element {index} is {} and not 5", y[index]).into()),
    }
    Ok(())
}

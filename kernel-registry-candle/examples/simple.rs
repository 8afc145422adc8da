//! The least program: candle's kernels are warm before anything is computed.

use candle_core::{Device, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::new_cuda(0)?;
    kernel_registry_candle::warm_all(&device)?;

    let x = Tensor::new(&[1_f32, 2.0, 3.0], &device)?;
    println!("{:?}", x.sqr()?.to_vec1::<f32>()?);
    Ok(())
}

//! Warms kernels for one type only, and without a module. What was left out is loaded late, and computes the same.

use std::sync::{Arc, Mutex};

use candle_core::cuda_backend::kernels as candle;
use candle_core::{DType, Device, Tensor};
use kernel_registry_candle::{Warmup, kernel_registry};

#[test]
fn what_was_left_out_is_loaded_late() {
    let device = Device::new_cuda(0).unwrap();
    let late = Arc::new(Mutex::new(Vec::new()));
    let is_quantized = |path: &str| path.starts_with("candle_kernels::quantized::");
    let report = Warmup::new()
        .dtypes(&[DType::F32])
        .only(|kernel| !is_quantized(kernel.path()))
        .options(|warmup| {
            let late = Arc::clone(&late);
            warmup.on_late(move |load| late.lock().unwrap().push(load.kernel.symbol()))
        })
        .warm(&device)
        .unwrap();

    assert_eq!(report.modules, candle::ALL_IDS.len() - 1);
    assert!(report.registry.is_complete(), "{report}");
    let warm: Vec<_> = report.registry.kernels.iter().map(|kernel| kernel.path).collect();
    let all = kernel_registry::kernels().unwrap();
    assert!(warm.len() > 100 && warm.len() < all.len() / 2, "{} of {}", warm.len(), all.len());
    for path in ["candle_kernels::affine::affine_f32", "candle_kernels::affine::affine_u8"] {
        assert!(warm.contains(&path), "{path}");
    }
    for path in &warm {
        let is_other = ["bf16", "_f16", "f64", "f8_e4m3"].iter().any(|name| path.contains(name));
        assert!(!is_other && !is_quantized(path), "{path}");
    }

    let affine = |dtype: DType| -> Vec<f64> {
        let x = Tensor::new(&[1_f32, 2.0, 3.0], &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        let y = x.to_device(&device).unwrap().affine(2.0, 1.0).unwrap();
        y.to_device(&Device::Cpu).unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
    };
    assert_eq!(affine(DType::F32), [3.0, 5.0, 7.0]);
    assert!(late.lock().unwrap().is_empty(), "{late:?}");
    assert_eq!(affine(DType::F64), [3.0, 5.0, 7.0]);
    assert_eq!(*late.lock().unwrap(), ["affine_f64"]);
    assert_eq!(affine(DType::F64), [3.0, 5.0, 7.0]);
    assert_eq!(late.lock().unwrap().len(), 1, "it is loaded once");
}

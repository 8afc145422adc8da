//! Warms several devices. `cargo xtask candle --test` simulates two.

use candle_core::{Device, Tensor};
use kernel_registry_candle::{Error, Warmup, kernel_registry};

#[test]
fn each_device_has_its_own_warm_kernels() {
    let [first, second] = [0, 1].map(|ordinal| Device::new_cuda(ordinal));
    let Ok(second) = second else { return eprintln!("LEFT OUT: there is only one device") };
    let devices = [first.unwrap(), second];

    let function = |device: &Device| {
        let device = device.as_cuda_device().unwrap();
        device
            .get_or_load_func("affine_f32", &candle_core::cuda_backend::kernels::AFFINE)
            .unwrap()
            .cu_function()
    };
    let reports = Warmup::new().warm_each(&devices).unwrap();
    let [first, second] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert_eq!(first.modules, second.modules);
    assert_eq!(first.registry.kernels.len(), kernel_registry::kernels().unwrap().len());
    assert_eq!(first.registry.kernels.len(), second.registry.kernels.len());
    assert_ne!(function(&devices[0]), function(&devices[1]));

    let kernel = kernel_registry::find("candle_kernels::affine::affine_f32").unwrap();
    for device in &devices {
        let stream = device.as_cuda_device().unwrap().cuda_stream();
        assert_eq!(function(device), kernel.cu_function(stream.context()).unwrap());
        let x = Tensor::new(&[1_f32, 2.0, 3.0], device).unwrap();
        assert_eq!(x.affine(2.0, 1.0).unwrap().to_vec1::<f32>().unwrap(), [3.0, 5.0, 7.0]);
    }

    // Devices before the one that is no CUDA device are warmed.
    let [device, _] = devices;
    let failed = Warmup::new().warm_each(&[device, Device::Cpu]);
    assert!(matches!(failed, Err(Error::NotCuda)), "{failed:?}");
}

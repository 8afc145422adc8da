//! Warms all kernels on one device: their number, the report, whose kernels candle launches, and what they compute.
//!
//! `cargo xtask candle --test` runs the tests of this folder on the simulated driver. Each file is a process of its own, because what is
//! registered or warm stays so until its process ends.

use std::collections::HashSet;
use std::sync::OnceLock;

use candle_core::cuda_backend::kernels as candle;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{CudaDevice, DType, Device, Result, Tensor};
use kernel_registry_candle::{Report, kernel_registry, warm_all};

const KERNELS: usize = 755;

const MODULES: [candle::Module; candle::ALL_IDS.len()] = [
    candle::AFFINE,
    candle::BINARY,
    candle::CAST,
    candle::CONV,
    candle::FILL,
    candle::INDEXING,
    candle::QUANTIZED,
    candle::REDUCE,
    candle::SORT,
    candle::TERNARY,
    candle::UNARY,
];

/// Returns the device, and the report of the first warm-up.
fn warm() -> &'static (Device, Report) {
    static WARM: OnceLock<(Device, Report)> = OnceLock::new();
    WARM.get_or_init(|| {
        let device = Device::new_cuda(0).unwrap();
        let report = warm_all(&device).unwrap();
        (device, report)
    })
}

/// Compares candle's functions with those of the registry, and returns how many there are.
fn are_the_registrys(device: &CudaDevice) -> usize {
    let stream = device.cuda_stream();
    let mut count = 0;
    for module in MODULES {
        let lines = module.ptx().lines().filter_map(|line| line.split_once(".entry "));
        for (_, entry) in lines {
            let symbol = entry.split('(').next().unwrap();
            let kernel = kernel_registry::find_symbol(symbol).unwrap();
            let function = device.get_or_load_func(symbol, &module).unwrap();
            assert_eq!(function.cu_function(), kernel.cu_function(stream.context()).unwrap(), "{symbol}");
            count += 1;
        }
    }
    count
}

#[test]
fn all_kernels_of_all_modules_are_warm() {
    let (_, report) = warm();
    assert_eq!(report.modules, MODULES.len());
    let registry = &report.registry;
    assert!(registry.is_complete() && registry.verified, "{report}");
    assert!(registry.images_loaded >= MODULES.len(), "{report}");
    let paths: HashSet<_> = registry.kernels.iter().map(|kernel| kernel.path).collect();
    assert_eq!(paths.len(), KERNELS);
    assert_eq!(kernel_registry::kernels().unwrap().len(), KERNELS);
    let modules: HashSet<_> = paths.iter().map(|path| path.rsplit_once("::").unwrap().0).collect();
    assert_eq!(modules.len(), MODULES.len());
    assert!(modules.iter().all(|module| module.starts_with("candle_kernels::")), "{modules:?}");
}

#[test]
fn the_report_tells_what_was_done_and_how_long_it_took() {
    let (_, report) = warm();
    let text = report.to_string();
    assert!(text.contains(&format!("{KERNELS} kernels")), "{text}");
    assert!(text.contains("candle_kernels::affine::affine_f32"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("candle has 11 modules: registered in "), "{last}");
    assert!(!last.contains("hooks"), "{last}");
    for time in [report.registered_in, report.warmed_in, report.taken_in] {
        assert!(!time.is_zero(), "{last}");
    }
    assert!(report.hooks_in.is_zero(), "{last}");
}

#[test]
fn candle_launches_the_warm_kernels() {
    let (device, _) = warm();
    assert_eq!(are_the_registrys(device.as_cuda_device().unwrap()), KERNELS);
    // Other devices of candle share the context, and not the modules that candle has loaded.
    let other = CudaDevice::new_with_stream(0).unwrap();
    assert_eq!(are_the_registrys(&other), KERNELS);
}

#[test]
fn a_second_warm_up_loads_nothing() {
    let (device, first) = warm();
    let other = Device::new_cuda(0).unwrap();
    for device in [device, &other] {
        let second = warm_all(device).unwrap();
        assert_eq!(second.registry.images_loaded, 0, "{second}");
        assert_eq!(second.modules, first.modules);
        assert_eq!(second.registry.kernels.len(), first.registry.kernels.len());
    }
}

#[test]
fn operations_compute_what_the_cpu_does() {
    type Operation = fn(&Tensor) -> Result<Tensor>;
    // One for each module. Each takes a matrix of 4 rows and 32 columns.
    let operations: [(&str, Operation); candle::ALL_IDS.len()] = [
        ("affine", |x| x.affine(2.0, -0.5)),
        ("binary", |x| x.add(&x.flip(&[0])?)),
        ("cast", |x| x.to_dtype(DType::BF16)?.to_dtype(DType::F32)),
        ("conv", |x| x.reshape((1, 1, 8, 16))?.max_pool2d(2)),
        ("fill", |x| x.ones_like()),
        ("indexing", |x| x.index_select(&Tensor::new(&[3_u32, 0, 0], x.device())?, 0)),
        ("quantized", |x| QTensor::quantize(x, GgmlDType::Q8_0)?.dequantize(x.device())),
        ("reduce", |x| x.sum(1)),
        ("sort", |x| x.arg_sort_last_dim(true)?.to_dtype(DType::F32)),
        ("ternary", |x| x.gt(0.0)?.where_cond(x, &x.neg()?)),
        ("unary", |x| x.exp()),
    ];
    let (device, _) = warm();
    let numbers: Vec<f32> = (0..4 * 32).map(|number| (number as f32 * 0.7).sin()).collect();
    let of_matrix = |operation: Operation, device: &Device| -> Result<Vec<f32>> {
        operation(&Tensor::from_slice(&numbers, (4, 32), device)?)?.flatten_all()?.to_vec1()
    };
    for (name, operation) in operations {
        let expected = of_matrix(operation, &Device::Cpu).unwrap();
        let computed = of_matrix(operation, device).unwrap();
        assert_eq!(computed.len(), expected.len(), "{name}");
        for (computed, expected) in computed.iter().zip(&expected) {
            assert!(
                (computed - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "{name}: {computed} and {expected}"
            );
        }
    }
}

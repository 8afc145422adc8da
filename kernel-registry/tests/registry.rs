//! Declares two kernels and queries the registry, all in one crate, which is small enough for Miri.

use kernel_registry::{RegistryError, find, gpu_kernel, kernels};

/// y = a*x + y
#[gpu_kernel(image = "tests/images/saxpy.ptx", arch = ">=70", block = (32, 8), shared = 1 << 10)]
unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

#[gpu_kernel(image = "tests/images/saxpy.ptx", name = "nothing")]
unsafe fn bare();

#[test]
fn a_kernel_is_what_was_declared() {
    let info = saxpy::INFO;
    assert_eq!(info.path(), "registry::saxpy");
    assert_eq!(info.symbol(), "saxpy");
    assert_eq!((info.package(), info.version()), ("kernel-registry", env!("CARGO_PKG_VERSION")));
    assert_eq!((info.file(), info.line(), info.column()), (file!(), 7, 11));
    assert_eq!(info.summary(), "y = a*x + y");
    assert_eq!((info.min_arch(), info.block(), info.shared()), (Some(70), Some([32, 8, 1]), Some(1024)));
    assert_eq!(info.signature().to_string(), "saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32])");
    let layouts: Vec<_> =
        info.params().iter().map(|p| (p.size, p.align, p.element_size, p.element_align)).collect();
    assert_eq!(layouts, [(4, 4, 4, 4), (4, 4, 4, 4), (8, 8, 4, 4), (8, 8, 4, 4)]);
    assert_eq!(info.image().unwrap().bytes(), include_bytes!("images/saxpy.ptx"));
}

#[test]
fn the_registry_has_both() {
    let paths: Vec<_> = kernels().unwrap().iter().map(|kernel| kernel.path()).collect();
    assert_eq!(paths, ["registry::bare", "registry::saxpy"]);
    assert_eq!(find("registry::bare"), Ok(bare::INFO));
    assert!(bare::INFO.params().is_empty());
    assert!(
        matches!(find("registry::saxpi"), Err(RegistryError::NotFound { near, .. }) if near == ["registry::saxpy"])
    );
}

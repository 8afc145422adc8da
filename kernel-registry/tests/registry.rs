//! Tests that declared kernels are found in the registry. Everything is in one crate, which is small enough for Miri.

use kernel_registry::{LaunchConfig, RegistryError, find, find_symbol, gpu_kernel, kernels};

/// y = a*x + y
#[gpu_kernel(image = "tests/images/saxpy.ptx", arch = ">=70", block = (32, 8), shared = 1 << 10)]
unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

#[gpu_kernel(image = "tests/images/saxpy.ptx", name = "nothing")]
unsafe fn bare();

/// Declares the same kernel again, and a kernel whose path ends like another kernel's path.
#[gpu_kernel(image = "tests/images/saxpy.ptx")]
mod blas1 {
    pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

    #[gpu_kernel(name = "nothing")]
    pub unsafe fn empty();
}

#[gpu_kernel(image = "tests/images/types.ptx")]
unsafe fn exact(n: u32);

#[gpu_kernel(image = "tests/images/reduce.ptx", instances(<f32, 128>))]
unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);

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
fn the_registry_has_all_declared_kernels() {
    let paths: Vec<_> = kernels().unwrap().iter().map(|kernel| kernel.path()).collect();
    let expected = [
        "registry::bare",
        "registry::blas1::empty",
        "registry::blas1::saxpy",
        "registry::exact",
        "registry::reduce::<f32, 128>",
        "registry::saxpy",
    ];
    assert_eq!(paths, expected);
    assert_eq!(find("registry::bare"), Ok(bare::INFO));
    assert!(bare::INFO.params().is_empty());
    assert!(
        matches!(find("registry::bary"), Err(RegistryError::NotFound { near, .. }) if near == ["registry::bare"])
    );
}

#[test]
fn a_kernel_is_found_by_the_end_of_its_path() {
    assert_eq!(find("bare"), Ok(bare::INFO));
    assert_eq!(find("empty"), Ok(blas1::empty::INFO));
    assert_eq!(find("blas1::saxpy"), Ok(blas1::saxpy::INFO));
    assert_eq!(find(&format!("reduce::<{}, 128>", "f32")), Ok(reduce::<f32, 128>::INFO));
    // A whole path has precedence over the end of a longer path, and the end must consist of whole names.
    assert_eq!(find("registry::saxpy"), Ok(saxpy::INFO));
    for other in ["axpy", "", "::bare", "mpty"] {
        assert!(matches!(find(other), Err(RegistryError::NotFound { .. })), "{other}");
    }
    let text = find("saxpy").unwrap_err().to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "2 kernels are called `saxpy`; give more of the path:");
    assert!(lines[1].starts_with("  `registry::blas1::saxpy` at "), "{text}");
    assert!(lines[2].starts_with("  `registry::saxpy` at "), "{text}");
    assert_eq!(lines.len(), 3);
}

#[test]
fn the_only_block_of_a_kernel_needs_no_declaration() {
    assert_eq!(exact::INFO.block(), Some([16, 8, 1]));
    assert_eq!(exact::over(1000), LaunchConfig::over(1000, [16, 8, 1]));
    assert_eq!(exact::config(3).block, [16, 8, 1]);
    // `reduce` was compiled for at most 128 threads, so several blocks are possible.
    assert_eq!(reduce::<f32, 128>::INFO.block(), None);
}

#[test]
fn a_kernel_is_found_by_its_symbol() {
    let symbol = reduce::<f32, 128>::INFO.symbol();
    assert!(symbol.starts_with("_Z"));
    assert_eq!(find_symbol(symbol), Ok(reduce::<f32, 128>::INFO));
    assert!(
        matches!(find_symbol("saxpy"), Err(RegistryError::Ambiguous { places, .. }) if places.len() == 2)
    );
    let text = find_symbol("nothin").unwrap_err().to_string();
    assert_eq!(text, "no kernel with the symbol `nothin`: did you mean `nothing`?");
}

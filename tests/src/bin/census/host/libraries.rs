//! Rows for modules and libraries: which call loads a module or library, and which call loads its kernels?

use std::env;
use std::ffi::{CString, c_void};
use std::fs;
use std::path::PathBuf;
use std::process;
use std::ptr;

use census_kernels::PLAIN_PTX;
use census_kernels::bare;
use census_kernels::earlier::earlier_nothing;
use census_kernels::launches_small;
use census_kernels::plain::{sibling, small};
use census_kernels::uses_managed;
use kernel_registry::KernelInfo;
use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Failed, Handle, create, driver};
use crate::host::{call, row, with};
use crate::row::{Row, attempt};

pub(crate) fn rows() -> Vec<Row> {
    [libraries(), modules(), linker()].into_iter().flatten().collect()
}

/// Returns rows for a call with a library that the context doesn't have yet, and with one that it has.
fn of_library(name: &str, kernel: &'static KernelInfo, call: fn(sys::CUlibrary) -> Done) -> [Row; 2] {
    let called = |name: &str, loads: bool| {
        row(name, move |_| {
            let library = cuda::load_library(kernel)?;
            if loads {
                cuda::module_of_library(library)?;
            }
            attempt(move || call(library))
        })
    };
    [called(&format!("{name}_cold"), false), called(name, true)]
}

fn libraries() -> Vec<Row> {
    let rows = [
        of_library("cuLibraryGetModule", small::INFO, |library| cuda::module_of_library(library).map(drop)),
        of_library("cuLibraryGetGlobal", earlier_nothing::INFO, |library| {
            let (mut address, mut bytes) = (0_u64, 0_usize);
            driver!(cuLibraryGetGlobal(&raw mut address, &raw mut bytes, library, c"sink".as_ptr()))
        }),
        of_library("cuLibraryGetManaged", uses_managed::INFO, |library| {
            let (mut address, mut bytes) = (0_u64, 0_usize);
            driver!(cuLibraryGetManaged(&raw mut address, &raw mut bytes, library, c"managed".as_ptr()))
        }),
        of_library("cuLibraryGetKernelCount", small::INFO, |library| {
            let mut count = 0_u32;
            driver!(cuLibraryGetKernelCount(&raw mut count, library))
        }),
        of_library("cuLibraryEnumerateKernels", small::INFO, |library| {
            let mut kernels: [Handle; 4] = [ptr::null_mut(); 4];
            driver!(cuLibraryEnumerateKernels(kernels.as_mut_ptr(), 4_u32, library))
        }),
    ];
    let mut rows: Vec<_> = rows.into_iter().flatten().collect();
    rows.push(row("cuLibraryLoadFromFile", |_| {
        let file = file(image(small::INFO))?;
        attempt(move || {
            let none = ptr::null_mut::<c_void>();
            create!(cuLibraryLoadFromFile(file.name.as_ptr(), none, none, 0_u32, none, none, 0_u32)).map(drop)
        })
    }));
    rows
}

/// A temporary file, which is removed when this is dropped.
struct File {
    path: PathBuf,
    name: CString,
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns a kernel's image without the zero byte that PTX in memory needs at its end.
fn image(kernel: &KernelInfo) -> &[u8] {
    kernel.image().map_or(&[], |image| image.bytes())
}

/// Writes a temporary file with these bytes.
fn file(bytes: &[u8]) -> Done<File> {
    let path = env::temp_dir().join(format!("census-{}", process::id()));
    fs::write(&path, bytes).map_err(|error| Failed(format!("{}: {error}", path.display())))?;
    let name =
        CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| Failed(error.to_string()))?;
    Ok(File { path, name })
}

fn modules() -> Vec<Row> {
    let module = |_: &Bench| cuda::load_module(small::INFO);
    vec![
        row("cuModuleLoad", |_| {
            let file = file(image(small::INFO))?;
            attempt(move || create!(cuModuleLoad(file.name.as_ptr())).map(drop))
        }),
        row("cuModuleLoadDataEx", |_| {
            let image = cuda::image(small::INFO);
            attempt(move || {
                let none = ptr::null_mut::<c_void>();
                create!(cuModuleLoadDataEx(image.as_ptr(), 0_u32, none, none)).map(drop)
            })
        }),
        row("cuModuleLoadFatBinary", |_| {
            let image = cuda::image(launches_small::INFO);
            attempt(move || create!(cuModuleLoadFatBinary(image.as_ptr())).map(drop))
        }),
        with(
            "cuModuleGetFunction_beside_sibling",
            |_| {
                let module = cuda::load_module(small::INFO)?;
                cuda::load_function(cuda::function(module, sibling::INFO)?)?;
                Ok(module)
            },
            |_, module| cuda::function(module, small::INFO).map(drop),
        ),
        with(
            "cuModuleGetFunction_of_library",
            |_| cuda::module_of_library(cuda::load_library(small::INFO)?),
            |_, module| cuda::function(module, small::INFO).map(drop),
        ),
        with("cuModuleGetFunctionCount", module, |_, module| {
            let mut count = 0_u32;
            driver!(cuModuleGetFunctionCount(&raw mut count, module))
        }),
        with("cuModuleEnumerateFunctions", module, |_, module| cuda::functions(module).map(drop)),
        with("cuFuncLoad_enumerated", enumerated, |_, function| cuda::load_function(function)),
        with("cuFuncIsLoaded_enumerated", enumerated, |_, function| cuda::is_loaded(function).map(drop)),
        with("cuFuncGetAttribute_enumerated", enumerated, |_, function| {
            cuda::function_attribute(function, cuda::FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS).map(drop)
        }),
    ]
}

/// Returns a function that is not loaded.
fn enumerated(_: &Bench) -> Done<sys::CUfunction> {
    cuda::enumerated_function(bare::INFO)
}

fn linker() -> Vec<Row> {
    vec![
        call("cuLinkComplete", |_| {
            const PTX: u32 = 1;
            let (none, image) = (ptr::null_mut::<c_void>(), [PLAIN_PTX.as_bytes(), &[0]].concat());
            let mut linker: Handle = ptr::null_mut();
            driver!(cuLinkCreate_v2(0_u32, none, none, &raw mut linker))?;
            let (mut cubin, mut size): (Handle, usize) = (ptr::null_mut(), 0);
            cuda::join_errors([
                driver!(cuLinkAddData_v2(
                    linker,
                    PTX,
                    image.as_ptr(),
                    image.len(),
                    c"census".as_ptr(),
                    0_u32,
                    none,
                    none
                )),
                driver!(cuLinkComplete(linker, &raw mut cubin, &raw mut size)),
                driver!(cuLinkDestroy(linker)),
            ])
        }),
        row("cuLinkAddFile", |_| {
            const PTX: u32 = 1;
            let file = file(PLAIN_PTX.as_bytes())?;
            let (mut linker, none): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
            driver!(cuLinkCreate_v2(0_u32, none, none, &raw mut linker))?;
            attempt(move || driver!(cuLinkAddFile_v2(linker, PTX, file.name.as_ptr(), 0_u32, none, none)))
        }),
    ]
}

//! Calls driver functions by name, including functions that some versions of cudarc lack, and with arguments that
//! cudarc's types forbid.
#![allow(dead_code, unused_imports, unused_macros)] // Each test uses only some of this.

use std::ffi::CString;
use std::io::Write;
use std::panic::Location;
use std::ptr;
use std::sync::{Once, OnceLock};

use kernel_registry_sim::Config;

pub const INVALID_VALUE: u32 = 1;
pub const OUT_OF_MEMORY: u32 = 2;
pub const INVALID_DEVICE: u32 = 101;
pub const INVALID_HANDLE: u32 = 400;
pub const ILLEGAL_STATE: u32 = 401;
pub const INVALID_IMAGE: u32 = 200;
pub const INVALID_PTX: u32 = 218;
pub const NOT_FOUND: u32 = 500;
pub const ILLEGAL_ADDRESS: u32 = 700;
pub const NOT_SUPPORTED: u32 = 801;
pub const CAPTURE_UNSUPPORTED: u32 = 900;
pub const CAPTURE_INVALIDATED: u32 = 901;
pub const CAPTURE_MERGE: u32 = 902;
pub const CAPTURE_UNMATCHED: u32 = 903;
pub const CAPTURE_UNJOINED: u32 = 904;
pub const CAPTURE_ISOLATION: u32 = 905;
pub const CAPTURE_IMPLICIT: u32 = 906;
pub const CAPTURED_EVENT: u32 = 907;
pub const CAPTURE_WRONG_THREAD: u32 = 908;
pub const UPDATE_FAILURE: u32 = 910;

/// Calls a driver function, and returns its result.
#[track_caller]
pub fn call(name: &str, arguments: &[usize]) -> u32 {
    type Function =
        extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize) -> u32;
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let library = *LIBRARY.get_or_init(|| {
        // SAFETY: the name ends with a zero byte. The library was loaded by `install`, or is NVIDIA's.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "the driver is not installed");
        library.expose_provenance()
    });
    let symbol = CString::new(name).unwrap();
    // SAFETY: the library is never closed, and the name ends with a zero byte.
    let address = unsafe { libc::dlsym(ptr::with_exposed_provenance_mut(library), symbol.as_ptr()) };
    assert!(!address.is_null(), "there is no {name}");
    // SAFETY: each function takes at most 11 arguments, which are numbers and pointers, and ignores further arguments.
    // Tests pass pointers to enough memory.
    let function: Function = unsafe { std::mem::transmute(address) };
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    function(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10))
}

#[track_caller]
pub fn ok(name: &str, arguments: &[usize]) {
    let code = call(name, arguments);
    if code != 0 {
        differs(&format!("{name}: {code}, and 0 is expected"));
    }
}

/// Calls a function, and returns the value that it writes through its first argument.
#[track_caller]
pub fn get(name: &str, others: &[usize]) -> usize {
    let mut value = 0_usize;
    let code = call(name, &[&[place(&mut value)], others].concat());
    assert_eq!(code, 0, "{name}");
    value
}

/// Calls a function, and returns the value that it writes through its last argument.
#[track_caller]
pub fn last(name: &str, others: &[usize]) -> usize {
    let mut value = 0_usize;
    let code = call(name, &[others, &[place(&mut value)]].concat());
    assert_eq!(code, 0, "{name}");
    value
}

/// Returns the address of a value that the driver may read and write.
pub fn place<T: ?Sized>(value: &mut T) -> usize {
    ptr::from_mut(value).cast::<u8>().expose_provenance()
}

/// Returns whether to test NVIDIA's driver on its first device: with `KERNEL_REGISTRY_SIM=0`. The results of NVIDIA's
/// driver are right by definition.
pub fn on_a_gpu() -> bool {
    std::env::var_os("KERNEL_REGISTRY_SIM").is_some_and(|value| value == "0")
}

/// Returns a device of the simulated driver, or the first device of NVIDIA's.
pub fn device(ordinal: usize) -> usize {
    if on_a_gpu() { 0 } else { ordinal }
}

/// Fails the test. On a GPU the test fails only at its end, so that one run shows everything that NVIDIA's driver does
/// differently.
#[track_caller]
pub fn differs(what: &str) {
    assert!(on_a_gpu(), "{what}");
    extern "C" fn fail() {
        // SAFETY: `_exit` ends the process at once, which is allowed in an exit handler.
        unsafe { libc::_exit(1) }
    }
    static FAILS: Once = Once::new();
    // SAFETY: the function exists until the process has ended.
    FAILS.call_once(|| assert_eq!(unsafe { libc::atexit(fail) }, 0));
    // The harness captures `println!`, and shows it only for tests that panic.
    let line = format!("DIFFERS {}: {what}\n", Location::caller());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Compares like `assert_eq`, but on a GPU the test continues after a difference.
macro_rules! expect_eq {
    ($found:expr, $expected:expr $(, $($what:tt)+)?) => {
        match (&$found, &$expected) {
            (found, expected) => {
                if *found != *expected {
                    let what = String::new() $(+ &format!($($what)+))?;
                    $crate::device::differs(&format!("{what}: {found:?}, and {expected:?} is expected"));
                }
            }
        }
    };
}
pub(crate) use expect_eq;

/// Installs the driver with three devices, so that a test can have a device for itself. Faults are contained.
pub fn install() {
    if !on_a_gpu() {
        Config::default().devices(3).contained(true).install().unwrap();
    }
    ok("cuInit", &[0]);
}

/// Creates a context on a device, and makes it current in this thread. Errors in that context do not affect other
/// tests.
pub fn context(device: usize) -> usize {
    install();
    get("cuCtxCreate_v2", &[0, self::device(device)])
}

/// Creates a non-blocking stream.
pub fn stream() -> usize {
    get("cuStreamCreate", &[1])
}

pub fn event() -> usize {
    get("cuEventCreate", &[0])
}

pub fn instantiate(graph: usize) -> usize {
    get("cuGraphInstantiateWithFlags", &[graph, 0])
}

pub fn run(graph: usize) {
    let (executable, stream) = (instantiate(graph), stream());
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuStreamSynchronize", &[stream]);
    ok("cuGraphExecDestroy", &[executable]);
}

/// An image of four kernels. `push` appends a number to a list, whose first word is its length. `await` waits until a
/// word is not 0. `store` writes a word. `load` copies a word.
const KERNELS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry push(.param .u64 log, .param .u32 number) {
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [number];
    atom.global.add.u32 %r2, [%rd1], 1;
    mad.wide.u32 %rd2, %r2, 4, %rd1;
    st.global.u32 [%rd2+4], %r1;
    ret;
}
.visible .entry await(.param .u64 flag) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
AGAIN:
    ld.volatile.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra AGAIN;
    ret;
}
.visible .entry store(.param .u64 to, .param .u32 value) {
    .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [to]; ld.param.u32 %r, [value];
    st.global.u32 [%rd], %r;
    ret;
}
.visible .entry load(.param .u64 to, .param .u64 from) {
    .reg .b32 %r; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
    ld.global.u32 %r, [%rd2];
    st.global.u32 [%rd1], %r;
    ret;
}
.visible .global .align 4 .u32 shown = 7;
\0";

/// Returns the image of these kernels.
pub fn image() -> Vec<u8> {
    KERNELS.as_bytes().to_vec()
}

pub fn module() -> usize {
    get("cuModuleLoadData", &[place(&mut *image())])
}

/// Loads one of these kernels into the current context.
pub fn kernel(name: &str) -> usize {
    let mut name = CString::new(name).unwrap().into_bytes_with_nul();
    get("cuModuleGetFunction", &[module(), place(&mut *name)])
}

/// Launches a kernel in one thread with these arguments.
#[track_caller]
pub fn launch(function: usize, stream: usize, arguments: &[u64]) {
    let mut arguments = arguments.to_vec();
    let mut addresses: Vec<usize> = arguments.iter_mut().map(place).collect();
    ok("cuLaunchKernel", &[function, 1, 1, 1, 1, 1, 1, 0, stream, place(&mut *addresses), 0]);
}

/// Allocates memory in the current context, filled with zeros.
pub fn memory(bytes: usize) -> usize {
    let memory = get("cuMemAlloc_v2", &[bytes]);
    ok("cuMemsetD8_v2", &[memory, 0, bytes]);
    memory
}

/// Reads words from device memory.
#[track_caller]
pub fn words(address: usize, count: usize) -> Vec<u32> {
    let mut words = vec![0_u32; count];
    ok("cuMemcpyDtoH_v2", &[place(&mut *words), address, 4 * count]);
    words
}

/// Returns the numbers that `push` has appended.
#[track_caller]
pub fn noted(log: usize) -> Vec<u32> {
    let count = words(log, 1)[0] as usize;
    words(log + 4, count)
}

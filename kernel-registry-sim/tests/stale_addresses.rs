//! Tests of stale addresses and handles: of freed and unmapped memory, and of objects of destroyed contexts.

mod serial;

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::sys::{self, CUresult};
use kernel_registry_sim::{Config, live};

use CUresult::*;

const TEXT: &CStr = c".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .u32 v = 5;\n\
    .visible .entry k(.param .u64 to, .param .u32 n) {\n.reg .b32 %r<2>; .reg .b64 %rd<2>;\n\
    ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [n]; st.global.u32 [%rd1], %r1; ret;\n}\n";

const PAGE: usize = 4096;

/// Calls a function that creates something, and returns the value that it writes.
fn created<T: Copy>(call: impl FnOnce(*mut T) -> CUresult, nothing: T) -> T {
    let mut created = nothing;
    assert_eq!(call(&mut created), CUDA_SUCCESS);
    created
}

/// The context of one test, which is current in its thread, with a kernel. Tests run one at a time, because a new
/// context gets the address of a destroyed one.
struct Own {
    context: sys::CUcontext,
    stream: sys::CUstream,
    module: sys::CUmodule,
    kernel: sys::CUfunction,
}

impl Own {
    fn new() -> Self {
        Config::default().memory(64 << 30).contained(true).install().unwrap();
        // SAFETY: null is allowed where it is passed, and the text ends with a zero.
        unsafe {
            assert_eq!(sys::cuInit(0), CUDA_SUCCESS);
            let context = created(|to| sys::cuCtxCreate_v4(to, ptr::null_mut(), 0, 0), ptr::null_mut());
            let stream = created(|to| sys::cuStreamCreate(to, 1), ptr::null_mut());
            let module = created(|to| sys::cuModuleLoadData(to, TEXT.as_ptr().cast()), ptr::null_mut());
            let kernel = created(|to| sys::cuModuleGetFunction(to, module, c"k".as_ptr()), ptr::null_mut());
            Own { context, stream, module, kernel }
        }
    }

    fn launch(&self, to: u64) -> CUresult {
        let mut number = 7_u32;
        let mut arguments = [(&raw const to).cast_mut().cast(), (&raw mut number).cast()];
        launch(self.kernel, self.stream, &mut arguments)
    }

    /// Makes the stream wait until the word at that address is 1, or until the context has an error.
    fn hold(&self, word: u64) {
        // SAFETY: the driver checks the address.
        assert_eq!(unsafe { sys::cuStreamWaitValue32_v2(self.stream, word, 1, 1) }, CUDA_SUCCESS);
    }

    fn synchronize(&self) -> CUresult {
        // SAFETY: the driver checks the handle.
        unsafe { sys::cuStreamSynchronize(self.stream) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: the driver checks the handle.
        unsafe { sys::cuCtxDestroy_v2(self.context) };
    }
}

fn launch(kernel: sys::CUfunction, stream: sys::CUstream, arguments: &mut [*mut c_void]) -> CUresult {
    let none = ptr::null_mut();
    // SAFETY: the driver checks handles and addresses.
    unsafe { sys::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments.as_mut_ptr(), none) }
}

fn pinned() -> *mut u32 {
    // SAFETY: the memory is zeroed.
    unsafe { created(|to| sys::cuMemAllocHost_v2(to, PAGE), ptr::null_mut::<c_void>()).cast() }
}

/// Maps two pages of host memory, of which the second cannot be accessed.
fn pages() -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a mapping at a new address changes nothing that exists, and only this test has its second page.
    unsafe {
        let pages = libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        libc::mprotect(pages.byte_add(PAGE), PAGE, libc::PROT_NONE);
        pages.cast()
    }
}

/// Forbids all access to a page. The page stays mapped, so nothing else is mapped there.
fn forbid(pages: *mut u8) {
    // SAFETY: only this test has these pages.
    assert_eq!(unsafe { libc::mprotect(pages.cast(), PAGE, libc::PROT_NONE) }, 0);
}

#[test]
fn copies_from_and_to_unmapped_memory_are_refused() {
    let _turn = serial::take();
    let own = Own::new();
    let (pages, nowhere) = (pages(), pages().wrapping_add(PAGE));
    // SAFETY: the driver checks addresses.
    unsafe {
        let memory = created(|to| sys::cuMemAlloc_v2(to, 4 * PAGE), 0);
        for bytes in [1, PAGE, 4 * PAGE] {
            let from = nowhere.wrapping_sub(bytes / 2).cast();
            assert_eq!(sys::cuMemcpyHtoD_v2(memory, from, bytes), CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuMemcpyHtoDAsync_v2(memory, from, bytes, own.stream), CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuMemcpyDtoH_v2(from.cast(), memory, bytes), CUDA_ERROR_INVALID_VALUE);
            let copied = sys::cuMemcpyDtoHAsync_v2(from.cast(), memory, bytes, own.stream);
            assert_eq!(copied, CUDA_ERROR_INVALID_VALUE);
        }
        assert_eq!(sys::cuMemcpyHtoD_v2(memory, pages.cast(), 4 * PAGE + 1), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuMemcpyHtoD_v2(memory, pages.cast(), usize::MAX), CUDA_ERROR_INVALID_VALUE);
        // A wrong argument is no error of the context, and changes nothing.
        assert_eq!(sys::cuMemcpyHtoD_v2(memory, pages.cast(), PAGE), CUDA_SUCCESS);
        assert_eq!(sys::cuMemcpyDtoH_v2(pages.cast(), memory, PAGE), CUDA_SUCCESS);
    }
}

/// When the stream continues, its work accesses freed memory, which is an error of its context.
#[test]
fn work_on_memory_that_was_freed_while_the_stream_waited_fails() {
    let _turn = serial::take();
    type Use = fn(&Own, u64) -> CUresult;
    // SAFETY: the driver checks addresses at the call and again when it does the work.
    let uses: [(&str, Use); 6] = unsafe {
        [
            ("a copy to it", |own, gone| {
                let from = pinned();
                sys::cuMemcpyHtoDAsync_v2(gone, from.cast(), 8, own.stream)
            }),
            ("a copy from it", |own, gone| {
                let to = pinned();
                sys::cuMemcpyDtoHAsync_v2(to.cast(), gone, 8, own.stream)
            }),
            ("a memset", |own, gone| sys::cuMemsetD32Async(gone, 1, 4, own.stream)),
            ("a write", |own, gone| sys::cuStreamWriteValue32_v2(own.stream, gone, 1, 0)),
            ("a wait", |own, gone| sys::cuStreamWaitValue32_v2(own.stream, gone, 0, 0)),
            ("a kernel", Own::launch),
        ]
    };
    for (what, used) in uses {
        // A stream of another context frees the memory while this stream waits.
        let other = Own::new();
        // SAFETY: the words are not freed before the context is destroyed.
        let gone = unsafe { created(|to| sys::cuMemAlloc_v2(to, PAGE), 0) };
        let own = Own::new();
        let word = pinned();
        own.hold(word as u64);
        assert_eq!(used(&own, gone), CUDA_SUCCESS, "{what}");
        // SAFETY: the driver checks the address; the word is mapped, and the driver reads it as an atomic.
        unsafe {
            assert_eq!(sys::cuMemFreeAsync(gone, other.stream), CUDA_SUCCESS);
            assert_eq!(other.synchronize(), CUDA_SUCCESS);
            word.write_volatile(1);
        }
        assert_eq!(own.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS, "{what}");
        assert_eq!(own.launch(word as u64), CUDA_ERROR_ILLEGAL_ADDRESS, "{what}");
    }
}

#[test]
fn a_stream_that_is_destroyed_finishes_its_work() {
    let _turn = serial::take();
    let own = Own::new();
    let word = pinned();
    own.hold(word as u64);
    let before = live().streams;
    // SAFETY: the driver checks the handle, and reads the word, which is mapped, as an atomic.
    unsafe {
        assert_eq!(sys::cuStreamDestroy_v2(own.stream), CUDA_SUCCESS);
        let meanwhile = live().streams;
        word.write_volatile(1);
        assert_eq!(sys::cuCtxSynchronize(), CUDA_SUCCESS);
        assert_eq!([meanwhile, live().streams], [before - 1; 2]);
    }
}

/// The pages of freed memory are returned to the system without a further call.
#[test]
fn freed_pages_are_returned_to_the_system() {
    let _turn = serial::take();
    let own = Own::new();
    // SAFETY: the memory is freed once, and the system checks whether the byte is mapped.
    unsafe {
        let memory = created(|to| sys::cuMemAlloc_v2(to, PAGE), 0);
        assert_eq!(own.synchronize(), CUDA_SUCCESS);
        // The system refuses to read a byte that is not mapped.
        let is_mapped = || {
            let (_reader, writer) = std::io::pipe().unwrap();
            let byte = ptr::with_exposed_provenance::<c_void>(memory as usize);
            libc::write(writer.as_raw_fd(), byte, 1) == 1
        };
        assert!(is_mapped());
        // After that time the thread of the driver has nothing left to do.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(sys::cuMemFree_v2(memory), CUDA_SUCCESS);
        let begun = Instant::now();
        while is_mapped() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn memory_that_was_registered_and_then_unmapped_is_not_accessed() {
    let _turn = serial::take();
    let own = Own::new();
    let memory = pages();
    // SAFETY: the driver checks whether memory is mapped.
    unsafe {
        assert_eq!(sys::cuMemHostRegister_v2(memory.cast(), 2 * PAGE, 0), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuMemHostRegister_v2(memory.cast(), PAGE, 0), CUDA_SUCCESS);
        assert_eq!(own.launch(memory as u64 + 8), CUDA_SUCCESS);
        assert_eq!(own.synchronize(), CUDA_SUCCESS);
        assert_eq!(*memory.add(8), 7);
        forbid(memory);
        assert_eq!(own.launch(memory as u64 + 8), CUDA_SUCCESS);
        assert_eq!(own.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    let own = Own::new();
    let memory = pages();
    // SAFETY: as above.
    unsafe {
        assert_eq!(sys::cuMemHostRegister_v2(memory.cast(), PAGE, 0), CUDA_SUCCESS);
        own.hold(memory as u64);
        forbid(memory);
        assert_eq!(own.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
}

#[test]
fn arguments_that_end_in_unmapped_memory_are_refused() {
    let _turn = serial::take();
    let own = Own::new();
    let memory = pinned();
    let mut values = [memory as u64, 7];
    let pointers = values.each_mut().map(|value| ptr::from_mut(value).cast::<c_void>());
    // First a part of the list of pointers, and then a part of the last value, lies after the end of mapped memory.
    let end = pages().wrapping_add(PAGE).cast::<*mut c_void>();
    // SAFETY: the pointers reach to the end of a page, and the driver checks what follows.
    unsafe {
        end.sub(1).write_unaligned(pointers[0]);
        let launch = |arguments: *mut *mut c_void| {
            let none = ptr::null_mut();
            sys::cuLaunchKernel(own.kernel, 1, 1, 1, 1, 1, 1, 0, own.stream, arguments, none)
        };
        assert_eq!(launch(end.sub(1)), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(launch([pointers[0], end.byte_sub(2).cast()].as_mut_ptr()), CUDA_ERROR_INVALID_VALUE);
        end.sub(2).write_unaligned(pointers[0]);
        end.sub(1).write_unaligned(pointers[1]);
        assert_eq!(launch(end.sub(2)), CUDA_SUCCESS);
    }
    assert_eq!(own.synchronize(), CUDA_SUCCESS);
}

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and its like pass all arguments in one buffer.
#[test]
fn arguments_in_one_buffer_are_not_simulated() {
    let _turn = serial::take();
    let own = Own::new();
    let mut list = [0_usize];
    let list = list.as_mut_ptr().cast();
    // SAFETY: the driver checks addresses.
    let launched =
        unsafe { sys::cuLaunchKernel(own.kernel, 1, 1, 1, 1, 1, 1, 0, own.stream, ptr::null_mut(), list) };
    assert_eq!(launched, CUDA_ERROR_NOT_SUPPORTED);
}

#[test]
fn images_that_end_in_unmapped_memory_are_refused() {
    let _turn = serial::take();
    let _own = Own::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/prebuilt");
    let end = pages().wrapping_add(PAGE);
    let load = |bytes: &[u8]| {
        let mut module = ptr::null_mut();
        // SAFETY: the bytes reach to the end of a page, and the driver checks what follows.
        unsafe {
            let start = end.sub(bytes.len());
            ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            sys::cuModuleLoadData(&mut module, start.cast())
        }
    };
    assert_eq!(load(TEXT.to_bytes_with_nul()), CUDA_SUCCESS);
    assert_eq!(load(TEXT.to_bytes()), CUDA_ERROR_INVALID_VALUE, "a text without an end");
    let mut headers: Vec<Vec<u8>> = vec![b"\x7fELF".repeat(16)];
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        if bytes.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
            headers.push(bytes);
        }
    }
    // A header with an impossible size.
    headers.push([&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0][..], &[0xff; 8]].concat());
    for bytes in headers {
        for length in [1, 3, 4, 8, 15, 16, 17, 63, 64, 100, PAGE] {
            let part = &bytes[..length.min(bytes.len())];
            let code = load(part);
            let refused = [CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX];
            assert!(refused.contains(&code), "{length} bytes: {code:?}");
        }
    }
}

#[test]
fn a_log_in_unmapped_memory_is_not_written() {
    let _turn = serial::take();
    let _own = Own::new();
    let nowhere = pages().addr() + PAGE;
    let mut module = ptr::null_mut();
    // SAFETY: the driver checks addresses.
    unsafe {
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values: [*mut c_void; 2] =
            [ptr::with_exposed_provenance_mut(nowhere), ptr::without_provenance_mut(1000)];
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        let text = c".version 8.0 nonsense".as_ptr().cast();
        let mut load = |count, values| sys::cuModuleLoadDataEx(&mut module, text, count, options, values);
        assert_eq!(load(2, values), CUDA_ERROR_INVALID_PTX);
        assert_eq!(load(2, ptr::with_exposed_provenance_mut(nowhere)), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(load(u32::MAX, values), CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn objects_of_a_destroyed_context_are_refused() {
    let _turn = serial::take();
    let own = Own::new();
    // SAFETY: the driver checks handles.
    unsafe {
        let event = created(|to| sys::cuEventCreate(to, 0), ptr::null_mut());
        let memory = created(|to| sys::cuMemAlloc_v2(to, PAGE), 0);
        assert_eq!(
            sys::cuStreamBeginCapture_v2(
                own.stream,
                sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED
            ),
            CUDA_SUCCESS
        );
        assert_eq!(own.launch(memory), CUDA_SUCCESS);
        let graph = created(|to| sys::cuStreamEndCapture(own.stream, to), ptr::null_mut());
        let executable = created(|to| sys::cuGraphInstantiateWithFlags(to, graph, 0), ptr::null_mut());

        assert_eq!(sys::cuCtxDestroy_v2(own.context), CUDA_SUCCESS);
        assert_eq!(sys::cuCtxDestroy_v2(own.context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        // The destroyed context was current, so no context is current now.
        let mut current = own.context;
        assert_eq!(sys::cuCtxGetCurrent(&mut current), CUDA_SUCCESS);
        assert!(current.is_null());
        assert_eq!(sys::cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(sys::cuCtxSetCurrent(own.context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_eq!(sys::cuCtxPushCurrent_v2(own.context), CUDA_ERROR_CONTEXT_IS_DESTROYED);

        for code in [
            own.synchronize(),
            sys::cuStreamDestroy_v2(own.stream),
            sys::cuEventSynchronize(event),
            sys::cuEventDestroy_v2(event),
            sys::cuModuleUnload(own.module),
            sys::cuModuleGetFunction(&mut ptr::null_mut(), own.module, c"k".as_ptr()),
            sys::cuFuncGetAttribute(
                &mut 0,
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS,
                own.kernel,
            ),
            own.launch(memory),
        ] {
            assert_eq!(code, CUDA_ERROR_INVALID_HANDLE);
        }
        assert_eq!(sys::cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);

        // The graph belongs to no context, but the objects that its nodes use are destroyed.
        let next = Own::new();
        assert_eq!(launch(own.kernel, next.stream, &mut []), CUDA_ERROR_INVALID_HANDLE);
        let launched = sys::cuGraphLaunch(executable, next.stream);
        let done = if launched == CUDA_SUCCESS { next.synchronize() } else { launched };
        assert_ne!(done, CUDA_SUCCESS);
        assert_eq!(sys::cuGraphExecDestroy(executable), CUDA_SUCCESS);
        assert_eq!(sys::cuGraphExecDestroy(executable), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuGraphDestroy(graph), CUDA_SUCCESS);
        assert_eq!(sys::cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn an_empty_stack_of_contexts_cannot_be_popped() {
    let _turn = serial::take();
    let own = Own::new();
    // SAFETY: the driver checks handles and addresses.
    unsafe {
        assert_eq!(sys::cuCtxPushCurrent_v2(own.context), CUDA_SUCCESS);
        let mut popped = ptr::null_mut();
        for _ in 0..2 {
            assert_eq!(sys::cuCtxPopCurrent_v2(&mut popped), CUDA_SUCCESS);
            assert_eq!(popped, own.context);
        }
        assert_eq!(sys::cuCtxPopCurrent_v2(&mut popped), CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(sys::cuMemAlloc_v2(&mut 0, 8), CUDA_ERROR_INVALID_CONTEXT);
    }
}

/// A destructor of a thread-local value can call the driver after the driver's own thread-local values are dropped: the
/// order is unspecified.
#[test]
fn the_driver_can_be_called_while_a_thread_ends() {
    struct Last(Cell<usize>);
    impl Drop for Last {
        fn drop(&mut self) {
            let mut current = ptr::null_mut();
            // SAFETY: `current` has the size of a handle.
            assert_eq!(unsafe { sys::cuCtxGetCurrent(&mut current) }, CUDA_SUCCESS);
            assert_eq!(current.expose_provenance(), self.0.get());
        }
    }
    thread_local! {
        static LAST: Last = const { Last(Cell::new(0)) };
    }
    let _turn = serial::take();
    let own = Own::new();
    let context = own.context.expose_provenance();
    let ended = std::thread::spawn(move || {
        // This value is created before any thread-local value of the driver, so it is dropped after them.
        LAST.with(|last| last.0.set(context));
        // SAFETY: the driver checks the handle.
        unsafe { sys::cuCtxSetCurrent(ptr::with_exposed_provenance_mut(context)) }
    });
    assert_eq!(ended.join().unwrap(), CUDA_SUCCESS);
}

/// The call that waits in another thread returns an error, and does not wait for ever.
#[test]
fn a_reset_of_a_context_ends_the_wait_of_another_thread() {
    let _turn = serial::take();
    let own = Own::new();
    // SAFETY: the driver checks handles and addresses; the flags are those of the function.
    unsafe {
        let primary = created(|to| sys::cuDevicePrimaryCtxRetain(to, 0), ptr::null_mut());
        assert_eq!(sys::cuCtxPushCurrent_v2(primary), CUDA_SUCCESS);
        let stream = created(|to| sys::cuStreamCreate(to, 1), ptr::null_mut());
        let word = pinned();
        assert_eq!(sys::cuStreamWaitValue32_v2(stream, word as u64, 1, 1), CUDA_SUCCESS);
        let stream = stream.expose_provenance();
        let (about_to_wait, begun) = mpsc::channel();
        let waits = std::thread::spawn(move || {
            about_to_wait.send(()).unwrap();
            sys::cuStreamSynchronize(ptr::with_exposed_provenance_mut(stream))
        });
        begun.recv().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(sys::cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
        assert_eq!(waits.join().unwrap(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_eq!(sys::cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    drop(own);
}

//! Loads what a preload names, in the current context.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use cudarc::driver::sys::{
    CUfunction, CUjit_option, CUkernel, CUlibrary, CUlibraryOption, CUlimit, CUmodule, CUresult, CUstream,
};
use kernel_registry_format::prime;

use super::{IN_USE, Loaded, STATE, done, failed, file};
use crate::preload::{How, IN_CONTEXT, Origin, Preload, Prime};
use crate::watch::owners::Owner;
use crate::watch::real::driver_function;
use crate::watch::recording::now;
use crate::watch::{contexts, known, owners, stack};

type Params = *mut *mut c_void;
type Options = *mut CUjit_option;

driver_function!(static LOAD_LIBRARY = cuLibraryLoadData(
    *mut CUlibrary, *const c_void, Options, Params, u32, *mut CUlibraryOption, Params, u32
));
driver_function!(static GET_MODULE = cuLibraryGetModule(*mut CUmodule, CUlibrary));
driver_function!(static GET_KERNEL = cuLibraryGetKernel(*mut CUkernel, CUlibrary, *const c_char));
driver_function!(static LOAD_KERNEL = cuKernelGetFunction(*mut CUfunction, CUkernel));
driver_function!(static LOAD_MODULE = cuModuleLoadData(*mut CUmodule, *const c_void));
driver_function!(static GET_FUNCTION = cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char));
driver_function!(static SET_LIMIT = cuCtxSetLimit(CUlimit, usize));
driver_function!(static CREATE_STREAM = cuStreamCreate(*mut CUstream, u32));
driver_function!(static DESTROY_STREAM = cuStreamDestroy_v2(CUstream));
driver_function!(static WAIT = cuStreamSynchronize(CUstream));
driver_function!(static LAUNCH = cuLaunchKernel(
    CUfunction, u32, u32, u32, u32, u32, u32, u32, CUstream, Params, Params
));

/// Copies of one image.
const MOST: u32 = 64;

/// What an image is called among what was preloaded.
const IMAGE: &str = "image";

/// Why something was not preloaded.
type Why = String;

/// Loads everything. Returns how many kernels were loaded.
pub(super) fn all(plan: &Preload) -> usize {
    let (mut count, mut stack) = (0, usize::try_from(plan.stack).unwrap_or(0));
    for (origin, wanted) in &plan.images {
        for copy in 0..wanted.times.clamp(1, MOST) {
            count += one(origin, &wanted.kernels, copy as usize, &mut stack);
        }
    }
    raise_stack(stack);
    prime(plan.prime);
    count
}

/// Loads one copy of an image, and kernels of it. Returns how many kernels; `stack` grows with what they need.
fn one(origin: &Origin, kernels: &BTreeSet<String>, copy: usize, stack: &mut usize) -> usize {
    let words = &format!("{} bytes of {}", origin.bytes, origin.path);
    let begun = now();
    let _in_use = IN_USE.lock();
    match image(origin, copy) {
        Ok(image) => {
            done(IMAGE, words, begun);
            of_image(origin.how, image, words, kernels, stack)
        }
        Err(why) => {
            failed(IMAGE, words, &why);
            0
        }
    }
}

/// Loads kernels of an image. Returns how many; `stack` grows with what they need.
fn of_image(how: How, image: u64, words: &str, kernels: &BTreeSet<String>, stack: &mut usize) -> usize {
    let mut count = 0;
    for name in kernels {
        let begun = now();
        match kernel(how, image, name) {
            Ok(frame) => {
                *stack = frame.max(*stack);
                count += 1;
                done(name, words, begun);
            }
            Err(why) => failed(name, words, &why),
        }
    }
    count
}

/// The handle of an image, which is loaded unless it was before.
fn image(origin: &Origin, copy: usize) -> Result<u64, Why> {
    let context = if origin.how == How::Module { contexts::current() } else { 0 };
    let is_it = |loaded: &&Loaded| loaded.origin == *origin && loaded.context == context;
    if let Some(handle) = STATE.lock().images.iter().filter(is_it).nth(copy).map(|loaded| loaded.handle) {
        return Ok(handle);
    }
    let content = (origin.how, origin.bytes, origin.hash);
    let is_here =
        |handle| origin.how == How::Library || owners::find(handle) == Some(Owner::Context(context));
    if copy == 0
        && let Some(handle) = known::find_image(content, is_here)
    {
        return Ok(handle);
    }
    let code = file::map(origin)?;
    let handle = match origin.how {
        How::Library => library(code)?,
        How::Module => module(code)?,
    };
    let words = format!("{} bytes of {}, preloaded", origin.bytes, origin.path);
    known::add_image(handle, &words, &origin.to_string(), Some(content));
    match origin.how {
        How::Library => known::mark_kept(handle),
        How::Module => owners::add(handle),
    }
    STATE.lock().images.push(Loaded { origin: origin.clone(), code, handle, context, is_taken: false });
    Ok(handle)
}

fn library(code: &'static [u8]) -> Result<u64, Why> {
    let load = LOAD_LIBRARY.get().ok_or_else(too_old)?;
    // What the option says is true: the code is mapped for ever.
    let mut options = [CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED];
    let mut values = [ptr::without_provenance_mut(1)];
    // SAFETY: the code is an image that a program has loaded in the same way, and there is one option with its value.
    asked(ptr::null_mut(), |library| unsafe {
        let none = ptr::null_mut();
        load(
            library,
            code.as_ptr().cast(),
            none,
            ptr::null_mut(),
            0,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
            1,
        )
    })
    .map(address)
}

fn module(code: &'static [u8]) -> Result<u64, Why> {
    let load = LOAD_MODULE.get().ok_or_else(too_old)?;
    // SAFETY: the code is an image that a program has loaded in the same way.
    asked(ptr::null_mut(), |module| unsafe { load(module, code.as_ptr().cast()) }).map(address)
}

/// Loads a library in the current context, without naming kernels. Returns no frame.
fn in_context(image: u64) -> Result<usize, Why> {
    let get = GET_MODULE.get().ok_or_else(too_old)?;
    // SAFETY: the library is loaded.
    let module = asked(ptr::null_mut(), |module| unsafe { get(module, handle(image)) })?;
    known::add_module(address(module), image);
    known::mark_library_loaded(image, contexts::current());
    Ok(0)
}

/// Loads a kernel, and returns the size of its frame.
fn kernel(how: How, image: u64, name: &str) -> Result<usize, Why> {
    if name == IN_CONTEXT {
        return if how == How::Library { in_context(image) } else { Ok(0) };
    }
    let c_name = CString::new(name).map_err(|_| "its name has a zero".to_owned())?;
    let function = match how {
        How::Library => {
            let (get, load) = GET_KERNEL.get().zip(LOAD_KERNEL.get()).ok_or_else(too_old)?;
            // SAFETY: the library is loaded, and the name ends with a zero.
            let kernel =
                asked(ptr::null_mut(), |kernel| unsafe { get(kernel, handle(image), c_name.as_ptr()) })?;
            known::add_name(address(kernel), name, image);
            // SAFETY: the driver has just returned the kernel.
            let function = asked(ptr::null_mut(), |function| unsafe { load(function, kernel) })?;
            known::add_handle(address(function), address(kernel));
            known::mark_loaded(contexts::key(address(kernel), 0));
            known::mark_image_loaded(address(kernel), contexts::current());
            function
        }
        How::Module => {
            let get = GET_FUNCTION.get().ok_or_else(too_old)?;
            // SAFETY: as above.
            let function =
                asked(ptr::null_mut(), |function| unsafe { get(function, handle(image), c_name.as_ptr()) })?;
            known::add_name(address(function), name, image);
            known::add_function(image, name, address(function));
            function
        }
    };
    known::mark_loaded(contexts::key(address(function), 0));
    stack::frame(function).ok_or_else(|| "the driver does not tell its frame".to_owned())
}

/// Raises the stack limit, if it is lower.
fn raise_stack(bytes: usize) {
    let Some(set) = SET_LIMIT.get() else { return };
    if stack::limit().is_none_or(|limit| limit >= bytes) {
        return;
    }
    let (subject, begun) = (format!("stack of {bytes} bytes"), now());
    // SAFETY: it takes two numbers.
    match asked((), |()| unsafe { set(CUlimit::CU_LIMIT_STACK_SIZE, bytes) }) {
        Ok(()) => done(&subject, "", begun),
        Err(why) => failed(&subject, "", &why),
    }
}

/// Launches kernels that do nothing, so that the driver sets up what they use.
fn prime(what: Prime) {
    if what.is_nothing() {
        return;
    }
    let begun = now();
    let all = [(what.printf, prime::PRINTF), (what.assert, prime::ASSERT), (what.heap, prime::MALLOC)];
    let names: Vec<_> = all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name).collect();
    let words = names.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
    let image = if what.heap { prime::SPECIAL } else { prime::OUTPUT };
    match library(image).and_then(|image| launch_each(image, &names)) {
        Ok(()) => done(&words, "", begun),
        Err(why) => failed(&words, "", &why),
    }
}

fn launch_each(image: u64, names: &[&CStr]) -> Result<(), Why> {
    let (get, load) = GET_KERNEL.get().zip(LOAD_KERNEL.get()).ok_or_else(too_old)?;
    let (create, destroy) = CREATE_STREAM.get().zip(DESTROY_STREAM.get()).ok_or_else(too_old)?;
    let (launch, wait) = LAUNCH.get().zip(WAIT.get()).ok_or_else(too_old)?;
    const NON_BLOCKING: u32 = 1;
    // SAFETY: a context is current.
    let stream = asked(ptr::null_mut(), |stream| unsafe { create(stream, NON_BLOCKING) })?;
    let launched = names.iter().try_for_each(|name| {
        // SAFETY: the library is loaded and has this kernel, which takes one `int`, and with 0 does nothing.
        unsafe {
            let kernel = asked(ptr::null_mut(), |kernel| get(kernel, handle(image), name.as_ptr()))?;
            let function = asked(ptr::null_mut(), |function| load(function, kernel))?;
            let mut zero: c_int = 0;
            let mut params: [*mut c_void; 1] = [(&raw mut zero).cast()];
            let none = ptr::null_mut();
            asked((), |()| launch(function, 1, 1, 1, 1, 1, 1, 0, stream, params.as_mut_ptr(), none))
        }
    });
    // SAFETY: the stream was made above.
    let waited = asked((), |()| unsafe { wait(stream) });
    // SAFETY: as above, and nothing uses it any more.
    let destroyed = asked((), |()| unsafe { destroy(stream) });
    launched.and(waited).and(destroyed)
}

/// What the driver stores, or its error.
fn asked<T>(mut value: T, ask: impl FnOnce(&mut T) -> CUresult) -> Result<T, Why> {
    match ask(&mut value) {
        CUresult::CUDA_SUCCESS => Ok(value),
        error => Err(format!("the driver says {error:?}")),
    }
}

fn too_old() -> Why {
    "the driver is older than CUDA 12.0; update it".to_owned()
}

fn address<T>(handle: *mut T) -> u64 {
    handle.addr() as u64
}

fn handle<T>(address: u64) -> *mut T {
    ptr::without_provenance_mut::<c_void>(address as usize).cast()
}

//! Loads a preload's images and kernels into the current context.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use cudarc::driver::sys::{
    CUfunction, CUjit_option, CUkernel, CUlibrary, CUlibraryOption, CUlimit, CUmodule, CUresult, CUstream,
};
use kernel_registry_cuda::prime::Primed;

use super::outcome::{done, failed};
use super::state::{STATE, STEP, State, TIMEOUT, content_of, context_of, wait_a_step};
use super::{baked, file};
use crate::preload::{How, IN_CONTEXT, Origin, Preload, Prime, Sizes};
use crate::record::{self, Format, Subject};
use crate::watch::hang::busy;
use crate::watch::known::owners::{self, Owner};
use crate::watch::known::{code, contexts, handles, limits};
use crate::watch::loader::real::driver_function;
use crate::watch::record::recording::now;
use crate::watch::record::slots;
use crate::watch::section;

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
driver_function!(unbound static LOAD_FUNCTION = cuFuncLoad(CUfunction));
driver_function!(static SET_LIMIT = cuCtxSetLimit(CUlimit, usize));
driver_function!(static CREATE_STREAM = cuStreamCreate(*mut CUstream, u32));
driver_function!(static DESTROY_STREAM = cuStreamDestroy_v2(CUstream));
driver_function!(static WAIT = cuStreamSynchronize(CUstream));
driver_function!(static LAUNCH = cuLaunchKernel(
    CUfunction, u32, u32, u32, u32, u32, u32, u32, CUstream, Params, Params
));

/// Limits the copies of an image, whatever the preload asks for.
const MOST_COPIES: u32 = 64;

/// How long to wait for other work on the device, which may be a resident kernel.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);

/// The reason why something wasn't preloaded.
type Why = String;

/// Loads all images and kernels into the current context, but stops if a kernel is resident. Returns the
/// number of loaded kernels, and whether it got to the end.
pub(super) fn load_all(plan: &Preload) -> (usize, bool) {
    let (mut count, mut stack) = (0, usize::try_from(plan.sizes.stack).unwrap_or(0));
    let copies = plan.images.iter().flat_map(|(origin, wanted)| {
        (0..wanted.times.clamp(1, MOST_COPIES) as usize).map(move |copy| (origin, wanted, copy))
    });
    let free_before = memory().map_or(0, |(free, _)| free);
    for (origin, wanted, copy) in copies {
        if !may_load() {
            return (count, false);
        }
        // The program may never hold all copies at once, so further ones must not use too much memory.
        let uses_too_much_memory =
            |(free, total): (usize, usize)| free_before.saturating_sub(free) > total / 8;
        if copy > 0 && memory().is_some_and(uses_too_much_memory) {
            let why = format!("{copy} of {} copies take much memory already", wanted.times);
            failed(Subject::Image(image_of(origin, &origin.to_string())), &why);
            continue;
        }
        count += load_copy(origin, &wanted.kernels, copy, &mut stack);
    }
    let may_load = may_load();
    if may_load {
        let Preload { sizes: Sizes { printf, heap, .. }, prime, .. } = *plan;
        let wanted = [
            (CUlimit::CU_LIMIT_STACK_SIZE, stack as u64, true),
            (CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, printf, prime.printf || prime.assert),
            (CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, heap, prime.heap),
        ];
        for (limit, bytes, _) in wanted.into_iter().filter(|(.., is_used)| *is_used) {
            raise(limit, usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        set_up(prime);
    }
    (count, may_load)
}

/// Returns the device's free and total memory in bytes.
fn memory() -> Option<(usize, usize)> {
    driver_function!(static GET = cuMemGetInfo_v2(*mut usize, *mut usize));
    let (get, mut total) = (GET.get()?, 0);
    // SAFETY: the call stores two numbers.
    let free = checked(0, |free| unsafe { get(free, &mut total) }).ok()?;
    Some((free, total))
}

/// Describes an image in events, by its origin as text. Its format isn't known before its bytes are read.
fn image_of<'a>(origin: &Origin, as_text: &'a str) -> record::Image<&'a str> {
    record::Image::unloaded(Format::Unknown, origin.bytes, as_text)
}

/// Waits briefly for other work on the device. Returns whether loading may begin, or else records why not.
fn may_load() -> bool {
    let section = section::find_in_context(contexts::current());
    let running = section.map(|section| format!("`{}` is resident", section.kernel)).or_else(find_running);
    if let Some(running) = &running {
        failed(Subject::Rest, &format!("{running}, and loading would wait for it; preload before that"));
    }
    running.is_none()
}

/// Waits for work on the device, and describes the work that doesn't end in time.
fn find_running() -> Option<String> {
    let begun = Instant::now();
    loop {
        let stream = *busy::find_others(None).first()?;
        if begun.elapsed() > BUSY_TIMEOUT {
            return Some(busy::running(&stream).to_string());
        }
        thread::sleep(STEP);
    }
}

/// Loads a copy of an image with these kernels. Returns how many were loaded, and raises `stack` to their need.
fn load_copy(origin: &Origin, kernels: &BTreeSet<String>, copy: usize, stack: &mut usize) -> usize {
    let as_text = origin.to_string();
    let described = image_of(origin, &as_text);
    let begun = now();
    slots::mark_progress(begun);
    match image(origin, copy) {
        Ok(image) => {
            if let Some(event) = done(Subject::Image(described), begun) {
                STATE.lock().expect_use(image.0, event);
            }
            load_kernels(origin.how, image.0, described, kernels, stack)
        }
        Err(why) => {
            failed(Subject::Image(described), &why);
            0
        }
    }
}

/// Keeps threads from unloading an image until it's dropped.
struct InUse(u64);

impl InUse {
    fn new(state: &mut State, image: u64) -> Self {
        state.in_use.push(image);
        InUse(image)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        if let Some(index) = state.in_use.iter().position(|image| *image == self.0) {
            state.in_use.swap_remove(index);
        }
    }
}

/// Loads an image's kernels. Returns the number of loaded ones, and raises `stack` to their need.
fn load_kernels(
    how: How,
    image: u64,
    described: record::Image<&str>,
    kernels: &BTreeSet<String>,
    stack: &mut usize,
) -> usize {
    let mut count = 0;
    for name in kernels {
        let begun = now();
        slots::mark_progress(begun);
        let subject = Subject::Kernel { symbol: &**name, image: Some(described) };
        match kernel(how, image, name) {
            Ok(frame) => {
                *stack = frame.max(*stack);
                count += 1;
                done(subject, begun);
            }
            Err(why) => failed(subject, &why),
        }
    }
    count
}

/// Returns the copy of an image with this index, and loads one more if fewer copies are loaded.
fn image(origin: &Origin, copy: usize) -> Result<InUse, Why> {
    let context = context_of(origin.how);
    let code = file::read(origin)?;
    let content = content_of(origin.how, code);
    let is_usable =
        |handle| origin.how == How::Library || owners::find(handle) == Some(Owner::Context(context.0));
    let (this, begun) = ((origin.clone(), context), Instant::now());
    loop {
        let mut state = STATE.lock();
        if let Some(handle) = handles::find_images(content, is_usable).get(copy).copied() {
            return Ok(InUse::new(&mut state, handle));
        }
        if !state.loading.contains(&this) || begun.elapsed() > TIMEOUT {
            state.loading.push(this.clone());
            break;
        }
        // Another thread is loading the same image.
        drop(state);
        wait_a_step();
    }
    let load = |code| match origin.how {
        How::Library => library(code),
        How::Module => module(code),
    };
    let is_compiled = baked::is_compiled(origin.how, code);
    let baked = if is_compiled { baked::find(origin.how, code, "") } else { None };
    let loaded = match baked.map(load) {
        Some(Ok(handle)) => Ok(handle),
        Some(Err(_)) => {
            baked::refused();
            load(code)
        }
        None => load(code),
    };
    let mut state = STATE.lock();
    state.loading.retain(|other| *other != this);
    let handle = loaded?;
    let format = code::image_at(code.as_ptr().cast()).compiled(is_compiled).format;
    let described = record::Image { format, ..image_of(origin, &origin.to_string()) }.to_shared();
    handles::add_image(handle, described, Some(content));
    if origin.how == How::Module {
        owners::add(handle);
    }
    state.loads += 1;
    state.images.entry((content, context)).or_default().push(handle);
    Ok(InUse::new(&mut state, handle))
}

fn library(code: &'static [u8]) -> Result<u64, Why> {
    let load = LOAD_LIBRARY.get().ok_or_else(too_old)?;
    // The option promises that the code stays in memory, and ours is never freed.
    let mut options = [CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED];
    let mut values = [ptr::without_provenance_mut(1)];
    // SAFETY: the code is an image that a program has loaded in the same way, machine code baked from one, or
    // our own kernels. One option and its value are passed.
    checked(ptr::null_mut(), |library| unsafe {
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
    // SAFETY: the code is an image that a program has loaded in the same way, or machine code baked from one.
    checked(ptr::null_mut(), |module| unsafe { load(module, code.as_ptr().cast()) }).map(address)
}

/// Loads a library into the current context, without a particular kernel. Returns a stack frame of 0 bytes.
fn in_context(image: u64) -> Result<usize, Why> {
    let get = GET_MODULE.get().ok_or_else(too_old)?;
    // SAFETY: the library is loaded.
    let module = checked(ptr::null_mut(), |module| unsafe { get(module, handle(image)) })?;
    handles::add_module(address(module), image);
    handles::mark_library_loaded(image, contexts::current());
    Ok(0)
}

/// Loads a kernel, and returns the size of its stack frame in bytes.
fn kernel(how: How, image: u64, name: &str) -> Result<usize, Why> {
    if name == IN_CONTEXT {
        return if how == How::Library { in_context(image) } else { Ok(0) };
    }
    let c_name = CString::new(name).map_err(|_| "its name contains a zero".to_owned())?;
    let function = match how {
        How::Library => {
            let (get, load) = GET_KERNEL.get().zip(LOAD_KERNEL.get()).ok_or_else(too_old)?;
            // SAFETY: the library is loaded, and the name ends with a zero.
            let kernel =
                checked(ptr::null_mut(), |kernel| unsafe { get(kernel, handle(image), c_name.as_ptr()) })?;
            handles::add_name(address(kernel), name, image);
            // SAFETY: the driver has just returned the kernel.
            let function = checked(ptr::null_mut(), |function| unsafe { load(function, kernel) })?;
            handles::add_handle(address(function), address(kernel));
            handles::mark_loaded(contexts::key(address(kernel), 0));
            handles::mark_image_loaded(address(kernel), contexts::current());
            function
        }
        How::Module => {
            let get = GET_FUNCTION.get().ok_or_else(too_old)?;
            // SAFETY: as above.
            let function = checked(ptr::null_mut(), |function| unsafe {
                get(function, handle(image), c_name.as_ptr())
            })?;
            handles::add_name(address(function), name, image);
            handles::add_function(image, name, address(function));
            // While the device is busy, `cuModuleGetFunction` returns before it has loaded the function.
            if let Some(load) = LOAD_FUNCTION.get() {
                // SAFETY: the driver has just returned the function.
                checked((), |()| unsafe { load(function) })?;
            }
            function
        }
    };
    handles::mark_loaded(contexts::key(address(function), 0));
    limits::frame(function).ok_or_else(|| "the driver doesn't report its frame size".to_owned())
}

/// Raises a limit to `bytes`, if it's lower.
fn raise(which: CUlimit, bytes: usize) {
    let (Some(set), Some(limit)) = (SET_LIMIT.get(), limits::limit_of(which)) else { return };
    if limits::limit(which).is_none_or(|now| now >= bytes) {
        return;
    }
    let (subject, begun) = (Subject::Limit { limit, bytes: bytes as u64, kernel: "" }, now());
    // SAFETY: the call takes two numbers.
    match checked((), |()| unsafe { set(which, bytes) }) {
        Ok(()) => drop(done(subject, begun)),
        Err(why) => failed(subject, &why),
    }
}

/// Primes the current context: launches kernels that reference printf, assert or malloc and do nothing, which
/// makes the driver set up their buffers.
fn set_up(Prime { printf, assert, heap, .. }: Prime) {
    let wanted = Primed::new(printf, assert, heap);
    let Some(image) = wanted.image() else { return };
    let (subject, begun) = (Subject::Buffers { printf, assert, heap }, now());
    let names: Vec<_> = wanted.kernels().collect();
    match our_library(image).and_then(|image| launch_each(image, &names)) {
        Ok(()) => drop(done(subject, begun)),
        Err(why) => failed(subject, &why),
    }
}

/// Returns the library with our own kernels, which is loaded once for all contexts.
fn our_library(code: &'static [u8]) -> Result<u64, Why> {
    let key = code.as_ptr().addr();
    if let Some(handle) = STATE.lock().primes.get(&key) {
        return Ok(*handle);
    }
    let handle = library(code)?;
    STATE.lock().primes.insert(key, handle);
    Ok(handle)
}

fn launch_each(image: u64, names: &[&CStr]) -> Result<(), Why> {
    let (get, load) = GET_KERNEL.get().zip(LOAD_KERNEL.get()).ok_or_else(too_old)?;
    let (create, destroy) = CREATE_STREAM.get().zip(DESTROY_STREAM.get()).ok_or_else(too_old)?;
    let (launch, wait) = LAUNCH.get().zip(WAIT.get()).ok_or_else(too_old)?;
    const NON_BLOCKING: u32 = 1;
    // SAFETY: a context is current.
    let stream = checked(ptr::null_mut(), |stream| unsafe { create(stream, NON_BLOCKING) })?;
    let launched = names.iter().try_for_each(|name| {
        // SAFETY: the library is loaded and has this kernel, which takes an `int` and does nothing if it's 0.
        unsafe {
            let kernel = checked(ptr::null_mut(), |kernel| get(kernel, handle(image), name.as_ptr()))?;
            let function = checked(ptr::null_mut(), |function| load(function, kernel))?;
            let mut zero: c_int = 0;
            let mut params: [*mut c_void; 1] = [(&raw mut zero).cast()];
            let none = ptr::null_mut();
            checked((), |()| launch(function, 1, 1, 1, 1, 1, 1, 0, stream, params.as_mut_ptr(), none))
        }
    });
    // SAFETY: the stream was created above.
    let waited = checked((), |()| unsafe { wait(stream) });
    // SAFETY: as above, and the stream isn't used any longer.
    let destroyed = checked((), |()| unsafe { destroy(stream) });
    launched.and(waited).and(destroyed)
}

/// Returns the value that a call of the driver stores, or its error as text.
fn checked<T>(mut value: T, call: impl FnOnce(&mut T) -> CUresult) -> Result<T, Why> {
    match call(&mut value) {
        CUresult::CUDA_SUCCESS => Ok(value),
        error => Err(format!("the driver returns {error:?}")),
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

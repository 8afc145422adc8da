//! Hooks of calls that load and unload images, or obtain handles of kernels from images.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{CUfunction, CUjit_option, CUlibrary, CUlibraryOption, CUmodule, CUresult};
use kernel_registry_cuda::rules::{self, Rule};

use super::jit::JitOptions;
use super::load::{is_loaded, kernel_name};
use super::{guard, late};
use crate::options::Audit;
use crate::preload::{How, Ptx, hash};
use crate::record::{self, Format, Kind, Subject};
use crate::watch::events::timed;
use crate::watch::hang::{busy, unloaded};
use crate::watch::known::code::Image;
use crate::watch::known::mode::is_eager;
use crate::watch::known::{contexts, handles, origin, owners};
use crate::watch::loader::real::driver_function;
use crate::watch::preload::baked;
use crate::watch::record::call::{Call, stored_handle, with_handle};
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::ready;
use crate::watch::record::recording::{self, now};
use crate::watch::record::slots;
use crate::watch::{preload, section};

type Params = *mut *mut c_void;

driver_function!(static LOAD_MODULE = cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut CUjit_option, Params));
driver_function!(static LOAD_LIBRARY = cuLibraryLoadData(
    *mut CUlibrary, *const c_void, *mut CUjit_option, Params, c_uint, *mut CUlibraryOption, Params, c_uint
));

/// Makes a call that loads a module. `options` are those for the driver's compiler.
pub(super) fn load_module(
    call: Call,
    out: *mut CUmodule,
    code: Image,
    options: JitOptions,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let with = |code: &'static [u8], JitOptions { count, options: numbers, values }| {
        // SAFETY: the arguments are those of the program, but for the code, which is never freed, and what the driver writes to.
        LOAD_MODULE.get().map(|load| unsafe { load(out, code.as_ptr().cast(), count, numbers, values) })
    };
    let how = Loading { how: How::Module, options, is_plain: options.is_none(), with };
    with_handle(load_image(call, out, code, how, Some(&rules::MODULE), real), out, owners::add)
}

/// Makes a call that loads a library. `options` are those for the driver's compiler, and `own` are the options of the library.
pub(super) fn load_library(
    call: Call,
    out: *mut CUlibrary,
    code: Image,
    options: JitOptions,
    own: LibraryOptions,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let LibraryOptions { options: own_numbers, values: own_values, count: own_count } = own;
    let with = |code: &'static [u8], JitOptions { count, options: numbers, values }| {
        let load = LOAD_LIBRARY.get()?;
        // SAFETY: as above.
        Some(unsafe {
            load(out, code.as_ptr().cast(), numbers, values, count, own_numbers, own_values, own_count)
        })
    };
    let is_plain = options.is_none() && !own.has_others();
    let how = Loading { how: How::Library, options, is_plain, with };
    let result = load_image(call, out, code, how, is_eager().then_some(&rules::LIBRARY), real);
    if own.keeps_code() { with_handle(result, out, handles::mark_kept) } else { result }
}

/// The options of a library.
#[derive(Clone, Copy)]
pub(super) struct LibraryOptions {
    options: *mut CUlibraryOption,
    values: Params,
    count: c_uint,
}

impl LibraryOptions {
    const TABLE: c_uint = CUlibraryOption::CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE as c_uint;
    const PRESERVED: c_uint = CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED as c_uint;

    pub(super) fn new(options: *mut CUlibraryOption, values: Params, count: c_uint) -> Self {
        LibraryOptions { options, values, count }
    }

    fn numbers(self) -> impl Iterator<Item = c_uint> {
        let all = if self.options.is_null() { 0 } else { self.count as usize };
        // SAFETY: the program passes `count` options. It may use numbers that this version of the bindings does not
        // know.
        (0..all).map(move |index| unsafe { self.options.cast::<c_uint>().add(index).read() })
    }

    /// Whether the driver uses memory of the program until the library is unloaded.
    fn keeps_code(self) -> bool {
        self.numbers().any(|option| [Self::TABLE, Self::PRESERVED].contains(&option))
    }

    /// Whether there are options other than those with which a preload loads a library.
    fn has_others(self) -> bool {
        self.numbers().any(|option| option != Self::PRESERVED)
    }
}

/// How an image is loaded.
struct Loading<W> {
    how: How,
    options: JitOptions,
    /// Whether a preload loads it in the same way.
    is_plain: bool,
    /// Makes the same call with other code, and other places for what the driver writes. Returns `None` if the driver has no such function.
    with: W,
}

fn load_image<T>(
    call: Call,
    out: *mut *mut T,
    image: Image,
    Loading { how, options, is_plain, with }: Loading<impl Fn(&'static [u8], JitOptions) -> Option<CUresult>>,
    rule: Option<&'static Rule>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let bytes = if is_plain || image.format != Format::File { image.content() } else { None };
    let image = match (image.format, &bytes) {
        (Format::Fatbin, Some(bytes)) => image.compiled(baked::is_compiled(how, bytes)),
        _ => image,
    };
    let is_compiled = image.format.is_compiled() && Audit::chosen().preloads();
    let compiles = if is_compiled { options.describe() } else { None };
    let found = bytes.filter(|_| is_plain || compiles.is_some());
    let found = found.map(|bytes| (hash(&bytes), bytes));
    let content = found.as_ref().filter(|_| is_plain);
    let content = content.and_then(|(hash, bytes)| preload::content(how, *hash, bytes));
    if !out.is_null()
        && let Some(handle) = content.and_then(preload::take)
    {
        // SAFETY: the program has room for the handle there.
        unsafe { *out = ptr::without_provenance_mut(handle as usize) };
        return timed(call, || CUresult::CUDA_SUCCESS);
    }
    let begun = now();
    let baked = compiles.as_ref().zip(found.as_ref());
    let baked = baked.and_then(|(options, (_, bytes))| baked::find(how, bytes, options));
    let image = if baked.is_some() { image.baked() } else { image };
    let words = || format!("`{}` of a {image}", call.name());
    let origin = found.and_then(|(hash, bytes)| origin::find(&bytes, hash, how));
    let origin = match (origin, compiles) {
        // No preload loads it, but machine code can be made of it.
        (Some(origin), Some(options)) if !is_plain => Ptx::new(&options, origin).to_string(),
        (Some(origin), _) => origin.to_string(),
        (None, _) => String::new(),
    };
    let described = record::Image::unloaded(image.format, image.bytes, origin.as_str());
    let event = image_event(described, rule);
    let load = || match baked.and_then(|code| options.try_call(|own| with(code, own))) {
        Some(CUresult::CUDA_SUCCESS) => CUresult::CUDA_SUCCESS,
        Some(_) => {
            baked::refused();
            real()
        }
        None => real(),
    };
    let (result, caller) = handles::while_loading(slots::thread(), described.to_shared(), || {
        late::make_call(call, event, late::LOAD_BEFORE, words, load)
    });
    with_handle(result, out, |handle| {
        let loaded = record::Image { library: &*caller.library, loaded_at: begun, ..described };
        handles::add_image(handle, loaded.to_shared(), content);
    })
}

/// Returns the event of an image's load.
fn image_event<'a>(image: record::Image<&'a str>, rule: Option<&'static Rule>) -> NewEvent<'a> {
    NewEvent { kind: Kind::Image, subject: Subject::Image(image), rule, ..NewEvent::default() }
}

/// Makes a call that unloads a module, which makes the handles of its kernels invalid.
pub(super) fn unload_module(
    call: Call,
    module: CUmodule,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    guard::destroy(call.about(module), &rules::UNLOAD, forget_and_unload(module, real))
}

/// Makes a call that unloads a library from all contexts.
pub(super) fn unload_library(
    call: Call,
    library: CUlibrary,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    let call = call.about(library);
    guard::unload_everywhere(call, handles::is_kept(call.subject), forget_and_unload(library, real))
}

fn forget_and_unload<T>(image: *mut T, real: impl FnOnce() -> CUresult) -> impl FnOnce() -> CUresult {
    let image = image.addr() as u64;
    move || {
        // The image is forgotten before the call, because another thread may get the same handles right after it.
        preload::forget(image);
        real()
    }
}

/// Makes a call that returns the handle of a library's kernel by its name. The call loads nothing.
pub(super) fn get_kernel<T>(
    call: Call,
    out: *mut *mut T,
    library: CUlibrary,
    kernel: *const c_char,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = timed(call, real);
    if let Some(handle) = stored_handle(result, out).filter(|_| !kernel.is_null()) {
        // SAFETY: the driver has read the name, which ends with a zero.
        let kernel = unsafe { CStr::from_ptr(kernel) };
        handles::add_name(handle, &kernel.to_string_lossy(), library.addr() as u64);
    }
    result
}

/// Makes a call that returns the module of a library in the current context.
pub(super) fn get_module(
    call: Call,
    out: *mut CUmodule,
    library: CUlibrary,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = use_library(call, library, real);
    with_handle(result, out, |module| handles::add_module(module, library.addr() as u64))
}

/// Makes a call that needs a library in the current context, and loads it there.
pub(super) fn use_library(call: Call, library: CUlibrary, real: impl FnOnce() -> CUresult) -> CUresult {
    let (call, context) = (call.about(library), contexts::current());
    if is_eager() || handles::is_library_loaded(call.subject, context) {
        return timed(call, real);
    }
    let origin = handles::image_at(call.subject).unwrap_or_default().origin;
    let library = record::Image::unloaded(Format::Library, 0, &*origin);
    let event = image_event(library, Some(&rules::LIBRARY_IN_CONTEXT));
    let words = || format!("`{}` of a library that is not loaded in this context", call.name());
    let (result, _) = late::make_call(call, event, late::LOAD_BEFORE, words, real);
    if result == CUresult::CUDA_SUCCESS {
        handles::mark_library_loaded(call.subject, context);
    }
    result
}

/// Makes a call that returns the handles of all kernels of an image.
pub(super) fn enumerate<T, I>(
    call: Call,
    out: *mut *mut T,
    count: u32,
    image: *mut I,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = timed(call, real);
    if result == CUresult::CUDA_SUCCESS && !out.is_null() {
        for index in 0..count as usize {
            // SAFETY: the program's array has `count` elements. If the image has fewer kernels, the other elements are
            // null.
            let handle = unsafe { *out.add(index) };
            if !handle.is_null() && handles::name_of(handle.addr() as u64).is_none() {
                handles::add_name(handle.addr() as u64, &kernel_name(handle.cast()), image.addr() as u64);
            }
        }
    }
    result
}

/// Calls `cuModuleGetFunction`, which loads the function. While something runs on the device, the call returns before
/// the function is loaded: the driver says that it is loaded, but the function's launch waits.
pub(super) fn get_function(
    call: Call,
    out: *mut CUfunction,
    module: CUmodule,
    function: *const c_char,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let call = call.about(module);
    if function.is_null() || is_eager() {
        return get_kernel(call, out, module.cast(), function, real);
    }
    // SAFETY: the name ends with a zero.
    let kernel = unsafe { CStr::from_ptr(function) }.to_string_lossy();
    if is_known_to_be_loaded(call.subject, &kernel) {
        return get_kernel(call, out, module.cast(), function, real);
    }
    let (begun, running) = (now(), busy::find_others(None));
    let take = || {
        let result = get_kernel(call, out, module.cast(), function, real);
        with_handle(result, out, |function| {
            handles::add_function(call.subject, &kernel, function);
            unloaded::add_taken(function, running);
        })
    };
    if let Some(section) = section::find_in_current_context() {
        return guard::take_unloaded(call, &kernel, &section, take);
    }
    if let Some(refused) = ready::refusal(|| late::describe(call, &kernel), late::LOAD_BEFORE) {
        let image = handles::image_at(call.subject);
        late::record_refused(call, late::load_event(&kernel, image.as_ref()), refused);
        return refused;
    }
    let result = take();
    if let Some(handle) = stored_handle(result, out)
        && is_loaded(contexts::key(handle, 0), handle)
    {
        handles::mark_loaded(contexts::key(handle, 0));
        late::record_loaded(call.at(handle), &kernel, begun, result);
    }
    result
}

/// Returns whether the function of this name is known to be loaded.
fn is_known_to_be_loaded(module: u64, kernel: &str) -> bool {
    let is_loaded = |function| is_loaded(contexts::key(function, 0), function);
    handles::find_function(module, kernel).is_some_and(is_loaded)
        || (recording::is_ready() || section::any()) && handles::is_loaded_in(module, kernel)
}

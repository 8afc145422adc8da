//! Hooks for NVRTC's functions. Anything that isn't cached is forwarded to NVRTC.
//!
//! NVRTC itself never compiled a program that was served from the cache. Once such a program is used for
//! anything but reading results, [`compile_after_all`] makes up for it.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use kernel_audit_rtld::{EXPORTS, LIBRARIES};

use super::answer::{MISSING, SUCCESS, read_output};
use super::decoder::Decoder;
use super::imports::{self, Observed};
use super::key::{Input, Source, has_lines};
use super::library::{
    self, ADD_NAME, AddName, COMPILE, CREATE, CREATE_EX, Compile, Create, CreateEx, DESTROY, Data, Destroy,
    LOWERED, Lowered, Nvrtc, RESULTS, SET_CALLBACK, SetCallback, Size, Texts,
};
use super::observed::{dependencies, place, relative_to};
use super::programs::{self, Handle, Program, Served, State};
use super::record::{Call, Outcome};
use super::results;
use super::shadow::{self, DependsOn};
use crate::kept::{Cached, Part};
use crate::watch::hooks;
use crate::watch::process::system::NoCancel;
use crate::watch::record::recording::now;

/// Returned for a function that this NVRTC doesn't export.
const INTERNAL_ERROR: c_int = 11;

/// The hooks of each NVRTC in the process: Python packages bring their own copies.
pub(super) static HOOKS: [HooksOfLibrary; LIBRARIES] = [
    HooksOfLibrary(hooks_of::<0>()),
    HooksOfLibrary(hooks_of::<1>()),
    HooksOfLibrary(hooks_of::<2>()),
    HooksOfLibrary(hooks_of::<3>()),
];

/// Hooks in the order of [`EXPORTS`].
pub(super) struct HooksOfLibrary(pub(super) [*const c_void; EXPORTS.len()]);

// SAFETY: the addresses are those of functions, and are never changed.
unsafe impl Sync for HooksOfLibrary {}

const fn hooks_of<const NUMBER: usize>() -> [*const c_void; EXPORTS.len()] {
    [
        create::<NUMBER> as *const c_void,
        create_ex::<NUMBER> as *const c_void,
        destroy::<NUMBER> as *const c_void,
        compile::<NUMBER> as *const c_void,
        add_name::<NUMBER> as *const c_void,
        lowered_name::<NUMBER> as *const c_void,
        set_callback::<NUMBER> as *const c_void,
        size::<NUMBER, 0> as *const c_void,
        data::<NUMBER, 0> as *const c_void,
        size::<NUMBER, 1> as *const c_void,
        data::<NUMBER, 1> as *const c_void,
        size::<NUMBER, 2> as *const c_void,
        data::<NUMBER, 2> as *const c_void,
        size::<NUMBER, 3> as *const c_void,
        data::<NUMBER, 3> as *const c_void,
        size::<NUMBER, 4> as *const c_void,
        data::<NUMBER, 4> as *const c_void,
        size::<NUMBER, 5> as *const c_void,
        data::<NUMBER, 5> as *const c_void,
        size::<NUMBER, 6> as *const c_void,
        data::<NUMBER, 6> as *const c_void,
    ]
}

/// Returns NVRTC's own function.
///
/// # Safety
///
/// `F` is the type of a pointer to the function at this place in [`EXPORTS`].
unsafe fn real<F: Copy>(number: usize, index: usize) -> Option<F> {
    // SAFETY: as the caller promises.
    library::at(number).and_then(|nvrtc| unsafe { nvrtc.function(index) })
}

/// `nvrtcCreateProgram`
unsafe extern "C" fn create<const NUMBER: usize>(
    out: *mut Handle,
    text: *const c_char,
    name: *const c_char,
    count: c_int,
    headers: Texts,
    names: Texts,
) -> c_int {
    // SAFETY: this is its type.
    let real: Option<Create> = unsafe { real(NUMBER, CREATE) };
    // SAFETY: the arguments are the caller's.
    let answer = real.map_or(INTERNAL_ERROR, |real| unsafe { real(out, text, name, count, headers, names) });
    if answer == SUCCESS && !out.is_null() && !text.is_null() {
        // SAFETY: NVRTC has read the same texts, and has stored the handle.
        unsafe { add(*out, [text, name], count, [headers, names], None) };
    }
    answer
}

/// `__nvrtcCPEx`, with which cuDNN creates programs: see [`decoder`](super::decoder).
unsafe extern "C-unwind" fn create_ex<const NUMBER: usize>(
    out: *mut Handle,
    text: *const c_char,
    name: *const c_char,
    count: c_int,
    headers: Texts,
    names: Texts,
    further: usize,
    kinds: usize,
    values: usize,
) -> c_int {
    // SAFETY: this is its type, as far as observed. A function with fewer arguments ignores the others.
    let Some(real) = (unsafe { real::<CreateEx>(NUMBER, CREATE_EX) }) else { return INTERNAL_ERROR };
    // SAFETY: the arguments are the caller's.
    let create = |further, kinds, values| unsafe {
        real(out, text, name, count, headers, names, further, kinds, values)
    };
    // SAFETY: as above.
    let Some(decoder) = (unsafe { Decoder::read(further, kinds, values) }) else {
        let answer = create(further, kinds, values);
        if answer == SUCCESS && !out.is_null() {
            // SAFETY: NVRTC has stored the handle, and has read the name.
            unsafe { programs::add(*out, name_of(name), Err(UNKNOWN), None) };
        }
        return answer;
    };
    let (kinds, values) = decoder.arguments();
    let answer = create(kinds.len(), kinds.as_ptr().expose_provenance(), values.as_ptr().expose_provenance());
    if answer == SUCCESS && !out.is_null() && !text.is_null() {
        // SAFETY: NVRTC has read the same texts, and has stored the handle.
        unsafe { add(*out, [text, name], count, [headers, names], Some(decoder)) };
    }
    answer
}

/// Why a program of `__nvrtcCPEx` isn't cached.
const UNKNOWN: &str = "it was created by `__nvrtcCPEx`, with arguments that aren't known";

/// Adds a program that NVRTC has created.
///
/// # Safety
///
/// NVRTC has accepted these arguments. `headers` and `names` have `count` elements.
unsafe fn add(
    handle: Handle,
    [text, name]: [*const c_char; 2],
    count: c_int,
    [headers, names]: [Texts; 2],
    decoder: Option<Arc<Decoder>>,
) {
    let read = |text: *const c_char| match &decoder {
        Some(decoder) => decoder.take(text).ok_or(UNKNOWN),
        // SAFETY: as the caller promises.
        None => Ok(unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()),
    };
    // SAFETY: as the caller promises.
    let (name, headers, names) = unsafe { (name_of(name), pointers(headers, count), pointers(names, count)) };
    let source = || {
        let (headers, names) = headers.zip(names).ok_or("its headers have no text or no name")?;
        let header = |(text, name): (&*const c_char, &*const c_char)| {
            // SAFETY: as the caller promises.
            Ok::<_, &str>([read(*text)?, unsafe { CStr::from_ptr(*name) }.to_bytes().to_vec()])
        };
        let headers = headers.iter().zip(names).map(header);
        let (headers, text) = (headers.collect::<Result<_, _>>()?, read(text)?);
        Ok(Source { text, name: name.clone(), headers, is_decoded: decoder.is_some() })
    };
    let input = source().map(|source| Input { source: Arc::new(source), names: Vec::new() });
    programs::add(handle, name, input, decoder);
}

/// Returns a program's name, if it was given one.
///
/// # Safety
///
/// The name is null or ends with a zero.
unsafe fn name_of(name: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: as the caller promises.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

/// Returns the pointers of an array, or `None` for an invalid array, which NVRTC has to reject.
///
/// # Safety
///
/// The array is null or has `count` pointers, and lives for `'a`.
unsafe fn pointers<'a>(texts: Texts, count: c_int) -> Option<&'a [*const c_char]> {
    let count = usize::try_from(count).ok()?;
    if count > 0 && texts.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let texts = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(texts, count) } };
    texts.iter().all(|text| !text.is_null()).then_some(texts)
}

/// `nvrtcDestroyProgram`
unsafe extern "C" fn destroy<const NUMBER: usize>(program: *mut Handle) -> c_int {
    // SAFETY: programs pass the address of a handle, or null.
    let handle = unsafe { program.as_ref() }.copied().unwrap_or(ptr::null_mut());
    // SAFETY: this is its type.
    let real: Option<Destroy> = unsafe { real(NUMBER, DESTROY) };
    let _removed = programs::remove(handle);
    // SAFETY: the argument is the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(program) })
}

/// Lets NVRTC compile a program that was served from the cache.
fn compile_after_all(number: usize, handle: Handle) {
    let Some(served) = programs::served(handle) else { return };
    // SAFETY: this is its type.
    if let Some(real) = unsafe { real::<Compile>(number, COMPILE) } {
        let options: Vec<_> = served.options.iter().map(|option| option.as_ptr()).collect();
        if let Some(decoder) = programs::find(handle).and_then(|program| program.decoder) {
            // They're decoded already.
            decoder.give(options.iter().map(|option| (*option, *option)));
        }
        // SAFETY: the handle is the caller's, and the program passed these options before.
        unsafe { real(handle, options.len() as c_int, options.as_ptr()) };
    }
    programs::change(handle, |program| {
        program.earlier = Some(served);
        program.state = State::Compiled;
    });
}

/// `nvrtcAddNameExpression`
unsafe extern "C" fn add_name<const NUMBER: usize>(handle: Handle, name: *const c_char) -> c_int {
    compile_after_all(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<AddName> = unsafe { real(NUMBER, ADD_NAME) };
    // SAFETY: the arguments are the caller's.
    let answer = real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, name) });
    if answer == SUCCESS && !name.is_null() {
        // SAFETY: NVRTC has read the name up to its zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
        programs::change(handle, |program| {
            if let Ok(input) = &mut program.input {
                input.names.push(name);
            }
        });
    }
    answer
}

/// `nvrtcSetFlowCallback`. The callback can cancel the compilation.
unsafe extern "C" fn set_callback<const NUMBER: usize>(
    handle: Handle,
    callback: *const c_void,
    payload: *mut c_void,
) -> c_int {
    const WHY: &str = "a function of the program can end the compilation";
    compile_after_all(NUMBER, handle);
    programs::change(handle, |program| program.uncacheable = (!callback.is_null()).then_some(WHY));
    // SAFETY: this is its type.
    let real: Option<SetCallback> = unsafe { real(NUMBER, SET_CALLBACK) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, callback, payload) })
}

/// `nvrtcCompileProgram`. It unwinds through this frame if the thread is cancelled.
#[inline(never)]
unsafe extern "C-unwind" fn compile<const NUMBER: usize>(
    handle: Handle,
    count: c_int,
    options: Texts,
) -> c_int {
    let hook = compile::<NUMBER> as *const c_void;
    let Some(nvrtc) = library::at(NUMBER) else { return INTERNAL_ERROR };
    // SAFETY: this is its type.
    let Some(real) = (unsafe { nvrtc.function::<Compile>(COMPILE) }) else { return INTERNAL_ERROR };
    compile_after_all(NUMBER, handle);
    // SAFETY: the arguments are the caller's.
    let real = || unsafe { real(handle, count, options) };
    // SAFETY: the program passes `count` options.
    let Some(options) = (unsafe { pointers(options, count) }) else { return real() };
    let program = programs::find(handle);
    // SAFETY: as above, and NVRTC would read them now.
    let options = unsafe { decoded(program.as_ref(), options) };
    let no_cancel = NoCancel::new();
    if !hooks::prepare() {
        return no_cancel.except(real).0;
    }
    let input =
        options.as_ref().map_err(|why| (*why).to_owned()).and_then(|_| cacheable_input(program.as_ref()));
    let options: Vec<_> = options.iter().flatten().map(|option| option.to_bytes()).collect();
    let call = Call { nvrtc, program: program.as_ref(), options: &options, begun: now(), hook };
    let mut why = String::new();
    if results::are_preloaded() {
        match input.clone().and_then(|input| find(nvrtc, input, &options)) {
            Ok(cached) => {
                call.record_now(&Outcome::Served(&cached), SUCCESS);
                serve(handle, cached, &options);
                return SUCCESS;
            }
            Err(reason) => why = reason,
        }
    }
    programs::change(handle, |program| program.state = State::Compiled);
    if !results::are_recorded() {
        let (answer, _no_cancel) = no_cancel.except(real);
        call.record_now(&Outcome::Compiled(&why), answer);
        return answer;
    }
    let (started, observer) = (SystemTime::now(), imports::begin(None));
    let (answer, _no_cancel) = no_cancel.except(real);
    let (ended, observed) = (now(), observer.end());
    let cached = match answer {
        SUCCESS => input.and_then(|input| store(&call, handle, input, observed, started)),
        _ => Err(String::new()),
    };
    let outcome = match &cached {
        Ok(cached) => Outcome::Cached(cached.key, cached.size()),
        Err(why) => Outcome::Compiled(why),
    };
    call.record(&outcome, answer, ended);
    answer
}

/// Returns the options of a program's compilation, or why they aren't known. The thread can end in a function of the program.
///
/// # Safety
///
/// NVRTC would read these options now.
unsafe fn decoded(
    program: Option<&Program>,
    options: &[*const c_char],
) -> Result<Vec<CString>, &'static str> {
    // SAFETY: as the caller promises.
    unsafe {
        match program.and_then(|program| program.decoder.as_ref()) {
            Some(decoder) => decoder.options(options).ok_or("its options can't be decoded"),
            None => Ok(options.iter().map(|option| CStr::from_ptr(*option).to_owned()).collect()),
        }
    }
}

/// Returns a program's input if the result of its next compilation can be cached, or why it can't.
fn cacheable_input(program: Option<&Program>) -> Result<&Input, String> {
    let program = program.ok_or("it was created by a function that isn't hooked")?;
    let input = program.input.as_ref().map_err(|why| (*why).to_owned())?;
    match (program.uncacheable, &program.state) {
        (Some(why), _) => Err(why.to_owned()),
        (None, State::New) => Ok(input),
        (None, _) => Err("it was compiled before, and NVRTC keeps some of that".to_owned()),
    }
}

fn find(nvrtc: &Nvrtc, input: &Input, options: &[&[u8]]) -> Result<Cached, String> {
    results::find(&input.keys(options, nvrtc.identity()?)?, input.folder())
}

/// Serves a program from the cache.
fn serve(handle: Handle, cached: Cached, options: &[&[u8]]) {
    let c =
        |texts: &mut dyn Iterator<Item = &[u8]>| texts.filter_map(|text| CString::new(text).ok()).collect();
    let lowered = c(&mut cached.names.iter().map(|(_, lowered)| &**lowered));
    let served = Arc::new(Served { lowered, options: c(&mut options.iter().copied()), cached });
    programs::change(handle, |program| program.state = State::Served(served));
}

/// Stores the result that NVRTC has just compiled for the recording, or returns why it can't be cached.
fn store(
    call: &Call<'_>,
    handle: Handle,
    input: &Input,
    observed: Observed,
    started: SystemTime,
) -> Result<Cached, String> {
    let keys = input.keys(call.options, call.nvrtc.identity()?)?;
    if let Some(cached) = results::find_recorded(&keys, input.folder()) {
        return Ok(cached);
    }
    let output = read_output(call.nvrtc, handle, &input.names).ok_or("its result can't be read")?;
    // The log is the last part. An empty one is a zero.
    if input.source.is_decoded && output.parts.last().is_some_and(|log| log.bytes.len() > 1) {
        return Err("NVRTC's log of it may quote its text, which is encoded".to_owned());
    }
    let before = observed.time.unwrap_or_default();
    let has_lines = call.options.iter().any(|option| has_lines(option));
    let mut dependencies = dependencies(observed, started, has_lines)?;
    let key = match shadow::depends(call.nvrtc, input, call.options, &output, before) {
        DependsOn::Nothing(paths) => {
            let directory = env::current_dir().map_err(|error| error.to_string())?;
            let folder = keys.anywhere.is_some().then(|| input.folder());
            dependencies = relative_to(&shadow::moved(&directory, folder), dependencies, &paths);
            keys.anywhere.unwrap_or(keys.exact)
        }
        DependsOn::Place => {
            dependencies.extend(place()?);
            keys.exact
        }
        DependsOn::Time => return Err("another compilation of it gave another result".to_owned()),
    };
    let cached = Cached { key, name: call.name(), parts: output.parts, names: output.names, dependencies };
    results::store(&cached);
    Ok(cached)
}

/// `nvrtcGetLoweredName`
unsafe extern "C" fn lowered_name<const NUMBER: usize>(
    handle: Handle,
    name: *const c_char,
    lowered: *mut *const c_char,
) -> c_int {
    if let Some(served) = programs::served(handle).filter(|_| !name.is_null() && !lowered.is_null()) {
        // SAFETY: the name ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let found = served.cached.names.iter().position(|(its, _)| its == name);
        if let Some(found) = found.and_then(|index| served.lowered.get(index)) {
            // SAFETY: there's room for a pointer. The text lives until the program is destroyed.
            unsafe { *lowered = found.as_ptr() };
            return SUCCESS;
        }
    }
    compile_after_all(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<Lowered> = unsafe { real(NUMBER, LOWERED) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, name, lowered) })
}

/// Calls `act` with an output of a program that was served from the cache, if NVRTC has its function.
fn with_part<T>(handle: Handle, part: usize, act: impl FnOnce(&Part) -> T) -> Option<T> {
    let served = programs::served(handle)?;
    served.cached.parts.get(part).filter(|part| part.answer != MISSING).map(act)
}

/// The function that returns the size of an output, such as `nvrtcGetPTXSize`.
unsafe extern "C" fn size<const NUMBER: usize, const PART: usize>(handle: Handle, out: *mut usize) -> c_int {
    let give = |part: &Part| {
        // SAFETY: the program has room for a number there.
        unsafe { *out = part.bytes.len() };
        part.answer as c_int
    };
    if let Some(answer) = (!out.is_null()).then(|| with_part(handle, PART, give)).flatten() {
        return answer;
    }
    compile_after_all(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<Size> = unsafe { real(NUMBER, RESULTS + 2 * PART) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, out) })
}

/// The function that returns the bytes of an output, such as `nvrtcGetPTX`.
unsafe extern "C" fn data<const NUMBER: usize, const PART: usize>(handle: Handle, out: *mut c_char) -> c_int {
    let give = |part: &Part| {
        // SAFETY: the program has room for as many bytes as the function for the size has returned.
        unsafe { ptr::copy_nonoverlapping(part.bytes.as_ptr().cast(), out, part.bytes.len()) };
        part.answer as c_int
    };
    if let Some(answer) = (!out.is_null()).then(|| with_part(handle, PART, give)).flatten() {
        return answer;
    }
    compile_after_all(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<Data> = unsafe { real(NUMBER, RESULTS + 2 * PART + 1) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, out) })
}

//! The hooks of NVRTC's functions, for each NVRTC of the process. Anything that isn't kept is forwarded to NVRTC.
//!
//! A program that was given a kept result has no result in NVRTC itself. It gets its first compilation after all as soon as
//! it's used for anything but reading results.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use kernel_audit_rtld::{EXPORTS, LIBRARIES};

use super::answer::{MISSING, SUCCESS, answer_of};
use super::imports::{self, Asked};
use super::key::{Parts, Source, has_lines};
use super::library::{
    self, ADD_NAME, AddName, COMPILE, CREATE, CREATE_EX, Compile, Create, CreateEx, DESTROY, Data, Destroy,
    LOWERED, Lowered, Nvrtc, RESULTS, SET_CALLBACK, SetCallback, Size, Texts,
};
use super::observed::{dependencies, place, relative_to};
use super::programs::{self, Given, Handle, Program, State};
use super::record::{Call, Outcome};
use super::results;
use super::shadow::{self, Depends};
use crate::kept::{Kept, Part};
use crate::watch::hooks;
use crate::watch::process::system::NoCancel;
use crate::watch::record::recording::now;

/// NVRTC's answer for a function that it doesn't have.
const INTERNAL_ERROR: c_int = 11;

/// The hooks of each NVRTC in the process.
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
    if answer != SUCCESS || out.is_null() || text.is_null() {
        return answer;
    }
    // SAFETY: NVRTC has read the same texts, each of which ends with a zero, and has stored the handle.
    unsafe {
        let (Some(headers), Some(names)) = (bytes_of(headers, count), bytes_of(names, count)) else {
            programs::add(*out, Err("its headers have no text or no name"));
            return answer;
        };
        let headers = headers.into_iter().zip(names);
        let source = Source {
            text: CStr::from_ptr(text).to_bytes().to_vec(),
            name: (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes().to_vec()),
            headers: headers.map(|(text, name)| [text.to_vec(), name.to_vec()]).collect(),
        };
        programs::add(*out, Ok(Parts { source: Arc::new(source), names: Vec::new() }));
    }
    answer
}

/// `__nvrtcCPEx`, with which cuDNN creates programs. It takes three more arguments, whose meaning isn't public.
unsafe extern "C" fn create_ex<const NUMBER: usize>(
    out: *mut Handle,
    text: *const c_char,
    name: *const c_char,
    count: c_int,
    headers: Texts,
    names: Texts,
    one: usize,
    two: usize,
    three: usize,
) -> c_int {
    // SAFETY: this is its type, as far as observed: a function with fewer arguments doesn't read the others.
    let real: Option<CreateEx> = unsafe { real(NUMBER, CREATE_EX) };
    // SAFETY: the arguments are the caller's.
    let call = |real: CreateEx| unsafe { real(out, text, name, count, headers, names, one, two, three) };
    let answer = real.map_or(INTERNAL_ERROR, call);
    if answer == SUCCESS && !out.is_null() {
        // SAFETY: NVRTC has stored the handle.
        programs::add(unsafe { *out }, Err("it was created by `__nvrtcCPEx`, whose arguments aren't public"));
    }
    answer
}

/// Returns the texts of an array, or `None` if it isn't one: what becomes of that is NVRTC's to say.
///
/// # Safety
///
/// The array has so many pointers, or is null. Each is that of a text that ends with a zero, and which is not changed meanwhile.
unsafe fn bytes_of<'a>(texts: Texts, count: c_int) -> Option<Vec<&'a [u8]>> {
    let count = usize::try_from(count).ok()?;
    if count > 0 && texts.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let texts = if count == 0 { &[] } else { slice::from_raw_parts(texts, count) };
        texts.iter().map(|text| (!text.is_null()).then(|| CStr::from_ptr(*text).to_bytes())).collect()
    }
}

/// `nvrtcDestroyProgram`
unsafe extern "C" fn destroy<const NUMBER: usize>(program: *mut Handle) -> c_int {
    // SAFETY: programs pass the address of a handle, or null.
    let handle = unsafe { program.as_ref() }.copied().unwrap_or(ptr::null_mut());
    // SAFETY: this is its type.
    let real: Option<Destroy> = unsafe { real(NUMBER, DESTROY) };
    let _given = programs::remove(handle);
    // SAFETY: the argument is the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(program) })
}

/// Compiles a program that was given a kept result, so that NVRTC has it, too.
fn make_up_for(number: usize, handle: Handle) {
    let Some(given) = programs::given(handle) else { return };
    // SAFETY: this is its type.
    if let Some(real) = unsafe { real::<Compile>(number, COMPILE) } {
        let options: Vec<_> = given.options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the handle is the caller's, and the options are those that the program passed before.
        unsafe { real(handle, options.len() as c_int, options.as_ptr()) };
    }
    programs::change(handle, |program| {
        program.earlier = Some(given);
        program.state = State::Compiled;
    });
}

/// `nvrtcAddNameExpression`
unsafe extern "C" fn add_name<const NUMBER: usize>(handle: Handle, name: *const c_char) -> c_int {
    make_up_for(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<AddName> = unsafe { real(NUMBER, ADD_NAME) };
    // SAFETY: the arguments are the caller's.
    let answer = real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, name) });
    if answer == SUCCESS && !name.is_null() {
        // SAFETY: NVRTC has read it, up to a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
        programs::change(handle, |program| {
            if let Ok(parts) = &mut program.parts {
                parts.names.push(name);
            }
        });
    }
    answer
}

/// `nvrtcSetFlowCallback`, after which the program itself can end its compilation.
unsafe extern "C" fn set_callback<const NUMBER: usize>(
    handle: Handle,
    callback: *const c_void,
    payload: *mut c_void,
) -> c_int {
    const WHY: &str = "a function of the program can end the compilation";
    make_up_for(NUMBER, handle);
    programs::change(handle, |program| program.why_not = (!callback.is_null()).then_some(WHY));
    // SAFETY: this is its type.
    let real: Option<SetCallback> = unsafe { real(NUMBER, SET_CALLBACK) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, callback, payload) })
}

/// `nvrtcCompileProgram`. Cancelling the thread in it unwinds through this frame.
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
    make_up_for(NUMBER, handle);
    // SAFETY: the arguments are the caller's.
    let real = || unsafe { real(handle, count, options) };
    // SAFETY: the program passes so many options.
    let Some(options) = (unsafe { bytes_of(options, count) }) else { return real() };
    let kept = NoCancel::new();
    if !hooks::prepare() {
        return kept.except(real).0;
    }
    let program = programs::find(handle);
    let call = Call { nvrtc, program: program.as_ref(), options: &options, begun: now(), hook };
    let parts = parts_of(program.as_ref());
    let mut why = String::new();
    if results::are_preloaded() {
        match parts.clone().and_then(|parts| find(nvrtc, parts, &options)) {
            Ok(kept) => {
                call.record_now(&Outcome::Given(&kept), SUCCESS);
                give(handle, kept, &options);
                return SUCCESS;
            }
            Err(reason) => why = reason,
        }
    }
    programs::change(handle, |program| program.state = State::Compiled);
    if !results::are_recorded() {
        let (answer, _kept) = kept.except(real);
        call.record_now(&Outcome::Compiled(&why), answer);
        return answer;
    }
    let (started, watching) = (SystemTime::now(), imports::begin(None));
    let (answer, _kept) = kept.except(real);
    let (ended, asked) = (now(), watching.end());
    let kept = match answer {
        SUCCESS => parts.and_then(|parts| keep(&call, handle, parts, asked, started)),
        _ => Err(String::new()),
    };
    let outcome = match &kept {
        Ok(kept) => Outcome::Kept(kept.key, kept.size()),
        Err(why) => Outcome::Compiled(why),
    };
    call.record(&outcome, answer, ended);
    answer
}

/// Returns what a program is made of, if its next result can be kept.
fn parts_of(program: Option<&Program>) -> Result<&Parts, String> {
    let program = program.ok_or("it was created by a function that isn't known here")?;
    let parts = program.parts.as_ref().map_err(|why| (*why).to_owned())?;
    match (program.why_not, &program.state) {
        (Some(why), _) => Err(why.to_owned()),
        (None, State::New) => Ok(parts),
        (None, _) => Err("it was compiled before, and NVRTC keeps some of that".to_owned()),
    }
}

fn find(nvrtc: &Nvrtc, parts: &Parts, options: &[&[u8]]) -> Result<Kept, String> {
    results::find(&parts.keys(options, nvrtc.identity()?)?, parts.folder())
}

/// Gives a program a kept result.
fn give(handle: Handle, kept: Kept, options: &[&[u8]]) {
    let c =
        |texts: &mut dyn Iterator<Item = &[u8]>| texts.filter_map(|text| CString::new(text).ok()).collect();
    let lowered = c(&mut kept.names.iter().map(|(_, lowered)| &**lowered));
    let given = Arc::new(Given { lowered, options: c(&mut options.iter().copied()), kept });
    programs::change(handle, |program| program.state = State::Given(given));
}

/// Keeps the result of a program that NVRTC has just compiled, for the recording.
fn keep(
    call: &Call<'_>,
    handle: Handle,
    parts: &Parts,
    asked: Asked,
    started: SystemTime,
) -> Result<Kept, String> {
    let keys = parts.keys(call.options, call.nvrtc.identity()?)?;
    if let Some(kept) = results::find_recorded(&keys, parts.folder()) {
        return Ok(kept);
    }
    let answer = answer_of(call.nvrtc, handle, &parts.names).ok_or("its result can't be read")?;
    // A compilation that isn't told the time is told none either.
    let before = asked.time.unwrap_or_default();
    let has_lines = call.options.iter().any(|option| has_lines(option));
    let mut dependencies = dependencies(asked, started, has_lines)?;
    let key = match shadow::depends(call.nvrtc, parts, call.options, &answer, before) {
        Depends::Nothing(asked) => {
            let directory = env::current_dir().map_err(|error| error.to_string())?;
            let folder = keys.anywhere.is_some().then(|| parts.folder());
            dependencies = relative_to(&shadow::moved(&directory, folder), dependencies, &asked);
            keys.anywhere.unwrap_or(keys.exact)
        }
        Depends::Place => {
            dependencies.extend(place()?);
            keys.exact
        }
        Depends::Time => return Err("another compilation of it gave another result".to_owned()),
    };
    let kept = Kept { key, name: call.name(), parts: answer.parts, names: answer.names, dependencies };
    results::keep(&kept);
    Ok(kept)
}

/// `nvrtcGetLoweredName`
unsafe extern "C" fn lowered_name<const NUMBER: usize>(
    handle: Handle,
    name: *const c_char,
    lowered: *mut *const c_char,
) -> c_int {
    if let Some(given) = programs::given(handle).filter(|_| !name.is_null() && !lowered.is_null()) {
        // SAFETY: the name ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let found = given.kept.names.iter().position(|(its, _)| its == name);
        if let Some(found) = found.and_then(|index| given.lowered.get(index)) {
            // SAFETY: the program has room for a pointer there. The text stays until the program is destroyed.
            unsafe { *lowered = found.as_ptr() };
            return SUCCESS;
        }
    }
    make_up_for(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<Lowered> = unsafe { real(NUMBER, LOWERED) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, name, lowered) })
}

/// Returns a part of the result that a program was given, if NVRTC has the function of that part.
fn with_part<T>(handle: Handle, part: usize, act: impl FnOnce(&Part) -> T) -> Option<T> {
    let given = programs::given(handle)?;
    given.kept.parts.get(part).filter(|part| part.answer != MISSING).map(act)
}

/// The function that returns the size of a result, such as `nvrtcGetPTXSize`.
unsafe extern "C" fn size<const NUMBER: usize, const PART: usize>(handle: Handle, out: *mut usize) -> c_int {
    let give = |part: &Part| {
        // SAFETY: the program has room for a number there.
        unsafe { *out = part.bytes.len() };
        part.answer as c_int
    };
    if let Some(answer) = (!out.is_null()).then(|| with_part(handle, PART, give)).flatten() {
        return answer;
    }
    make_up_for(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<Size> = unsafe { real(NUMBER, RESULTS + 2 * PART) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, out) })
}

/// The function that returns the bytes of a result, such as `nvrtcGetPTX`.
unsafe extern "C" fn data<const NUMBER: usize, const PART: usize>(handle: Handle, out: *mut c_char) -> c_int {
    let give = |part: &Part| {
        // SAFETY: the program has room for as many bytes as the function before has said.
        unsafe { ptr::copy_nonoverlapping(part.bytes.as_ptr().cast(), out, part.bytes.len()) };
        part.answer as c_int
    };
    if let Some(answer) = (!out.is_null()).then(|| with_part(handle, PART, give)).flatten() {
        return answer;
    }
    make_up_for(NUMBER, handle);
    // SAFETY: this is its type.
    let real: Option<Data> = unsafe { real(NUMBER, RESULTS + 2 * PART + 1) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(handle, out) })
}

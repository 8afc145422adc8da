//! The functions that stand for NVRTC's, for each library of their own. What they do not know, NVRTC answers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;

use super::key::Parts;
use super::library::{
    self, ADD_NAME, AddName, COMPILE, CREATE, Compile, Create, DESTROY, Data, Destroy, FUNCTIONS, LIBRARIES,
    LOWERED, Lowered, Nvrtc, PARTS, RESULTS, SET_CALLBACK, SetCallback, Size, Texts,
};
use super::programs::{self, Given, Handle, Program};
use super::record::{Compilation, record};
use super::results::{self, Found};
use crate::kept::{Kept, Part};
use crate::watch::hooks;
use crate::watch::record::recording::now;

/// The number of hooks that the loader has linked: the caller tells whose they are.
pub(super) const LINKED: usize = LIBRARIES;

/// Answers of NVRTC.
const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const TOO_LATE_TO_ADD_NAMES: c_int = 8;
const NO_SUCH_NAME: c_int = 10;
const INTERNAL_ERROR: c_int = 11;

/// What stands for a function that an NVRTC does not have.
const MISSING: u32 = u32::MAX;

/// The functions that stand for those of each NVRTC in the process.
pub(super) static HOOKS: [HooksOfLibrary; LIBRARIES] = [
    HooksOfLibrary(hooks_of::<0>()),
    HooksOfLibrary(hooks_of::<1>()),
    HooksOfLibrary(hooks_of::<2>()),
    HooksOfLibrary(hooks_of::<3>()),
];

pub(super) struct HooksOfLibrary(pub(super) [*const c_void; FUNCTIONS]);

// SAFETY: the addresses are those of functions, and are never changed.
unsafe impl Sync for HooksOfLibrary {}

/// The addresses of the functions for the library of this number.
pub(super) const fn hooks_of<const NUMBER: usize>() -> [*const c_void; FUNCTIONS] {
    [
        create::<NUMBER> as *const c_void,
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

/// The NVRTC that made a program, or that the caller means, and its number.
fn behind<const NUMBER: usize>(program: Handle) -> Option<(&'static Nvrtc, usize)> {
    let number = match programs::library_of(program) {
        Some(library) => library,
        None if NUMBER < LINKED => NUMBER,
        None => library::number_for_caller()?,
    };
    Some((library::at(number)?, number))
}

/// A function of NVRTC itself.
///
/// # Safety
///
/// `F` is the type of a pointer to the function at this place in the list.
unsafe fn real<const NUMBER: usize, F: Copy>(program: Handle, index: usize) -> Option<F> {
    // SAFETY: as the caller promises.
    behind::<NUMBER>(program).and_then(|(library, _)| unsafe { library.function(index) })
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
    let Some((nvrtc, number)) = behind::<NUMBER>(ptr::null_mut()) else { return INTERNAL_ERROR };
    // SAFETY: this is its type.
    let real: Option<Create> = unsafe { nvrtc.function(CREATE) };
    // SAFETY: the arguments are the caller's.
    let answer = real.map_or(INTERNAL_ERROR, |real| unsafe { real(out, text, name, count, headers, names) });
    if answer != SUCCESS || out.is_null() || text.is_null() {
        return answer;
    }
    // SAFETY: NVRTC has read the same texts, each of which ends with a zero.
    let parts = unsafe {
        let headers = bytes_of(headers, count).into_iter().zip(bytes_of(names, count)).collect::<Vec<_>>();
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes());
        Parts::new(CStr::from_ptr(text).to_bytes(), name, &headers)
    };
    // SAFETY: NVRTC has stored the handle there.
    programs::add(
        unsafe { *out },
        Program { library: number, parts, has_callback: false, given: None, earlier: Vec::new() },
    );
    answer
}

/// The texts of an array.
///
/// # Safety
///
/// The array has so many pointers, or is null. Each is that of a text that ends with a zero, and which is not changed meanwhile.
unsafe fn bytes_of<'a>(texts: Texts, count: c_int) -> Vec<&'a [u8]> {
    let count = if texts.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    // SAFETY: as the caller promises.
    unsafe {
        let texts = if count == 0 { &[] } else { slice::from_raw_parts(texts, count) };
        texts.iter().filter(|text| !text.is_null()).map(|text| CStr::from_ptr(*text).to_bytes()).collect()
    }
}

/// `nvrtcDestroyProgram`
unsafe extern "C" fn destroy<const NUMBER: usize>(program: *mut Handle) -> c_int {
    // SAFETY: programs pass the address of a handle, or null.
    let handle = unsafe { program.as_ref() }.copied().unwrap_or(ptr::null_mut());
    // SAFETY: this is its type.
    let real: Option<Destroy> = unsafe { real::<NUMBER, _>(handle, DESTROY) };
    let _given = programs::remove(handle);
    // SAFETY: the argument is the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(program) })
}

/// `nvrtcAddNameExpression`
unsafe extern "C" fn add_name<const NUMBER: usize>(program: Handle, name: *const c_char) -> c_int {
    // NVRTC itself has compiled nothing, and would take it.
    if programs::given(program).is_some() {
        return TOO_LATE_TO_ADD_NAMES;
    }
    // SAFETY: this is its type.
    let real: Option<AddName> = unsafe { real::<NUMBER, _>(program, ADD_NAME) };
    // SAFETY: the arguments are the caller's.
    let answer = real.map_or(INTERNAL_ERROR, |real| unsafe { real(program, name) });
    if answer == SUCCESS && !name.is_null() {
        // SAFETY: NVRTC has read it, up to a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
        programs::change(program, |program| program.parts.names.push(name));
    }
    answer
}

/// `nvrtcSetFlowCallback`, after which the program itself can end its compilation.
unsafe extern "C" fn set_callback<const NUMBER: usize>(
    program: Handle,
    callback: *const c_void,
    payload: *mut c_void,
) -> c_int {
    programs::change(program, |program| program.has_callback = !callback.is_null());
    // SAFETY: this is its type.
    let real: Option<SetCallback> = unsafe { real::<NUMBER, _>(program, SET_CALLBACK) };
    // SAFETY: the arguments are the caller's.
    real.map_or(INTERNAL_ERROR, |real| unsafe { real(program, callback, payload) })
}

/// `nvrtcCompileProgram`. A thread that is cancelled meanwhile unwinds through it.
#[inline(never)]
unsafe extern "C-unwind" fn compile<const NUMBER: usize>(
    program: Handle,
    count: c_int,
    options: Texts,
) -> c_int {
    let hook = compile::<NUMBER> as *const c_void;
    let Some((nvrtc, _)) = behind::<NUMBER>(program) else { return INTERNAL_ERROR };
    // SAFETY: this is its type.
    let Some(real) = (unsafe { nvrtc.function::<Compile>(COMPILE) }) else { return INTERNAL_ERROR };
    // SAFETY: the arguments are the caller's.
    let real = || unsafe { real(program, count, options) };
    let known = programs::find(program).filter(|_| hooks::prepare());
    let Some(Program { parts, has_callback, given: before, .. }) = known else { return real() };
    let real = || {
        programs::change(program, |program| program.earlier.extend(program.given.take()));
        let answer = real();
        if answer == INVALID_INPUT {
            // It has changed nothing.
            programs::change(program, |program| program.given = before);
        }
        answer
    };
    let begun = now();
    // SAFETY: the program passes so many options.
    let options = unsafe { bytes_of(options, count) };
    let compilation = Compilation { nvrtc, parts: &parts, options: &options, begun, hook };
    let keys = match has_callback {
        true => Err("a function of the program can end the compilation".to_owned()),
        false => nvrtc.identity().and_then(|compiler| parts.keys(&options, compiler)),
    };
    let keys = match keys {
        Ok(keys) => keys,
        Err(why) => {
            let answer = real();
            record(&compilation, Err(&why), answer, 0);
            return answer;
        }
    };
    let mut compiling = match results::find(keys, parts.folder()) {
        Found::Kept(kept) => {
            let lowered =
                kept.names.iter().filter_map(|(_, lowered)| CString::new(lowered.clone()).ok()).collect();
            record(&compilation, Ok(&kept), SUCCESS, kept.size());
            programs::change(program, |program| {
                let given = Arc::new(Given { kept, lowered });
                program.earlier.extend(program.given.replace(given));
            });
            return SUCCESS;
        }
        Found::Missing(compiling) => compiling,
    };
    let looking = nvrtc.look();
    let answer = real();
    let looked = looking.and_then(|looking| looking.end(parts.folder()));
    let (mut size, mut words) = (0, looked.as_ref().err().cloned().unwrap_or_default());
    if answer == SUCCESS
        && let Some((results, names)) = result(nvrtc, program, &parts.names)
        && let Ok(looked) = looked
    {
        let key = keys.anywhere.filter(|_| !depends_on_folder(parts.folder(), &results, &names));
        let key = key.unwrap_or(keys.exact);
        let kept = Kept { key, name: compilation.name(), parts: results, names, looked };
        (size, words) = (kept.size(), format!("key {key}"));
        compiling.keep(kept);
    }
    drop(compiling);
    record(&compilation, Err(&words), answer, size);
    answer
}

/// What NVRTC has made of a program: its results, and how it has lowered the names.
type Names = Vec<(Vec<u8>, Vec<u8>)>;

fn result(nvrtc: &Nvrtc, program: Handle, names: &[Vec<u8>]) -> Option<(Vec<Part>, Names)> {
    let mut parts = Vec::with_capacity(PARTS);
    for index in 0..PARTS {
        // SAFETY: these are their types.
        let functions = unsafe {
            nvrtc.function::<Size>(RESULTS + 2 * index).zip(nvrtc.function::<Data>(RESULTS + 2 * index + 1))
        };
        let Some((get_size, get)) = functions else {
            parts.push(Part { answer: MISSING, bytes: Vec::new() });
            continue;
        };
        let mut size = 0;
        // SAFETY: it stores a number.
        let mut answer = unsafe { get_size(program, &mut size) };
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        if answer == SUCCESS && size > 0 {
            // SAFETY: there is room for so many bytes.
            answer = unsafe { get(program, bytes.as_mut_ptr().cast()) };
        }
        parts.push(Part { answer: answer as u32, bytes });
    }
    // SAFETY: this is its type.
    let lowered = unsafe { nvrtc.function::<Lowered>(LOWERED) }?;
    let mut pairs = Vec::with_capacity(names.len());
    for name in names {
        let (text, mut found) = (CString::new(name.clone()).ok()?, ptr::null());
        // SAFETY: the name ends with a zero, as the text does that is stored, which is valid until the program is destroyed.
        let found = unsafe {
            let answer = lowered(program, text.as_ptr(), &mut found);
            (answer == SUCCESS && !found.is_null()).then(|| CStr::from_ptr(found).to_bytes().to_vec())
        };
        pairs.push((name.clone(), found?));
    }
    Some((parts, pairs))
}

/// Whether a result may depend on the folder of the program's name: the result has the folder in it, or a number that is made of the whole name, or it
/// is of a form that hides texts.
fn depends_on_folder(folder: &[u8], parts: &[Part], names: &Names) -> bool {
    const PLAIN: [&str; 3] = ["nvrtcGetPTXSize", "nvrtcGetCUBINSize", "nvrtcGetProgramLogSize"];
    // Such a name goes on with a number of eight digits, which is zero if it is made of nothing.
    const NUMBERED: [&[u8]; 2] = [b"_INTERNAL_", b"_GLOBAL__N__"];
    let has_number = |text: &[u8], before: &[u8]| {
        let mut places = text.windows(before.len() + 8).filter(|place| place.starts_with(before));
        places.any(|place| !place.ends_with(b"00000000"))
    };
    let has = |text: &[u8]| {
        text.windows(folder.len().max(1)).any(|place| place == folder)
            || NUMBERED.iter().any(|before| has_number(text, before))
    };
    let in_part = |(index, part): (usize, &Part)| {
        let is_plain = PLAIN.contains(&library::names()[RESULTS + 2 * index]);
        // One byte is the zero of an empty text.
        part.bytes.len() > 1 && (!is_plain || has(&part.bytes))
    };
    parts.iter().enumerate().any(in_part) || names.iter().any(|(_, lowered)| has(lowered))
}

/// `nvrtcGetLoweredName`
unsafe extern "C" fn lowered_name<const NUMBER: usize>(
    program: Handle,
    name: *const c_char,
    lowered: *mut *const c_char,
) -> c_int {
    let Some(given) = programs::given(program).filter(|_| !name.is_null() && !lowered.is_null()) else {
        // SAFETY: this is its type.
        let real: Option<Lowered> = unsafe { real::<NUMBER, _>(program, LOWERED) };
        // SAFETY: the arguments are the caller's.
        return real.map_or(INTERNAL_ERROR, |real| unsafe { real(program, name, lowered) });
    };
    // SAFETY: the name ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let found = given.kept.names.iter().position(|(its, _)| its == name);
    let found = found.and_then(|index| given.lowered.get(index));
    // SAFETY: the program has room for a pointer there. The text stays until the program is destroyed.
    unsafe { *lowered = found.map_or(ptr::null(), |found| found.as_ptr()) };
    if found.is_some() { SUCCESS } else { NO_SUCH_NAME }
}

/// The function that returns the size of a result, such as `nvrtcGetPTXSize`.
unsafe extern "C" fn size<const NUMBER: usize, const PART: usize>(program: Handle, out: *mut usize) -> c_int {
    let part = programs::given(program).filter(|_| !out.is_null());
    let Some(part) =
        part.as_ref().and_then(|given| given.kept.parts.get(PART)).filter(|part| part.answer != MISSING)
    else {
        // SAFETY: this is its type.
        let real: Option<Size> = unsafe { real::<NUMBER, _>(program, RESULTS + 2 * PART) };
        // SAFETY: the arguments are the caller's.
        return real.map_or(INTERNAL_ERROR, |real| unsafe { real(program, out) });
    };
    // SAFETY: the program has room for a number there.
    unsafe { *out = part.bytes.len() };
    part.answer as c_int
}

/// The function that returns the bytes of a result, such as `nvrtcGetPTX`.
unsafe extern "C" fn data<const NUMBER: usize, const PART: usize>(
    program: Handle,
    out: *mut c_char,
) -> c_int {
    let part = programs::given(program).filter(|_| !out.is_null());
    let Some(part) =
        part.as_ref().and_then(|given| given.kept.parts.get(PART)).filter(|part| part.answer != MISSING)
    else {
        // SAFETY: this is its type.
        let real: Option<Data> = unsafe { real::<NUMBER, _>(program, RESULTS + 2 * PART + 1) };
        // SAFETY: the arguments are the caller's.
        return real.map_or(INTERNAL_ERROR, |real| unsafe { real(program, out) });
    };
    // SAFETY: the program has room for as many bytes as the function before has said.
    unsafe { ptr::copy_nonoverlapping(part.bytes.as_ptr().cast(), out, part.bytes.len()) };
    part.answer as c_int
}

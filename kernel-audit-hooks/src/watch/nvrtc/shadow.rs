//! Shadow compilations: whether a result depends on the time, the process or the place is found out by compiling the program
//! once more with others, and comparing. NVRTC asks for them in every compilation, so the questions alone
//! tell nothing, and a search of the text for `__TIME__` or `__FILE__` wouldn't find names that are pasted, or numbers that
//! are computed.
//!
//! Only a recorded run does this.

use std::collections::HashSet;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::answer::{Answer, answer_of};
use super::imports::{self, Asked, Shadow};
use super::key::{Parts, Source};
use super::library::{ADD_NAME, AddName, COMPILE, CREATE, Compile, Create, DESTROY, Destroy, Nvrtc};
use super::observed::Moved;
use super::programs::Handle;

/// What a result depends on, besides what NVRTC was asked to compile.
pub(super) enum Depends {
    /// Nothing else. The paths are those for which NVRTC asked in the other place.
    Nothing(HashSet<Vec<u8>>),
    /// The working directory, and the folder of the program's name.
    Place,
    /// The time, the process, or chance.
    Time,
}

/// The folder of a shadow's name. It's longer than most.
const ELSEWHERE: &[u8] = b"/kernel-registry/another/folder/with/a/longer/path/than/most/programs/have";

/// The first version of NVRTC that has a cache of its own, which may answer without compiling, and the option that it has for
/// that.
const WITH_CACHE: (c_int, c_int) = (12, 9);
const NO_CACHE: &[u8] = b"--no-cache";

/// Finds out what a result depends on.
pub(super) fn depends(
    nvrtc: &Nvrtc,
    parts: &Parts,
    options: &[&[u8]],
    answer: &Answer,
    before: i64,
) -> Depends {
    let same = |is_elsewhere| {
        let (other, asked) = compile(nvrtc, parts, options, Shadow { before, is_elsewhere })?;
        (other == *answer).then(|| asked.paths.into_keys().collect::<HashSet<_>>())
    };
    match same(true) {
        Some(paths) => Depends::Nothing(paths),
        None if same(false).is_some() => Depends::Place,
        None => Depends::Time,
    }
}

/// Returns the folders that are others in a shadow: the working directory, by which NVRTC 13.5 makes its paths absolute, and that
/// of the program's name, if the result is to hold in any.
pub(super) fn moved<'a>(directory: &'a Path, folder: Option<&'a [u8]>) -> Vec<Moved<'a>> {
    let directory = directory.as_os_str().as_bytes();
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    let directory = Moved { from: directory, to: imports::ELSEWHERE.to_bytes(), is_of_name: false };
    let folder = folder.map(|from| Moved { from, to: ELSEWHERE, is_of_name: true });
    [directory].into_iter().chain(folder).collect()
}

/// Compiles a program once more. Returns its result, and what it asked for.
fn compile(nvrtc: &Nvrtc, parts: &Parts, options: &[&[u8]], shadow: Shadow) -> Option<(Answer, Asked)> {
    let Source { text, name, headers } = &*parts.source;
    let name = name.as_deref().map(|name| match parts.folder() {
        folder if !folder.is_empty() && shadow.is_elsewhere => [ELSEWHERE, &name[folder.len()..]].concat(),
        _ => name.to_vec(),
    });
    let text = CString::new(text.clone()).ok()?;
    let name = name.map(CString::new).transpose().ok()?;
    let c = |texts: Vec<&[u8]>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().ok();
    let contents = c(headers.iter().map(|[text, _]| &**text).collect())?;
    let includes = c(headers.iter().map(|[_, name]| &**name).collect())?;
    let names = c(parts.names.iter().map(|name| &**name).collect())?;
    let has_cache = nvrtc.version().is_some_and(|version| version >= WITH_CACHE);
    let options = c(options.iter().copied().chain(has_cache.then_some(NO_CACHE)).collect())?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
    let (contents, includes, options) = (pointers(&contents), pointers(&includes), pointers(&options));
    // SAFETY: the functions have these types. All texts end with a zero, and the arrays are as long as is said. Another
    // compilation in this thread has ended.
    unsafe {
        let create: Create = nvrtc.function(CREATE)?;
        let (add, compile): (AddName, Compile) = (nvrtc.function(ADD_NAME)?, nvrtc.function(COMPILE)?);
        let mut program: Handle = ptr::null_mut();
        let name = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let count = headers.len() as c_int;
        let made = create(&mut program, text.as_ptr(), name, count, contents.as_ptr(), includes.as_ptr());
        let program = Made(nvrtc, if made == 0 { program } else { return None });
        if names.iter().any(|name| add(program.1, name.as_ptr()) != 0) {
            return None;
        }
        let watching = imports::begin(Some(shadow));
        let code = compile(program.1, options.len() as c_int, options.as_ptr());
        let asked = watching.end();
        (code == 0).then(|| Some((answer_of(nvrtc, program.1, &parts.names)?, asked))).flatten()
    }
}

/// A program that is destroyed when this is dropped.
struct Made<'a>(&'a Nvrtc, Handle);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: the function has this type, and the program was made by it.
        unsafe {
            if let Some(destroy) = self.0.function::<Destroy>(DESTROY) {
                destroy(&mut self.1);
            }
        }
    }
}

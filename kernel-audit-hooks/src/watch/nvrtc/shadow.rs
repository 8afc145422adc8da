//! Shadow compilations find out whether a result depends on the clock, the process id or the folder: they
//! compile the program again with others, and compare. NVRTC reads all three in every compilation, so the
//! reads alone tell nothing. Searching the text for `__TIME__` or `__FILE__` would miss names that are pasted
//! together, and numbers computed from them.
//!
//! Only recorded runs do this.

use std::collections::HashSet;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::answer::{Output, read_output};
use super::imports::{self, Observed, Shadow};
use super::key::{Input, Source};
use super::library::{ADD_NAME, AddName, COMPILE, CREATE, Compile, Create, DESTROY, Destroy, Nvrtc};
use super::observed::Moved;
use super::programs::Handle;

/// Dependencies of a result that aren't visible in what NVRTC reads.
pub(super) enum DependsOn {
    /// No others. The paths are those that the shadow compilation looked for.
    Nothing(HashSet<Vec<u8>>),
    /// The working directory, or the folder in the program's name.
    Place,
    /// The clock or the process id, or the compiler isn't deterministic.
    Time,
}

/// The folder in a shadow's name. It's longer than most.
const ELSEWHERE: &[u8] = b"/kernel-registry/another/folder/with/a/longer/path/than/most/programs/have";

/// The first NVRTC with its own cache, which would serve shadows the first result, and the option against it.
const WITH_CACHE: (c_int, c_int) = (12, 9);
const NO_CACHE: &[u8] = b"--no-cache";

/// Finds out what `output` depends on, by compiling elsewhere, and if that differs, at the same place.
pub(super) fn depends(
    nvrtc: &Nvrtc,
    input: &Input,
    options: &[&[u8]],
    output: &Output,
    before: i64,
) -> DependsOn {
    let same = |is_elsewhere| {
        let (other, observed) = compile(nvrtc, input, options, Shadow { before, is_elsewhere })?;
        (other == *output).then(|| observed.paths.into_keys().collect::<HashSet<_>>())
    };
    match same(true) {
        Some(paths) => DependsOn::Nothing(paths),
        None if same(false).is_some() => DependsOn::Place,
        None => DependsOn::Time,
    }
}

/// Returns the folders that a shadow replaces: the working directory, with which NVRTC 13.5 makes its paths
/// absolute, and the folder in the program's name, if the result's key has no folder.
pub(super) fn moved<'a>(directory: &'a Path, folder: Option<&'a [u8]>) -> Vec<Moved<'a>> {
    let directory = directory.as_os_str().as_bytes();
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    let directory = Moved { from: directory, to: imports::ELSEWHERE.to_bytes(), is_of_name: false };
    let folder = folder.map(|from| Moved { from, to: ELSEWHERE, is_of_name: true });
    [directory].into_iter().chain(folder).collect()
}

/// Compiles a program again. Returns its output, and everything that the compilation read.
fn compile(nvrtc: &Nvrtc, input: &Input, options: &[&[u8]], shadow: Shadow) -> Option<(Output, Observed)> {
    let Source { text, name, headers, .. } = &*input.source;
    let name = name.as_deref().map(|name| match input.folder() {
        folder if !folder.is_empty() && shadow.is_elsewhere => [ELSEWHERE, &name[folder.len()..]].concat(),
        _ => name.to_vec(),
    });
    let text = CString::new(text.clone()).ok()?;
    let name = name.map(CString::new).transpose().ok()?;
    let c = |texts: Vec<&[u8]>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().ok();
    let contents = c(headers.iter().map(|[text, _]| &**text).collect())?;
    let includes = c(headers.iter().map(|[_, name]| &**name).collect())?;
    let names = c(input.names.iter().map(|name| &**name).collect())?;
    let has_cache = nvrtc.version().is_some_and(|version| version >= WITH_CACHE);
    let options = c(options.iter().copied().chain(has_cache.then_some(NO_CACHE)).collect())?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
    let (contents, includes, options) = (pointers(&contents), pointers(&includes), pointers(&options));
    // SAFETY: the functions have these types. All texts end with a zero, and the arrays have the lengths that
    // are passed. The program's own compilation in this thread has ended.
    unsafe {
        let create: Create = nvrtc.function(CREATE)?;
        let (add, compile): (AddName, Compile) = (nvrtc.function(ADD_NAME)?, nvrtc.function(COMPILE)?);
        let mut program: Handle = ptr::null_mut();
        let name = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let count = headers.len() as c_int;
        let made = create(&mut program, text.as_ptr(), name, count, contents.as_ptr(), includes.as_ptr());
        let program = OwnedProgram(nvrtc, if made == 0 { program } else { return None });
        if names.iter().any(|name| add(program.1, name.as_ptr()) != 0) {
            return None;
        }
        let observer = imports::begin(Some(shadow));
        let code = compile(program.1, options.len() as c_int, options.as_ptr());
        let observed = observer.end();
        (code == 0).then(|| Some((read_output(nvrtc, program.1, &input.names)?, observed))).flatten()
    }
}

/// A program that is destroyed on drop.
struct OwnedProgram<'a>(&'a Nvrtc, Handle);

impl Drop for OwnedProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the function has this type, and the program is one of this NVRTC's.
        unsafe {
            if let Some(destroy) = self.0.function::<Destroy>(DESTROY) {
                destroy(&mut self.1);
            }
        }
    }
}

//! Wraps the NVRTC library safely. No other file of the crate calls foreign code; `parallel` has `unsafe` for
//! cargo's jobserver.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library as Shared;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

const SUCCESS: c_int = 0;
const INVALID_OPTION: c_int = 5;
const COMPILATION: c_int = 6;

/// File names of the NVRTC library, the newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
};

/// The NVRTC library, which stays loaded until the process ends.
#[derive(Debug)]
pub(crate) struct Library {
    create: Create,
    compile: Compile,
    destroy: Destroy,
    ptx_size: Size,
    ptx: Get,
    cubin_size: Size,
    cubin: Get,
    log_size: Size,
    log: Get,
    error_string: ErrorString,
    version: (c_int, c_int),
}

/// The result of a compilation.
pub(crate) enum Answer {
    /// The cubin is empty if only PTX was requested.
    Compiled {
        ptx: Vec<u8>,
        cubin: Vec<u8>,
        log: String,
    },
    Rejected {
        log: String,
    },
    Failed {
        code: c_int,
        why: String,
        log: String,
    },
}

impl Library {
    /// Loads NVRTC from a file. Loads its library of built-in headers first, because NVRTC would search for
    /// that by name alone.
    pub(crate) fn open(file: &Path, builtins: Option<&Path>) -> Result<Self, String> {
        if let Some(builtins) = builtins {
            keep(load(builtins.as_os_str())?);
        }
        Self::resolve(load(file.as_os_str())?)
    }

    /// Loads the newest NVRTC that the dynamic loader finds.
    pub(crate) fn by_name() -> Option<Self> {
        NAMES.iter().find_map(|name| Self::resolve(load(name.as_ref()).ok()?).ok())
    }

    fn resolve(shared: Shared) -> Result<Self, String> {
        fn symbol<T: Copy>(shared: &Shared, name: &CStr) -> Result<T, String> {
            // SAFETY: the callers below ask for NVRTC's functions with the types of nvrtc.h, which have not
            // changed since they came, the last with CUDA 11.1; a library without them ends here.
            let symbol = unsafe { shared.get::<T>(name.to_bytes_with_nul()) };
            symbol.map(|symbol| *symbol).map_err(|error| error.to_string())
        }
        let version: Version = symbol(&shared, c"nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to integers that outlive the call.
        let code = unsafe { version(&mut major, &mut minor) };
        if code != SUCCESS {
            return Err(format!("it fails to report its version (code {code})"));
        }
        let library = Library {
            create: symbol(&shared, c"nvrtcCreateProgram")?,
            compile: symbol(&shared, c"nvrtcCompileProgram")?,
            destroy: symbol(&shared, c"nvrtcDestroyProgram")?,
            ptx_size: symbol(&shared, c"nvrtcGetPTXSize")?,
            ptx: symbol(&shared, c"nvrtcGetPTX")?,
            cubin_size: symbol(&shared, c"nvrtcGetCUBINSize")?,
            cubin: symbol(&shared, c"nvrtcGetCUBIN")?,
            log_size: symbol(&shared, c"nvrtcGetProgramLogSize")?,
            log: symbol(&shared, c"nvrtcGetProgramLog")?,
            error_string: symbol(&shared, c"nvrtcGetErrorString")?,
            version: (major, minor),
        };
        keep(shared);
        Ok(library)
    }

    /// Returns the version, major and minor.
    pub(crate) fn version(&self) -> (c_int, c_int) {
        self.version
    }

    /// Compiles a text. It may include one header, given by name and text instead of as a file. Any thread
    /// may call this.
    pub(crate) fn compile(
        &self,
        text: &CStr,
        name: &CStr,
        header: Option<(&CStr, &CStr)>,
        options: &[CString],
    ) -> Answer {
        let mut program: Program = ptr::null_mut();
        let (header_name, header_text) = header.unwrap_or_default();
        let (names, headers) = (&header_name.as_ptr(), &header_text.as_ptr());
        let count = c_int::from(header.is_some());
        // SAFETY: the strings outlive the call, which copies them; there are `count` headers with as many
        // names, one or none.
        let code =
            unsafe { (self.create)(&mut program, text.as_ptr(), name.as_ptr(), count, headers, names) };
        if code != SUCCESS {
            return self.failed(code, String::new());
        }
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(options.len()).unwrap_or(c_int::MAX);
        // SAFETY: the NVRTC program was made above and belongs to this thread; there are `count` pointers to
        // strings that outlive the call.
        let code = unsafe { (self.compile)(program, count, options.as_ptr()) };
        let log = self.text(program, self.log_size, self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let result = || {
            let ptx = self.text(program, self.ptx_size, self.ptx)?;
            Ok((ptx, self.bytes(program, self.cubin_size, self.cubin)?))
        };
        let answer = match code {
            SUCCESS => match result() {
                Ok((ptx, cubin)) => Answer::Compiled { ptx, cubin, log },
                Err(code) => self.failed(code, log),
            },
            COMPILATION | INVALID_OPTION => Answer::Rejected { log },
            code => self.failed(code, log),
        };
        // SAFETY: the NVRTC program was made above and is not used afterwards. The result does not matter,
        // because the results and the log have been copied.
        unsafe { (self.destroy)(&mut program) };
        answer
    }

    /// Returns the PTX or the log of an NVRTC program, without the zero at its end.
    fn text(&self, program: Program, size: Size, get: Get) -> Result<Vec<u8>, c_int> {
        let mut bytes = self.bytes(program, size, get)?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(bytes)
    }

    /// Returns an output of an NVRTC program: PTX, cubin or log.
    fn bytes(&self, program: Program, size: Size, get: Get) -> Result<Vec<u8>, c_int> {
        let mut length = 0;
        // SAFETY: the callers pass an NVRTC program that is not yet destroyed, and the length outlives the
        // call.
        let code = unsafe { size(program, &mut length) };
        if code != SUCCESS {
            return Err(code);
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: as above; the function writes as many bytes as the vector has.
        let code = unsafe { get(program, bytes.as_mut_ptr().cast()) };
        if code != SUCCESS {
            return Err(code);
        }
        Ok(bytes)
    }

    fn failed(&self, code: c_int, log: String) -> Answer {
        // SAFETY: the function takes any number.
        let why = unsafe { (self.error_string)(code) };
        let why = if why.is_null() {
            "an unknown failure".to_owned()
        } else {
            // SAFETY: it is not null, and NVRTC returns literals, which end with a zero and live as long as
            // the library, which is never unloaded.
            unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()
        };
        Answer::Failed { code, why, log }
    }
}

fn load(name: &std::ffi::OsStr) -> Result<Shared, String> {
    // SAFETY: loading runs the initialisers of NVIDIA's compiler library, or of another library in the user's
    // CUDA_HOME. A build trusts that as much as it trusts nvcc.
    unsafe { Shared::new(name) }.map_err(|error| error.to_string())
}

/// Leaks the library, because any thread may still call its functions through plain pointers.
fn keep(shared: Shared) {
    std::mem::forget(shared);
}

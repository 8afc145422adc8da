//! A safe interface to the library nvJitLink, which compiles PTX like the driver.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use kernel_registry_cuda::CudaVersion;
use libloading::Library;

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type Complete = unsafe extern "C" fn(Handle) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;

const PTX: c_int = 2;

/// The library, which is never unloaded.
#[derive(Debug)]
pub(super) struct NvJitLink {
    create: Create,
    destroy: Destroy,
    add_data: AddData,
    complete: Complete,
    cubin_size: Size,
    cubin: Get,
    log_size: Size,
    log: Get,
    version: CudaVersion,
}

impl NvJitLink {
    /// Opens a library. The error is the loader's message, or names a function that the library lacks.
    pub(super) fn open(file: &Path) -> Result<Self, String> {
        fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, String> {
            // SAFETY: the callers below use the types of nvJitLink.h, which are the same in all versions.
            let symbol = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
            symbol.map(|symbol| *symbol).map_err(|error| error.to_string())
        }
        // SAFETY: the library is the user's toolkit's, whose initializers are trusted like its programs.
        let library = unsafe { Library::new(file) }.map_err(|error| error.to_string())?;
        let version: Version = symbol(&library, c"nvJitLinkVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to integers that outlive the call.
        if unsafe { version(&mut major, &mut minor) } != 0 {
            return Err("it doesn't report its version".to_owned());
        }
        let linker = NvJitLink {
            create: symbol(&library, c"nvJitLinkCreate")?,
            destroy: symbol(&library, c"nvJitLinkDestroy")?,
            add_data: symbol(&library, c"nvJitLinkAddData")?,
            complete: symbol(&library, c"nvJitLinkComplete")?,
            cubin_size: symbol(&library, c"nvJitLinkGetLinkedCubinSize")?,
            cubin: symbol(&library, c"nvJitLinkGetLinkedCubin")?,
            log_size: symbol(&library, c"nvJitLinkGetErrorLogSize")?,
            log: symbol(&library, c"nvJitLinkGetErrorLog")?,
            version: CudaVersion::new(major, minor),
        };
        // The functions must outlive this call.
        std::mem::forget(library);
        Ok(linker)
    }

    pub(super) fn version(&self) -> CudaVersion {
        self.version
    }

    /// Compiles PTX, which must have no zeros. The error is the library's log. Any thread may call this.
    pub(super) fn compile(&self, text: &[u8], options: &[String]) -> Result<Vec<u8>, String> {
        let options: Vec<_> =
            options.iter().map(|option| CString::new(option.as_str()).unwrap_or_default()).collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut text = text.to_vec();
        text.push(0);
        let mut handle = ptr::null_mut();
        // SAFETY: the count is that of the strings. They and the text outlive the calls, and only this thread
        // uses the handle, if it was created.
        let result = unsafe {
            match (self.create)(&mut handle, pointers.len() as u32, pointers.as_ptr()) {
                0 => match (self.add_data)(handle, PTX, text.as_ptr().cast(), text.len(), c"PTX".as_ptr()) {
                    0 => (self.complete)(handle),
                    failed => failed,
                },
                failed => failed,
            }
        };
        let made = match result {
            0 => self.bytes(handle, self.cubin_size, self.cubin),
            code => {
                // If options were rejected, there's a handle, too.
                let log = self.bytes(handle, self.log_size, self.log).unwrap_or_default();
                let log = String::from_utf8_lossy(&log);
                let log = log.trim_end_matches(['\0', '\n']);
                Err(if log.is_empty() { format!("it failed with code {code}") } else { log.to_owned() })
            }
        };
        if !handle.is_null() {
            // SAFETY: the handle was created above, and isn't used afterwards.
            unsafe { (self.destroy)(&mut handle) };
        }
        made
    }

    /// Returns an output of a handle.
    fn bytes(&self, handle: Handle, size: Size, get: Get) -> Result<Vec<u8>, String> {
        let failed = |code| format!("it failed with code {code}");
        if handle.is_null() {
            return Err("it created nothing".to_owned());
        }
        let mut length = 0;
        // SAFETY: the handle is valid, and the length outlives the call.
        match unsafe { size(handle, &mut length) } {
            0 => {}
            code => return Err(failed(code)),
        }
        let mut bytes = vec![0_u8; length];
        // SAFETY: as above, and the function writes as many bytes as the vector has.
        match unsafe { get(handle, bytes.as_mut_ptr().cast()) } {
            0 => Ok(bytes),
            code => Err(failed(code)),
        }
    }
}

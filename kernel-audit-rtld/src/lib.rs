//! An auditor for glibc's loader (`LD_AUDIT`) that binds NVRTC to the hooks of `kernel-audit`.
//!
//! When the loader maps NVRTC, before it binds anything, the auditor gives it a copy of its symbol table. In the copy,
//! the functions that NVRTC [exports](EXPORTS) have the addresses of stubs here, and so have some that it
//! [imports](IMPORTS). From then on the loader itself interposes: whoever gets a function of this NVRTC, by `dlsym`,
//! `dlvsym`, a call or an address taken, gets the stub, and whoever wouldn't have got it doesn't. Names, versions, scopes
//! and `dlerror` are the loader's, and code and tables on disk stay as they are. A process that doesn't map NVRTC pays
//! for mapping this library, and nothing else.
//!
//! The loader keeps auditors in a namespace of their own, in which even the C library would be a second one. So this
//! library needs no other and is about a page of code. Its stubs load the hooks into the program's namespace when the
//! first of them is called, and pass calls on to the real functions if that fails.
//!
//! As a dependency, this crate only describes the [`Library`] that auditor and hooks share.

#![no_std]
// A loop that the compiler turned into a call of `memcpy` would need the C library.
#![cfg_attr(feature = "export", no_builtins)]

#[cfg(feature = "export")]
mod auditor;
#[cfg(feature = "export")]
mod link_map;
#[cfg(feature = "export")]
mod stubs;

use core::ffi::CStr;
use core::sync::atomic::AtomicUsize;

/// The functions of NVRTC that are bound to the hooks. The getters of results come last, in pairs: one returns a result's
/// size, the next its bytes.
pub const EXPORTS: [&CStr; 21] = [
    c"nvrtcCreateProgram",
    c"__nvrtcCPEx",
    c"nvrtcDestroyProgram",
    c"nvrtcCompileProgram",
    c"nvrtcAddNameExpression",
    c"nvrtcGetLoweredName",
    c"nvrtcSetFlowCallback",
    c"nvrtcGetPTXSize",
    c"nvrtcGetPTX",
    c"nvrtcGetCUBINSize",
    c"nvrtcGetCUBIN",
    c"nvrtcGetLTOIRSize",
    c"nvrtcGetLTOIR",
    c"nvrtcGetNVVMSize",
    c"nvrtcGetNVVM",
    c"nvrtcGetOptiXIRSize",
    c"nvrtcGetOptiXIR",
    c"nvrtcGetTileIRSize",
    c"nvrtcGetTileIR",
    c"nvrtcGetProgramLogSize",
    c"nvrtcGetProgramLog",
];

/// The functions of other libraries by which NVRTC learns of files, variables, the time and the machine, and by which it
/// could act on anything but memory. None has more than four arguments, or one that isn't an integer or a pointer.
pub const IMPORTS: [&CStr; 54] = [
    c"getenv",
    c"time",
    c"ctime",
    c"localtime_r",
    c"getcwd",
    c"getpid",
    c"fopen",
    c"fopen64",
    c"open",
    c"open64",
    c"access",
    c"stat",
    c"stat64",
    c"lstat",
    c"lstat64",
    c"__xstat",
    c"__xstat64",
    c"__lxstat",
    c"__lxstat64",
    // No call of these was seen. A result isn't kept after one.
    c"gmtime",
    c"gmtime_r",
    c"openat",
    c"openat64",
    c"freopen",
    c"freopen64",
    c"opendir",
    c"readlink",
    c"realpath",
    c"statfs",
    c"chdir",
    c"mkdir",
    c"rmdir",
    c"unlink",
    c"remove",
    c"rename",
    c"link",
    c"symlink",
    c"chmod",
    c"mkstemp",
    c"fork",
    c"execv",
    c"execve",
    c"execvp",
    c"system",
    c"popen",
    c"pipe",
    c"socket",
    c"getaddrinfo",
    c"gethostbyname",
    c"gethostname",
    c"uname",
    c"rand",
    c"getentropy",
    c"mlock",
];

/// The version of the oldest symbols of the C library.
pub const OLDEST_SYMBOLS: &CStr = if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" };

/// The entries of a library: [`EXPORTS`], then [`IMPORTS`].
pub const ENTRIES: usize = EXPORTS.len() + IMPORTS.len();

/// The most NVRTCs of a process that are bound to the hooks. Python's packages bring one each.
pub const LIBRARIES: usize = 4;

/// An NVRTC whose functions lead to the hooks.
#[repr(C)]
pub struct Library {
    /// The difference between addresses in memory and in the file. A library that was unmapped leaves it as it was.
    pub base: AtomicUsize,
    /// The number of libraries that were mapped before, plus one. Zero if there's no library here.
    pub generation: AtomicUsize,
    /// The address of NVRTC's own symbol table.
    pub symbols: AtomicUsize,
    /// The addresses of NVRTC's own functions, in the order of [`EXPORTS`]. Zero for a function that it doesn't have.
    pub real: [AtomicUsize; EXPORTS.len()],
}

/// Where the stubs of a library jump. The hooks write their addresses here.
pub type Targets = [AtomicUsize; ENTRIES];

/// The function of the hooks that binds a library: writes to all of its targets, and returns whether it did. The first
/// argument is the number of the library, below [`LIBRARIES`].
pub type Bind = unsafe extern "C" fn(usize, *const Library, *const Targets) -> bool;

/// The name of that function.
pub const BIND: &CStr = c"kernel_registry_nvrtc_bind";

/// The bytes that precede the path of the hooks in the file of the auditor. The command that writes the file puts the path
/// behind them, with a zero.
pub const MARK: &[u8; 16] = b"path of hooks:\xff\0";

/// The room for that path, with its zero.
pub const ROOM: usize = 4096;

/// Writes the path of the hooks into the file of an auditor. Returns `None` if the path is too long, or if the file isn't
/// that of this crate's library.
pub fn set_hooks(auditor: &mut [u8], hooks: &[u8]) -> Option<()> {
    let at = auditor.windows(MARK.len()).position(|bytes| bytes == MARK)? + MARK.len();
    let room = auditor.get_mut(at..at.checked_add(ROOM)?)?;
    let (path, rest) = room.split_at_mut_checked(hooks.len())?;
    path.copy_from_slice(hooks);
    *rest.first_mut()? = 0;
    Some(())
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_path_is_written_where_there_is_room_for_it() {
        let file = |room: usize| -> Vec<u8> { [&b"code"[..], MARK, &vec![b'x'; room], b"more"].concat() };
        let mut auditor = file(ROOM);
        assert_eq!(set_hooks(&mut auditor, b"/hooks.so"), Some(()));
        assert!(auditor[4 + MARK.len()..].starts_with(b"/hooks.so\0x") && auditor.ends_with(b"xmore"));
        let longest = vec![b'p'; ROOM - 1];
        assert_eq!(set_hooks(&mut auditor, &longest), Some(()));
        assert_eq!(set_hooks(&mut auditor, &vec![b'p'; ROOM]), None);
        assert_eq!(set_hooks(&mut file(ROOM - 5), b"/hooks.so"), None);
        assert_eq!(set_hooks(&mut b"no auditor".to_vec(), b"/hooks.so"), None);
    }

    #[test]
    fn results_are_the_last_functions_and_come_in_pairs() {
        let first = EXPORTS.iter().position(|name| name.to_bytes() == b"nvrtcGetPTXSize").unwrap();
        for pair in EXPORTS[first..].chunks(2) {
            let [size, bytes] = pair else { panic!("{pair:?}") };
            assert_eq!(size.to_str().unwrap(), std::format!("{}Size", bytes.to_str().unwrap()));
        }
    }
}

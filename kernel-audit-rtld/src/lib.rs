//! An auditor for glibc's loader (`LD_AUDIT`) that binds NVRTC to the hooks of `kernel-audit`.
//!
//! When the loader has mapped NVRTC, and before it binds any symbol, the auditor replaces NVRTC's symbol
//! table by a copy. There, the functions that NVRTC [exports](EXPORTS) are stubs in this library, and so are
//! some of its [imports](IMPORTS). From then on, the loader itself interposes: `dlsym`, `dlvsym` and
//! relocations resolve to the stubs exactly where they would have resolved to this NVRTC. Versions, scopes
//! and `dlerror` work as usual, and files don't change. Without NVRTC, this library is mapped and idle.
//!
//! Auditors have their own namespace, which would even need its own C library. So this library has no
//! dependencies, and is about a page of code. At the first call of a stub, it loads the hooks into the
//! program's namespace. If that fails, the stubs forward calls to the real functions.
//!
//! As a dependency, this crate only describes the [`Library`] that auditor and hooks share.

#![no_std]
// Otherwise the compiler could turn loops into calls of `memcpy`, which is in the C library.
#![cfg_attr(feature = "export", no_builtins)]

#[cfg(feature = "export")]
mod auditor;
#[cfg(feature = "export")]
mod link_map;
#[cfg(feature = "export")]
mod stubs;

use core::ffi::CStr;
use core::sync::atomic::AtomicUsize;

/// The hooked functions of NVRTC. Those that return results come last, in pairs: the size, then the bytes.
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

/// The imports of NVRTC that are hooked: those that read files, variables, the clock or the machine, and
/// those with side effects outside of memory. They have at most four arguments, all integers or pointers.
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
    // No calls of these have been seen. They make a result uncacheable.
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

/// The version of the C library's oldest symbols.
pub const OLDEST_SYMBOLS: &CStr = if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" };

/// The number of a library's stubs, in the order of [`EXPORTS`] and [`IMPORTS`].
pub const ENTRIES: usize = EXPORTS.len() + IMPORTS.len();

/// The maximum number of hooked NVRTCs in a process. Python packages bring their own.
pub const LIBRARIES: usize = 4;

/// A hooked NVRTC.
#[repr(C)]
pub struct Library {
    /// The load bias. Not reset when the library is unmapped.
    pub base: AtomicUsize,
    /// Counts the libraries mapped so far, including this one. 0 if this entry is free.
    pub generation: AtomicUsize,
    /// The address of NVRTC's original symbol table.
    pub symbols: AtomicUsize,
    /// The addresses of NVRTC's own functions, in the order of [`EXPORTS`]. 0 for one that it doesn't have.
    pub real: [AtomicUsize; EXPORTS.len()],
}

/// The jump targets of a library's stubs, which the hooks set.
pub type Targets = [AtomicUsize; ENTRIES];

/// The type of [`BIND`], which sets all targets of a library, and returns whether it did. The first argument
/// is the library's number, below [`LIBRARIES`].
pub type Bind = unsafe extern "C" fn(usize, *const Library, *const Targets) -> bool;

/// The function in the hooks that binds a library.
pub const BIND: &CStr = c"kernel_registry_nvrtc_bind";

/// Marks the place for the path of the hooks in the auditor's file: the zero-terminated path follows.
pub const MARK: &[u8; 16] = b"path of hooks:\xff\0";

/// The size of the buffer for the path, including its zero.
pub const ROOM: usize = 4096;

/// The path of the hooks in an auditor that nobody has written one into: a packed command has both files in one folder.
pub const PACKED_HOOKS: [u8; ROOM] = {
    const NAME: &[u8] = b"$ORIGIN/libkernel_registry_hooks.so";
    let (mut path, mut at) = ([0; ROOM], 0);
    while at < NAME.len() {
        path[at] = NAME[at];
        at += 1;
    }
    path
};

/// Writes the path of the hooks into an auditor's file. `None` if it's too long, or the file isn't an auditor.
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

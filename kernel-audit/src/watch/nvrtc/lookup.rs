//! `dlsym`, which finds the functions of NVRTC here.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::functions::HOOKS;
use super::library::{self, Found, names};
use crate::variables::NVRTC_LIBRARY;
use crate::watch::loader::link_map;

/// The `dlsym` behind, once it was looked for.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The library's function for most names: it jumps there, so that it sees the caller's return address, by which `RTLD_NEXT` is understood. Names
/// that begin with `nvrtc` are looked up by [`find`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    naked_asm!(
        // `RTLD_NEXT` depends on the caller.
        "cmp rdi, -1",
        "je 2f",
        "test rsi, rsi",
        "je 2f",
        "cmp byte ptr [rsi], 110",
        "jne 2f",
        "cmp byte ptr [rsi + 1], 118",
        "jne 2f",
        "cmp byte ptr [rsi + 2], 114",
        "jne 2f",
        "cmp byte ptr [rsi + 3], 116",
        "jne 2f",
        "cmp byte ptr [rsi + 4], 99",
        "je {find}",
        "2:",
        "mov rax, [rip + {real}]",
        "test rax, rax",
        "je 3f",
        "jmp rax",
        "3:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {look_up}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        find = sym find,
        real = sym REAL,
        look_up = sym look_up,
    )
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    naked_asm!(
        "cmn x0, #1",
        "b.eq 2f",
        "cbz x1, 2f",
        "ldrb w9, [x1]",
        "cmp w9, #110",
        "b.ne 2f",
        "ldrb w9, [x1, #1]",
        "cmp w9, #118",
        "b.ne 2f",
        "ldrb w9, [x1, #2]",
        "cmp w9, #114",
        "b.ne 2f",
        "ldrb w9, [x1, #3]",
        "cmp w9, #116",
        "b.ne 2f",
        "ldrb w9, [x1, #4]",
        "cmp w9, #99",
        "b.ne 2f",
        // A conditional branch would reach 1 MiB only.
        "b {find}",
        "2:",
        "adrp x9, {real}",
        "ldr x9, [x9, :lo12:{real}]",
        "cbz x9, 3f",
        "br x9",
        "3:",
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {look_up}",
        "mov x9, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "br x9",
        find = sym find,
        real = sym REAL,
        look_up = sym look_up,
    )
}

/// Finds the `dlsym` of the first library behind the one that is before all others: glibc's, or that of another library which stands in front of it.
/// Makes no call: a sanitizer that asks for the functions behind its own has none of them yet.
extern "C" fn look_up() -> *mut c_void {
    // SAFETY: the first name is looked up while libraries are initialized, before any can be closed.
    let found = unsafe { link_map::find_after(NVRTC_LIBRARY.as_bytes(), b"dlsym") };
    let found = found.map_or(nothing as *mut c_void, ptr::with_exposed_provenance_mut);
    REAL.store(found, Ordering::Relaxed);
    found
}

/// What finds nothing, in a process without glibc's functions.
extern "C" fn nothing(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

/// Finds a function whose name begins with `nvrtc`: ours, if the library that has it is one whose results can be kept.
extern "C" fn find(library: *mut c_void, name: *const c_char) -> *mut c_void {
    let real = match REAL.load(Ordering::Relaxed) {
        real if real.is_null() => look_up(),
        real => real,
    };
    // SAFETY: it is the function of this name, or `nothing`, which has its type.
    let real: extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = unsafe { std::mem::transmute(real) };
    let theirs = real(library, name);
    if theirs.is_null() {
        return theirs;
    }
    // SAFETY: the name is not null, because it was compared, and `dlsym` has read it.
    let name = unsafe { CStr::from_ptr(name) };
    let index = names().iter().position(|its| its.as_bytes() == name.to_bytes());
    let Some(index) = index else { return theirs };
    match library::at_address(theirs.addr() as u64) {
        // Without this library the name would not be found.
        Found::InFront if library::number_for_caller().is_none() => ptr::null_mut(),
        Found::Library(number) => HOOKS.get(number).map_or(theirs, |hooks| hooks.0[index].cast_mut()),
        _ => theirs,
    }
}

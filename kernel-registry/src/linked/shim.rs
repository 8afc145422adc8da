//! The functions by which the linker replaces `__cudaRegister..` of the runtime library. They record the registration, and call the
//! original function.
//!
//! The linker's option `--wrap=F` replaces references to `F` by `__wrap_F`, and references to `__real_F` by `F`. Archives that
//! `kernel_registry_build::linked_archive` has rewritten refer to `kernel_registry_linked` and `kernel_registry_linkfat` instead.
//! These functions are written in assembly, because only assembly can make them weak and hidden at once. They are weak, so that two
//! copies of this library link, and hidden, so that no shared library replaces the functions of another. The references to the
//! runtime library are weak, so that programs without a runtime library link, too.

use std::ffi::{c_char, c_int, c_void};

use super::heads::Heads;
use super::runtime::Addresses;

/// Calls a macro with the processor's jump instruction.
macro_rules! jump {
    ($assemble:path) => {
        #[cfg(target_arch = "x86_64")]
        $assemble!("jmp");
        #[cfg(target_arch = "aarch64")]
        $assemble!("b");
    };
}

/// Assembles a function with this name that jumps to another function. The text after the jump tells tools that read the binary
/// whether the registrations come from the whole program or from an archive.
macro_rules! function {
    ($jump:literal, $name:literal, $to:literal, $scope:literal) => {
        concat!(
            // Link-time optimisation assembles the texts of two copies together, so the second copy is skipped.
            ".ifndef ",
            $name,
            "\n",
            ".pushsection .text.",
            $name,
            ",\"ax\",@progbits\n",
            ".weak ",
            $name,
            "\n.hidden ",
            $name,
            "\n.type ",
            $name,
            ",@function\n",
            $name,
            ": ",
            $jump,
            " ",
            $to,
            "\n",
            ".asciz \"kernel-registry linked v1 ",
            $scope,
            "\"\n",
            ".size ",
            $name,
            ", . - ",
            $name,
            "\n",
            ".popsection\n.endif",
        )
    };
}

/// Assembles data with this name: the addresses of symbols, 0 for symbols that no library defines.
macro_rules! data {
    ($section:literal, $name:literal, $($address:literal),+) => {
        concat!(
            ".ifndef ", $name, "\n",
            $(".weak ", $address, "\n",)+
            ".pushsection ", $section, ",\"aw\",@progbits\n.balign 8\n",
            ".weak ", $name, "\n.hidden ", $name, "\n.type ", $name, ",@object\n",
            $name, ":\n",
            $(".quad ", $address, "\n",)+
            ".size ", $name, ", . - ", $name, "\n",
            ".popsection\n.endif",
        )
    };
}

macro_rules! assemble {
    ($jump:literal) => {
        std::arch::global_asm!(
            function!($jump, "__wrap___cudaRegisterFunction", "{wrapped}", "program"),
            function!($jump, "__wrap___cudaRegisterFatBinary", "{wrapped_fatbin}", "program"),
            function!($jump, "kernel_registry_linked", "{renamed}", "archive"),
            function!($jump, "kernel_registry_linkfat", "{renamed_fatbin}", "archive"),
            data!(
                ".data.rel.ro.kernel_registry_runtime_v1",
                "kernel_registry_runtime_v1",
                "__real___cudaRegisterFunction",
                "__real___cudaRegisterFatBinary",
                "__cudaRegisterFunction",
                "__cudaRegisterFatBinary",
                "cudaGetFuncBySymbol",
                "cudaGetErrorName",
                "cudaGetErrorString"
            ),
            // The lists, which all copies of this library share.
            ".ifndef kernel_registry_linked_v1",
            ".pushsection .data.kernel_registry_linked_v1,\"aw\",@progbits",
            ".balign 8",
            ".weak kernel_registry_linked_v1",
            ".hidden kernel_registry_linked_v1",
            ".type kernel_registry_linked_v1,@object",
            "kernel_registry_linked_v1: .quad 0, 0, 0",
            ".size kernel_registry_linked_v1, 24",
            ".popsection",
            ".endif",
            wrapped = sym wrapped,
            wrapped_fatbin = sym wrapped_fatbin,
            renamed = sym renamed,
            renamed_fatbin = sym renamed_fatbin,
        );
    };
}

jump!(assemble);

unsafe extern "C" {
    /// The functions of the runtime library that this program or shared library is linked with.
    static kernel_registry_runtime_v1: Addresses;
    static kernel_registry_linked_v1: Heads;
}

/// Returns the lists of this program or shared library.
pub(super) fn heads() -> &'static Heads {
    // SAFETY: the assembly above defines this symbol, with room for the three words of `Heads`, which are valid when zero.
    unsafe { &kernel_registry_linked_v1 }
}

/// The type of `void __cudaRegisterFunction(..)`. Its arguments are the fatbin's handle, the host function, the device function, the
/// kernel's symbol, a thread limit, and five addresses for a launch configuration.
type Register = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *mut c_char,
    *const c_char,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
);

macro_rules! register {
    ($name:ident, $real:ident) => {
        unsafe extern "C" fn $name(
            fatbin: *mut *mut c_void,
            host: *const c_char,
            device: *mut c_char,
            symbol: *const c_char,
            thread_limit: c_int,
            thread: *mut c_void,
            block: *mut c_void,
            threads: *mut c_void,
            blocks: *mut c_void,
            warp: *mut c_int,
        ) {
            // SAFETY: the assembly above defines this symbol, and nothing changes it after the program is loaded.
            let runtime = unsafe { &kernel_registry_runtime_v1 };
            heads().add(fatbin.addr(), host.addr(), symbol, runtime);
            if runtime.$real == 0 {
                no_runtime();
            }
            // SAFETY: the function has this type in every runtime library; the arguments are passed on unchanged.
            unsafe {
                let real: Register = std::mem::transmute(runtime.$real);
                real(fatbin, host, device, symbol, thread_limit, thread, block, threads, blocks, warp);
            }
        }
    };
}

register!(wrapped, real_register);
register!(renamed, register);

/// The type of `void** __cudaRegisterFatBinary(const void* wrapper)`, which returns the fatbin's handle.
type RegisterFatbin = unsafe extern "C" fn(*const c_void) -> *mut *mut c_void;

macro_rules! register_fatbin {
    ($name:ident, $real:ident) => {
        unsafe extern "C" fn $name(wrapper: *const c_void) -> *mut *mut c_void {
            // SAFETY: as for kernels.
            let runtime = unsafe { &kernel_registry_runtime_v1 };
            if runtime.$real == 0 {
                no_runtime();
            }
            // SAFETY: as for kernels.
            let handle = unsafe {
                let real: RegisterFatbin = std::mem::transmute(runtime.$real);
                real(wrapper)
            };
            heads().add_fatbin(handle.addr(), wrapper);
            handle
        }
    };
}

register_fatbin!(wrapped_fatbin, real_register_fatbin);
register_fatbin!(renamed_fatbin, register_fatbin);

/// Aborts the program: nvcc's code cannot run without a CUDA runtime library.
fn no_runtime() -> ! {
    eprintln!(
        "kernel-registry: nvcc linked kernels into this program, but it has no CUDA runtime library; \
         link `cudart_static` or `cudart`"
    );
    std::process::abort();
}

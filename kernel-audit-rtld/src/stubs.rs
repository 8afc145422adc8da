//! The stubs that replace NVRTC's functions, and the table of their targets, in assembly. A stub changes only
//! the registers that the calling convention reserves for linkers, so it works for any signature.

use core::arch::global_asm;

use crate::{ENTRIES, LIBRARIES, Targets};

const COUNT: usize = LIBRARIES * ENTRIES;

/// The size of a stub in bytes.
const STRIDE: usize = 16;

unsafe extern "C" {
    /// A stub for each entry of each library, which jumps to its target.
    static kernel_audit_rtld_stubs: [[u8; STRIDE]; COUNT];
    /// The initial targets. Each calls `kernel_audit_rtld_target`, and jumps to the address it returns.
    static kernel_audit_rtld_unbound: [[u8; STRIDE]; COUNT];
    static kernel_audit_rtld_targets: [Targets; LIBRARIES];
}

/// Returns the address of an entry's stub.
pub(crate) fn stub(library: usize, entry: usize) -> usize {
    (&raw const kernel_audit_rtld_stubs).addr() + (library * ENTRIES + entry) * STRIDE
}

/// Returns the initial target of an entry.
pub(crate) fn unbound(library: usize, entry: usize) -> usize {
    (&raw const kernel_audit_rtld_unbound).addr() + (library * ENTRIES + entry) * STRIDE
}

pub(crate) fn targets(library: usize) -> &'static Targets {
    // SAFETY: the table is in this library's data, has this size, and is only accessed as atomics.
    unsafe { &kernel_audit_rtld_targets[library] }
}

/// Assembles the table, both kinds of stubs (`index` is the entry's), and the second kind's common code.
macro_rules! assemble {
    (stub: [$($stub:literal,)*], unbound: [$($unbound:literal,)*], common: [$($common:literal,)*]) => {
        global_asm!(
            ".section .bss.kernel_audit_rtld, \"aw\", @nobits",
            ".balign 64",
            ".hidden kernel_audit_rtld_targets",
            ".globl kernel_audit_rtld_targets",
            "kernel_audit_rtld_targets: .skip {count} * 8",
            ".text",
            ".balign {stride}",
            ".hidden kernel_audit_rtld_stubs",
            ".globl kernel_audit_rtld_stubs",
            "kernel_audit_rtld_stubs:",
            ".set index, 0",
            ".rept {count}",
            $($stub,)*
            ".balign {stride}",
            ".set index, index + 1",
            ".endr",
            ".hidden kernel_audit_rtld_unbound",
            ".globl kernel_audit_rtld_unbound",
            "kernel_audit_rtld_unbound:",
            ".set index, 0",
            ".rept {count}",
            $($unbound,)*
            ".balign {stride}",
            ".set index, index + 1",
            ".endr",
            "2:",
            $($common,)*
            count = const COUNT,
            stride = const STRIDE,
        );
    };
}

#[cfg(target_arch = "x86_64")]
assemble!(
    // jmp [rip + target]
    stub: [".byte 0xff, 0x25", ".long kernel_audit_rtld_targets + index * 8 - . - 4",],
    // push index; jmp 2f
    unbound: [".byte 0x68", ".long index", ".byte 0xe9", ".long 2f - . - 4",],
    // Return address, index and six registers keep the stack aligned.
    common: [
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "mov rdi, [rsp + 48]",
        "call kernel_audit_rtld_target",
        "mov r11, rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "lea rsp, [rsp + 8]",
        "jmp r11",
    ]
);

#[cfg(target_arch = "aarch64")]
assemble!(
    stub: [
        "adrp x16, kernel_audit_rtld_targets + index * 8",
        "ldr x16, [x16, :lo12:kernel_audit_rtld_targets + index * 8]",
        "br x16",
    ],
    unbound: ["mov w17, #index", "b 2f",],
    common: [
        "stp x29, x30, [sp, #-80]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "mov w0, w17",
        "bl kernel_audit_rtld_target",
        "mov x16, x0",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #80",
        "br x16",
    ]
);

//! Writes the PTX of a kernel that takes given amounts of registers, shared memory and threads.

use std::fmt::Write;

/// The resources that a kernel takes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) threads: u32,
    /// The registers that a thread should have. The driver may choose a slightly different number.
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    pub(crate) dynamic_shared: u32,
    /// The preferred carve-out in percent.
    pub(crate) carveout: Option<u32>,
}

/// A kernel's role in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Each block reports its arrival, and runs until the host sets the flag or the block's time is up.
    Resident,
    /// The kernel reports that it ran, and ends.
    Probe,
}

/// The distance between two words in bytes, so that each has a separate cache line.
pub(crate) const DISTANCE: usize = 64;

/// The words in mapped memory. A word counts as set when it holds the number of the attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// The host sets this word to let the resident blocks end.
    Flag = 0,
    /// A resident block whose time is up sets this word.
    Over = 1,
    /// The probe kernel sets this word.
    Done = 2,
    /// No kernel sets this word. A store to it that never executes keeps registers in use.
    Sink = 3,
    /// The first of many words, 4 bytes apart. Each resident block sets one of them.
    Arrivals = 4,
}

impl Word {
    pub(crate) fn offset(self) -> usize {
        self as usize * DISTANCE
    }
}

/// The alignment of shared memory in bytes.
pub(crate) const ALIGNMENT: u32 = 16;

pub(crate) const NAME: &str = "kernel";

/// Returns the kernel's PTX. Its parameters are the address of the words, the attempt's number, and the
/// nanoseconds after which a resident block ends by itself.
pub(crate) fn text(spec: &Spec, role: Role) -> String {
    // `others` registers hold addresses and other intermediate values.
    let others = if role == Role::Resident { 11 } else { 8 };
    let values = spec.registers.saturating_sub(others).max(1);
    let mut text = String::from(".version 8.0\n.target sm_75\n.address_size 64\n");
    if spec.dynamic_shared > 0 {
        let _ = writeln!(text, ".extern .shared .align {ALIGNMENT} .b8 dynamic[];");
    }
    let _ = write!(
        text,
        ".visible .entry {NAME}(.param .u64 words, .param .u32 number, .param .u64 limit)\n\
         .maxntid {}\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .b32 %v<{values}>;\n",
        spec.threads
    );
    if spec.static_shared > 0 {
        let _ = writeln!(text, ".shared .align {ALIGNMENT} .b8 fixed[{}];", spec.static_shared);
    }
    text += "ld.param.u64 %d0, [words];\nld.param.u32 %r0, [number];\nld.param.u64 %d2, [limit];\n\
             mov.u32 %r1, %tid.x;\n";
    // Each value contains a clock reading, so that a compiler can't recompute it later.
    text += "add.u32 %v0, %r1, %r0;\n";
    for value in 1..values {
        let _ = writeln!(text, "mov.u32 %r4, %clock;\nmad.lo.u32 %v{value}, %v{}, %r1, %r4;", value - 1);
    }
    if spec.static_shared > 0 {
        text += "st.volatile.shared.u32 [fixed], %r0;\n";
    }
    if spec.dynamic_shared >= 4 {
        text += "st.volatile.shared.u32 [dynamic], %r0;\n";
    }
    text += "setp.ne.u32 %p0, %r1, 0;\n@%p0 bra MEET;\n";
    if role == Role::Resident {
        text += &stay();
    }
    text += "MEET:\nbar.sync 0;\nld.volatile.global.u32 %r5, [%d0];\n";
    // The computation begins with a word that is only read now, and uses all values, so they stay in
    // registers until here.
    for value in 0..values {
        let _ = writeln!(text, "mad.lo.u32 %r5, %r5, %r5, %v{value};");
    }
    let _ = write!(
        text,
        "setp.ne.u32 %p3, %r5, 0xffffffff;\n@%p3 bra LAST;\nst.volatile.global.u32 [%d0+{}], %r5;\nLAST:\n",
        Word::Sink.offset()
    );
    if role == Role::Probe {
        let _ =
            writeln!(text, "@%p0 bra END;\nst.volatile.global.u32 [%d0+{}], %r0;\nEND:", Word::Done.offset());
    }
    text + "ret;\n}\n"
}

fn stay() -> String {
    format!(
        "mov.u32 %r2, %ctaid.x;\n\
         mad.wide.u32 %d3, %r2, 4, %d0;\n\
         st.volatile.global.u32 [%d3+{}], %r0;\n\
         mov.u64 %d4, %globaltimer;\n\
         SPIN:\n\
         ld.volatile.global.u32 %r3, [%d0+{}];\n\
         setp.eq.u32 %p1, %r3, %r0;\n\
         @%p1 bra MEET;\n\
         nanosleep.u32 20000;\n\
         mov.u64 %d5, %globaltimer;\n\
         sub.u64 %d6, %d5, %d4;\n\
         setp.lt.u64 %p2, %d6, %d2;\n\
         @%p2 bra SPIN;\n\
         st.volatile.global.u32 [%d0+{}], %r0;\n",
        Word::Arrivals.offset(),
        Word::Flag.offset(),
        Word::Over.offset()
    )
}

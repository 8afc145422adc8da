//! Generates small random kernels, which are always the same for a seed. The results of a GPU and of the
//! interpreter must be equal, bit for bit.

use std::fmt::Write;

use super::case::{Argument, Case};
use super::random::Random;

/// The number of seeds.
const SEEDS: u64 = 184;
/// The seed whose kernel inserts 32 bits at bit 28 with constant operands. The driver's compiler ignores such
/// an instruction, which contradicts its manual.
const DISPUTED: u64 = 66;
/// The number of subjects. Most instructions of a kernel belong to its subject, some to others.
const SUBJECTS: u64 = 8;
/// The subject of atomic operations. Its kernels have several blocks.
const ATOMICS: u64 = 6;
/// The number of threads of a block.
const THREADS: u32 = 64;
/// The words of input of a thread. A thread has half as many words of results.
const WORDS: u32 = 8;
/// The number of words in global memory that all threads change.
const POOL: u32 = 64;

pub fn cases() -> Vec<Case> {
    (0..SEEDS).filter(|seed| *seed != DISPUTED).map(case).collect()
}

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let mut body = String::new();
    let about = seed % SUBJECTS;
    for _ in 0..10 + random.below(10) {
        statement(&mut random, about, &mut body);
    }
    let blocks = if about == ATOMICS { 3 } else { 1 };
    let threads = blocks * THREADS;
    // The input has numbers of all sizes, and bit patterns that are infinite, NaN or subnormal as floats.
    let special =
        [0, 1, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x0000_ffff, 0x3f80_0000, u32::MAX];
    let input = (0..threads * WORDS)
        .flat_map(|_| {
            u32::to_le_bytes(match random.below(4) {
                0 => special[random.below(9) as usize],
                1 => random.below(64) as u32,
                2 => (random.below(200) as f32 / 7.0 - 14.0).to_bits(),
                _ => random.next() as u32,
            })
        })
        .collect();
    let pool = match about {
        ATOMICS => Argument::Output((0..POOL * 4).map(|index| (index * 37 % 251) as u8).collect()),
        _ => Argument::Value(vec![0; 8]),
    };
    Case {
        name: format!("kernel {seed}"),
        text: wrap(&body),
        kernel: "k".to_owned(),
        grid: [blocks, 1, 1],
        block: [THREADS, 1, 1],
        shared: 0,
        arguments: vec![
            Argument::Input(input),
            Argument::Output(vec![0; (threads * WORDS * 2) as usize]),
            pool,
        ],
    }
}

/// Returns the kernel with this body. Registers 0 to 7 of 32 bits hold the input, and so do the 32-bit
/// floats. Wide registers hold pairs of words.
fn wrap(body: &str) -> String {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 all)\n{\n\
        .reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<12>;\n.reg .f32 %f<8>;\n.reg .f64 %d<4>;\n\
        .reg .b64 %l<4>, %in, %out, %all, %at;\n.reg .b32 %me, %n, %s, %t;\n\
        .shared .align 8 .b8 pool[1024];\n\
        ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %all, [all];\n\
        mov.u32 %me, %tid.x;\nmov.u32 %s, %ctaid.x;\nmov.u32 %t, %ntid.x;\nmad.lo.u32 %t, %s, %t, %me;\n\
        mul.wide.u32 %at, %t, 32;\nadd.s64 %in, %in, %at;\nmul.wide.u32 %at, %t, 16;\nadd.s64 %out, %out, %at;\n"
        .to_owned();
    for i in 0..8 {
        writeln!(text, "ld.global.u32 %r{i}, [%in+{}];\nmov.b32 %f{i}, %r{i};", 4 * i).unwrap();
    }
    for i in 0..4 {
        writeln!(text, "mov.b64 %l{i}, {{%r{}, %r{}}};", 2 * i, 2 * i + 1).unwrap();
        // The compiler chooses which of two NaNs an f64 operation returns, so the input has only one NaN.
        writeln!(text, "setp.nan.f32 %p1, %f{i}, %f{i};\nselp.f32 %t, 0f40490fdb, %f{i}, %p1;").unwrap();
        writeln!(text, "cvt.f64.f32 %d{i}, %t;\ncvt.u16.u32 %h{i}, %r{i};").unwrap();
    }
    text.push_str("shl.b32 %s, %me, 3;\nmov.u32 %t, pool;\nadd.u32 %s, %s, %t;\nst.shared.u64 [%s], %l0;\n");
    text.push_str("bar.sync 0;\n");
    text.push_str(body);
    // Every register becomes part of the results.
    for i in 0..8 {
        writeln!(text, "mov.b32 %t, %f{i};\nxor.b32 %r{i}, %r{i}, %t;").unwrap();
    }
    for i in 0..4 {
        writeln!(text, "mov.b64 %at, %d{i};\nxor.b64 %at, %at, %l{i};\nmov.b64 {{%t, %n}}, %at;").unwrap();
        writeln!(text, "xor.b32 %r{i}, %r{i}, %t;\nxor.b32 %r{}, %r{}, %n;", i + 4, i + 4).unwrap();
        writeln!(text, "cvt.u32.u16 %t, %h{i};\nxor.b32 %r{i}, %r{i}, %t;").unwrap();
    }
    for i in 0..4 {
        writeln!(text, "shf.l.wrap.b32 %t, %r{}, %r{}, 11;\nxor.b32 %r{i}, %r{i}, %t;", i + 4, i + 4)
            .unwrap();
    }
    text.push_str("st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};\n");
    text.push_str("ret;\n}\n");
    text
}

/// Appends one statement, mostly one of the kernel's subject.
fn statement(random: &mut Random, about: u64, out: &mut String) {
    let kind = if random.below(3) == 0 { random.below(ATOMICS) } else { about };
    let line = out.len();
    match kind {
        0 => integer(random, out),
        1 => float(random, out),
        2 if random.below(2) == 0 => {
            writeln!(
                out,
                "setp.{} %p3, {}, {};",
                random.of(&["lt.s32", "ge.u32", "eq.b32"]),
                r(random),
                r(random)
            )
            .unwrap();
            writeln!(out, "@%p3 bra ELSE{line};").unwrap();
            (0..2).for_each(|_| plain(random, out));
            writeln!(out, "bra.uni END{line};\nELSE{line}:").unwrap();
            (0..2).for_each(|_| plain(random, out));
            writeln!(out, "END{line}:").unwrap();
        }
        2 => {
            writeln!(out, "and.b32 %r9, {}, 7;\nmov.u32 %r8, 0;\nLOOP{line}:", r(random)).unwrap();
            (0..2).for_each(|_| plain(random, out));
            writeln!(out, "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p3, %r8, %r9;\n@%p3 bra LOOP{line};").unwrap();
        }
        3 => {
            // Threads write their own words and read any words, with a barrier before and after the reads.
            let (a, b, c) = (r(random), r(random), r(random));
            writeln!(out, "st.shared.u32 [%s+{}], {a};\nbar.sync 0;", 4 * random.below(2)).unwrap();
            writeln!(out, "and.b32 %t, {b}, 252;\nmov.u32 %n, pool;\nadd.u32 %t, %t, %n;").unwrap();
            writeln!(out, "ld.shared.{} {c}, [%t];\nbar.sync 0;", random.of(&["u32", "s16", "u8"])).unwrap();
        }
        4 => {
            // The result of these operations does not depend on the order of the threads.
            let operation = random
                .of(&["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "max.s32", "min.u32"]);
            let (a, b) = (r(random), r(random));
            writeln!(out, "and.b32 %t, {b}, 124;\nmov.u32 %n, pool;\nadd.u32 %t, %t, %n;").unwrap();
            writeln!(out, "bar.sync 0;\nred.shared.{operation} [%t], {a};\nbar.sync 0;").unwrap();
            writeln!(out, "ld.shared.u32 {b}, [%t];\nbar.sync 0;").unwrap();
        }
        ATOMICS => {
            // Each operation has its own words, so the result does not depend on the order of the threads.
            let operations = ["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "max.s32"];
            let which = random.below(operations.len() as u64) as usize;
            let (a, b) = (r(random), r(random));
            writeln!(out, "and.b32 %t, {a}, 28;\nadd.u32 %t, %t, {};\ncvt.u64.u32 %at, %t;", 32 * which)
                .unwrap();
            writeln!(out, "add.u64 %at, %at, %all;").unwrap();
            match random.below(3) {
                0 => writeln!(out, "red.global.{} [%at], {b};", operations[which]).unwrap(),
                1 => writeln!(out, "atom.global.{} %t, [%at], {b};", operations[which]).unwrap(),
                _ => {
                    // This does what `inc` does, with compare and swap.
                    writeln!(out, "ld.volatile.global.u32 %t, [%all+{}];\nLOOP{line}:", 4 * (POOL - 1))
                        .unwrap();
                    writeln!(out, "setp.ge.u32 %p3, %t, 1000;\nadd.u32 %n, %t, 1;").unwrap();
                    writeln!(out, "selp.b32 %n, 0, %n, %p3;").unwrap();
                    writeln!(out, "atom.global.cas.b32 %r8, [%all+{}], %t, %n;", 4 * (POOL - 1)).unwrap();
                    writeln!(out, "setp.ne.u32 %p3, %r8, %t;\nmov.u32 %t, %r8;\n@%p3 bra LOOP{line};")
                        .unwrap();
                }
            }
        }
        7 => half(random, out),
        _ => {
            let (a, b) = (r(random), r(random));
            match random.below(4) {
                0 => {
                    let mode = random.of(&["down", "bfly", "idx"]);
                    let by = random.below(32);
                    let bounds = random.of(&["31", "4127", "7711"]);
                    writeln!(out, "shfl.sync.{mode}.b32 {a}|%p2, {b}, {by}, {bounds}, -1;").unwrap();
                    writeln!(out, "@%p2 add.u32 {a}, {a}, 1;").unwrap();
                }
                1 => writeln!(out, "setp.lt.s32 %p2, {a}, {b};\nvote.sync.ballot.b32 {a}, %p2, -1;").unwrap(),
                2 => writeln!(out, "redux.sync.{}.u32 {a}, {b}, -1;", random.of(&["add", "min", "max"]))
                    .unwrap(),
                _ => writeln!(out, "shfl.sync.up.b32 {a}, {b}, {}, 0, -1;", random.below(32)).unwrap(),
            }
        }
    }
}

fn plain(random: &mut Random, out: &mut String) {
    if random.below(3) == 0 { float(random, out) } else { integer(random, out) }
}

fn integer(random: &mut Random, out: &mut String) {
    let (to, a, b, c) = (r(random), r(random), r(random), r(random));
    let (lto, la, lb) = (l(random), l(random), l(random));
    let written = match random.below(12) {
        0 => format!(
            "{} {to}, {a}, {b};",
            random.of(&["add.s32", "sub.s32", "mul.lo.s32", "mul.hi.u32", "mul.hi.s32"])
        ),
        1 => {
            format!("{} {to}, {a}, {b};", random.of(&["and.b32", "or.b32", "xor.b32", "min.s32", "max.u32"]))
        }
        2 => format!("{} {to}, {a}, {b};", random.of(&["shl.b32", "shr.u32", "shr.s32"])),
        3 => format!(
            "{} {to}, {a}, {b}, {c};",
            random.of(&[
                "mad.lo.s32",
                "mad.hi.u32",
                "sad.u32",
                "bfe.u32",
                "bfe.s32",
                "prmt.b32",
                "shf.l.wrap.b32",
                "shf.r.clamp.b32",
                "dp4a.s32.u32",
            ])
        ),
        4 => format!(
            "{} {to}, {a};",
            random.of(&["popc.b32", "clz.b32", "brev.b32", "not.b32", "neg.s32", "abs.s32"])
        ),
        5 => format!(
            "or.b32 %t, {b}, 1;\n{} {to}, {a}, %t;",
            random.of(&["div.s32", "div.u32", "rem.s32", "rem.u32"])
        ),
        6 => format!("lop3.b32 {to}, {a}, {b}, {c}, {};", random.below(256)),
        7 => format!("bfi.b32 {to}, {a}, {b}, {}, {};", random.below(32), random.below(33)),
        8 => format!(
            "{} {lto}, {la}, {lb};",
            random.of(&["add.s64", "sub.s64", "mul.lo.s64", "mul.hi.u64", "xor.b64"])
        ),
        9 => format!("{} {lto}, {a}, {b};", random.of(&["mul.wide.u32", "mul.wide.s32"])),
        10 => format!(
            "setp.{} %p1, {a}, {b};\nselp.b32 {to}, {c}, {a}, %p1;",
            random.of(&["lt.s32", "lt.u32", "ne.s32", "ge.s32", "hi.u32"])
        ),
        _ => random
            .of(&[
                "cvt.s32.s8 TO, A;",
                "cvt.u32.u16 TO, %h1;",
                "cvt.sat.s8.s32 TO, A;",
                "bfind.s32 TO, A;",
                "cvt.u16.u32 %h2, A;",
                "mul.lo.s16 %h3, %h1, %h2;",
                "shr.s16 %h0, %h1, 3;",
                "cvt.s32.s16 TO, %h3;",
                "add.sat.s32 TO, A, A;",
            ])
            .replace("TO", &to)
            .replace('A', &a),
    };
    writeln!(out, "{written}").unwrap();
}

fn float(random: &mut Random, out: &mut String) {
    let (to, a, b, c) = (f(random), f(random), f(random), f(random));
    let (dto, da, db, dc) = (d(random), d(random), d(random), d(random));
    // The operands differ, because a compiler replaces the minimum of a number and itself by the number,
    // which keeps a NaN that the instruction would change.
    let other = format!("%f{}", (a.as_bytes()[2] - b'0' + 1 + random.below(7) as u8) % 8);
    let r = r(random);
    let mode = random.of(&["rn", "rz", "rm", "rp"]);
    let flush = random.of(&["", "", ".ftz", ".ftz.sat"]);
    let written = match random.below(10) {
        0 => format!("{}.{mode}{flush}.f32 {to}, {a}, {b};", random.of(&["add", "sub", "mul"])),
        1 => format!("fma.{mode}{flush}.f32 {to}, {a}, {b}, {c};"),
        2 => format!("{}.f32 {to}, {a}, {other};", random.of(&["min", "max", "min.ftz", "max.NaN"])),
        3 => format!("div.{mode}.f32 {to}, {a}, {b};"),
        4 => format!(
            "{}.{mode}.f32 {to}, {a};",
            random.of(&["sqrt", "rcp", "sqrt", "rcp.ftz"]).replace(".ftz", "")
        ),
        5 => format!("{}.{mode}.f64 {dto}, {da}, {db};", random.of(&["add", "mul", "sub", "div"])),
        6 => format!("fma.rn.f64 {dto}, {da}, {db}, {dc};"),
        7 => format!("cvt.{mode}i.{}.f32 {r}, {a};", random.of(&["s32", "u32"])),
        8 => {
            format!("cvt.{mode}.f32.{} {to}, {r};\ncvt.{mode}.f32.f64 {a}, {da};", random.of(&["s32", "u32"]))
        }
        _ => format!(
            "setp.{}.f32 %p1, {a}, {b};\nselp.f32 {to}, {b}, {c}, %p1;\ncvt.{mode}i.f32.f32 {a}, {a};\n\
             cvt.rn.f16.f32 %h0, {b};\nfma.rn.f16 %h1, %h0, %h1, %h0;\ncvt.f32.f16 {b}, %h1;",
            random.of(&["lt", "geu", "neu", "num", "le"])
        ),
    };
    writeln!(out, "{written}").unwrap();
}

/// Appends a statement on 16-bit floats, alone or in pairs.
fn half(random: &mut Random, out: &mut String) {
    let (to, a, b, c) = (h(random), h(random), h(random), h(random));
    let (rto, ra, rb, rc) = (r(random), r(random), r(random), r(random));
    let (fto, fa) = (f(random), f(random));
    let flush = random.of(&["", "", ".ftz", ".ftz.sat"]);
    let operation = random.of(&["add", "sub", "mul"]);
    let written = match random.below(8) {
        0 => format!("{operation}.rn{flush}.f16 {to}, {a}, {b};"),
        1 => format!("{operation}.rn{flush}.f16x2 {rto}, {ra}, {rb};"),
        2 => format!("fma.rn{flush}.f16 {to}, {a}, {b}, {c};"),
        3 => format!("fma.rn{flush}.f16x2 {rto}, {ra}, {rb}, {rc};"),
        4 => format!("fma.rn.bf16 {to}, {a}, {b}, {c};"),
        5 => format!(
            "cvt.{}.f16.f32 {to}, {fa};\ncvt.f32.f16 {fto}, {a};",
            random.of(&["rn", "rz", "rm", "rp"])
        ),
        6 => format!("cvt.rn.bf16.f32 {to}, {fa};\ncvt.rn.f16x2.f32 {rto}, {fa}, {fto};"),
        _ => format!(
            "setp.{}.f16 %p1, {a}, {b};\nselp.b16 {to}, {b}, {c}, %p1;\nmov.b32 {rto}, {{{a}, {c}}};",
            random.of(&["lt", "geu", "neu", "num", "le"])
        ),
    };
    writeln!(out, "{written}").unwrap();
}

fn h(random: &mut Random) -> String {
    format!("%h{}", random.below(4))
}

fn r(random: &mut Random) -> String {
    format!("%r{}", random.below(8))
}

fn f(random: &mut Random) -> String {
    format!("%f{}", random.below(8))
}

fn d(random: &mut Random) -> String {
    format!("%d{}", random.below(4))
}

fn l(random: &mut Random) -> String {
    format!("%l{}", random.below(4))
}

//! Tests of single instructions with operands at the edges of their ranges, which compare the bits of the
//! result.

use crate::common::results;

/// Returns the lowest `bits` bits of an instruction's result.
fn result(instruction: &str, operands: &[u64], bits: u32) -> u64 {
    // Each operand is in a register of the width that the instruction takes. This tries all widths until the
    // program loads.
    let kinds = ["%r", "%d", "%h", "%p"];
    let count = operands.len() as u32 + 1;
    let mut refused = String::new();
    for choice in 0..kinds.len().pow(count) {
        let mut names: Vec<String> =
            (0..count).map(|i| format!("{}{i}", kinds[choice / kinds.len().pow(i) % kinds.len()])).collect();
        let set: String = operands.iter().zip(&names[1..]).map(|(value, name)| set(name, *value)).collect();
        if let ("lop3.b32", [.., table]) = (instruction, operands) {
            names[4] = table.to_string();
        }
        let get = match &names[0][..2] {
            "%p" => "selp.b64 %d8, 1, 0, %p0; st.global.b64 [%rd0], %d8;".to_owned(),
            "%h" => "st.global.b16 [%rd0], %h0;".to_owned(),
            "%r" => "st.global.b32 [%rd0], %r0;".to_owned(),
            _ => "st.global.b64 [%rd0], %d0;".to_owned(),
        };
        match results(&format!("mov.b64 %d8, 0; {set} {instruction} {}; {get}", names.join(", ")), 1) {
            Ok(found) => return if bits == 64 { found[0][0] } else { found[0][0] & ((1 << bits) - 1) },
            Err(error) => refused = error,
        }
    }
    panic!("{instruction}: {refused}");
}

/// Returns PTX that puts the lowest bits of a value into a register.
fn set(name: &str, value: u64) -> String {
    match &name[..2] {
        "%p" => format!("setp.ne.u64 {name}, {}, 0;\n", value & 1),
        "%h" => format!("mov.b16 {name}, {};\n", value as u16),
        "%r" => format!("mov.b32 {name}, {};\n", value as u32),
        _ => format!("mov.b64 {name}, {value};\n"),
    }
}

fn check(bits: u32, table: &[(&str, &[u64], u64)]) {
    for (instruction, operands, expected) in table {
        let found = result(instruction, operands, bits);
        assert_eq!(found, *expected, "{instruction} {operands:x?}: {found:#x}, not {expected:#x}");
    }
}

fn s(value: i32) -> u64 {
    u64::from(value as u32)
}

fn f(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn d(value: f64) -> u64 {
    value.to_bits()
}

const NAN: u64 = 0x7fff_ffff;
const MAX: u64 = u64::MAX;

#[test]
fn integers() {
    check(
        32,
        &[
            ("add.u32", &[0xffff_ffff, 2], 1),
            ("add.sat.s32", &[s(i32::MAX), 1], s(i32::MAX)),
            ("sub.s32", &[s(i32::MIN), 1], s(i32::MAX)),
            ("mul.lo.s32", &[s(-3), 5], s(-15)),
            ("mul.hi.u32", &[0xffff_ffff, 0xffff_ffff], 0xffff_fffe),
            ("mul.hi.s32", &[s(-1), s(-1)], 0),
            ("mul.wide.s16", &[0xffff, 3], s(-3)),
            ("mad.lo.u32", &[3, 4, 5], 17),
            ("mad.hi.s32", &[s(i32::MIN), 2, 7], 6),
            ("div.s32", &[s(-7), 2], s(-3)),
            ("rem.s32", &[s(-7), 2], s(-1)),
            ("div.s32", &[s(i32::MIN), s(-1)], s(i32::MIN)),
            ("div.u32", &[7, 0], 0xffff_ffff),
            ("min.s32", &[s(-1), 1], s(-1)),
            ("min.u32", &[s(-1), 1], 1),
            ("abs.s32", &[s(i32::MIN)], s(i32::MIN)),
            ("neg.s32", &[5], s(-5)),
            ("sad.s32", &[s(-3), 4, 10], 17),
            ("dp4a.s32.s32", &[0xff02_0304, 0x0101_0101, 1], 9),
            ("dp4a.u32.u32", &[0xff02_0304, 0x0101_0101, 1], 265),
        ],
    );
    check(
        64,
        &[
            ("mul.wide.u32", &[0xffff_ffff, 0xffff_ffff], 0xffff_fffe_0000_0001),
            ("mul.hi.u64", &[MAX, MAX], MAX - 1),
            ("mul.hi.s64", &[MAX, 2], MAX),
            ("mad.wide.s32", &[s(-2), 3, 5], MAX),
            ("div.u64", &[MAX, 10], MAX / 10),
            ("rem.s64", &[-17i64 as u64, 5], -2i64 as u64),
        ],
    );
}

#[test]
fn bits() {
    check(
        32,
        &[
            ("shl.b32", &[1, 31], 1 << 31),
            ("shl.b32", &[1, 32], 0),
            ("shr.u32", &[0x8000_0000, 32], 0),
            ("shr.s32", &[0x8000_0000, 40], 0xffff_ffff),
            ("shr.s32", &[0x8000_0000, 31], 0xffff_ffff),
            ("shr.u32", &[0x8000_0000, 31], 1),
            ("shf.l.wrap.b32", &[0x8000_0000, 1, 33], 3),
            ("shf.l.clamp.b32", &[0x8000_0001, 1, 40], 0x8000_0001),
            ("shf.r.wrap.b32", &[2, 1, 1], 0x8000_0001),
            ("bfe.u32", &[0xabcd_ef12, 8, 8], 0xef),
            ("bfe.s32", &[0xabcd_ef12, 8, 8], s(0xefu8 as i8 as i32)),
            ("bfe.s32", &[0x8000_0000, 28, 8], s(-8)),
            ("bfe.s32", &[0x8000_0000, 40, 8], s(-1)),
            ("bfe.u32", &[0xffff_ffff, 0, 0], 0),
            ("bfi.b32", &[0xff, 0, 4, 8], 0xff0),
            ("bfi.b32", &[0xff, 0x1111_1111, 28, 8], 0xf111_1111),
            ("bfi.b32", &[0xff, 0x1111_1111, 32, 8], 0x1111_1111),
            ("bfind.u32", &[0x0080_0000], 23),
            ("bfind.s32", &[s(-1)], 0xffff_ffff),
            ("bfind.shiftamt.u32", &[0x0080_0000], 8),
            ("clz.b32", &[0], 32),
            ("clz.b64", &[1], 63),
            ("popc.b64", &[MAX], 64),
            ("brev.b32", &[1], 1 << 31),
            ("prmt.b32", &[0x3322_1100, 0x7766_5544, 0x7531], 0x7755_3311),
            ("prmt.b32", &[0x8000_0000, 0, 0xb], 0x0000_00ff),
            ("lop3.b32", &[0b1100, 0b1010, 0b1001, 0x96], 0b1111),
            ("lop3.b32", &[0xf0, 0xcc, 0xaa, 0xe8], 0xe8),
            ("not.b32", &[0], 0xffff_ffff),
            ("cnot.b32", &[7], 0),
        ],
    );
}

#[test]
fn single_precision() {
    let third = 1.0f32 / 3.0;
    check(
        32,
        &[
            ("add.f32", &[f(1.0), f(1e-10)], f(1.0)),
            ("add.rp.f32", &[f(1.0), f(1e-10)], f(1.0 + f32::EPSILON)),
            ("add.rm.f32", &[f(1.0), f(-1e-10)], f(1.0 - f32::EPSILON / 2.0)),
            ("add.rz.f32", &[f(-1.0), f(1e-10)], f(-1.0 + f32::EPSILON / 2.0)),
            ("add.f32", &[f(f32::INFINITY), f(-f32::INFINITY)], NAN),
            ("add.rz.f32", &[f(f32::MAX), f(f32::MAX)], f(f32::MAX)),
            ("add.f32", &[f(f32::MAX), f(f32::MAX)], f(f32::INFINITY)),
            ("add.rm.f32", &[f(f32::MAX), f(f32::MAX)], f(f32::MAX)),
            ("mul.f32", &[1, f(0.5)], 0),
            ("mul.rp.f32", &[1, f(0.5)], 1),
            ("mul.f32", &[f(f32::MIN_POSITIVE), f(0.5)], 0x0040_0000),
            ("mul.ftz.f32", &[f(f32::MIN_POSITIVE), f(-0.5)], 0x8000_0000),
            ("add.ftz.f32", &[0x0040_0000, 0x0040_0000], 0),
            ("add.f32", &[0x0040_0000, 0x0040_0000], f(f32::MIN_POSITIVE)),
            ("add.sat.f32", &[f(0.75), f(0.5)], f(1.0)),
            ("mul.sat.f32", &[f(f32::NAN), f(0.5)], 0),
            ("sub.f32", &[f(1.0), f(1.0)], 0),
            // A fused product and sum rounds once; separate ones would round twice.
            ("fma.rn.f32", &[f(third), f(3.0), f(-1.0)], f(third.mul_add(3.0, -1.0))),
            ("fma.rn.f32", &[0x3f80_0001, 0x3f80_0001, 0x3380_0000], 0x3f80_0003),
            ("fma.rz.f32", &[0x3f80_0001, 0x3f80_0001, 0x3380_0000], 0x3f80_0002),
            ("div.rn.f32", &[f(1.0), f(3.0)], f(third)),
            ("div.rp.f32", &[f(1.0), f(3.0)], f(third)),
            ("div.rz.f32", &[f(1.0), f(3.0)], f(third.next_down())),
            ("div.rn.f32", &[f(1.0), f(0.0)], f(f32::INFINITY)),
            ("div.rz.f32", &[f(1.0), 0x8000_0000], f(-f32::INFINITY)),
            ("rcp.rn.f32", &[f(3.0)], f(third)),
            ("sqrt.rn.f32", &[f(2.0)], f(2f32.sqrt())),
            ("sqrt.rp.f32", &[f(2.0)], f(2f32.sqrt().next_up())),
            ("sqrt.rn.f32", &[f(-1.0)], NAN),
            ("min.f32", &[f(f32::NAN), f(2.0)], f(2.0)),
            ("max.f32", &[f(1.0), f(f32::NAN)], f(1.0)),
            ("max.NaN.f32", &[f(1.0), f(f32::NAN)], NAN),
            ("min.f32", &[0, 0x8000_0000], 0x8000_0000),
            ("max.f32", &[0x8000_0000, 0], 0),
            ("neg.f32", &[0], 0x8000_0000),
            ("abs.f32", &[f(-2.0)], f(2.0)),
            ("abs.ftz.f32", &[0x8000_0001], 0),
            ("copysign.f32", &[f(-1.0), f(3.0)], f(-3.0)),
            ("ex2.approx.f32", &[f(3.0)], f(8.0)),
            ("lg2.approx.f32", &[f(8.0)], f(3.0)),
            ("rsqrt.approx.f32", &[f(0.0)], f(f32::INFINITY)),
        ],
    );
}

#[test]
fn double_precision() {
    let third = 1.0f64 / 3.0;
    check(
        64,
        &[
            ("add.f64", &[d(0.1), d(0.2)], d(0.1 + 0.2)),
            ("add.rp.f64", &[d(1.0), d(1e-30)], d(1f64.next_up())),
            ("add.rm.f64", &[d(1.0), d(-1e-30)], d(1f64.next_down())),
            ("mul.rz.f64", &[d(0.1), d(10.0)], d(1.0)),
            ("fma.rn.f64", &[d(0.1), d(10.0), d(-1.0)], d(0.1f64.mul_add(10.0, -1.0))),
            ("div.rn.f64", &[d(1.0), d(3.0)], d(third)),
            ("div.rp.f64", &[d(1.0), d(3.0)], d(third.next_up())),
            ("div.rp.f64", &[d(-1.0), d(3.0)], d(-third)),
            ("sqrt.rz.f64", &[d(2.0)], d(2f64.sqrt().next_down())),
            ("min.f64", &[d(f64::NAN), d(-1.0)], d(-1.0)),
        ],
    );
}

#[test]
fn half_precision() {
    check(
        32,
        &[
            ("add.f16", &[0x3c00, 0x1000], 0x3c00),
            ("fma.rn.f16", &[0x3c01, 0x3c01, 0x0001], 0x3c02),
            ("mul.f16", &[0x7bff, 0x4000], 0x7c00),
            ("mul.sat.f16", &[0x7bff, 0x4000], 0x3c00),
            ("add.f16x2", &[0x3c00_4000, 0x3c00_3c00], 0x4000_4200),
            ("fma.rn.bf16", &[0x3f80, 0x4000, 0x3f80], 0x4040),
            ("cvt.rn.f16.f32", &[f(65520.0)], 0x7c00),
            ("cvt.rz.f16.f32", &[f(65520.0)], 0x7bff),
            ("cvt.rn.f16.f32", &[f(2f32.powi(-25))], 0),
            ("cvt.rn.f16.f32", &[f(1.5 * 2f32.powi(-25))], 1),
            ("cvt.f32.f16", &[1], f(2f32.powi(-24))),
            ("cvt.f32.f16", &[0xfc00], f(f32::NEG_INFINITY)),
            ("cvt.rn.bf16.f32", &[0x3f80_8000], 0x3f80),
            ("cvt.rn.bf16.f32", &[0x3f81_8000], 0x3f82),
            ("cvt.rn.f16x2.f32", &[f(1.0), f(2.0)], 0x3c00_4000),
        ],
    );
}

#[test]
fn conversions() {
    check(
        32,
        &[
            ("cvt.s32.s8", &[0x80], s(-128)),
            ("cvt.u32.u8", &[0x1ff], 0xff),
            ("cvt.sat.u8.s32", &[s(-5)], 0),
            ("cvt.sat.s8.s32", &[300], 127),
            ("cvt.rni.s32.f32", &[f(2.5)], 2),
            ("cvt.rzi.s32.f32", &[f(-2.9)], s(-2)),
            ("cvt.rmi.s32.f32", &[f(-2.1)], s(-3)),
            ("cvt.rpi.u32.f32", &[f(2.1)], 3),
            ("cvt.rzi.s32.f32", &[f(3e9)], s(i32::MAX)),
            ("cvt.rzi.u32.f32", &[f(-1.0)], 0),
            ("cvt.rzi.s32.f32", &[NAN], 0),
            ("cvt.rzi.s32.f64", &[d(f64::NAN)], s(i32::MIN)),
            ("cvt.rn.f32.s32", &[s(16_777_217)], f(16_777_216.0)),
            ("cvt.rp.f32.u32", &[16_777_217], f(16_777_218.0)),
            ("cvt.rn.f32.u64", &[MAX], f(18_446_744_073_709_551_616.0)),
            ("cvt.rz.f32.u64", &[MAX], f(18_446_744_073_709_551_616f32.next_down())),
            ("cvt.rz.f32.f64", &[d(0.1)], f(0.1f32.next_down())),
            ("cvt.rn.f32.f64", &[d(1e300)], f(f32::INFINITY)),
            ("cvt.rmi.f32.f32", &[f(-0.5)], f(-1.0)),
            ("cvt.rni.f32.f32", &[f(-0.5)], 0x8000_0000),
            ("cvt.ftz.sat.f32.f32", &[f(7.0)], f(1.0)),
        ],
    );
    check(
        64,
        &[
            ("cvt.s64.s32", &[s(-1)], MAX),
            ("cvt.u64.u32", &[s(-1)], 0xffff_ffff),
            ("cvt.rzi.u64.f32", &[NAN], 1 << 63),
            ("cvt.rzi.s64.f64", &[d(1e30)], i64::MAX as u64),
            ("cvt.rn.f64.u64", &[MAX], d(18_446_744_073_709_551_616.0)),
            ("cvt.rm.f64.u64", &[MAX], d(18_446_744_073_709_551_616f64.next_down())),
        ],
    );
}

#[test]
fn comparisons_and_choices() {
    check(
        64,
        &[
            ("setp.lt.s32", &[s(-1), 1], 1),
            ("setp.lt.u32", &[s(-1), 1], 0),
            ("setp.lo.u32", &[1, 2], 1),
            ("setp.ne.f32", &[NAN, NAN], 0),
            ("setp.neu.f32", &[NAN, NAN], 1),
            ("setp.leu.f32", &[NAN, f(1.0)], 1),
            ("setp.le.f32", &[NAN, f(1.0)], 0),
            ("setp.num.f32", &[NAN, f(1.0)], 0),
            ("setp.nan.f64", &[d(f64::NAN), 0], 1),
            ("setp.eq.f32", &[1, 0], 0),
            ("setp.eq.ftz.f32", &[1, 0], 1),
            ("setp.eq.f32", &[0, 0x8000_0000], 1),
            ("setp.lt.and.s32", &[1, 2, 0], 0),
            ("setp.gt.or.s32", &[1, 2, 1], 1),
            ("set.lt.u32.s32", &[1, 2], 0xffff_ffff),
            ("set.lt.f32.s32", &[1, 2], f(1.0)),
            ("selp.b64", &[7, 8, 0], 8),
            ("slct.b64.s32", &[7, 8, s(-1)], 8),
            ("slct.b64.f32", &[7, 8, 0x8000_0000], 7),
            ("testp.subnormal.f32", &[1], 1),
            ("testp.finite.f64", &[d(f64::INFINITY)], 0),
        ],
    );
}

#[test]
fn carries_and_pairs_of_registers() {
    let body = "mov.u64 %rd2, -1; add.cc.u64 %rd3, %rd2, 1; addc.u64 %rd4, 5, 0;\n\
                sub.cc.u32 %r1, 0, 1; subc.u32 %r2, 7, 0; mov.b64 %rd5, {%r1, %r2}; add.u64 %rd4, %rd4, %rd3;\n\
                st.global.v2.b64 [%rd0], {%rd4, %rd5};";
    assert_eq!(results(body, 1).unwrap()[0], [6, 0x0000_0006_ffff_ffff]);
    let body = "mov.b64 %rd2, 0x1122334455667788; mov.b64 {%r1, %r2}, %rd2; mov.b32 {%h1, %h2}, %r2;\n\
                mov.b64 %rd3, {%h2, %h1, %h2, %h1}; st.global.b64 [%rd0+8], %rd3;";
    assert_eq!(results(body, 1).unwrap()[0][1], 0x3344_1122_3344_1122);
}

#[test]
fn a_copy_whose_source_is_ignored_writes_zeros() {
    for (ignored, expected) in [("%p1", 0), ("!%p1", 5)] {
        let body = format!(
            ".shared .b32 s; mov.u32 %r1, s; mov.pred %p1, 1; st.global.u32 [%rd0], 5;\n\
             cp.async.ca.shared.global [%r1], [%rd0], 4, {ignored}; cp.async.wait_all;\n\
             ld.shared.u32 %r3, [%r1]; st.global.u32 [%rd0+8], %r3;"
        );
        assert_eq!(results(&body, 1).unwrap()[0][1], expected, "{ignored}");
    }
}

#[test]
fn unknown_instructions_and_names_are_refused() {
    for (instruction, words) in [
        (
            "frobnicate.u32 %r1, %r2;",
            "does not have `frobnicate.u32` (line 7 of the PTX: `frobnicate.u32 %r1, %r2;`)",
        ),
        ("add.rq.f32 %f1, %f2, %f3;", "does not have `add.rq.f32`"),
        ("add.b128 %r1, %r2, %r3;", "does not have `add.b128`"),
        ("mma.sync.aligned.m8n8k4.f32 %r1, %r2;", "does not have `mma.sync.aligned.m8n8k4.f32`"),
        ("add.u32 %r1, %r2;", "has operands that do not fit"),
        ("add.u32 %x1, %r2, %r3;", "names `%x1`, which is not declared"),
        ("bra nowhere;", "names `nowhere`"),
        ("call missing, ();", "names `missing`"),
        ("ld.global.u32 %r1;", "has operands that do not fit"),
        ("add.u32 %r1, #;", "is not valid PTX"),
    ] {
        let error = results(instruction, 1).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

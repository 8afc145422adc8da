//! Tests of instructions whose results no GPU has recorded yet, which are compared with arithmetic on the
//! host: fp8, tf32 and packed integers, barriers in shared memory, bulk copies, vector atomics, and
//! instructions that only advise. Tests of matrix instructions are in `matrices.rs`.
//!
//! The differential test has all instructions that were recorded. An instruction moves into its table when
//! the example `record` has run with it.

use crate::common::results;

/// Returns the low 32 bits of `%r8` after this body, in each of some lanes.
fn lanes(body: &str, count: u32) -> Vec<u32> {
    let found = results(&format!("{body}\nst.global.u32 [%rd0], %r8;"), count)
        .unwrap_or_else(|error| panic!("{error}"));
    found.iter().map(|words| words[0] as u32).collect()
}

fn one(body: &str) -> u32 {
    lanes(body, 1)[0]
}

/// Returns the value of a code of 8 bits by the definition of its format, which has one bit of sign, this
/// many bits of mantissa, and exponent bits between them.
fn value(code: u8, mantissa: u32) -> f64 {
    let bias = (1 << (6 - mantissa)) - 1;
    let (exponent, digits) = (i32::from(code >> mantissa & (0x7f >> mantissa)), code & ((1 << mantissa) - 1));
    let fraction = f64::from(digits) / f64::from(1 << mantissa);
    let magnitude = match exponent {
        _ if mantissa == 3 && code & 0x7f == 0x7f => f64::NAN,
        31 if mantissa == 2 && digits == 0 => f64::INFINITY,
        31 if mantissa == 2 => f64::NAN,
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    if code >> 7 == 0 { magnitude } else { -magnitude }
}

/// Returns the code of the nearest finite number. If two are equally near, it is the even code.
fn nearest(number: f64, mantissa: u32) -> u8 {
    let number = number.clamp(-1e6, 1e6);
    let codes = (0..=255u8).filter(|code| value(*code, mantissa).is_finite());
    let same_sign = codes.filter(|code| (code >> 7 == 1) == number.is_sign_negative());
    same_sign
        .min_by(|a, b| {
            let away = |code: u8| (value(code, mantissa) - number).abs();
            away(*a).total_cmp(&away(*b)).then((a & 1).cmp(&(b & 1)))
        })
        .unwrap()
}

#[test]
fn fp8_conversions() {
    let numbers = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.3,
        3.1,
        17.0,
        18.0,
        19.0,
        -250.0,
        255.0,
        256.0,
        300.0,
        447.0,
        449.0,
        464.0,
        500.0,
        1e9,
        -1e9,
        57344.0,
        60000.0,
        0.001,
        0.0019,
        1e-5,
        2e-5,
        1e-9,
        f32::INFINITY,
    ];
    for (format, mantissa) in [("e4m3x2", 3), ("e5m2x2", 2)] {
        for pair in numbers.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let body = format!(
                "mov.b32 %f1, 0x{:x}; mov.b32 %f2, 0x{:x}; cvt.rn.satfinite.{format}.f32 %h1, %f1, %f2; cvt.u32.u16 %r8, %h1;",
                a.to_bits(),
                b.to_bits()
            );
            let expected =
                u32::from(nearest(a.into(), mantissa)) << 8 | u32::from(nearest(b.into(), mantissa));
            assert_eq!(one(&body), expected, "{format} of {a} and {b}");
        }
        let nan = one(&format!(
            "mov.b32 %f1, 0x7fc00000; cvt.rn.satfinite.{format}.f32 %h1, %f1, %f1; cvt.u32.u16 %r8, %h1;"
        ));
        assert_eq!(nan, 0x7f7f);
        // Each code is converted to f16 and back.
        let body = format!(
            "mul.lo.u32 %r1, %r0, 0x101; cvt.u16.u32 %h1, %r1; cvt.rn.f16x2.{format} %r8, %h1;\n\
             cvt.rn.satfinite.{format}.f16x2 %h2, %r8; cvt.u32.u16 %r2, %h2; st.global.u32 [%rd0+8], %r2;\n\
             st.global.u32 [%rd0], %r8;"
        );
        for (code, [wide, back]) in results(&body, 256).unwrap().into_iter().enumerate() {
            let expected = value(code as u8, mantissa);
            let found = half::f16::from_bits(wide as u16).to_f64();
            assert!(
                found == expected || found.is_nan() && expected.is_nan(),
                "{code:#x}: {found}, not {expected}"
            );
            if expected.is_finite() {
                assert_eq!(back, code as u64 * 0x101, "{code:#x}");
            }
        }
    }
}

#[test]
fn tf32() {
    for (rounding, ties) in [("rna", [0x3f80_2000, 0x3f80_4000]), ("rn", [0x3f80_0000, 0x3f80_4000])] {
        let convert = |bits: u32| one(&format!("mov.b32 %f1, 0x{bits:x}; cvt.{rounding}.tf32.f32 %r8, %f1;"));
        assert_eq!([convert(0x3f80_1000), convert(0x3f80_3000)], ties);
        assert_eq!(convert(0xbf80_0fff), 0xbf80_0000);
        assert_eq!(convert(0xbf80_1001), 0xbf80_2000);
        assert_eq!(convert(f32::INFINITY.to_bits()), f32::INFINITY.to_bits());
    }
}

#[test]
fn packed_integers() {
    let pack = |kind: &str, third: &str| {
        one(&format!(
            "mov.u32 %r1, -300; mov.u32 %r2, 70000; mov.u32 %r3, 0x12345678; cvt.pack.sat.{kind} %r8, %r1, %r2{third};"
        ))
    };
    assert_eq!(pack("s16.s32", ""), 0xfed4_7fff);
    assert_eq!(pack("u16.s32", ""), 0x0000_ffff);
    assert_eq!(pack("s8.s32.b32", ", %r3"), 0x5678_807f);
    assert_eq!(pack("u8.s32.b32", ", %r3"), 0x5678_00ff);
    assert_eq!(pack("s4.s32.b32", ", %r3"), 0x3456_7887);
}

/// Three of four expected arrivals come first. The fourth completes the phase, and the next phase begins.
#[test]
fn barriers_in_shared_memory() {
    let body = ".shared .b64 bar; mov.u32 %r1, bar; setp.eq.u32 %p1, %r0, 0;\n\
        @%p1 mbarrier.init.shared::cta.b64 [%r1], 4;\nbar.sync 0; setp.lt.u32 %p2, %r0, 3;\n\
        @%p2 mbarrier.arrive.shared.b64 %rd3, [%r1];\nbar.sync 0;\n\
        mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0; selp.u32 %r8, 1, 0, %p3;\n\
        mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 1; selp.u32 %r2, 10, 0, %p3; add.u32 %r8, %r8, %r2; bar.sync 0;\n\
        @!%p2 mbarrier.arrive.release.cta.shared::cta.b64 %rd3, [%r1];\n\
        mbarrier.pending_count.b64 %r2, %rd3; mad.lo.u32 %r8, %r2, 1000, %r8;\nbar.sync 0;\n\
        WAIT: mbarrier.try_wait.shared::cta.b64 %p3, [%r1], %rd3, 100;\n@!%p3 bra WAIT;\n\
        mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0; selp.u32 %r2, 100, 0, %p3; add.u32 %r8, %r8, %r2;\n\
        @%p1 mbarrier.inval.shared.b64 [%r1];";
    // Before the fourth arrival, the barrier reports that the phase before the first is complete, and the
    // first is not.
    assert_eq!(lanes(body, 4), [4110, 3110, 2110, 1110]);
}

#[test]
fn barriers_expect_bytes() {
    let body = ".shared .b64 bar; mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1; mov.u32 %r8, 0;\n\
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 48;\n\
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 32;\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; selp.u32 %r2, 1, 0, %p1; add.u32 %r8, %r8, %r2;\n\
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; selp.u32 %r2, 10, 0, %p1; add.u32 %r8, %r8, %r2;\n\
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 1; selp.u32 %r2, 100, 0, %p1; add.u32 %r8, %r8, %r2;";
    assert_eq!(one(body), 110);
}

/// Tests copies from global memory to shared memory and back.
#[test]
fn bulk_copies() {
    let body = ".shared .b64 bar; .shared .align 16 .b8 pool[64]; mov.u32 %r1, bar; mov.u32 %r2, pool;\n\
        mbarrier.init.shared.b64 [%r1], 1; st.global.v2.u64 [%rd0], {7, 8}; createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16; fence.proxy.async.shared::cta;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r2], [%rd0], 16, [%r1], %rd5;\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; ld.shared.v2.u64 {%rd2, %rd3}, [%r2];\n\
        add.u64 %rd2, %rd2, %rd3; selp.u64 %rd2, %rd2, 0, %p1; st.shared.u64 [%r2+8], %rd2;\n\
        cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;";
    assert_eq!(results(body, 1).unwrap(), [[7, 15]]);
    let fault = results("cp.async.bulk.global.shared::cta.bulk_group [%rd0+8], [%r1], 16;", 1).unwrap_err();
    assert!(fault.contains("not a multiple of 16"), "{fault}");
}

/// One register in braces, as Triton writes it, means the register.
#[test]
fn one_register_in_braces() {
    let body = "mov.b64 %rd5, 7; st.global.b64 [%rd0], { %rd5 }; ld.global.b64 { %rd6 }, [%rd0]; mov.b64 { %rd7 }, %rd6;\n\
        mov.b64 %rd8, { %rd7 }; st.global.b64 [%rd0+8], { %rd8 };";
    assert_eq!(results(body, 1).unwrap(), [[7, 7]]);
}

/// A thread that arrives with `arrive_drop` is not expected in the next phase.
#[test]
fn a_dropped_thread_is_not_expected_again() {
    let wait = |parity: u32| {
        format!(
            "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], {parity}; selp.u32 %r2, 1, 0, %p1; mad.lo.u32 %r8, %r8, 10, %r2;\n"
        )
    };
    let body = format!(
        ".shared .b64 bar; mov.u32 %r1, bar; mov.u32 %r8, 0; mbarrier.init.shared.b64 [%r1], 2;\n\
         mbarrier.arrive_drop.shared.b64 _, [%r1]; mbarrier.arrive.shared.b64 _, [%r1]; {}\
         mbarrier.arrive.shared.b64 _, [%r1]; {}",
        wait(0),
        wait(1)
    );
    assert_eq!(one(&body), 11);
}

#[test]
fn one_thread_is_elected() {
    let body = "elect.sync %r8|%p1, -1; selp.u32 %r1, 100, 0, %p1; add.u32 %r8, %r8, %r1;";
    assert_eq!(lanes(body, 3), [100, 0, 0]);
}

#[test]
fn vector_atomics() {
    let body = "mov.b32 %f1, 0f3F800000; mov.b32 %f2, 0f40000000; st.global.v2.b32 [%rd0], {%f1, %f2};\n\
        atom.global.v2.f32.add {%f3, %f4}, [%rd0], {%f2, %f2}; red.global.add.v2.f32 [%rd0], {%f3, %f4};";
    let [sums, _] = results(body, 1).unwrap()[0];
    assert_eq!([sums as u32, (sums >> 32) as u32].map(f32::from_bits), [4.0, 6.0]);
}

/// Each block has its own reserved shared memory, which is zero when the block starts.
#[test]
fn reserved_shared_memory() {
    let body = ".shared .b32 own; mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u32 %r8, [%r1];\n\
        st.shared.u32 [own], 9; st.shared.u32 [%r1], 5; ld.shared.u32 %r2, [own]; add.u32 %r8, %r8, %r2;";
    assert_eq!(one(body), 9);
}

/// Instructions and qualifiers that only advise change no result.
#[test]
fn advice_changes_no_result() {
    let body = "griddepcontrol.launch_dependents; griddepcontrol.wait; setmaxnreg.inc.sync.aligned.u32 64;\n\
        cp.async.bulk.prefetch.L2.global [%rd0], 16;\n\
        mov.b64 %rd5, 0; st.global.L2::cache_hint.u32 [%rd0], 6, %rd5; prefetch.global.L2 [%rd0];\n\
        ld.global.L1::no_allocate.L2::cache_hint.u32 %r1, [%rd0], %rd5; applypriority.global.L2::evict_normal [%rd0], 128;\n\
        fence.mbarrier_init.release.cluster; fence.proxy.async; mov.u32 %r8, %r1;";
    assert_eq!(one(body), 6);
}

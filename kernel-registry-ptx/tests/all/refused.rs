//! Tests which PTX loads, which is refused as the ptxas of CUDA 13.0 refuses it, and which loads but cannot
//! be launched.

use kernel_registry_ptx::{LoadError, Program};

fn load(instruction: &str) -> Result<(), String> {
    let program = program(instruction).map_err(|error| error.to_string())?;
    program.lacking("a").map_or(Ok(()), |lacking| Err(lacking.to_string()))
}

/// Returns a program with a kernel that has registers of each type. The program's seventh line is the
/// instruction.
fn program(instruction: &str) -> Result<Program, LoadError> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\n.visible .entry a(.param .u64 q) {{\n\
         .reg .pred %p<3>; .reg .b8 %c<3>; .reg .b16 %h<5>; .reg .u16 %uh<3>; .reg .b32 %r<5>; .reg .u32 %ur<3>; \
         .reg .s32 %sr<3>; .reg .f32 %f<5>; .reg .b64 %rd<5>; .reg .f64 %fd<5>; .reg .f16x2 %hh<3>;\n\
         {instruction}\nret; }}"
    );
    Program::load(&text)
}

#[test]
fn valid_instructions_load() {
    for instruction in VALID.lines() {
        load(instruction).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn invalid_instructions_are_refused_with_their_line() {
    for instruction in REFUSED.lines() {
        let error = program(instruction).err().expect(instruction).to_string();
        assert!(error.starts_with("line 7 of the PTX: "), "{error}");
    }
}

/// The mistakes in these instructions are found only by a compiler. The module loads, and the kernel cannot
/// be launched.
#[test]
fn kernels_with_mistakes_load_and_cannot_be_launched() {
    for instruction in LACKING.lines() {
        let program = program(instruction).unwrap_or_else(|error| panic!("{error}"));
        let lacking = program.lacking("a").expect(instruction);
        assert_eq!((lacking.line, &*lacking.instruction), (7, instruction));
    }
}

/// A mistake in one kernel or function does not prevent the launch of kernels that do not call it.
#[test]
fn a_mistake_affects_only_kernels_that_reach_it() {
    let program = Program::load(
        ".entry a() { ret; } .func f() { wibble; ret; } .entry b() { call f; } .func g(); .entry c() { call g; } \
         .entry d(.param .u64 t) { .reg .f32 %f<9>; .reg .pred %p; .reg .b64 %rd; .reg .b32 %r; ld.param.u64 %rd, [t]; \
         @%p tex.3d.v4.f32.s32 {%f1, _, %f3, %f4}, [%rd, {%r, %r, %r, %r}], 1; \
         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%rd], [%rd, {%r, %r}], [%rd]; } \
         .entry e() { .reg .b128 %q; .reg .b32 %r; mov.u32 %r, %pm0; }",
    )
    .unwrap();
    let mut lacking: Vec<_> = program.kernels().map(|name| (name, program.lacking(name))).collect();
    lacking.sort_by_key(|(name, _)| *name);
    let what: Vec<_> = lacking.iter().map(|(_, found)| found.map_or("", |found| &*found.what)).collect();
    assert_eq!(what, ["", "wibble", "g", "tex.3d.v4.f32.s32", "%pm0"]);
}

#[test]
fn a_name_that_is_declared_twice_is_refused() {
    for text in [
        ".global .u32 a; .global .u32 a;",
        ".entry a() { ret; } .entry a() { ret; }",
        ".global .u32 a; .entry a() { ret; }",
        ".entry a() { .reg .u32 x; .shared .u32 x; ret; }",
    ] {
        let error = Program::load(text).err().expect(text).to_string();
        assert!(error.contains("again; give it another name"), "{error}");
    }
}

const VALID: &str = "\
add.f32 %r1, %r2, %r3;
add.f16 %h1, %h2, %h3;
add.f16x2 %r1, %r2, %r3;
add.f16x2 %hh1, %r2, %r3;
and.b32 %f1,%f2,%f3;
and.b32 %ur1,%sr2,%r3;
shl.b64 %rd1,%rd2,%r1;
shl.b32 %f1,%f2,%r3;
mov.b32 %f1, %r1;
mov.f32 %f1, %r1;
mov.b32 %f1, %ur1;
mov.u16 %h1, %tid.x;
mov.u32 %r1, q;
mov.b64 {%r1, %f2}, %rd1;
mov.b32 %r1, {%h1, %uh2};
mov.pred %p1, 1;
ld.global.u8 %rd1,[%rd1];
ld.global.u8 %c1,[%rd1];
ld.global.f32 %rd1,[%rd1];
ld.global.b16 %f1,[%rd1];
ld.shared.u32 %r1,[%r1];
ld.param.u32 %rd1, [q];
ld.global.v2.u32 {%r1, %f2}, [%rd1];
ld.global.b32 { %r1 }, [%rd1];
ld.global.b8 {%h1}, [%rd1];
ld.global.f32 {%r1}, [%rd1];
ld.global.b32 {%rd1}, [%rd1];
ld.param.b64 {%rd1}, [q];
ldu.global.b32 {%r1}, [%rd1];
st.global.b32 [%rd1], { %r1 };
st.global.b32 [%rd1], {4};
st.global.f32 [%rd1], {%ur1};
ld.global.v2.f32 {%ur1, %ur2}, [%rd1];
st.shared.b8 [%r1], {%r2};
mov.b32 {%r1}, %r2;
mov.b64 {%rd1}, %rd2;
mov.b64 %rd1, {%rd2};
st.global.u32 [%rd1], %rd2;
st.global.f32 [%rd1], 1.0;
cvt.u32.u64 %rd1, %rd2;
cvt.rn.f32.u32 %rd1, %rd2;
cvt.u8.u32 %r1, %r2;
cvt.f32.f16 %f1, %r1;
cvt.u64.u32 %rd1, %tid.x;
setp.eq.f32 %p1, %f1, %r1;
selp.b32 %f1, %f2, %f3, %p1;
mul.wide.u32 %rd1, %r2, %r3;
add.rm.f32 %f1, %f2, %f3;
div.full.f32 %f1, %f2, %f3;
ex2.approx.f16 %h1, %h2;
ex2.approx.ftz.bf16 %h1, %h2;
ex2.approx.ftz.bf16x2 %r1, %r2;
popc.b64 %r1, %rd2;
atom.global.add.f32 %f1, [%rd1], %r2;
shfl.sync.bfly.b32 %f1, %f2, 1, 31, -1;
bar.sync 0, 64;
add.u32 %r1, %r2, -1;
shr.b32 %r1,%r2,%r3;
mul24.lo.s32 %ur1, %sr2, 5;
dp2a.lo.s32.u32 %r1, %r2, %r3, %r4;
bmsk.clamp.b32 %ur1, %sr2, 3;
szext.wrap.s32 %sr1, %ur2, 3;
.shared .b32 s; mapa.shared::cluster.u32 %r1, s+4, %r3;
mapa.u64 %rd1, %rd2, 1;
mad.lo.cc.u32 %r1, %r2, %r3, %r4;
madc.hi.s64 %rd1, %rd2, %rd3, %rd4;
cp.async.ca.shared.global [%r1], [%rd1], 4, !%p1;
cp.async.ca.shared.global [%r1], [%rd1], 4, %ur1;
min.u32 %sr1,%r2,%r3;
.reg .b32 x; { .reg .b32 x; mov.u32 x, 4; }
{ y: bra y; } { y: bra y; }";

const LACKING: &str = "\
add.rn.u32 %r1, %r2, %r3;
add.lo.u32 %r1, %r2, %r3;
ld.global.v3.u32 {%r1, %r2, %r3}, [%rd1];
ld.global.wibble.u32 %r1, [%rd1];
mul.u32 %r1, %r2, %r3;
mul.lo.rn.u32 %r1, %r2, %r3;
rsqrt.f32 %f1, %f2;
ex2.f32 %f1,%f2;
wibble.u32 %r1;
red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%r1], %r2, [%r3];
st.async.weak.mbarrier::complete_tx::bytes.shared::cluster.u32 [%r1], %r2, [%r3];
st.bulk.weak.shared::cta [%r1], 16, 0;
min.u16x2 %r1, %r2, %r3;
cvt.rn.bf16x2.ue8m0x2 %r1, %h1;
mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3, %r4}, {%f1, %f2, %f3, %f4}, %r1, 0;
ld.global.b128 %rd1, [%rd2];";

const REFUSED: &str = "\
add.f32 %f1, %f2, 1;
add.u32 %r1, %r2, 1.0;
add.f32 %ur1, %ur2, %ur1;
add.u32 %f1, %f2, %f3;
add.f16 %uh1, %uh2, %uh1;
add.f16x2 %ur1, %r2, %r3;
add.b32 %r1, %r2, %r3;
add.sat.u32 %r1, %r2, %r3;
add.rm.f16 %h1, %h2, %h3;
add.ftz.f64 %fd1, %fd2, %fd3;
add.u32 %r1, %tid.x, 3;
and.u32 %r1,%r2,%r3;
and.pred %p1, %p2, %r1;
not.u32 %r1, %r2;
shl.b32 %r1,%r2,%rd1;
shl.b64 %rd1,%rd2,%rd1;
shl.u32 %r1, %r2, %r3;
mov.u32 %f1, %f2;
mov.u32 %f1, %r1;
mov.u32 %r1, %rd1;
mov.f32 %f1, %ur1;
mov.u64 %rd1, %tid.x;
mov.u32 %tid.x, %r1;
mov.b64 {%r1, %h2}, %rd1;
mov.u64 %rd1, {%r1, %r2};
ld.global.u32 %h1,[%rd1];
ld.global.f32 %ur1,[%rd1];
ld.global.u32 %f1,[%rd1];
ld.global.u16 %f1,[%rd1];
ld.global.f16 %h1,[%rd1];
ld.global.u32 %r1,[%r1];
ld.global.u32 %r1,[%fd1];
ld.global.u32 %r1,[16];
ld.global.v2.u32 %rd1, [%rd1];
ld.global.v2.u32 {%r1}, [%rd1];
ld.global.u32 {%f1}, [%rd1];
st.global.u32 [%rd1], {1.0};
st.global.f32 [%rd1], {%fd1};
ld.global.b32 {%r1, %r2}, [%rd1];
ld.global.b32 {}, [%rd1];
ld.global.u32 {%h1}, [%rd1];
ld.global.b32 {{%r1}}, [%rd1];
mov.b32 {%r1}, {%r2};
mov.u32 {%r1}, %r2;
mov.u32 %r1, {%r2};
add.u32 {%r1}, %r2, %r3;
cvt.u32.u64 {%r1}, %rd1;
atom.global.add.u32 {%r1}, [%rd1], %r2;
atom.global.add.u32 %r1, [%rd1], {%r2};
red.global.add.u32 [%rd1], {%r2};
ld.relaxed.global.u32 %r1, [%rd1];
ld.shared.nc.u32 %r1, [%r1];
ld.u64 %rd1, [q];
ld.const.u64 %rd1, [q];
ld.param.u64 %rd1, [zz];
st.global.f32 [%rd1], 1;
st.global.u32 [%rd1], 1.0;
st.global.u32 [%rd1], {%r1, %r2};
st.param.u64 [q], %rd1;
cvt.u32.u64 %r1, %r2;
cvt.u64.u32 %r1, %r2;
cvt.f32.u32 %f1, %f2;
cvt.rn.f32.u32 %f1, %f2;
cvt.f32.f64 %f1, %fd1;
cvt.s32.f32 %r1, %f1;
cvt.rzi.s32.f32 %r1, %fd1;
cvta.to.u64 %rd1, %rd2;
setp.eq.s32 %p1, %f1, %r1;
setp.eq.s32 %r1, %r1, %r1;
setp.lo.s32 %p1, %r1, %r1;
setp.lt.b32 %p1, %r1, %r1;
setp.lt.u32 %p1, %r1, 0f00000000;
setp.ge.ftz.s32 %p1, %r1, %r2;
selp.b32 %r1, %r2, %r3, %r1;
selp.u32 %f1, %f2, %f3, %p1;
mul.f32 %f1, %f2;
mul.lo.u32 %rd1, %r2, %r3;
mul.wide.u32 %r1, %r2, %r3;
mul.wide.u64 %rd1, %rd2, %rd3;
fma.f32 %f1, %f2, %f3, %f1;
div.f32 %f1, %f2, %f3;
sqrt.f32 %f1, %f2;
ex2.approx.bf16 %h1, %h2;
ex2.approx.ftz.f16 %h1, %h2;
tanh.approx.ftz.f32 %f1, %f2;
popc.b32 %rd1, %r2;
popc.u32 %r1, %r2;
bfe.u32 %r1,%r2,%rd3,%r1;
lop3.b32 %r1,%r2,%r3,%r1,%r2;
bra nowhere;
foo: bar.sync 0; foo: ret;
@%r1 bra x; x: ret;
atom.global.add.u32 %r1, [%rd1], %rd2;
atom.global.add.b32 %r1, [%rd1], %r2;
atom.global.and.u32 %r1, [%rd1], %r2;
atom.global.add.s64 %rd1, [%rd1], %rd2;
atom.global.exch.u32 %r1, [%rd1], %r2;
atom.global.cas.b32 %r1, [%rd1], %r2;
shfl.sync.bfly.b32 %rd1, %r2, 1, 31, -1;
shfl.sync.bfly.u32 %r1, %r2, 1, 31, -1;
vote.sync.ballot.b32 %r1, %r1, -1;
bar.sync 17;
bar.sync 0, 33;
bar.sync 0, %tid.x;
membar;
cp.async.wait_group 1.5;
.reg .b32 %r<4>;
ret %r1;
call foo;
mul24.lo.u32 %rd1, %r2, %r3;
mul24.lo.u16 %h1, %h2, %h3;
mad24.lo.u32 %r1, %r2, %r3, %rd4;
dp2a.lo.s32.u32 %r1, %r2, %r3, %rd4;
dp2a.lo.s32.u16 %r1, %r2, %r3, %r4;
dp4a.s64.u32 %r1, %r2, %r3, %r4;
bmsk.clamp.b32 %f1, %f2, %f3;
szext.wrap.s32 %r1, %r2, %f3;
szext.wrap.s32 %rd1, %rd2, %r3;
mapa.u32 %rd1, %rd2, %r3;
mapa.u64 %rd1, %rd2, %f3;
add.cc.f32 %f1, %f2, %f3;
add.cc.u16 %h1, %h2, %h3;
mad.wide.cc.u32 %rd1, %r2, %r3, %rd4;
madc.wide.u32 %rd1, %r2, %r3, %rd4;
mad.lo.cc.u16 %h1, %h2, %h3, %h1;
cp.async.ca.shared.global [%r1], [%rd1], 4, %rd1;
cp.async.ca.shared.global [%r1], [%rd1], 4, %f1;
{ .param .u64 x; call a, (x); }";

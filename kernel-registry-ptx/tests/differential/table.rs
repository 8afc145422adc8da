//! Lists instructions with all their modifiers: patterns, operands, results and error bounds.
//!
//! A pattern without operands is one opcode, whose first operand is the result. In other patterns, `%a` to
//! `%d` are the operands, `%x` is the result, `%p` and `%q` are predicates, `%r0` to `%r3` and `%l0` to `%l3`
//! are scratch registers, and `%m` and `%s` are the addresses of eight bytes in global and in shared memory.

/// A row: the pattern, the kinds of the operands, and the kind of the result.
pub type Row = (&'static str, &'static str, &'static str);

/// Instructions with the same result on every device.
pub const EXACT: &[Row] = &[
    // 32-bit floating point.
    ("<add,mul>.<rn,rz,rm,rp><,.ftz><,.sat>.f32", "f32 f32", "f32"),
    ("sub.<rn,rm>.f32", "f32 f32", "f32"),
    ("fma.<rn,rz,rm,rp><,.ftz><,.sat>.f32", "f32 f32 f32", "f32"),
    ("div.<rn,rz,rm,rp><,.ftz>.f32", "f32 f32", "f32"),
    ("<rcp,sqrt>.<rn,rz,rm,rp><,.ftz>.f32", "f32", "f32"),
    ("<min,max><,.ftz><,.NaN>.f32", "f32 f32", "f32"),
    ("<min,max>.xorsign.abs.f32", "f32 f32", "f32"),
    ("<neg,abs><,.ftz>.f32", "f32", "f32"),
    ("copysign.f32", "f32 f32", "f32"),
    ("testp.<finite,infinite,number,notanumber,normal,subnormal>.f32", "f32", "pred"),
    ("setp.<eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan><,.ftz>.f32", "f32 f32", "pred"),
    ("set.<lt,geu,neu,num><,.ftz>.<u32,s32>.f32", "f32 f32", "b32"),
    ("set.<lt,geu,neu,num><,.ftz>.f32.f32", "f32 f32", "f32"),
    ("slct<,.ftz>.b32.f32", "b32 b32 f32", "b32"),
    // 64-bit floating point.
    ("<add,mul,div>.<rn,rz,rm,rp>.f64", "f64 f64", "f64"),
    ("sub.<rn,rm>.f64", "f64 f64", "f64"),
    ("fma.<rn,rz,rm,rp>.f64", "f64 f64 f64", "f64"),
    ("<rcp,sqrt>.<rn,rz,rm,rp>.f64", "f64", "f64"),
    ("<min,max,copysign>.f64", "f64 f64", "f64"),
    ("<neg,abs>.f64", "f64", "f64"),
    ("testp.<finite,infinite,number,notanumber,normal,subnormal>.f64", "f64", "pred"),
    ("setp.<eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan>.f64", "f64 f64", "pred"),
    // 16-bit floating point.
    ("<add,sub,mul>.rn<,.ftz><,.sat>.f16", "f16 f16", "f16"),
    ("<add,sub,mul>.rn<,.ftz><,.sat>.f16x2", "f16x2 f16x2", "f16x2"),
    ("<add,sub,mul>.rn.bf16", "bf16 bf16", "bf16"),
    ("<add,sub,mul>.rn.bf16x2", "bf16x2 bf16x2", "bf16x2"),
    ("fma.rn<,.ftz><,.sat>.f16", "f16 f16 f16", "f16"),
    ("fma.rn<,.ftz><,.sat>.f16x2", "f16x2 f16x2 f16x2", "f16x2"),
    ("fma.rn<,.ftz>.relu.f16", "f16 f16 f16", "f16"),
    ("fma.rn.relu.f16x2", "f16x2 f16x2 f16x2", "f16x2"),
    ("fma.rn.relu.bf16", "bf16 bf16 bf16", "bf16"),
    ("fma.rn.bf16", "bf16 bf16 bf16", "bf16"),
    ("fma.rn.bf16x2", "bf16x2 bf16x2 bf16x2", "bf16x2"),
    ("<min,max><,.ftz><,.NaN>.f16", "f16 f16", "f16"),
    ("<min,max><,.ftz><,.NaN>.f16x2", "f16x2 f16x2", "f16x2"),
    ("<min,max><,.NaN>.bf16", "bf16 bf16", "bf16"),
    ("<min,max><,.NaN>.bf16x2", "bf16x2 bf16x2", "bf16x2"),
    ("<neg,abs><,.ftz>.f16", "f16", "f16"),
    ("<neg,abs><,.ftz>.f16x2", "f16x2", "f16x2"),
    ("<neg,abs>.bf16", "bf16", "bf16"),
    ("<neg,abs>.bf16x2", "bf16x2", "bf16x2"),
    ("setp.<eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan><,.ftz>.f16", "f16 f16", "pred"),
    ("setp.<eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan>.bf16", "bf16 bf16", "pred"),
    ("set.<lt,geu,neu><,.ftz>.<u32,s32>.f16", "f16 f16", "b32"),
    ("set.<lt,geu,neu><,.ftz>.f16.f16", "f16 f16", "f16"),
    ("set.<lt,geu,neu>.bf16.bf16", "bf16 bf16", "bf16"),
    ("set.<lt,geu,neu>.f16x2.f16x2", "f16x2 f16x2", "f16x2"),
    (
        "setp.<lt,geu><,.ftz>.f16x2 %p|%q, %a, %b; selp.b32 %x, 1, 0, %p; @%q or.b32 %x, %x, 2;",
        "f16x2 f16x2",
        "b32",
    ),
    (
        "setp.<lt,geu>.bf16x2 %p|%q, %a, %b; selp.b32 %x, 1, 0, %p; @%q or.b32 %x, %x, 2;",
        "bf16x2 bf16x2",
        "b32",
    ),
    // Integers.
    ("<add,sub,mul.lo,mul.hi,div,rem,min,max>.<u16,s16>", "b16 b16", "b16"),
    ("<add,sub,mul.lo,mul.hi,div,rem,min,max>.<u32,s32>", "b32 b32", "b32"),
    ("<add,sub,mul.lo,mul.hi,div,rem,min,max>.<u64,s64>", "b64 b64", "b64"),
    ("<add,sub>.sat.s32", "b32 b32", "b32"),
    ("mul.wide.<u16,s16>", "b16 b16", "b32"),
    ("mul.wide.<u32,s32>", "b32 b32", "b64"),
    ("mad.<lo,hi>.<u16,s16>", "b16 b16 b16", "b16"),
    ("mad.<lo,hi>.<u32,s32>", "b32 b32 b32", "b32"),
    ("mad.hi.sat.s32", "b32 b32 b32", "b32"),
    ("mad.<lo,hi>.<u64,s64>", "b64 b64 b64", "b64"),
    ("mad.wide.<u16,s16>", "b16 b16 b32", "b32"),
    ("mad.wide.<u32,s32>", "b32 b32 b64", "b64"),
    ("mul24.<lo,hi>.<u32,s32>", "b32 b32", "b32"),
    ("mad24.<lo,hi>.<u32,s32>", "b32 b32 b32", "b32"),
    ("dp2a.<lo,hi>.<u32,s32>.<u32,s32>", "b32 b32 b32", "b32"),
    ("sad.<u16,s16>", "b16 b16 b16", "b16"),
    ("sad.<u32,s32>", "b32 b32 b32", "b32"),
    ("sad.<u64,s64>", "b64 b64 b64", "b64"),
    ("<neg,abs>.s16", "b16", "b16"),
    ("<neg,abs>.s32", "b32", "b32"),
    ("<neg,abs>.s64", "b64", "b64"),
    ("dp4a.<u32,s32>.<u32,s32>", "b32 b32 b32", "b32"),
    ("setp.<eq,ne,lt,le,gt,ge>.<u16,s16>", "b16 b16", "pred"),
    ("setp.<eq,ne,lt,le,gt,ge>.<u32,s32>", "b32 b32", "pred"),
    ("setp.<eq,ne,lt,le,gt,ge>.<u64,s64>", "b64 b64", "pred"),
    ("setp.<lo,ls,hi,hs>.u32", "b32 b32", "pred"),
    ("set.<eq,lt>.<u32,s32>.<u32,s32>", "b32 b32", "b32"),
    ("set.<eq,lt>.f32.<u32,s32>", "b32 b32", "f32"),
    (
        "setp.ne.u32 %q, %c, 0; setp.lt.<and,or,xor>.s32 %p|%q, %a, %b, <,!>%q; \
         selp.b32 %x, 1, 0, %p; @%q or.b32 %x, %x, 2;",
        "b32 b32 few",
        "b32",
    ),
    ("slct.b16.s32", "b16 b16 b32", "b16"),
    ("slct.b64.s32", "b64 b64 b32", "b64"),
    ("add.cc.u32 %r0, %a, %b; addc.cc.u32 %r1, %c, %b; addc.u32 %x, %r0, %r1;", "b32 b32 b32", "b32"),
    ("sub.cc.u32 %r0, %a, %b; subc.cc.u32 %r1, %c, %b; subc.u32 %x, %r0, %r1;", "b32 b32 b32", "b32"),
    (
        "mad.lo.cc.u32 %r0, %a, %b, %c; madc.hi.u32 %r1, %a, %b, 0; xor.b32 %x, %r0, %r1;",
        "b32 b32 b32",
        "b32",
    ),
    (
        "mad.hi.cc.u32 %r0, %a, %b, %c; madc.lo.cc.u32 %r1, %b, %c, %a; addc.u32 %x, %r0, %r1;",
        "b32 b32 b32",
        "b32",
    ),
    ("add.cc.u64 %l0, %a, %b; addc.u64 %x, %c, %l0;", "b64 b64 b64", "b64"),
    ("sub.cc.s64 %l0, %a, %b; subc.s64 %x, %c, %l0;", "b64 b64 b64", "b64"),
    // Bits.
    ("<and,or,xor>.b32", "b32 b32", "b32"),
    ("<and,or,xor>.b64", "b64 b64", "b64"),
    ("<not,cnot>.b16", "b16", "b16"),
    ("<not,cnot,brev,popc,clz>.b32", "b32", "b32"),
    ("<not,cnot,brev>.b64", "b64", "b64"),
    ("<popc,clz>.b64", "b64", "b32"),
    ("<shl.b16,shr.b16,shr.u16,shr.s16>", "b16 count", "b16"),
    ("<shl.b32,shr.b32,shr.u32,shr.s32>", "b32 count", "b32"),
    ("<shl.b64,shr.b64,shr.u64,shr.s64>", "b64 count", "b64"),
    ("shf.<l,r>.<wrap,clamp>.b32", "b32 b32 count", "b32"),
    ("bfind<,.shiftamt>.<u32,s32>", "b32", "b32"),
    ("bfind<,.shiftamt>.<u64,s64>", "b64", "b32"),
    ("bfe.<u32,s32>", "b32 count count", "b32"),
    ("bfe.<u64,s64>", "b64 count count", "b64"),
    // The table leaves out two uses of constant operands, for which the driver's compiler contradicts its
    // manual and its own instructions: `bfe.s32` at a position beyond the register returns -1, and `bfi` with
    // 32 bits from bit 31 on is ignored.
    ("bfe.u32 %x, %a, <8,31,32,40>, <0,5,32,33>;", "b32", "b32"),
    ("bfe.s32 %x, %a, <8,31>, <0,5,32,33>;", "b32", "b32"),
    ("bfi.b32 %x, %a, %b, <8,32,40>, <0,5,32,33>;", "b32 b32", "b32"),
    ("bfi.b32 %x, %a, %b, 31, <0,5,33>;", "b32 b32", "b32"),
    ("<shl.b32,shr.u32,shr.s32> %x, %a, <31,32,40>;", "b32", "b32"),
    ("bmsk.<clamp,wrap>.b32", "count count", "b32"),
    ("szext.<clamp,wrap>.<u32,s32>", "b32 count", "b32"),
    ("bfi.b32", "b32 b32 count count", "b32"),
    ("bfi.b64", "b64 b64 count count", "b64"),
    ("prmt.b32<,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16>", "b32 b32 b32", "b32"),
    ("lop3.b32 %x, %a, %b, %c, <0x1e,0x96,0xe8,0x35,0x80>;", "b32 b32 b32", "b32"),
    // Conversions between integers.
    ("cvt.<u8,s8,u16,s16,u32,s32>.<u8,s8,u16,s16,u32,s32>", "b32", "b32"),
    ("cvt.<u8,s8,u16,s16,u32,s32>.<u64,s64>", "b64", "b32"),
    ("cvt.<u64,s64>.<u8,s8,u16,s16,u32,s32>", "b32", "b64"),
    ("cvt.<u64,s64>.<u64,s64>", "b64", "b64"),
    // The same with saturation, which exists only where some value does not fit.
    ("cvt.sat.u8.<s8,u16,s16,u32,s32>", "b32", "b32"),
    ("cvt.sat.s8.<u8,u16,s16,u32,s32>", "b32", "b32"),
    ("cvt.sat.u16.<s8,s16,u32,s32>", "b32", "b32"),
    ("cvt.sat.s16.<u16,u32,s32>", "b32", "b32"),
    ("cvt.sat.u32.<s8,s16,s32>", "b32", "b32"),
    ("cvt.sat.s32.u32", "b32", "b32"),
    ("cvt.sat.<u8,s8,u16,s16,u32,s32>.<u64,s64>", "b64", "b32"),
    ("cvt.sat.u64.<s8,s16,s32>", "b32", "b64"),
    ("cvt.sat.u64.s64", "b64", "b64"),
    ("cvt.sat.s64.u64", "b64", "b64"),
    // Conversions from floating point to integers.
    ("cvt.<rni,rzi,rmi,rpi>.<u8,s8,u16,s16,u32,s32>.f32", "f32", "b32"),
    ("cvt.<rni,rpi>.ftz.<u8,u32,s32>.f32", "f32", "b32"),
    ("cvt.<rni,rzi,rmi,rpi><,.ftz>.<u64,s64>.f32", "f32", "b64"),
    ("cvt.<rni,rzi,rmi,rpi>.<u8,s8,u16,s16,u32,s32>.f64", "f64", "b32"),
    ("cvt.<rni,rzi,rmi,rpi>.<u64,s64>.f64", "f64", "b64"),
    ("cvt.<rni,rzi,rmi,rpi>.<u8,s8,u16,s16,u32,s32>.f16", "f16", "b32"),
    ("cvt.<rni,rzi,rmi,rpi>.<u64,s64>.f16", "f16", "b64"),
    ("cvt.<rni,rzi,rmi,rpi>.<u32,s32>.bf16", "bf16", "b32"),
    ("cvt.<rni,rzi,rmi,rpi>.<u64,s64>.bf16", "bf16", "b64"),
    ("cvt.rzi.sat.<u32,s32>.f32", "f32", "b32"),
    // Conversions from integers to floating point.
    ("cvt.<rn,rz,rm,rp>.f32.<u8,s8,u16,s16,u32,s32>", "b32", "f32"),
    ("cvt.<rn,rz,rm,rp>.f32.<u64,s64>", "b64", "f32"),
    ("cvt.rn.f64.<u8,s8,u16,s16,u32,s32>", "b32", "f64"),
    ("cvt.<rn,rz,rm,rp>.f64.<u64,s64>", "b64", "f64"),
    ("cvt.<rn,rz,rm,rp>.f16.<u8,s8,u16,s16,u32,s32>", "b32", "f16"),
    ("cvt.<rn,rz,rm,rp>.f16.<u64,s64>", "b64", "f16"),
    ("cvt.<rn,rz,rm,rp>.bf16.<u32,s32>", "b32", "bf16"),
    ("cvt.<rn,rz,rm,rp>.bf16.<u64,s64>", "b64", "bf16"),
    ("cvt.rn.sat.f32.<u32,s32>", "b32", "f32"),
    // Conversions between floating-point formats.
    ("cvt.<rn,rz,rm,rp><,.ftz><,.sat>.f32.f64", "f64", "f32"),
    ("cvt<,.ftz><,.sat>.f64.f32", "f32", "f64"),
    ("cvt.<rn,rz,rm,rp><,.ftz><,.sat>.f16.f32", "f32", "f16"),
    ("cvt<,.ftz><,.sat>.f32.f16", "f16", "f32"),
    ("cvt.<rn,rz,rm,rp><,.sat>.f16.f64", "f64", "f16"),
    ("cvt<,.sat>.f64.f16", "f16", "f64"),
    ("cvt.<rn,rz><,.relu>.bf16.f32", "f32", "bf16"),
    ("cvt.<rm,rp>.bf16.f32", "f32", "bf16"),
    ("cvt.f32.bf16", "bf16", "f32"),
    ("cvt.<rn,rz,rm,rp>.bf16.f64", "f64", "bf16"),
    ("cvt.f64.bf16", "bf16", "f64"),
    ("cvt.<rn,rz,rm,rp>.bf16.f16", "f16", "bf16"),
    ("cvt.<rn,rz,rm,rp>.f16.bf16", "bf16", "f16"),
    ("cvt.<rn,rz>.relu.f16.f32", "f32", "f16"),
    ("cvt.<rn,rz><,.relu>.f16x2.f32", "f32 f32", "f16x2"),
    ("cvt.<rn,rz><,.relu>.bf16x2.f32", "f32 f32", "bf16x2"),
    // Rounding to whole numbers, and saturation to the range from 0 to 1.
    ("cvt.<rni,rzi,rmi,rpi><,.ftz><,.sat>.f32.f32", "f32", "f32"),
    ("cvt.<rni,rzi,rmi,rpi><,.sat>.f64.f64", "f64", "f64"),
    ("cvt.<rni,rzi,rmi,rpi><,.sat>.f16.f16", "f16", "f16"),
    ("cvt.<rni,rzi,rmi,rpi>.bf16.bf16", "bf16", "bf16"),
    ("cvt<.sat,.ftz,.ftz.sat>.f32.f32", "f32", "f32"),
    ("cvt.sat.f64.f64", "f64", "f64"),
    ("cvt.sat.f16.f16", "f16", "f16"),
    // Exchanges between the lanes of a warp.
    (
        "shfl.sync.<up,down,bfly,idx>.b32 %x|%p, %a, %b, %c, -1; @%p xor.b32 %x, %x, 0x5555;",
        "b32 count bounds",
        "b32",
    ),
    ("setp.lt.s32 %p, %a, %b; vote.sync.ballot.b32 %x, <,!>%p, -1;", "b32 b32", "b32"),
    (
        "setp.ne.u32 %q, %a, 5; vote.sync.<all,any,uni>.pred %p, <,!>%q, -1; selp.b32 %x, 1, 0, %p;",
        "few",
        "b32",
    ),
    ("match.any.sync.b32 %x, %a, -1;", "few", "b32"),
    ("cvt.s64.s32 %l0, %a; match.any.sync.b64 %x, %l0, -1;", "few", "b32"),
    ("match.all.sync.b32 %x|%p, %a, -1; @%p add.u32 %x, %x, 1;", "few", "b32"),
    ("redux.sync.<add,min,max>.<u32,s32> %x, %a, -1;", "b32", "b32"),
    ("redux.sync.<and,or,xor>.b32 %x, %a, -1;", "b32", "b32"),
    // Atomic operations. The result combines the old and the new value.
    (
        "st.global.b32 [%m], %a; atom.global.<add.u32,add.s32,min.u32,min.s32,max.u32,max.s32,and.b32,or.b32,xor.b32,\
         exch.b32,inc.u32,dec.u32,add.f32> %r0, [%m], %b; ld.global.b32 %x, [%m]; xor.b32 %r0, %r0, %a; \
         add.u32 %x, %x, %r0;",
        "b32 b32",
        "b32",
    ),
    (
        "st.shared.b32 [%s], %a; atom.shared.<add.u32,min.s32,max.u32,inc.u32,dec.u32,exch.b32> %r0, [%s], %b; \
         ld.shared.b32 %x, [%s]; xor.b32 %r0, %r0, %a; add.u32 %x, %x, %r0;",
        "b32 b32",
        "b32",
    ),
    (
        "st.global.b64 [%m], %a; atom.global.<add.u64,min.u64,min.s64,max.u64,max.s64,and.b64,or.b64,xor.b64,exch.b64> \
         %l0, [%m], %b; ld.global.b64 %x, [%m]; xor.b64 %l0, %l0, %a; add.u64 %x, %x, %l0;",
        "b64 b64",
        "b64",
    ),
    (
        "st.global.b32 [%m], %a; atom.global.cas.b32 %r0, [%m], %b, %c; ld.global.b32 %x, [%m];",
        "few few b32",
        "b32",
    ),
    (
        "st.shared.b32 [%s], %a; atom.shared.cas.b32 %r0, [%s], %b, %c; ld.shared.b32 %x, [%s];",
        "few few b32",
        "b32",
    ),
    (
        "st.global.b64 [%m], %a; atom.global.cas.b64 %l0, [%m], %b, %c; ld.global.b64 %x, [%m];",
        "b64 b64 b64",
        "b64",
    ),
    ("st.global.b32 [%m], %a; atom.global.add.f32 %r0, [%m], %b; ld.global.b32 %x, [%m];", "f32 f32", "f32"),
    ("st.global.b32 [%m], %a; red.global.add.f32 [%m], %b; ld.global.b32 %x, [%m];", "f32 f32", "f32"),
    ("st.shared.b32 [%s], %a; atom.shared.add.f32 %r0, [%s], %b; ld.shared.b32 %x, [%s];", "f32 f32", "f32"),
    ("st.shared.b32 [%s], %a; red.shared.add.f32 [%s], %b; ld.shared.b32 %x, [%s];", "f32 f32", "f32"),
    ("st.global.b64 [%m], %a; atom.global.add.f64 %l0, [%m], %b; ld.global.b64 %x, [%m];", "f64 f64", "f64"),
    ("st.shared.b64 [%s], %a; atom.shared.add.f64 %l0, [%s], %b; ld.shared.b64 %x, [%s];", "f64 f64", "f64"),
    (
        "st.global.b16 [%m], %a; atom.global.add.noftz.f16 %x, [%m], %b; ld.global.b16 %x, [%m];",
        "f16 f16",
        "f16",
    ),
    (
        "st.shared.b16 [%s], %a; atom.shared.add.noftz.f16 %x, [%s], %b; ld.shared.b16 %x, [%s];",
        "f16 f16",
        "f16",
    ),
    (
        "st.global.b16 [%m], %a; atom.global.add.noftz.bf16 %x, [%m], %b; ld.global.b16 %x, [%m];",
        "bf16 bf16",
        "bf16",
    ),
    (
        "st.global.b32 [%m], %a; atom.global.add.noftz.f16x2 %x, [%m], %b; ld.global.b32 %x, [%m];",
        "f16x2 f16x2",
        "f16x2",
    ),
    (
        "st.global.b32 [%m], %a; atom.global.add.noftz.bf16x2 %x, [%m], %b; ld.global.b32 %x, [%m];",
        "bf16x2 bf16x2",
        "bf16x2",
    ),
    (
        "st.global.b16 [%m], %a; atom.global.cas.b16 %x, [%m], %b, %c; ld.global.b16 %x, [%m];",
        "b16 b16 b16",
        "b16",
    ),
];

/// Instructions that the driver's compiler rejects: saturation to a range that includes all values of the
/// operand, and conversions between bf16 and short integers.
pub const REFUSED: &[Row] = &[
    ("cvt.sat.<u8.u8,s8.s8,u16.u8,u16.u16,s16.u8,s16.s8,s16.s16>", "b16", "b16"),
    ("cvt.sat.<u32,s32>.<u8,u16>", "b16", "b32"),
    ("cvt.sat.<u32.u32,s32.s8,s32.s16,s32.s32>", "b32", "b32"),
    ("cvt.sat.<u64,s64>.<u8,u16,u32>", "b32", "b64"),
    ("cvt.sat.<s64.s8,s64.s16,s64.s32,u64.u64,s64.s64>", "b64", "b64"),
    ("cvt.<rni,rzi,rmi,rpi>.<u8,s8,u16,s16>.bf16", "bf16", "b32"),
    ("cvt.<rn,rz,rm,rp>.bf16.<u8,s8,u16,s16>", "b32", "bf16"),
];

/// The largest error of a result, from the PTX manual. For `rcp` and `rsqrt` of f64 it is the largest
/// measured error, rounded up.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// A number of units in the last place of the result (ULP).
    Ulps(f64),
    /// Two to this power, relative to the exact result.
    Relative(f64),
    /// Two to this power.
    Absolute(f64),
    /// Two to the first power for angles up to a whole turn, and two to the second power beyond.
    Angle(f64, f64),
    /// Two to this power, which is relative for results beyond 1.
    Logarithm(f64),
}

/// Instructions that a GPU approximates.
pub const APPROXIMATE: &[(Row, Bound)] = &[
    (("div.<approx,full><,.ftz>.f32", "f32 f32", "f32"), Bound::Ulps(2.0)),
    (("rcp.approx<,.ftz>.f32", "f32", "f32"), Bound::Ulps(1.0)),
    (("sqrt.approx<,.ftz>.f32", "f32", "f32"), Bound::Relative(-23.0)),
    (("rsqrt.approx<,.ftz>.f32", "f32", "f32"), Bound::Relative(-22.9)),
    (("rcp.approx.ftz.f64", "f64", "f64"), Bound::Relative(-20.0)),
    (("rsqrt.approx.ftz.f64", "f64", "f64"), Bound::Relative(-20.0)),
    (("rsqrt.approx.f64", "f64", "f64"), Bound::Ulps(1.0)),
    (("<sin,cos>.approx<,.ftz>.f32", "angle", "f32"), Bound::Angle(-20.5, -14.7)),
    (("lg2.approx<,.ftz>.f32", "f32", "f32"), Bound::Logarithm(-22.0)),
    (("ex2.approx<,.ftz>.f32", "f32", "f32"), Bound::Ulps(2.0)),
    (("ex2.approx.f16", "f16", "f16"), Bound::Relative(-9.9)),
    (("ex2.approx.f16x2", "f16x2", "f16x2"), Bound::Relative(-9.9)),
    (("ex2.approx.ftz.bf16", "bf16", "bf16"), Bound::Relative(-7.0)),
    (("ex2.approx.ftz.bf16x2", "bf16x2", "bf16x2"), Bound::Relative(-7.0)),
    (("tanh.approx.f32", "f32", "f32"), Bound::Relative(-11.0)),
    (("tanh.approx.f16", "f16", "f16"), Bound::Absolute(-10.987)),
    (("tanh.approx.f16x2", "f16x2", "f16x2"), Bound::Absolute(-10.987)),
    (("tanh.approx.bf16", "bf16", "bf16"), Bound::Absolute(-8.0)),
    (("tanh.approx.bf16x2", "bf16x2", "bf16x2"), Bound::Absolute(-8.0)),
];

//! Tests the comparison of declared parameters with kernels in PTX.

use super::*;
use crate::read;

#[test]
fn a_long_signature_is_cut_in_messages() {
    let symbol = format!("_Z4long{}", "i".repeat(3000));
    let params = vec![".param .u32 n"; 3000].join(", ");
    let text = format!(".version 8.0 .target sm_75 .entry {symbol}({params}) {{ ret; }}");
    let image = read(text.as_bytes()).unwrap();
    let entry = image.find("long", "x.ptx").unwrap();
    let message = compare_count(3, entry, "x.ptx").unwrap_err().message;
    assert!(message.starts_with("`long(int, int, "));
    assert!(message.ends_with("..` of `x.ptx` takes 3000 parameters, and 3 are declared"));
    assert!(message.len() < 1100);
}

const PTX: &str = ".version 8.0 .target sm_75
    .entry _Z4takeiPKfPfPv4Pair(
        .param .u32 n, .param .u64 x, .param .u64 y, .param .u64 any, .param .align 4 .b8 pair[8]
    ) .maxntid 128 { ret; }";

/// Compares a declared parameter with the one at this index in [`PTX`], and returns the verdict as text.
fn verdict(index: usize, spelled: &str, pass: Pass, layout: Option<[u32; 2]>) -> String {
    let image = read(PTX.as_bytes()).unwrap();
    let entry = image.find("take", "x.ptx").unwrap();
    match (Param { name: "p", spelled, pass, layout }).compare(index, entry, "x.ptx") {
        Verdict::Meets => "meets".to_owned(),
        Verdict::Needs { expected, .. } => format!("{expected:?}"),
        Verdict::Wrong(mismatch) => format!("{:?}", mismatch.about),
    }
}

#[test]
fn numbers_are_compared_by_name() {
    assert_eq!(verdict(0, "i32", Pass::Value, None), "meets");
    assert_eq!(verdict(0, "u32", Pass::Value, Some([4, 4])), "Type");
    assert_eq!(verdict(1, "&[f32]", Pass::Slice, None), "meets");
    assert_eq!(verdict(1, "*const f64", Pass::Pointer, Some([8, 8])), "Type");
    assert_eq!(verdict(1, "u64", Pass::Value, None), "Type");
    assert_eq!(verdict(4, "u64", Pass::Value, None), "Layout");
}

#[test]
fn other_types_are_compared_by_layout_once_it_is_known() {
    assert_eq!(verdict(0, "Count", Pass::Value, None), "Scalar(Int)");
    assert_eq!(verdict(0, "Count", Pass::Value, Some([4, 4])), "meets");
    assert_eq!(verdict(0, "Count", Pass::Value, Some([8, 8])), "Layout");
    assert_eq!(verdict(3, "Handle", Pass::Value, None), "Pointer");
    assert_eq!(verdict(3, "Handle", Pass::Value, Some([8, 8])), "meets");
    assert_eq!(verdict(3, "Handle", Pass::Value, Some([8, 4])), "Layout");
    assert_eq!(verdict(4, "Pair", Pass::Value, None), "Layout { size: 8, align: 4, fields: [] }");
    assert_eq!(verdict(4, "Pair", Pass::Value, Some([8, 4])), "meets");
    assert_eq!(verdict(4, "Pair", Pass::Value, Some([8, 8])), "Layout");
}

#[test]
fn memory_that_the_kernel_writes_must_be_declared_mutable() {
    assert_eq!(verdict(2, "&[f32]", Pass::Slice, None), "Direction");
    assert_eq!(verdict(2, "*const f32", Pass::Pointer, None), "Direction");
    assert_eq!(verdict(2, "&mut [f32]", Pass::SliceMut, None), "meets");
    assert_eq!(verdict(1, "*mut f32", Pass::PointerMut, None), "meets");
}

#[test]
fn a_slice_that_may_be_null_is_judged_as_the_slice() {
    assert_eq!(verdict(1, "Option<&[f32]>", Pass::Slice, None), "meets");
    assert_eq!(verdict(1, "::core::option::Option<&[f64]>", Pass::Slice, None), "Type");
    assert_eq!(verdict(2, "Option<&mut [f32]>", Pass::SliceMut, None), "meets");
    assert_eq!(verdict(2, "Option<&[f32]>", Pass::Slice, None), "Direction");
    assert_eq!(verdict(2, "Option<&mut [Wrapper<f32>]>", Pass::SliceMut, None), "Scalar(Float)");
    assert_eq!(verdict(4, "Option<&[f32]>", Pass::Slice, None), "Type");
}

#[test]
fn cudas_own_types_have_a_name() {
    let ptx = ".version 8.0 .target sm_75 .entry _Z1kPK6float414CUtensorMap_st(
        .param .u64 x, .param .align 128 .b8 map[128]
    ) { ret; }";
    let image = read(ptx.as_bytes()).unwrap();
    let entry = image.find("k", "x.ptx").unwrap();
    let compare = |index, spelled, pass, layout| {
        Param { name: "p", spelled, pass, layout }.compare(index, entry, "x.ptx")
    };
    let Verdict::Needs { expected, .. } = compare(0, "&[Float4]", Pass::Slice, None) else { panic!() };
    assert_eq!(expected, Expected::Named { name: "float4".to_owned(), size: 16, align: 16 });
    // Binaries record only layouts. The PTX aligns the map to 128, as CUDA 13 does. CUDA 12 aligns it to 64.
    for map in [[128, 64], [128, 128]] {
        assert_eq!(compare(1, "TensorMap", Pass::Value, Some(map)), Verdict::Meets);
    }
    assert!(matches!(compare(1, "Other", Pass::Value, Some([128, 32])), Verdict::Wrong(_)));
}

#[test]
fn pointers_to_anything_meet_any_pointer() {
    assert_eq!(verdict(3, "&mut [Pair]", Pass::SliceMut, None), "meets");
    assert_eq!(verdict(2, "*mut core::ffi::c_void", Pass::PointerMut, None), "meets");
}

#[test]
fn without_a_signature_ptx_tells_floating_point_from_integers() {
    let ptx = ".version 8.0 .target sm_75 .entry c(
        .param .u64 x, .param .f32 a, .param .u32 n, .param .f64 d, .param .b32 any, .param .align 2 .b8 h[2]
    ) { ret; }";
    let image = read(ptx.as_bytes()).unwrap();
    let entry = image.find("c", "c.ptx").unwrap();
    let compare = |index, spelled, pass, layout| {
        let declared = Param { name: "p", spelled, pass, layout };
        match declared.compare(index, entry, "c.ptx") {
            Verdict::Wrong(mismatch) => format!("{:?}: {mismatch}", mismatch.about),
            verdict => format!("{verdict:?}"),
        }
    };
    let value = |index, spelled| compare(index, spelled, Pass::Value, None);
    for (index, spelled) in
        [(0, "u64"), (0, "isize"), (1, "f32"), (2, "i32"), (3, "f64"), (4, "f32"), (4, "u32")]
    {
        assert_eq!(value(index, spelled), "Meets", "{spelled}");
    }
    assert_eq!(compare(0, "&[f32]", Pass::Slice, None), "Meets");
    assert_eq!(compare(1, "Real", Pass::Value, Some([4, 4])), "Meets");
    for (index, spelled, actual) in [
        (0, "f64", "an integer or pointer of 8 bytes"),
        (1, "u32", "`float`"),
        (2, "f32", "an integer of 4 bytes"),
        (3, "u64", "`double`"),
    ] {
        let expected = format!("Type: `p` is `{spelled}` here, and {actual} in `c` of `c.ptx`");
        assert_eq!(value(index, spelled), expected);
    }
    let slice = compare(3, "&[f64]", Pass::Slice, None);
    assert_eq!(slice, "Type: `p` is `&[f64]` here, and `double` in `c` of `c.ptx`");
    assert_eq!(
        value(4, "u64"),
        "Layout: `p` is `u64` here, and a value of 4 bytes, aligned to 4, in `c` of `c.ptx`"
    );
}

/// Declares these parameters for the kernel of a PTX `.entry`, and returns the verdicts or the error as text.
fn verdicts(entry: &str, declared: &[(&str, Pass)]) -> Vec<String> {
    let ptx = format!(".version 8.0 .target sm_75 .entry {entry} {{ ret; }}");
    let image = read(ptx.as_bytes()).unwrap();
    let declared: Vec<_> = declared
        .iter()
        .map(|(spelled, pass)| Param { name: "p", spelled, pass: *pass, layout: None })
        .collect();
    let verdict = |verdict: Verdict| match verdict {
        Verdict::Wrong(mismatch) => format!("{:?}: {mismatch}", mismatch.about),
        verdict => format!("{verdict:?}"),
    };
    match compare_params(&declared, &image.variants[0].entries[0], "x.ptx") {
        Ok(compared) => compared.verdicts.into_iter().map(verdict).collect(),
        Err(mismatch) => vec![mismatch.message],
    }
}

#[test]
fn a_signature_of_another_length_is_not_believed() {
    let entry = "_Z1kPff(.param .u64 o, .param .u64 b, .param .f32 c)";
    let (out, float) = (("&mut [f32]", Pass::SliceMut), ("f32", Pass::Value));
    let wrong = "Type: `p` is `f32` here, and an integer or pointer of 8 bytes in `k` of `x.ptx`";
    assert_eq!(verdicts(entry, &[out, float, float]), ["Meets", wrong, "Meets"]);
    assert_eq!(verdicts(entry, &[out, ("u64", Pass::Value), float]), ["Meets"; 3]);
    assert_eq!(verdicts(entry, &[out, float]), ["`k` of `x.ptx` takes 3 parameters, and 2 are declared"]);
    let fewer = "_Z1kPff(.param .u64 o)";
    assert_eq!(verdicts(fewer, &[out, float]), ["`k` of `x.ptx` takes 1 parameter, and 2 are declared"]);
}

#[test]
fn a_signature_of_other_sizes_is_not_believed() {
    let entry = "_Z1kPfif(.param .u64 o, .param .u64 n, .param .f32 c)";
    let (out, float) = (("&mut [f32]", Pass::SliceMut), ("f32", Pass::Value));
    let wrong = "Layout: `p` is `i32` here, and an integer or pointer of 8 bytes in `k` of `x.ptx`";
    assert_eq!(verdicts(entry, &[out, ("i32", Pass::Value), float]), ["Meets", wrong, "Meets"]);
    assert_eq!(verdicts(entry, &[out, ("i64", Pass::Value), float]), ["Meets"; 3]);
    // The sizes are equal, but the signature's `int` is a float in PTX.
    let entry = "_Z1kPfif(.param .u64 o, .param .f32 a, .param .f32 c)";
    assert_eq!(verdicts(entry, &[out, float, float]), ["Meets"; 3]);
}

#[test]
fn a_slice_is_no_value_of_another_size() {
    let entry = "_Z1kDTfp_E(.param .u32 n)";
    let wrong =
        "Type: `p` is `&[f32]` here, and `decltype ({parm#1})` in `k(decltype ({parm#1}))` of `x.ptx`";
    assert_eq!(verdicts(entry, &[("&[f32]", Pass::Slice)]), [wrong]);
}

#[test]
fn the_vectors_of_cuda_have_a_layout() {
    assert_eq!(layout_of("float4"), Some([16, 16]));
    assert_eq!(layout_of("float3"), Some([12, 4]));
    assert_eq!(layout_of("double4"), Some([32, 16]));
    assert_eq!(layout_of("uchar1"), Some([1, 1]));
    assert_eq!(layout_of("__half"), Some([2, 2]));
    assert_eq!(layout_of("double4_32a"), Some([32, 32]));
    assert_eq!(layout_of("CUtensorMap_st"), Some([128, 0]));
    for other in ["float5", "float", "Pair4", "4", "", "ä4"] {
        assert_eq!(layout_of(other), None, "{other}");
    }
}

#[test]
fn symbols_of_anonymous_namespaces_differ_by_a_hash() {
    let symbol = |hash: &str, rest: &str| format!("_ZN40_GLOBAL__N__{hash}_8_types_cu_34106f84{rest}");
    let ptx =
        format!(".version 8.0 .target sm_75 .entry {}(.param .u32 n) {{ ret; }}", symbol("00000000", "1kEj"));
    let image = read(ptx.as_bytes()).unwrap();
    let compare = |declared: &str| compare_symbol(declared, image.find("k", "x.ptx").unwrap(), "x.ptx");
    assert_eq!(compare(&symbol("00000000", "1kEj")), Ok(()));
    assert_eq!(compare(&symbol("11111111", "1kEj")), Ok(()));
    for other in [symbol("11111111", "1kEi"), symbol("11111111", "1lEj"), "_Z1kj".to_owned()] {
        assert!(compare(&other).is_err(), "{other}");
    }
}

#[test]
fn counts_and_blocks() {
    let image = read(PTX.as_bytes()).unwrap();
    let entry = image.find("take", "x.ptx").unwrap();
    assert_eq!(compare_count(5, entry, "x.ptx"), Ok(()));
    assert_eq!(
        compare_count(1, entry, "x.ptx").unwrap_err().message,
        "`take(int, const float*, float*, void*, Pair)` of `x.ptx` takes 5 parameters, and 1 are declared"
    );
    assert_eq!(compare_block([128, 1, 1], entry), Ok(()));
    assert_eq!(
        compare_block([16, 16, 1], entry).unwrap_err().message,
        "`take` was compiled for blocks of at most 128 threads, and this one has 16 x 16 x 1"
    );
}

//! Tests PTX that the available compilers don't write: old versions, hand-written forms, several modules,
//! mistakes.

use kernel_registry_image::{Error, ImageKind, Needs, ParamLayout, Variant, VariantKind, read};

fn variants(text: &str) -> Vec<Variant> {
    let image = read(text.as_bytes()).unwrap();
    assert_eq!(image.kind, ImageKind::Ptx);
    image.variants
}

/// Returns the line of the mistake in a text, and the problem.
fn problem(text: &str) -> (String, String) {
    match read(text.as_bytes()) {
        Err(Error::Malformed { place, problem }) => (place, problem),
        other => panic!("{other:?}"),
    }
}

const HAND_WRITTEN: &str = r#"
/* Written by hand, ".version 1.0" is not a directive here. */
.version 6.0 // nor is .version 2.0 here
.target sm_60, texmode_independent, debug
.address_size 64
.file 1 "odd \" } .entry nothing() { .cu"
.extern .shared .align 16 .b8 dynamic[];
.const .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

.visible .entry everything
(
    .param .u64 .ptr .global .align 4 out,   // a pointer
    .param .u64 .ptr .shared .align 0x10 tile,
    .param .u64 .ptr plain,
    .param .u8 small,
    .param .align 8 .b8 structure[24],
    .param .f16 half,
    .param .v4 .f32 vector,
    .param .b32 grid [2] [3],
    .param.u64.ptr.const.align 8 packed
)
.maxntid 32, 4
.minnctapersm 3
.maxnreg 64
.pragma "nounroll";
.maxclusterrank 4
{
    .reg .b32 %r<2>;
    { ret; }
}

.entry hidden ()
.reqntid 64
.reqnctapercluster 2, 1, 1
{ ret; }
.weak .entry bare { ret; }
.visible .entry declared_only(.param .u32 n);
"#;

#[test]
fn every_form_of_a_kernel() {
    let variants = variants(HAND_WRITTEN);
    assert_eq!(variants.len(), 1);
    let variant = &variants[0];
    assert_eq!(variant.kind, VariantKind::Ptx { version: (6, 0) });
    assert_eq!(variant.target, "sm_60".parse().unwrap());
    assert_eq!(variant.toolkit, None);
    let symbols: Vec<_> = variant.entries.iter().map(|entry| entry.symbol.as_str()).collect();
    assert_eq!(symbols, ["everything", "hidden", "bare"]);

    let everything = &variant.entries[0];
    let layout = |p: &ParamLayout| (p.offset, p.size, p.align.unwrap(), p.pointee_align);
    let layouts: Vec<_> = everything.params.iter().map(layout).collect();
    assert_eq!(
        layouts,
        [
            (0, 8, 8, Some(4)),
            (8, 8, 8, Some(16)),
            (16, 8, 8, None),
            (24, 1, 1, None),
            (32, 24, 8, None),
            (56, 2, 2, None),
            (64, 16, 16, None),
            (80, 24, 4, None),
            (104, 8, 8, Some(8)),
        ]
    );
    let types: Vec<_> = everything.params.iter().map(|p| p.ptx_type.as_deref().unwrap()).collect();
    assert_eq!(types, ["u64", "u64", "u64", "u8", "b8[24]", "f16", "v4.f32", "b32[2][3]", "u64"]);
    assert_eq!(everything.params_size(), 112);
    assert_eq!(everything.limits.max_threads, Some(128));
    assert_eq!(everything.limits.min_blocks, Some(3));
    assert_eq!(everything.limits.max_cluster, Some(4));
    assert_eq!(everything.resources, None);

    let hidden = &variant.entries[1];
    assert_eq!(hidden.params, []);
    assert_eq!(hidden.limits.required_threads, Some([64, 1, 1]));
    assert_eq!(hidden.limits.max_threads, Some(64));
    assert_eq!(hidden.limits.cluster, Some([2, 1, 1]));
}

#[test]
fn several_modules() {
    let module = |version: &str, target: &str| {
        format!(".version {version}\n.target {target}\n.entry k() {{ ret; }}\n")
    };
    let comment = "// Cuda compilation tools, release 12.4, V12.4.131\n";
    let text = [&module("7.8", "sm_80"), comment, &module("8.4", "sm_90a"), "\0"].concat();
    let variants = variants(&text);
    let facts: Vec<_> = variants
        .iter()
        .map(|v| (v.kind, v.target.to_string(), v.toolkit.as_deref(), v.entries.len()))
        .collect();
    assert_eq!(
        facts,
        [
            (VariantKind::Ptx { version: (7, 8) }, "sm_80".to_owned(), None, 1),
            (VariantKind::Ptx { version: (8, 4) }, "sm_90a".to_owned(), Some("12.4"), 1),
        ]
    );
}

#[test]
fn needs_follow_calls() {
    let text = "
        .version 8.0
        .target sm_70
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .extern .func __assertfail (.param .b64 a);
        .extern .func (.param .b64 r) malloc (.param .b64 a);
        .extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a, .param .b64 b);
        .func inner;
        .func outer { call.uni inner, (); }
        .func inner { { call (r), vprintf, (a, b); } call outer, (); }
        .func pointed { call.uni (r), malloc, (a); }
        .global .u64 table[1] = {pointed};
        .entry prints { call outer, (); }
        .entry through_a_table { call (r), %rd1, (a), prototype; }
        .entry takes_an_address { mov.u64 %rd1, pointed; }
        .entry asserts { call __assertfail, (a); }
        .entry launches { call (r), cudaLaunchDeviceV2, (a, b); }
        .entry harmless { add.u32 %r1, %r2, %r3; // call vprintf
        }";
    let variant = variants(text).remove(0);
    let needs: Vec<_> = variant.entries.iter().map(|entry| entry.needs).collect();
    let with = |set: fn(&mut Needs)| {
        let mut needs = Needs::default();
        set(&mut needs);
        needs
    };
    assert_eq!(
        needs,
        [
            with(|needs| needs.printf = true),
            with(|needs| needs.heap = true),
            with(|needs| needs.heap = true),
            with(|needs| needs.assert = true),
            with(|needs| needs.device_launch = true),
            Needs::default(),
        ]
    );
}

#[test]
fn a_call_through_a_pointer_reaches_what_other_bodies_take_the_address_of() {
    let text = "
        .version 8.0 .target sm_70
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .func prints { call (r), vprintf, (a, b); }
        .entry chooses { mov.u64 %rd1, prints; st.global.u64 [%rd2], %rd1; }
        .entry calls { ld.global.u64 %rd1, [%rd2]; call %rd1, (), prototype; }";
    let variant = variants(text).remove(0);
    assert!(variant.entry("calls").unwrap().needs.printf);
}

#[test]
fn mistakes_have_a_line() {
    for (text, line, about) in [
        (".version eight", "line 1", "version"),
        (".version 8.0\n.entry k() {}", "line 2", "no `.target`"),
        (".version 8.0 .target texmode_unified", "line 1", "architecture"),
        (".version 8.0\n.target sm_90\n.entry k(\n.param .u33 x\n) {}", "line 4", "`.u33`"),
        (".version 8.0\n.target sm_90\n.entry k(.param x) {}", "line 3", "without a type"),
        (".version 8.0\n.target sm_90\n.entry k(.param .u32 x) ", "line 3", "no body"),
        (".version 8.0\n.target sm_90\n.entry k() {\n{ }\n", "line 5", "body of `k`"),
        (".version 8.0\n.target sm_90\n.func f", "line 3", "function `f`"),
        (".version 8.0\n.target sm_90\n.entry k(.param .align 3 .b8 x[3]) {}", "line 3", "3"),
        (".version 8.0\n.target sm_90\n.entry k(.param .b64 x[4000000000]) {}", "line 3", "too large"),
    ] {
        let (place, problem) = problem(text);
        assert_eq!(place, line, "{problem}");
        assert!(problem.contains(about), "{problem}");
    }
}

#[test]
fn what_is_no_image_says_so() {
    for bytes in [&b""[..], b"\0\0", b"fn main() {}", b"// only a comment", b"\x50\xed\x55", b"!<arch>\n"] {
        assert_eq!(read(bytes), Err(Error::NotAnImage));
    }
    let host = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if cfg!(target_os = "linux") {
        assert_eq!(read(&host), Err(Error::OtherElf { machine }));
    }
}

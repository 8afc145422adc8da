//! Compares what this crate reads from images with the output of NVIDIA's own tools (golden/README.md).

use crate::common::{golden, image, images};
use kernel_registry_format::Pass;
use kernel_registry_image::comparison::{Param, Verdict};
use kernel_registry_image::{
    CudaType, Entry, ImageKind, Needs, Portability, Signature, Target, Variant, VariantKind, read,
};
use serde_json::Value;

/// Parses a list of numbers in the golden data.
fn numbers(value: &Value) -> Option<Vec<u32>> {
    let list = value.as_array()?;
    Some(list.iter().map(|number| number.as_u64().unwrap() as u32).collect())
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap() as u32
}

fn only_variant(name: &str) -> Variant {
    let mut variants = read(&image(name)).unwrap().variants;
    assert_eq!(variants.len(), 1, "{name}");
    variants.remove(0)
}

/// Calls a check with each kernel of the golden images whose names end like this.
fn each(ending: &str, mut check: impl FnMut(&str, &Variant, &Entry, &Value)) -> usize {
    let mut count = 0;
    for (name, expected) in golden().as_object().unwrap() {
        if !name.ends_with(ending) {
            continue;
        }
        let variant = only_variant(name);
        let kernels = expected["kernels"].as_object().unwrap();
        assert_eq!(variant.entries.len(), kernels.len(), "{name}");
        for entry in &variant.entries {
            check(name, &variant, entry, &kernels[&entry.symbol]);
            count += 1;
        }
    }
    count
}

#[test]
fn the_golden_data_covers_what_it_should() {
    for arch in ["sm_75", "sm_80", "sm_90", "sm_90a"] {
        let count = each(&format!(".{arch}.cubin"), |_, _, _, _| {});
        assert!(count >= 20, "{count} kernels for {arch}");
    }
}

#[test]
fn targets_and_toolkits() {
    for (name, expected) in golden().as_object().unwrap() {
        let variant = only_variant(name);
        // Neither the flags nor cuobjdump show the `f`, but the assembler's command line does.
        let target = match name.as_str() {
            "spin.sm_100f.cubin" => "sm_100f",
            _ => expected["target"].as_str().unwrap(),
        };
        assert_eq!(variant.target.to_string(), target, "{name}");
        assert_eq!(variant.toolkit.as_deref(), expected["toolkit"].as_str(), "{name}");
        if let Some(version) = numbers(&expected["version"]) {
            let version = (version[0] as u8, version[1] as u8);
            assert_eq!(variant.kind, VariantKind::Ptx { version }, "{name}");
        } else {
            assert_eq!(variant.kind, VariantKind::Cubin, "{name}");
        }
    }
}

#[test]
fn parameters() {
    let mut compared = 0;
    each("", |name, variant, entry, expected| {
        let Some(params) = expected["params"].as_array() else {
            // cuobjdump 13 doesn't show the parameters of CUDA 12's cubins.
            assert!(name.contains("cuda12"), "{name}");
            return;
        };
        let read: Vec<_> = entry.params.iter().map(|param| vec![param.offset, param.size]).collect();
        let expected: Vec<_> = params.iter().map(|param| numbers(param).unwrap()).collect();
        assert_eq!(read, expected, "{name}: {}", entry.symbol);
        compared += read.len();
        let is_ptx = variant.kind != VariantKind::Cubin;
        assert!(entry.params.iter().all(|p| p.align.is_some() == is_ptx && p.ptx_type.is_some() == is_ptx));
    });
    assert!(compared >= 200, "{compared}");
}

/// Compares with the output of `ptxas -v` of CUDA 13.0, because the golden data have no constants.
#[test]
fn constants() {
    let image = read(&image("blas1.sm_75.cubin")).unwrap();
    for (kernel, cmem) in [("sscal", 368), ("saxpy", 376), ("daxpy", 384)] {
        assert_eq!(image.find(kernel, "blas1").unwrap().resources.unwrap().constants, cmem, "{kernel}");
    }
}

#[test]
fn code_sizes() {
    let sizes = |name: &str| {
        let entries = only_variant(name).entries.into_iter();
        entries.map(|entry| (entry.symbol, entry.code_size)).collect::<Vec<_>>()
    };
    // These are from `readelf --sections`.
    let mut diagnose = sizes("diagnose.sm_90.cubin");
    diagnose.sort_unstable();
    let expected =
        [("_Z10report_nanjPKf", 0x280), ("_Z11row_mediansjjPKfPf", 0x600), ("_Z12check_finitejPKf", 0x280)];
    assert_eq!(diagnose, expected.map(|(symbol, size)| (symbol.to_owned(), size)));

    let ptx = ".version 8.0 .target sm_75 .visible .entry k(.param .u32 n) { ret; } /* .. */ .entry other() { ret; }";
    let entries = &read(ptx.as_bytes()).unwrap().variants[0].entries;
    let expected = [" k(.param .u32 n) { ret; }", " other() { ret; }"];
    assert_eq!([&entries[0], &entries[1]].map(|entry| entry.code_size as usize), expected.map(str::len));
}

#[test]
fn resources() {
    let mut stacks = 0;
    each(".cubin", |name, variant, entry, expected| {
        let resources = entry.resources.unwrap();
        let context = format!("{name}: {}: {resources:?}", entry.symbol);
        let ptxas = &expected["ptxas"];
        if ptxas.is_object() {
            assert_eq!(resources.registers, number(&ptxas["registers"]), "{context}");
            assert_eq!(resources.static_shared, number(&ptxas["shared"]), "{context}");
            if ptxas["stack"].is_u64() {
                stacks += 1;
                assert_eq!(resources.stack, Some(number(&ptxas["stack"])), "{context}");
            }
            // ptxas counts only the function's own frame. The cubin's frame includes inlined functions.
            assert!(resources.local_frame >= number(&ptxas["frame"]), "{context}");
        }
        if expected["registers"].is_u64() {
            assert_eq!(resources.registers, number(&expected["registers"]), "{context}");
            // With recursive calls, cuobjdump shows the kernel's own frame, or nothing.
            let stack = expected["stack"].as_u64().filter(|_| entry.frames.recursive.is_none());
            assert_eq!(resources.stack, stack.map(|stack| stack as u32), "{context}");
            let shared = resources.static_shared + resources.reserved_shared;
            assert_eq!(shared, number(&expected["shared"]), "{context}");
        }
        assert!(matches!(resources.reserved_shared, 0 | 1024), "{context}");
        assert!(variant.target.sm >= 90 || resources.reserved_shared == 0, "{context}");
    });
    assert!(stacks >= 20, "{stacks}");
}

#[test]
fn limits() {
    let mut with_limits = 0;
    each("", |name, variant, entry, expected| {
        let context = format!("{name}: {}", entry.symbol);
        let limits = &entry.limits;
        if name.contains("cuda12") {
            return;
        }
        let block = numbers(&expected["required_threads"]);
        assert_eq!(limits.required_threads.map(Vec::from), block, "{context}");
        let max = block.or(numbers(&expected["max_threads"])).map(|block| block.iter().product());
        assert_eq!(limits.max_threads, max, "{context}");
        assert_eq!(limits.cluster.map(Vec::from), numbers(&expected["cluster"]), "{context}");
        let max_cluster = numbers(&expected["max_cluster"]).map(|rank| rank[0]);
        assert_eq!(limits.max_cluster, max_cluster, "{context}");
        // Cubins don't have the requested number of blocks.
        if entry.name() == "bounded" {
            let asked = (variant.kind != VariantKind::Cubin).then_some(2);
            assert_eq!(limits.min_blocks, asked, "{context}");
        }
        with_limits += usize::from(max.is_some() || limits.cluster.is_some());
    });
    assert!(with_limits >= 20);
}

#[test]
fn needs() {
    let mut needy = 0;
    each("", |name, _, entry, expected| {
        let Some(externs) = expected["externs"].as_array() else { return };
        let has = |function: &str| externs.iter().any(|name| name == function);
        let mut needs = Needs::NONE;
        needs.printf = has("vprintf");
        needs.assert = has("__assertfail");
        needs.heap = has("malloc") || has("free");
        // In this image, the kernel calls `vprintf` through other functions, which EXTERNS doesn't show.
        if name == "odd.linked.cubin" {
            needs.printf |= matches!(entry.name(), "calls" | "calls_pointer" | "odd_types");
        }
        assert_eq!(entry.needs, needs, "{name}: {}", entry.symbol);
        needy += usize::from(needs != Needs::default());
    });
    assert!(needy >= 20);
    for name in ["diagnose.sm_60.cuda12.cubin", "diagnose.sm_90a.cuda12.cubin", "diagnose.nvrtc12.ptx"] {
        let variant = only_variant(name);
        let needs = |name| variant.entries.iter().find(|entry| entry.name() == name).unwrap().needs;
        assert!(needs("report_nan").printf && !needs("report_nan").heap);
        assert!(needs("check_finite").assert && !needs("check_finite").printf);
        assert!(needs("row_medians").heap && !needs("row_medians").assert);
    }
}

#[test]
fn signatures() {
    let (mut dependent, mut sized) = (0, 0);
    each("", |name, _, entry, expected| {
        let demangled = expected["demangled"].as_str().unwrap();
        let Some(signature) = &entry.signature else {
            // `extern "C"`.
            assert_eq!(demangled, entry.symbol, "{name}");
            return;
        };
        // c++filt doesn't know nvlink's form of internal names.
        if entry.symbol.starts_with("__nv_static_") {
            assert_eq!(demangled, entry.symbol, "{name}");
            return;
        }
        // c++filt prints the same, but with return types, and with qualifiers after the type.
        let shown = demangled.strip_prefix("void ").unwrap_or(demangled);
        if shown.starts_with("ns::dependent<") {
            dependent += 1;
        }
        assert!(shown.starts_with(&format!("{}(", signature.name)), "{shown} against {signature}");
        let params = shown.strip_prefix(&signature.name).unwrap().trim_matches(['(', ')']);
        let read: Vec<String> =
            signature.params.iter().map(|ty| qualifiers_behind(&ty.to_string())).collect();
        assert_eq!(read.join(", "), params.trim_start_matches('('), "{name}");
        assert_eq!(signature.params.len(), entry.params.len(), "{name}: {signature}");
        for (ty, param) in signature.params.iter().zip(&entry.params) {
            assert!(ty.size().is_none_or(|size| size == param.size), "{name}: {ty} has {param:?}");
            sized += usize::from(ty.size().is_some());
        }
    });
    assert!(dependent > 0);
    // Structs, enumerations and dependent types have unknown sizes.
    assert!(sized >= 200, "{sized}");
}

/// Writes `const float*` as `float const*`.
fn qualifiers_behind(ty: &str) -> String {
    for qualifiers in ["const volatile ", "const ", "volatile "] {
        if let Some(rest) = ty.strip_prefix(qualifiers) {
            let (base, pointers) = rest.split_at(rest.find('*').unwrap());
            return format!("{base} {}{pointers}", qualifiers.trim());
        }
    }
    ty.to_owned()
}

#[test]
fn odd_signatures_in_detail() {
    let variant = only_variant("odd.sm_90a.cubin");
    let find = |base: &str| {
        let named = |entry: &&Entry| entry.signature.as_ref().is_some_and(|s| s.base_name == base);
        variant.entries.iter().find(named).unwrap_or_else(|| panic!("{base}")).signature.clone().unwrap()
    };
    let mixed = find("ns::mixed");
    assert_eq!(mixed.template_args.len(), 3);
    assert_eq!(mixed.template_args[0], "float");
    assert_eq!(find("ns::pack").template_args, ["int", "float", "double*"]);
    let hidden = find("(anonymous namespace)::hidden");
    assert!(hidden.anonymous_namespace);
    assert!(!mixed.anonymous_namespace);
    assert_eq!(
        find("odd_types").to_string(),
        "odd_types(void (*)(int), float (&) [4], float4 const&, float* const*, const volatile void*, int (*) [3])"
    );
    assert_eq!(find("nothing").params, []);
    assert!(variant.entry("plain").unwrap().signature.is_none());
    assert_eq!(Signature::parse("plain"), None);
    // A variable, a thunk and nonsense.
    assert_eq!(Signature::parse("_ZN2ns5valueE"), None);
    assert_eq!(Signature::parse("_Z"), None);
}

#[test]
fn an_empty_parameter_pack_is_no_parameter() {
    for (symbol, expected) in [
        ("_Z6packedIJEEvjPfDpT_", "packed<>(unsigned int, float*)"),
        ("_Z6packedIJiEEvjPfDpT_", "packed<int>(unsigned int, float*, int)"),
        ("_Z5frontIiJEEvDpT0_T_", "front<int>(int)"),
        ("_Z5frontIJEiEvDpT_T0_", "front<int>(int)"),
        ("_Z6middleIfJELj3EJEEvT_DpT0_iDpT2_", "middle<float, 3u>(float, int)"),
        ("_Z4onlyIJEEvDpT_", "only<>()"),
        ("_Z4bothIJEJEEvDpT_DpT0_", "both<>()"),
        ("_Z4heldIJEEv4PackIJiDpT_EEj", "held<>(Pack<int>, unsigned int)"),
    ] {
        let signature = Signature::parse(symbol).unwrap();
        assert_eq!(signature.to_string(), expected, "{symbol}");
        assert!(!signature.template_args.contains(&String::new()), "{signature:?}");
        assert!(!signature.params.contains(&CudaType::parse("")), "{signature:?}");
    }
}

#[test]
fn parameter_packs_are_expanded() {
    for (symbol, expected) in [
        ("_Z4packIJfiEEvDp3argIT_Ei", "pack<float, int>(arg<float>, arg<int>, int)"),
        ("_Z4packIJEEvDp3argIT_Ei", "pack<>(int)"),
        ("_Z4packIJfEEvDp3argIT_Ei", "pack<float>(arg<float>, int)"),
        ("_Z3ptrIJdfEEvDpPT_", "ptr<double, float>(double*, float*)"),
        (
            "_Z3ptrIJf3argIfEEEvDpPT_DpRKS0_IS2_E",
            "ptr<float, arg<float>>(float*, arg<float>*, arg<float> const&, arg<arg<float>> const&)",
        ),
        (
            "_Z3fwdIiJf3argIiEPS1_EEvT_iDpT0_",
            "fwd<int, float, arg<int>, arg<int>*>(int, int, float, arg<int>, arg<int>*)",
        ),
        (
            "_Z3tupIJfiEEv5tupleIJDpT_EES0_IJDp3argIS1_EEEi",
            "tup<float, int>(tuple<float, int>, tuple<arg<float>, arg<int>>, int)",
        ),
        // A type with both packs, and a type with one pack next to another type.
        (
            "_Z3zipIJfiEJPcdEEvDp4pairIT_T0_E",
            "zip<float, int, char*, double>(pair<float, char*>, pair<int, double>)",
        ),
        ("_Z3zipIcJfiEEvDp4pairIT_T0_E", "zip<char, float, int>(pair<char, float>, pair<char, int>)"),
        ("_Z4callIJfiEEvDpPFvT_S0_E", "call<float, int>(void (*)(float, float), void (*)(int, int))"),
        (
            "_Z5nest3IJifEEv4holdIJDp3argIT_EEENS0_IJDpS2_EE2inIS6_EE",
            "nest3<int, float>(hold<arg<int>, arg<float>>, hold<int, float>::in<int, float>)",
        ),
        (
            "_Z5nest2IJifEEvDp2fsIJS0_IJT_iEES0_IJ3argIS1_EEEEE",
            "nest2<int, float>(fs<fs<int, int>, fs<arg<int>>>, fs<fs<float, int>, fs<arg<float>>>)",
        ),
        (
            "_Z4nestIJifEEv2fsIJS0_IJDpT_EEDpS0_IJPS1_EEEE",
            "nest<int, float>(fs<fs<int, float>, fs<int*>, fs<float*>>)",
        ),
        // A generic lambda.
        ("_Z3lamIZ1gvEUlDpT_E_EvT_", "lam<g()::{lambda(auto:1...)#1}>(g()::{lambda(auto:1...)#1})"),
        ("_Z3DpTIJfiEEvDp2DpIT_E", "DpT<float, int>(Dp<float>, Dp<int>)"),
    ] {
        let signature = Signature::parse(symbol).unwrap();
        let shown = signature.to_string().replace(" >", ">");
        assert_eq!(shown, expected, "{symbol}");
    }
}

/// Thrust's kernels for lambdas in templates have similar names, whose text is 29 times as long.
#[test]
fn a_name_that_repeats_itself_often_is_read() {
    let symbol = format!("_Z1kI400{}{}EvT_", "x".repeat(400), "S0_".repeat(40));
    let signature = Signature::parse(&symbol).unwrap();
    assert!(signature.name.len() > 20 * symbol.len());
    assert_eq!(signature.params, [CudaType::Named("x".repeat(400))]);
}

#[test]
fn fatbins_of_every_packing_hold_the_same() {
    let plain = read(&image("reduce.none.fatbin")).unwrap();
    assert_eq!(plain.kind, ImageKind::Fatbin);
    let targets: Vec<String> = plain.variants.iter().map(|v| v.target.to_string()).collect();
    assert_eq!(targets, ["sm_75", "sm_75", "sm_90a"]);
    for (cubin, variant) in [("reduce.sm_75.cubin", 1), ("reduce.sm_90a.cubin", 2)] {
        assert_eq!(plain.variants[variant].entries, only_variant(cubin).entries);
    }
    // zstd, zstd of cubins too, and LZ4.
    for (packing, flag) in [("default", 0x8000), ("size", 0x8000), ("speed", 0x2000)] {
        let bytes = image(&format!("reduce.{packing}.fatbin"));
        let flags = u64::from_le_bytes(bytes[16 + 40..][..8].try_into().unwrap());
        assert_eq!(flags & 0xa000, flag, "{packing} is packed otherwise than this test believes");
        assert_eq!(read(&bytes).unwrap(), plain, "{packing}");
    }
}

#[test]
fn several_containers_in_one_file() {
    let first = image("reduce.size.fatbin");
    let second = image("reduce.speed.fatbin");
    let both = [&first[..], &[0; 24], &second, &[0; 8]].concat();
    assert_eq!(read(&both).unwrap().variants.len(), 6);
    let junk = [&first[..], b"junk"].concat();
    assert!(read(&junk).is_err());
}

#[test]
fn a_family_in_a_fatbin() {
    let variants = read(&image("spin.family.fatbin")).unwrap().variants;
    let kinds: Vec<_> = variants.iter().map(|v| (v.kind == VariantKind::Cubin, v.target)).collect();
    let family = Target { sm: 100, portability: Portability::Family };
    let arch = Target { sm: 90, portability: Portability::Exact };
    // The code for link-time optimisation is skipped.
    assert_eq!(kinds.len(), 3);
    for expected in [(true, family), (false, family), (false, arch)] {
        assert!(kinds.contains(&expected), "{kinds:?}");
    }
}

#[test]
fn ptx_of_different_compilers_and_machine_code_agree() {
    for (name, ptx, cubin) in [
        ("diagnose", "diagnose.nvrtc12.ptx", "diagnose.sm_80.cubin"),
        ("diagnose", "diagnose.nvcc13.ptx", "diagnose.sm_75.cubin"),
        ("reduce", "reduce.nvrtc12.ptx", "reduce.sm_90.cubin"),
        ("cluster", "cluster.nvrtc12.ptx", "cluster.sm_90a.cubin"),
        ("odd", "odd.nvcc13.ptx", "odd.sm_90a.cubin"),
    ] {
        let (ptx, cubin) = (only_variant(ptx), only_variant(cubin));
        assert_eq!(ptx.entries.len(), cubin.entries.len(), "{name}");
        for entry in &ptx.entries {
            let other = cubin.entry(&entry.symbol).unwrap();
            assert_eq!(entry.signature, other.signature);
            assert_eq!(entry.needs, other.needs, "{}", entry.symbol);
            let layout =
                |entry: &Entry| -> Vec<_> { entry.params.iter().map(|p| (p.offset, p.size)).collect() };
            assert_eq!(layout(entry), layout(other), "{}", entry.symbol);
            assert_eq!(entry.limits.max_threads, other.limits.max_threads);
            assert_eq!(entry.limits.required_threads, other.limits.required_threads);
            assert_eq!(entry.limits.cluster, other.limits.cluster);
            assert_eq!(entry.limits.max_cluster, other.limits.max_cluster);
        }
    }
}

/// The expected sizes are those of the variables in `golden/separate.cu`.
#[test]
fn objects_of_separate_compilation_have_sections_of_their_own_types() {
    for arch in ["sm_75", "sm_90", "sm_100"] {
        let variant = only_variant(&format!("separate.{arch}.cubin"));
        assert_eq!(variant.target.to_string(), arch);
        let resources = variant.entries[0].resources.unwrap();
        assert_eq!((resources.static_shared, resources.reserved_shared), (32 * 1024, 0), "{arch}");
        assert_eq!(variant.entries[0].params.len(), 2, "{arch}");
    }
}

#[test]
fn offsets_behind_a_large_alignment_differ_between_variants_of_one_kernel() {
    let image = read(&image("aligned.fatbin")).unwrap();
    let offsets = |entry: &Entry| entry.params.iter().map(|param| param.offset).collect::<Vec<_>>();
    let mut read: Vec<_> = image.named("spread").into_iter().map(offsets).collect();
    read.sort();
    // Parameters begin at 0x160 in the constants of sm_80, and at 0x210 in the constants of sm_90.
    assert_eq!(read, [[0, 32, 160], [0, 112, 240], [0, 128, 256]]);

    let entry = image.find("spread", "aligned.fatbin").unwrap();
    for (index, spelled, layout) in [(0, "u32", [4, 4]), (1, "Wide", [128, 128]), (2, "*mut f32", [4, 4])] {
        let pass = if index == 2 { Pass::PointerMut } else { Pass::Value };
        let declared = Param { name: "p", spelled, pass, layout: Some(layout) };
        assert_eq!(declared.compare(index, entry, "aligned.fatbin"), Verdict::Meets, "{spelled}");
    }
}

#[test]
fn a_kernel_is_found_in_ptx_wherever_that_is_among_the_variants() {
    let mut image = read(&image("aligned.fatbin")).unwrap();
    for _ in 0..image.variants.len() {
        image.variants.rotate_left(1);
        // A clone builds a new index.
        let entry = image.clone().find("spread", "aligned.fatbin").unwrap().clone();
        assert_eq!(entry.params[1].ptx_type.as_deref(), Some("b8[128]"));
    }
}

#[test]
fn every_committed_image_is_read() {
    for (name, bytes) in images() {
        let image = read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(image.variants.iter().all(|variant| !variant.entries.is_empty()), "{name}");
    }
}

//! Tests unusual but legal declarations. The fixtures `legal-*` show that they compile; the tests compare names, lines and parameters.

use std::collections::BTreeSet;

use kernel_registry::{KernelInfo, RegistryError, find, kernels};

kernel_registry::link_kernels!(legal_2021, legal_generic, legal_strange, legal_strict, twin_a, twin_b);

fn of_package(package: &str) -> Vec<&'static KernelInfo> {
    kernels().unwrap().iter().copied().filter(|kernel| kernel.package() == package).collect()
}

fn paths(package: &str) -> Vec<&'static str> {
    of_package(package).iter().map(|kernel| kernel.path()).collect()
}

#[test]
fn strange_kernels_are_all_there() {
    let mut paths = paths("legal-strange");
    paths.retain(|path| !path.starts_with("legal_strange::emitted::"));
    assert_eq!(
        paths,
        [
            "legal_strange::adorned",
            "legal_strange::configured_in",
            "legal_strange::daxpy",
            "legal_strange::in_a_constant",
            "legal_strange::in_generic",
            "legal_strange::local",
            "legal_strange::local",
            "legal_strange::module::configured_in",
            "legal_strange::module::nested::Renamed",
            "legal_strange::module::nested::deeper::private",
            "legal_strange::module::paired",
            "legal_strange::names::main",
            "legal_strange::names::u8",
            "legal_strange::passed_on",
            "legal_strange::raw::loop",
            "legal_strange::saxpy",
            "legal_strange::unheard_of::kernel",
        ]
    );
}

/// The fixture declares kernels, parameters, structs and functions with each of these names, and compiles.
#[test]
fn names_of_an_expansion_are_names_like_others() {
    let library = include_str!("../../kernel-registry/src/__private.rs");
    let from = library.find("macro_rules! __instances").unwrap();
    let to = library.find("#[cfg(test)]").unwrap();
    let emitted = [
        include_str!("../../kernel-registry-macros/src/tests/kernel.rs"),
        include_str!("../../kernel-registry-macros/src/tests/generic.rs"),
        &library[from..to],
    ];
    let tried = paths("legal-strange");
    let tried: BTreeSet<_> =
        tried.iter().filter_map(|path| path.strip_prefix("legal_strange::emitted::ordinary::")).collect();
    let missing: BTreeSet<_> =
        emitted.into_iter().flat_map(identifiers).filter(|name| !tried.contains(&**name)).collect();
    assert!(missing.is_empty(), "add these to tests/fixtures/legal-strange/src/emitted.rs: {missing:?}");
    assert!(tried.len() > 100);
}

/// Returns the identifiers of a source, without those in literals and comments.
fn identifiers(source: &str) -> Vec<String> {
    const KEYWORDS: [&str; 18] = [
        "as", "const", "crate", "fn", "for", "impl", "let", "mod", "mut", "pub", "Self", "static", "struct",
        "trait", "unsafe", "use", "where", "_",
    ];
    let code =
        source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    // A quote that is not escaped begins or ends a literal.
    let outside: String = code.replace("\\\"", "").split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = outside.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_name =
        |word: &&str| word.starts_with(|c: char| c.is_alphabetic() || c == '_') && !KEYWORDS.contains(word);
    words.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn strict_and_old_crates_have_their_kernels() {
    assert_eq!(paths("legal-2021"), ["legal_2021::inner::saxpy", "legal_2021::saxpy"]);
    assert_eq!(
        paths("legal-strict"),
        [
            "legal_strict::SAXPY_Kernel",
            "legal_strict::blas1::opaque",
            "legal_strict::blas1::saxpy",
            "legal_strict::counted",
            "legal_strict::private",
            "legal_strict::saxpy",
        ]
    );
    assert_eq!(legal_strict::COUNT, 2);
}

#[test]
fn generic_kernels_are_there_once_for_each_instance() {
    assert_eq!(
        paths("legal-generic"),
        [
            "legal_generic::Sum::<Number, Size<256>>",
            "legal_generic::Sum::<f32, Size<128>>",
            "legal_generic::reduce::<f32, 128>",
            "legal_generic::reduce::<f64, { BLOCK }>",
            "legal_generic::sums::reduce::<f32>",
        ]
    );
    assert_eq!(legal_generic::path::<128>(), "legal_generic::reduce::<f32, 128>");
    assert_eq!(legal_generic::LIST.len(), 1);
    let reduce = legal_generic::reduce::<f64, 256>::INFO;
    assert_eq!(reduce.block(), Some([256, 1, 1]));
    assert_eq!(
        reduce.signature().to_string(),
        "reduce::<f64, { BLOCK }>(x: &[f64], out: &mut [f64], n: u32)"
    );
    assert_eq!(reduce.params().iter().next().unwrap().element_size, 8);
    assert_eq!(find(reduce.path()).unwrap(), reduce);
}

#[test]
fn raw_identifiers_lose_their_mark() {
    let kernel = find("legal_strange::raw::loop").unwrap();
    assert_eq!(kernel, legal_strange::endless::INFO);
    assert_eq!(
        (kernel.symbol(), kernel.signature().to_string().as_str()),
        ("loop", "loop(type: u32, fn: &[f32])")
    );
}

#[test]
fn a_macros_kernels_are_at_its_call_and_spelled_with_its_types() {
    let kernel = find("legal_strange::daxpy").unwrap();
    assert_eq!(
        kernel.signature().to_string(),
        "daxpy(n: u32, a: f64, x: &[f64], y: &mut [f64], z: *const f64)"
    );
    assert_eq!(kernel.block(), Some([128, 1, 1]));
    let source = include_str!("../fixtures/legal-strange/src/lib.rs");
    let line = source.lines().nth(kernel.line() as usize - 1).unwrap();
    assert_eq!(line.get(kernel.column() as usize - 1..), Some("daxpy: f64, 64 * 2, \"axpy64\";"));
}

#[test]
fn a_module_lists_its_kernels_in_the_order_of_their_declaration() {
    let listed: Vec<_> = legal_strange::module::KERNELS.iter().map(|kernel| kernel.path()).collect();
    assert_eq!(
        listed,
        [
            "legal_strange::module::paired",
            "legal_strange::module::configured_in",
            "legal_strange::module::nested::deeper::private",
            "legal_strange::module::nested::Renamed",
        ]
    );
    assert_eq!(legal_strange::module::empty::KERNELS.len(), 0);
}

#[test]
fn a_declarations_own_arguments_hide_those_of_its_module() {
    let kernel = find("legal_strange::module::paired").unwrap();
    assert_eq!((kernel.block(), kernel.shared()), (Some([32, 2, 1]), Some(256)));
    let kernel = find("legal_strange::module::configured_in").unwrap();
    assert_eq!((kernel.block(), kernel.shared()), (Some([8, 8, 4]), None));
}

#[test]
fn equal_names_in_two_crates_are_two_kernels() {
    let (a, b) = (find("twin_a::saxpy").unwrap(), find("twin_b::saxpy").unwrap());
    assert_eq!((a.version(), b.version()), ("1.2.3", "4.5.6"));
    assert_ne!(a, b);
    assert_eq!(a, twin_a::saxpy::INFO);
}

#[test]
fn one_path_for_two_kernels_is_reported_with_both_places() {
    let duplicates = kernel_registry::duplicates().unwrap();
    let [duplicate] = duplicates.as_slice() else { panic!("{duplicates:?}") };
    let places: Vec<_> = duplicate.kernels().iter().map(|kernel| kernel.location().to_string()).collect();
    let source = include_str!("../fixtures/legal-strange/src/lib.rs");
    let lines = source
        .lines()
        .zip(1..)
        .filter(|(line, _)| line.contains("unsafe fn local("))
        .map(|(_, number)| number);
    let expected: Vec<_> = lines
        .map(|line: u32| format!("tests/fixtures/legal-strange/src/lib.rs:{line} (legal-strange 0.1.0)"))
        .collect();
    assert_eq!(places, expected);
    assert_eq!(
        duplicate.to_string(),
        format!("`legal_strange::local` is declared 2 times:\n  {}\n  {}", expected[0], expected[1])
    );

    let error = find("legal_strange::local").unwrap_err();
    assert!(matches!(&error, RegistryError::Ambiguous { places, .. } if places.len() == 2), "{error:?}");
    assert_eq!(legal_strange::first().params().iter().next().unwrap().size, 4);
    assert_eq!(legal_strange::second().params().iter().next().unwrap().size, 8);
}

#[test]
fn a_wrong_path_is_answered_with_near_ones() {
    let error = find("twin_c::saxpi").unwrap_err();
    let RegistryError::NotFound { near, .. } = &error else { panic!("{error:?}") };
    assert!(near.contains(&"legal_2021::saxpy"), "{near:?}");
    assert!(error.to_string().starts_with("no kernel `twin_c::saxpi`: did you mean `"), "{error}");

    let error = find("nothing::like::it").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no kernel `nothing::like::it`: is its crate named in this program? \
         `link_kernels!` names a crate that is there only for its kernels"
    );
}

#[test]
fn the_order_is_that_of_paths() {
    let paths: Vec<_> = kernels().unwrap().iter().map(|kernel| kernel.path()).collect();
    assert!(paths.is_sorted(), "{paths:?}");
}

#[test]
fn attributes_of_the_user_reach_the_type_and_the_record() {
    let kernel = find("legal_strict::saxpy").unwrap();
    assert_eq!(kernel.summary(), "y = a*x + y");
    assert_eq!(kernel.image().unwrap().file(), "images/saxpy.ptx");
    assert!(kernel.image().unwrap().bytes().starts_with(b"//"));
}

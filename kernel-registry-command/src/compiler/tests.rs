//! Tests with compilers from `cargo xtask toolkit`, which may be missing unless `REQUIRE_CUDA=1`.

use std::env;

use kernel_registry_build::{toolkit_library, toolkit_program};

use super::*;

const PTX: &str =
    ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 x) { ret; }\n";

fn compilers() -> Vec<Compiler> {
    let ptxas = toolkit_program(PTXAS).map(|program| Compiler::ptxas(&program).unwrap());
    let linker = toolkit_library("libnvJitLink.so").map(|library| Compiler::nvjitlink(&library).unwrap());
    for (name, found) in [("ptxas", &ptxas), ("nvJitLink", &linker)] {
        if found.is_none() {
            // The toolkit of `cargo xtask toolkit` has no nvJitLink.
            let required =
                name == "ptxas" && env::var_os("REQUIRE_CUDA").is_some_and(|value| !value.is_empty());
            assert!(!required, "{name} is missing, and `REQUIRE_CUDA` is set");
            eprintln!("left out: {name}, which is missing");
        }
    }
    ptxas.into_iter().chain(linker).collect()
}

#[test]
fn ptx_becomes_machine_code_of_the_architecture() {
    for compiler in compilers() {
        for arch in ["sm_80", "sm_90", "sm_90a"].map(|arch| arch.parse().unwrap()) {
            let cubin = compiler.compile(PTX.as_bytes(), arch, Options::default()).unwrap();
            let code = &read(&cubin).unwrap().variants[0];
            assert_eq!((code.target, &*code.entries[0].symbol), (arch, "k"), "{}", compiler.name());
        }
        let options = Options { max_registers: Some(32), level: Some(0) };
        assert!(compiler.compile(format!("{PTX}\0x").as_bytes(), "sm_90".parse().unwrap(), options).is_ok());
    }
}

#[test]
fn what_is_not_compiled_says_what_helps() {
    for compiler in compilers() {
        let compile = |text: &str, arch: &str| {
            compiler.compile(text.as_bytes(), arch.parse().unwrap(), Options::default()).unwrap_err()
        };
        let newer = compile(&PTX.replace("8.0", "19.5"), "sm_90");
        assert_eq!(newer.remedy, Some(Remedy::Newer(CudaVersion::new(23, 5))), "{newer}");
        assert!(newer.to_string().ends_with("set `CUDA_HOME` to CUDA 23.5 or newer"), "{newer}");
        let unknown = compile(PTX, "sm_990");
        assert_eq!(unknown.remedy, Some(Remedy::Arch), "{unknown}");
        let wrong = compile(&PTX.replace("ret;", "wibble;"), "sm_90");
        assert!(wrong.remedy.is_none() && wrong.words.contains("wibble"), "{wrong}");
        assert!(wrong.to_string().starts_with(compiler.name()), "{wrong}");
    }
}

#[test]
fn options_are_lines_of_the_key() {
    assert_eq!(Options::default().lines(), "");
    assert_eq!(Options { max_registers: Some(64), level: Some(3) }.lines(), "maxrregcount=64\noptlevel=3\n");
}

#[test]
fn machine_code_without_the_kernels_is_refused() {
    let cubin = include_bytes!("../../../kernel-registry-image/tests/images/blas1.sm_90.cubin");
    let why = |arch: &str| checked(cubin, PTX.as_bytes(), arch.parse().unwrap()).unwrap_err();
    assert_eq!(why("sm_90"), "its output lacks the kernel `k`");
    assert_eq!(why("sm_80"), "its output is for sm_90");
}

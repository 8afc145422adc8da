//! Damaged texts are refused, or happen to be right; they never panic.

use kernel_registry_sim::ptx::Program;

#[test]
fn samples_with_a_piece_missing() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/prebuilt");
    let mut refused = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for start in (0..text.len() - 8).step_by(97) {
            let cut = format!("{}{}", &text[..start], &text[start + 1 + start % 7..]);
            refused += u32::from(Program::load(&cut).is_err());
            refused += u32::from(Program::load(&text[..start]).is_err());
        }
    }
    assert!(refused > 500, "{refused}");
}

/// No device has room for them, and the reader of the text has none for what it would have to remember.
#[test]
fn absurd_texts() {
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
    for (what, refused) in [
        (".global .b8 large[1099511627777];", true),
        (".global .b64 product[4294967296][4294967296];", true),
        (".global .b32 wraps[18446744073709551615];", true),
        (".global .align 18446744073709551615 .b32 aligned;", true),
        (".global .b8 large[1099511627776];", false),
    ] {
        assert_eq!(Program::load(&format!("{head}{what}")).is_err(), refused, "{what}");
    }
    for bracket in ["{", "(", "["] {
        let nested = format!("{head}.global .b32 nested[1] = {};", bracket.repeat(1_000_000));
        assert!(Program::load(&nested).is_err());
        let nested = format!("{head}.entry k() {}", bracket.repeat(1_000_000));
        assert!(Program::load(&nested).is_err());
    }
}

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

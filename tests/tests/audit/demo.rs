//! Tests the demonstration of the command.

use tests::cargo_kernels_command;

use crate::text;

#[test]
fn the_program_of_the_demonstration_hangs_and_ends_once_it_is_preloaded() {
    let mut command = cargo_kernels_command();
    // Loading everything at once would prevent the hang.
    command.env("CUDA_MODULE_LOADING", "EAGER").args(["audit", "demo", "--offline"]);
    let output = command.output().expect("the tool runs");
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}\n{said}");
    let parts = [
        "\n1. ",
        "\n$ cargo-kernels kernels audit --sim --hang-after 1 --on-hang abort cargo-kernels kernels audit demo --program\n",
        "\n2. ",
        "\n        set_flag\n",
        "\n3. ",
        " --after-ready refuse --preload ",
        "`set_flag` ran, and `spin_until_flag` has ended\n",
        "nothing was loaded late",
        "\n4. ",
        "\n$ cargo-kernels kernels audit dump --core ",
        "  barrier_of_blocks: 140 blocks of 32 threads\n",
        "and 8 wait for room",
        " audit dump PID ",
    ];
    let mut from = 0;
    for part in parts {
        let found = printed[from..].find(part);
        from += found.unwrap_or_else(|| panic!("{part:?} is not in {}", &printed[from..])) + part.len();
    }
    assert!(!printed.contains("not to be preloaded"), "{printed}");
    assert_eq!(said.matches("kernel-audit: HANG for ").count(), 1, "{said}");
}

//! Lists the tests that run on arm64, and the skipped ones with their reasons.

/// The tests of a package, or one of its integration tests.
pub(super) struct Part {
    pub(super) package: &'static str,
    pub(super) test: Option<&'static str>,
    pub(super) slow: bool,
}

impl Part {
    /// Returns the name in lists, such as `tests/linked`.
    pub(super) fn name(&self) -> String {
        match self.test {
            Some(test) => format!("{}/{test}", self.package),
            None => self.package.to_owned(),
        }
    }
}

const fn package(package: &'static str) -> Part {
    Part { package, test: None, slow: false }
}

const fn test(test: &'static str) -> Part {
    Part { package: "tests", test: Some(test), slow: false }
}

const fn slow(part: Part) -> Part {
    Part { slow: true, ..part }
}

/// Macros are missing here, because the compiler runs them on its own machine.
pub(super) const PARTS: &[Part] = &[
    package("kernel-registry-format"),
    package("kernel-registry-cuda"),
    package("kernel-registry-build"),
    package("kernel-registry-cudarc"),
    package("kernel-registry"),
    package("kernel-registry-resident"),
    package("kernel-registry-command"),
    package("kernel-audit-record"),
    package("kernel-audit-hooks"),
    package("kernel-audit"),
    package("cargo-kernels"),
    slow(package("kernel-registry-image")),
    slow(package("kernel-registry-ptx")),
    test("linked"),
    slow(test("linking")),
    test("check"),
    slow(test("audit")),
    slow(package("kernel-registry-sim")),
    slow(test("audit_in_process")),
];

/// Package, test and reason for everything that isn't run.
pub(super) const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("kernel-audit", "command::program::trust::tests::a_folder_that_others_can_replace_is_refused", ONE_USER),
    ("kernel-audit", "command::report::html::timeline::tests::many_hangs_take_little_time", TIME),
    (
        "kernel-audit-hooks",
        "environment::tests::a_program_that_runs_with_the_rights_of_its_owner_obeys_no_variable",
        ONE_USER,
    ),
    (
        "kernel-audit-record",
        "preload::copies::tests::a_folder_that_another_user_links_to_gets_no_copy",
        ONE_USER,
    ),
    ("kernel-audit-record", "preload::tests::a_hash_tells_images_apart", MINUTES),
    ("kernel-audit-record", "record::tests::texts_are_bounded_in_total", MINUTES),
    (
        "kernel-audit-hooks",
        "watch::known::handles::tests::each_of_many_images_is_found_and_forgotten_as_fast_as_one",
        TIME,
    ),
    (
        "kernel-audit-hooks",
        "watch::known::table::tests::nothing_is_forgotten_however_many_there_are",
        MINUTES,
    ),
    ("kernel-registry-ptx", "saxpy_over_a_million_elements", TIME),
    (
        "tests/audit",
        "compiled::loader::a_program_with_a_shared_address_sanitizer_starts",
        "the arm64 root has no libasan",
    ),
    (
        "tests/audit",
        "compiled::loader::children_that_outlive_the_command_find_the_library",
        "its shell is one for x86-64, which cannot load the library",
    ),
    ("tests/audit", "compiled::what_was_compiled_once_is_given_back", TIME),
];

const ONE_USER: &str = "it needs a second user, and the user namespace has one";
const MINUTES: &str = "it takes minutes under qemu";
const TIME: &str = "it measures time, which an emulator multiplies";

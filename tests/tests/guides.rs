//! Checks the README and the guides without building anything: messages, links, figures and names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_registry_cuda::rules::FIRST_LAUNCH;
use tests::guide::{blocks, documents, page, pages, section, workspace};

/// Collects the texts of the files with this extension in a folder, except build outputs.
fn visit(folder: &Path, extension: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            visit(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// Returns the folders of the published crates, and of xtask, which knows messages of other tools.
fn crates() -> impl Iterator<Item = PathBuf> {
    let folders = fs::read_dir(workspace()).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        folder.join("src").is_dir() && ["kernel", "xtask"].iter().any(|word| name.contains(word))
    })
}

/// Joins the lines of long string literals in a source.
fn joined(source: &str) -> String {
    let mut lines = source.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

#[test]
fn messages_of_the_troubleshooting_page_are_in_the_sources() {
    let mut sources = Vec::new();
    for folder in crates() {
        visit(&folder.join("src"), "rs", &mut sources);
    }
    visit(&workspace().join("tests/compile-fail/ui"), "stderr", &mut sources);
    let sources: Vec<String> = sources.iter().map(|source| joined(source)).collect();

    let page = page("docs/guide/troubleshooting.md");
    let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert!(headings.len() > 40, "{headings:?}");
    for part in headings.iter().flat_map(|heading| heading.split("..")).map(str::trim) {
        assert!(sources.iter().any(|source| source.contains(part)), "no message has `{part}`");
    }
}

/// Returns the anchor of a heading, by which links name it.
fn slug(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading.chars().filter(|&c| kept(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    for page in documents() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|line| slug(line) == heading);
                assert!(is_there, "{}: {link}", page.display());
            }
        }
    }
}

/// The page on PyPI is read outside of the repository.
#[test]
fn links_of_the_page_on_pypi_lead_to_files_of_the_repository() {
    let text = page("kernel-audit/python/README.md");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links {
        let path = link.strip_prefix("https://github.com/kernel-registry/kernel-registry/blob/main/");
        assert!(path.is_some_and(|path| workspace().join(path).is_file()), "{link}");
    }
    assert!(text.lines().count() <= 80, "it is short");
}

#[test]
fn every_guide_is_in_the_list_and_compiled() {
    let (list, compiled) = (page("docs/README.md"), page("tests/src/lib.rs"));
    for guide in pages().iter().filter(|page| page.parent().unwrap().ends_with("guide")) {
        let name = format!("guide/{}", guide.file_name().unwrap().display());
        assert!(list.contains(&format!("]({name})")), "{name}");
        assert!(compiled.contains(&format!("include_str!(\"../../docs/{name}\")")), "{name}");
    }
}

#[test]
fn manifests_can_be_read() {
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if block.language == "toml" {
                let read = block.text.parse::<toml::Table>();
                assert!(read.is_ok(), "{}: {}: {read:?}", page.display(), block.text);
            }
        }
    }
}

/// Adds a crate and the crates of the workspace that it depends on to `found`.
fn with_dependencies(name: &str, found: &mut BTreeSet<String>) {
    if found.insert(name.to_owned()) {
        let manifest: toml::Table = page(&format!("{name}/Cargo.toml")).parse().unwrap();
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let ours = dependencies.into_iter().flat_map(toml::Table::keys);
        ours.filter(|name| name.starts_with("kernel-registry"))
            .for_each(|name| with_dependencies(name, found));
    }
}

#[test]
fn profiles_that_speed_up_the_simulator_name_all_of_its_crates() {
    let mut crates = BTreeSet::new();
    with_dependencies("kernel-registry-sim", &mut crates);
    for file in ["docs/guide/ci.md", "kernel-registry-sim/src/lib.rs"] {
        let text = page(file);
        let is_named = |name: &&String| text.contains(&format!("[profile.dev.package.{name}]"));
        let forgotten: Vec<_> = crates.iter().filter(|name| !is_named(name)).collect();
        assert!(forgotten.is_empty(), "{file}: {forgotten:?}");
    }
}

/// The lines of a text without the space at their beginnings.
fn unindented(text: &str) -> String {
    text.trim().lines().map(|line| line.trim_start().to_owned() + "\n").collect()
}

/// Blocks that no doctest compiles show files of a package that tests write and run, or parts of examples that are built.
#[test]
fn code_blocks_that_no_doctest_compiles_belong_to_files_that_are_run() {
    let run = page("tests/tests/new_user.rs");
    // These packages are built by `cargo xtask candle`, `cargo xtask adopt` and `cargo xtask cuda-core`.
    let mut built = Vec::new();
    for folder in ["kernel-registry-candle/examples", "tests/adopt/src", "examples/cuda-core/src"] {
        visit(&workspace().join(folder), "rs", &mut built);
    }
    let built: Vec<_> = built.iter().map(|source| unindented(source)).collect();
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if block.language == "rust,ignore" {
                let name = page.file_stem().unwrap().to_string_lossy().into_owned();
                let is_run = block.file.is_some() && run.contains(&name);
                let is_part = built.iter().any(|source| source.contains(&unindented(&block.text)));
                assert!(is_run || is_part, "{}: {}", page.display(), block.text);
            }
        }
    }
}

/// Returns the paragraphs and the lines of tables of a page, each as one line.
fn paragraphs(page: &str) -> Vec<String> {
    let (mut found, mut is_code) = (vec![String::new()], false);
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        let starts_anew = is_code || ["```", "|", "- ", "#"].iter().any(|start| line.starts_with(start));
        if line.is_empty() || starts_anew {
            found.push(String::new());
        }
        if !is_code && !line.starts_with("```") {
            let last = found.last_mut().unwrap();
            *last = format!("{last} {}", line.trim());
        }
    }
    found
}

/// Compares the pages with the rule of first launches, which the census recorded on GPUs.
#[test]
fn pages_say_which_first_launch_of_a_context_waits() {
    let mut count = 0;
    for (name, text) in documents().iter().map(|path| (path, fs::read_to_string(path).unwrap())) {
        let said = paragraphs(&text).into_iter().filter(|text| text.contains("EAGER"));
        for paragraph in said.filter(|text| text.contains("context's first")) {
            count += 1;
            let conditions = [("waits for a word", "wait for a word"), ("large frame", "large frame")];
            for (condition, of_the_rule) in conditions {
                assert!(paragraph.contains(condition), "{}: {paragraph}", name.display());
                assert!(FIRST_LAUNCH.because.contains(of_the_rule), "{}", FIRST_LAUNCH.because);
            }
        }
    }
    assert!(count >= 3, "{count}");
}

/// Parses a word as a number, without the punctuation around it.
fn number(word: &str) -> Option<f64> {
    word.trim_matches(|c: char| !c.is_ascii_digit()).replace(',', "").parse().ok()
}

const UNITS: [&str; 13] =
    ["ns", "us", "µs", "ms", "s", "bytes", "KB", "KiB", "MB", "MiB", "GB", "GiB", "times"];

/// Returns the numbers before units: both numbers of `3.4 to 4.0 s`.
fn figures(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches(|c: char| !c.is_alphanumeric()));
    let mut figures = Vec::new();
    for at in (0..words.len()).filter(|&at| is_unit(words[at])) {
        let before = words[..at].iter().rev().take_while(|word| **word == "to" || number(word).is_some());
        figures.extend(before.filter_map(|word| number(word)));
    }
    figures
}

#[test]
fn figures_are_numbers_before_units() {
    assert_eq!(figures("3.4 to 4.0 s, 1,966 MiB; in 9 steps of (5 ms)"), [4.0, 3.4, 1966.0, 5.0]);
}

/// Checks sentences that link to a section of the page of measurements, and tables whose heading does: their figures are in that
/// section, digit for digit.
#[test]
fn cited_figures_are_in_the_measurements() {
    let measured = page("docs/measured.md");
    let numbers_of = |link: &str| -> Vec<f64> {
        let is_cited = |text: &&str| link.strip_prefix('#') == text.lines().next().map(slug).as_deref();
        let section = measured.split("\n## ").find(is_cited).unwrap_or_default();
        section.split_whitespace().filter_map(number).collect()
    };
    let mut count = 0;
    for path in documents().iter().filter(|path| !path.ends_with("measured.md")) {
        let mut of_table = None;
        for paragraph in paragraphs(&fs::read_to_string(path).unwrap()) {
            let is_row = paragraph.starts_with(" |");
            of_table = of_table.filter(|_| is_row);
            for sentence in paragraph.split(". ") {
                let link = sentence.rsplit_once("measured.md").and_then(|(_, rest)| rest.split(')').next());
                let link = link.map(str::to_owned).or_else(|| of_table.clone());
                let Some(link) = link else { continue };
                let there = numbers_of(&link);
                for figure in figures(sentence) {
                    count += 1;
                    assert!(there.contains(&figure), "{}: {figure} in `{sentence}`", path.display());
                }
                of_table = Some(link).filter(|_| is_row);
            }
        }
    }
    assert!(count > 20, "{count}");
}

/// Whether a patch applies to the other project is not tried, because nothing is fetched here.
#[test]
fn patches_for_other_projects_are_whole_and_have_a_page() {
    let files = fs::read_dir(workspace().join("docs/upstream")).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    let with =
        |extension| files.iter().filter(move |file| file.extension().is_some_and(|has| has == extension));
    let pages: Vec<_> = with("md").map(|page| fs::read_to_string(page).unwrap()).collect();
    assert!(with("patch").count() >= 2, "{files:?}");
    for patch in with("patch") {
        // In another folder of the repository, git leaves out all files that are not below it.
        let mut git = Command::new("git");
        git.args(["apply", "--numstat"]).arg(patch).current_dir(workspace());
        let output = git.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !output.stdout.is_empty(), "{}: {message}", patch.display());
        let link = format!("]({})", patch.file_name().unwrap().display());
        assert!(pages.iter().any(|page| page.contains(&link)), "no page has {link}");
    }
}

/// In ARCHITECTURE.md a word with underscores between backticks is the name of a test.
#[test]
fn the_architecture_names_tests_that_exist() {
    let mut sources = Vec::new();
    for folder in ["tests", "fuzz", "benches"].into_iter().map(|name| workspace().join(name)).chain(crates())
    {
        visit(&folder, "rs", &mut sources);
    }
    let architecture = page("ARCHITECTURE.md");
    let words = architecture.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        word.matches('_').count() > 2
            && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let named: Vec<_> = words.filter(is_test).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        let function = format!("fn {name}(");
        assert!(sources.iter().any(|source| source.contains(&function)), "there is no test `{name}`");
    }
}

/// Functions that CONTRIBUTING.md offers as first issues are not simulated yet, and those that it names as examples are.
#[test]
fn first_issues_are_open() {
    let contributing = page("CONTRIBUTING.md");
    let lacking = page("kernel-registry-sim/src/driver/calls/lacking.rs");
    let lacking: BTreeSet<&str> = lacking.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let lines = section(&contributing, "First issues")
        .lines()
        .filter_map(|line| line.strip_prefix("- The simulator lacks "));
    let mut count = 0;
    for line in lines {
        let (offered, examples) = line.split_once(['.', ',']).unwrap();
        let names = |text: &str| -> Vec<String> {
            let words = text.split('`').skip(1).step_by(2).filter(|word| word.starts_with("cu"));
            words.map(str::to_owned).collect()
        };
        for name in names(offered) {
            assert!(lacking.contains(&*name), "{name} is simulated");
            count += 1;
        }
        for name in names(examples) {
            assert!(!lacking.contains(&*name), "{name} is not simulated");
        }
    }
    assert!(count >= 5, "{count}");
}

/// The picture of the README is drawn from the text of a run.
#[test]
fn the_picture_shows_the_text_beside_it() {
    let draw = Command::new("python3")
        .current_dir(workspace())
        .args(["docs/pictures/terminal.py", "docs/pictures/hang.txt"])
        .output();
    let Ok(drawn) = draw else { return tests::left_out("python3 is not installed", "REQUIRE_PYTHON") };
    let picture = page("docs/pictures/hang.svg");
    assert_eq!(
        String::from_utf8_lossy(&drawn.stdout),
        picture,
        "draw it again: see docs/pictures/terminal.py"
    );
}

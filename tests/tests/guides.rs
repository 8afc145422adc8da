//! The README and the guides: what can be checked in them without building anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tests::guide::{blocks, documents, page, pages, workspace};

/// Visits files with this extension in a folder, but not those that were built.
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

/// The text without the breaks of long literals.
fn joined(source: &str) -> String {
    let mut lines = source.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

#[test]
fn messages_of_the_troubleshooting_page_are_in_the_sources() {
    let mut sources = Vec::new();
    for entry in fs::read_dir(workspace()).unwrap() {
        let sources_of = entry.unwrap().path().join("src");
        let is_crate = sources_of.to_string_lossy().contains("kernel") && sources_of.is_dir();
        if is_crate {
            visit(&sources_of, "rs", &mut sources);
        }
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

#[test]
fn links_lead_to_files_and_headings() {
    let slug = |heading: &str| -> String {
        let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        heading.to_lowercase().chars().filter(|&c| kept(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
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
                let is_there = headings.any(|line| slug(line.trim_start_matches('#').trim()) == heading);
                assert!(is_there, "{}: {link}", page.display());
            }
        }
    }
}

#[test]
fn every_guide_is_in_the_readme_and_compiled() {
    let (readme, compiled) = (page("README.md"), page("tests/src/lib.rs"));
    for guide in pages().iter().filter(|page| page.parent().unwrap().ends_with("guide")) {
        let name = format!("docs/guide/{}", guide.file_name().unwrap().display());
        assert!(readme.contains(&format!("]({name})")), "{name}");
        assert!(compiled.contains(&format!("include_str!(\"../../{name}\")")), "{name}");
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

/// A crate, and the crates of the workspace that it depends on.
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

#[test]
fn code_that_no_doctest_compiles_is_in_files_that_are_run() {
    let run = page("tests/tests/new_user.rs");
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if block.language == "rust,ignore" {
                let name = page.file_stem().unwrap().to_string_lossy().into_owned();
                assert!(block.file.is_some() && run.contains(&name), "{}: {}", page.display(), block.text);
            }
        }
    }
}

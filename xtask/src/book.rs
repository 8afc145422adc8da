//! `cargo xtask book`: makes a book of the README and the pages, in target/book/html, and checks its links.
//! The book's contents start with the README's table of guides.

mod links;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, entries, files_with, installed, remove, run, target, workspace};

const CONFIGURATION: &str = r#"[book]
title = "kernel-registry"
src = "src"
[build]
build-dir = "html"
create-missing = false
[output.html]
git-repository-url = "https://github.com/kernel-registry/kernel-registry"
[output.html.search]
enable = true
"#;

/// Where pages link to for files that aren't in the book: sources, examples, licences.
const FILES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main");

pub(crate) fn book() -> Outcome {
    let book = target().join("book");
    remove(&book)?;
    let src = book.join("src");
    let (pages, pictures) = (pages()?, pictures(&workspace().join("docs"))?);
    // The files keep their relative paths, so that links between them work.
    for path in pages.iter().chain(&pictures) {
        let (original, copy) = (workspace().join(path), src.join(path));
        fs::create_dir_all(copy.parent().unwrap_or(&src))?;
        if pages.contains(path) {
            let text = fs::read_to_string(&original)?;
            fs::write(
                copy,
                with_addresses(&text, path, |path| pages.contains(path) || pictures.contains(path)),
            )?;
        } else {
            fs::copy(original, copy)?;
        }
    }
    let title = |page: &Path| Ok(title(&fs::read_to_string(workspace().join(page))?));
    let readme = fs::read_to_string(workspace().join("README.md"))?;
    fs::write(src.join("SUMMARY.md"), summary(&readme, &pages, title)?)?;
    fs::write(book.join("book.toml"), CONFIGURATION)?;
    installed("mdbook")?;
    run(Command::new("mdbook").arg("build").arg(&book))?;
    links::check(&book.join("html"))
}

/// Returns the pages of the book, as paths in the workspace.
fn pages() -> Outcome<BTreeSet<PathBuf>> {
    let mut folders = vec![workspace().join("docs")];
    let mut pages = files_with("md", &workspace())?;
    while let Some(folder) = folders.pop() {
        pages.extend(files_with("md", &folder)?);
        folders.extend(entries(&folder)?.into_iter().filter(|path| path.is_dir()));
    }
    pages.into_iter().map(|page| Ok(page.strip_prefix(workspace())?.to_owned())).collect()
}

/// Returns the pictures in a folder and its subfolders, as paths in the workspace.
fn pictures(folder: &Path) -> Outcome<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for path in entries(folder)? {
        if path.is_dir() {
            found.extend(pictures(&path)?);
        } else if path.extension().is_some_and(|of_path| of_path == "svg" || of_path == "png") {
            found.insert(path.strip_prefix(workspace())?.to_owned());
        }
    }
    Ok(found)
}

/// Rewrites the links of a page for the book. Links out of the book become addresses in the repository.
fn with_addresses(text: &str, page: &Path, is_there: impl Fn(&Path) -> bool) -> String {
    let mut parts = text.split("](");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let link = part.split(')').next().unwrap_or_default();
        let file = link.split('#').next().unwrap_or_default();
        let path = joined(page.parent().unwrap_or(page), Path::new(file));
        let (is_file, rest) = (!file.is_empty() && !file.contains("://"), &part[file.len()..]);
        replaced += "](";
        if is_file && path == Path::new("README.md") {
            // mdBook renames this page to `index.html`, but doesn't rewrite links to it.
            let _ = write!(replaced, "{}{rest}", file.replace("README", "index"));
        } else if is_file && !is_there(&path) {
            let _ = write!(replaced, "{FILES}/{}{rest}", path.display());
        } else {
            replaced += part;
        }
    }
    replaced
}

/// Returns the path of a file relative to a folder.
fn joined(folder: &Path, file: &Path) -> PathBuf {
    let mut path = folder.to_owned();
    for component in file.components() {
        match component {
            Component::ParentDir => _ = path.pop(),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Returns the first heading of a page.
fn title(page: &str) -> String {
    page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned()
}

/// Returns the book's contents: the README, the guides in the order of the README's table, the other pages,
/// and the pages for contributors.
fn summary(
    readme: &str,
    pages: &BTreeSet<PathBuf>,
    title: impl Fn(&Path) -> Outcome<String>,
) -> Outcome<String> {
    let mut summary = "# Summary\n\n[kernel-registry](README.md)\n\n# Guides\n\n".to_owned();
    let guides = readme.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(')'));
    for (link, _) in guides {
        // Writing to a `String` can't fail.
        let _ = writeln!(summary, "- [{link})");
    }
    for (part, is_in_docs) in [("Reference", true), ("Project", false)] {
        let _ = write!(summary, "\n# {part}\n\n");
        for page in pages.iter().filter(|page| page.starts_with("docs") == is_in_docs) {
            let path = page.display();
            if !summary.contains(&format!("]({path})")) {
                let _ = writeln!(summary, "- [{}]({path})", title(page)?);
            }
        }
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_in_the_contents_once_and_the_guides_are_first() {
        let (pages, readme) = (pages().unwrap(), fs::read_to_string(workspace().join("README.md")).unwrap());
        let summary = summary(&readme, &pages, |page| {
            let title = title(&fs::read_to_string(workspace().join(page))?);
            assert!(!title.is_empty(), "{} has no title", page.display());
            Ok(title)
        });
        let summary = summary.unwrap();
        assert!(summary.contains("\n- [Declaring kernels](docs/guide/declaring.md)\n"), "{summary}");
        let linked = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(PathBuf::from);
        let linked: Vec<_> = linked.collect();
        assert_eq!(linked.len(), pages.len());
        assert_eq!(linked.into_iter().collect::<BTreeSet<_>>(), pages);
        let position = |page: &str| summary.find(page).unwrap();
        assert!(position("docs/guide/versions.md") < position("docs/measured.md"));
        assert!(position("docs/measured.md") < position("CONTRIBUTING.md"));
    }

    #[test]
    fn links_out_of_the_book_lead_to_the_repository() {
        let text =
            "[a](../resident.md#ten) [b](../../examples/build.rs#L1) [c](https://docs.rs/x) [d](#here)";
        let of_guide = |text: &str| {
            with_addresses(text, Path::new("docs/guide/a.md"), |path| path == Path::new("docs/resident.md"))
        };
        assert_eq!(of_guide("[a](../../README.md#start)"), "[a](../../index.md#start)");
        let replaced = of_guide(text);
        let address = "https://github.com/kernel-registry/kernel-registry/blob/main/examples/build.rs#L1";
        assert_eq!(replaced, text.replace("../../examples/build.rs#L1", address));
    }
}

//! `cargo xtask book`: makes a book of the README and the guides, in target/book/html. The book's table of contents is the
//! README's table of guides.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::run::{Outcome, files_with, installed, remove, run, target, workspace};

const CONFIGURATION: &str = r#"[book]
title = "kernel-registry"
src = "src"
[build]
build-dir = "html"
create-missing = false
[output.html]
git-repository-url = "https://github.com/kernel-registry/kernel-registry"
"#;

pub(crate) fn book() -> Outcome {
    let book = target().join("book");
    remove(&book)?;
    let src = book.join("src");
    fs::create_dir_all(&src)?;
    // The pages keep their relative paths, so that links between them work.
    let first = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
    let mut pages: Vec<_> = first.iter().map(|page| workspace().join(page)).collect();
    pages.extend(files_with("md", &workspace().join("docs"))?);
    pages.extend(files_with("md", &workspace().join("docs/guide"))?);
    for page in &pages {
        let copy = src.join(page.strip_prefix(workspace())?);
        fs::create_dir_all(copy.parent().unwrap_or(&src))?;
        fs::copy(page, copy)?;
    }
    fs::write(src.join("SUMMARY.md"), summary(&fs::read_to_string(workspace().join("README.md"))?))?;
    fs::write(book.join("book.toml"), CONFIGURATION)?;
    installed("mdbook")?;
    run(Command::new("mdbook").arg("build").arg(&book))
}

/// Writes the contents of the book: the README, the guides in the order of the README's table, and the pages for
/// contributors.
fn summary(readme: &str) -> String {
    let mut summary = "# Summary\n\n[kernel-registry](README.md)\n\n".to_owned();
    let guides = readme.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(')'));
    for (link, _) in guides {
        // Writing to a `String` does not fail.
        let _ = writeln!(summary, "- [{link})");
    }
    summary
        + "\n---\n\n- [Architecture](ARCHITECTURE.md)\n- [Contributing](CONTRIBUTING.md)\n- [Security](SECURITY.md)\n- [Changelog](CHANGELOG.md)\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_are_the_guides_of_the_readme() {
        let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
        let summary = summary(&readme);
        assert!(summary.contains("\n- [Declaring kernels](docs/guide/declaring.md)\n"), "{summary}");
        let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links {
            assert!(workspace().join(link).is_file(), "{link}");
        }
    }
}

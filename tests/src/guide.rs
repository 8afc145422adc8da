//! Reads the README and the guides: their code blocks, and the commands of a new user as a shell script.

use std::fs;
use std::path::{Path, PathBuf};

/// The address of the repository in the pages' cargo commands.
const REPOSITORY: &str = "https://github.com/kernel-registry/kernel-registry";

/// A code block of a page.
pub struct Block {
    /// The word after the opening backticks, as in `rust,no_run`.
    pub language: String,
    /// The file that the block shows, if the line before the block starts with a name in backticks.
    pub file: Option<String>,
    /// The lines between the backticks.
    pub text: String,
}

/// Returns the folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace")
}

/// Returns the paths of the README and of all guides.
pub fn pages() -> Vec<PathBuf> {
    let guides = fs::read_dir(workspace().join("docs/guide")).expect("the guides are there");
    let mut pages: Vec<PathBuf> = guides.map(|entry| entry.expect("they can be listed").path()).collect();
    pages.push(workspace().join("README.md"));
    pages.sort();
    pages
}

/// Returns the paths of the README, the guides, and all other documents of the repository.
pub fn documents() -> Vec<PathBuf> {
    let mut documents = pages();
    for folder in ["", "docs", "docs/upstream"] {
        let files = fs::read_dir(workspace().join(folder)).expect("it is there");
        let files = files.map(|entry| entry.expect("it can be listed").path());
        documents.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    }
    documents.sort();
    documents.dedup();
    documents
}

/// Reads a page. `name` is its path in the workspace.
pub fn page(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns a section of a page: the text from its heading to the next heading of the same level.
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    after.split("\n## ").next().unwrap_or(after)
}

/// Returns the code blocks of a text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut open, mut before): (Option<Block>, &str) = (None, "");
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let before = std::mem::take(&mut before);
                let file = before.strip_prefix('`').and_then(|rest| rest.split_once('`'));
                let file = file.map(|(file, _)| file.to_owned());
                open = Some(Block { language: language.to_owned(), file, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) if !line.is_empty() => before = line,
            (None, None) => {}
        }
    }
    blocks
}

/// Returns the text of the file with this name in a section.
pub fn file(section: &str, name: &str) -> String {
    let found = blocks(section).into_iter().find(|block| block.file.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("`{name}`")).text
}

/// Returns a section as a shell script, which runs the section's commands, and writes each file where the
/// page shows it. Cargo takes the crates from this workspace.
pub fn script(section: &str) -> String {
    let mut script = String::from("set -eu\n");
    for Block { language, file, text } in blocks(section) {
        match (file, &*language) {
            (Some(file), _) => {
                script.push_str(&format!("cat > '{file}' <<'END OF FILE'\n{text}END OF FILE\n"))
            }
            (None, "sh") => script.extend(text.lines().map(local)),
            (None, _) => {}
        }
    }
    script
}

/// Returns a command that takes the crates from this workspace instead of the repository or crates.io.
fn local(command: &str) -> String {
    let add = command.strip_suffix(&format!(" --git {REPOSITORY}")).unwrap_or(command);
    let (before, name) = add.rsplit_once(' ').unwrap_or_default();
    let folder = workspace().join(name);
    if before.starts_with("cargo add") && folder.join("Cargo.toml").is_file() {
        format!("{before} --path '{}'\n", folder.display())
    } else {
        format!("{command}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_the_workspace_are_not_downloaded() {
        let path =
            format!("cargo add --dev --path '{}'\n", workspace().join("kernel-registry-sim").display());
        assert_eq!(local(&format!("cargo add --dev kernel-registry-sim --git {REPOSITORY}")), path);
        assert_eq!(local("cargo add --dev kernel-registry-sim"), path);
        for other in ["cargo add half", "cargo new --lib demo && cd demo", "cargo test", "mkdir cuda tests"] {
            assert_eq!(local(other), format!("{other}\n"));
        }
    }
}

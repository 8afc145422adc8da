//! Checks the links in a folder of HTML, and that its search index is complete.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, entries, files_with, stem};

/// Pages that mdBook adds: all chapters on one page, and the page for unknown addresses, whose links are
/// relative to the server's root.
const ADDED: [&str; 2] = ["print", "404"];

/// Fails if a link's target doesn't exist, or if the folder can't be searched.
pub(super) fn check(folder: &Path) -> Outcome {
    let pages = pages(folder)?;
    let mut count = 0;
    let mut broken = Vec::new();
    for page in pages.iter().filter(|page| !ADDED.contains(&&*stem(page))) {
        let text = fs::read_to_string(page)?;
        for link in [" href=\"", " src=\""].iter().flat_map(|name| values(&text, name)) {
            count += 1;
            if !leads_somewhere(page, &text, link)? {
                broken.push(format!("{}: {link}", page.strip_prefix(folder)?.display()));
            }
        }
    }
    if !broken.is_empty() {
        return Err(format!("{} of {count} links lead nowhere:\n{}", broken.len(), broken.join("\n")).into());
    }
    let scripts = files_with("js", folder)?;
    let index =
        scripts.iter().find(|path| stem(path).starts_with("searchindex")).ok_or("no index to search")?;
    let index = fs::read_to_string(index)?;
    if let Some(page) = pages.iter().find(|page| is_missing(page, folder, &index)) {
        return Err(format!("the search does not find {}", page.display()).into());
    }
    println!("{} pages, {count} links, search in {} KiB", pages.len(), index.len() >> 10);
    Ok(())
}

/// Returns the pages in a folder and its subfolders.
fn pages(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut pages = files_with("html", folder)?;
    for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        pages.extend(self::pages(&path)?);
    }
    Ok(pages)
}

/// Returns the values of an attribute in HTML. `name` includes the space before it and the opening quotation
/// mark.
fn values<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    html.split(name).skip(1).filter_map(|rest| rest.split('"').next())
}

fn leads_somewhere(page: &Path, text: &str, link: &str) -> Outcome<bool> {
    if link.contains(':') {
        return Ok(true);
    }
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let target = page.with_file_name(file);
    let is_there = file.is_empty() || target.is_file();
    if !is_there || place.is_empty() {
        return Ok(is_there);
    }
    let id = format!(" id=\"{place}\"");
    Ok(if file.is_empty() { text.contains(&id) } else { fs::read_to_string(target)?.contains(&id) })
}

fn is_missing(page: &Path, folder: &Path, index: &str) -> bool {
    let is_chapter = !ADDED.contains(&&*stem(page)) && stem(page) != "toc";
    let path = page.strip_prefix(folder).unwrap_or(page).display().to_string();
    is_chapter && !index.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error for a book with this page and a second page `b.html`, or an empty text.
    fn said(page: &str, index: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("guide")).unwrap();
        write("guide/a.html", page);
        write("b.html", "<h2 class=\"x\" id=\"there\">b</h2>");
        write("404.html", "<a href=\"/nowhere.html\">");
        write("searchindex-12ab.js", index);
        check(folder.path()).map_or_else(|error| error.to_string(), |()| String::new())
    }

    const INDEX: &str = "[\"guide/a.html\",\"b.html\"]";

    #[test]
    fn links_that_lead_somewhere_pass() {
        let links = ["../b.html", "../b.html#there", "https://docs.rs", "#own", "a.html"];
        let links: String = links.iter().map(|link| format!("<a href=\"{link}\">")).collect();
        assert_eq!(said(&format!("<p id=\"own\">{links}<img src=\"../b.html\">"), INDEX), "");
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        for link in ["b.html", "../b.html#elsewhere", "#elsewhere", "../measured.html"] {
            let said = said(&format!("<a class=\"x\" href=\"{link}\">"), INDEX);
            assert_eq!(said, format!("1 of 1 links lead nowhere:\nguide/a.html: {link}"));
        }
        assert!(said("<img src=\"picture.svg\">", INDEX).contains("picture.svg"));
    }

    #[test]
    fn a_page_that_cannot_be_found_by_words_is_named() {
        assert!(said("", "[\"b.html\"]").contains("the search does not find"));
    }
}

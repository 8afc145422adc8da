//! Tests the report's page in a real browser, headless Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::{left_out, scratch_folder};

use crate::{Merged, has_python, merged, recorded, text};

/// A script that collects errors of the page. It is the first script of the page.
const ERRORS: &str =
    "<script>const errors = []; window.onerror = (message) => { errors.push(String(message)); };</script>";

/// A script that uses the page as a reader does, and writes what it finds into the page.
const CHECKS: &str = include_str!("checks.js");

fn browser() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there);
    if found.is_none() {
        left_out("Chromium is not installed", "REQUIRE_CHROMIUM");
    }
    found
}

/// Returns what the checks find in a page in a window of this width.
fn found(browser: &str, page: &Path, width: u32, dark: bool) -> Value {
    let folder = scratch_folder();
    let html = fs::read_to_string(page).expect("a page");
    let html = html.replacen("<style>", &format!("{ERRORS}<style>"), 1);
    let (before, after) = html.rsplit_once("</body>").expect("a whole page");
    let copy = folder.join("page.html");
    fs::write(&copy, format!("{before}<script>{CHECKS}</script></body>{after}"))
        .expect("the folder is there");
    // The page is in a frame, because a window cannot be as narrow as a phone.
    let frame = folder.join("frame.html");
    let inner =
        format!("<iframe src=\"page.html\" style=\"width: {width}px; height: 800px; border: 0\"></iframe>");
    let outer = "<script>onmessage = (event) => { document.body.textContent = event.data; };</script>";
    fs::write(&frame, format!("<!doctype html><body>{outer}{inner}</body>")).expect("the folder is there");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]);
    command.args(["--virtual-time-budget=20000", "--dump-dom"]);
    command.arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }));
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let output = command.arg(format!("file://{}", frame.display())).output().expect("the browser runs");
    let dom = text(&output.stdout);
    let inside = dom.split_once("<body>").and_then(|(_, rest)| rest.split_once("</body>"));
    let (json, _) = inside.unwrap_or_else(|| panic!("{dom}{}", text(&output.stderr)));
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Writes the page of a program with threads, findings and a hang. The program's arguments try to inject HTML.
fn page() -> PathBuf {
    let records = scratch_folder();
    let hostile =
        "</title></script><script>errors.push('not escaped')</script><img src=x onerror=errors.push('img')>";
    recorded(
        &records,
        &["--hang-after", "0.2", "--first", "0.5"],
        &["--kernels", "60", "--threads", "2", "--hang", "--", hostile],
    );
    recorded(&records, &[], &["--rank", "1"]);
    let Merged { page, .. } = merged(&[&records]);
    page
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = browser() else { return };
    if !has_python() {
        return;
    }
    let page = page();
    for (width, dark) in [(360, false), (400, false), (400, true), (1280, false), (1280, true)] {
        let found = found(browser, &page, width, dark);
        let what = format!("{width} px, dark: {dark}: {found:#}");
        assert_eq!(found["errors"], serde_json::json!([]), "{what}");
        assert_eq!((&found["width"], &found["dark"]), (&width.into(), &dark.into()), "{what}");
        assert_eq!(found["too_wide"], serde_json::json!([]), "{what}");
        assert_eq!(found["faint"], serde_json::json!([]), "{what}");
        assert_eq!(found["not_sorted"], serde_json::json!([]), "{what}");
        assert!(found["sorted"].as_u64() > Some(20) && found["texts"].as_u64() > Some(100), "{what}");
        assert!(found["bars"].as_u64() > Some(10), "{what}");
    }
}

#[test]
fn the_page_has_everything_without_scripts() {
    if !has_python() {
        return;
    }
    let html = fs::read_to_string(page()).expect("a page");
    // The calls that hung returned later, so the page reports no hang.
    assert!(!html.contains("The program hung"));
    assert!(!html.contains("<img") && !html.contains("http:") && !html.contains("https:"));
    for part in [
        "The program waited for ",
        "<dt>where</dt>",
        "<code>ready</code> of process ",
        "<h2>Where the time went</h2>",
        "class=\"resident\"",
        "were loaded after the program was ready (the longest: ",
        "<strong>What to do:</strong> load this library, or compile this code, before the program is ready",
        "<code>stuck</code>",
        "a kernel is loaded only when nothing runs on the device",
        "kernel_0_59(float*, int)",
        "ready after",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn a_page_on_many_events_is_small() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    let options = ["--kernels", "500", "--threads", "8", "--resizes", "30000"];
    let output = recorded(&records, &[], &options);
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    let Merged { page, json, .. } = merged(&[&records]);
    let events = json["processes"][0]["events"].as_array().map_or(0, Vec::len);
    assert!(events > 30_000, "{events}");
    let html = fs::read_to_string(page).expect("a page");
    assert!(html.len() < 3_000_000, "{}", html.len());
    // The page counts the rows that its tables leave out.
    let shown = html.split("<h2>Kernels that were loaded</h2>").nth(1).expect("a table");
    assert!(shown.contains("<p>And 3500 more, "), "500 of 4000 are shown");
}

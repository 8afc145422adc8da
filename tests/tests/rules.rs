//! Compares the rules, which say what waits for what, with the census: each row that waits has a rule, each rule has rows, and no row
//! that runs contradicts a rule.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use kernel_registry_cuda::rules::Rule;
use serde_json::Value;
use tests::evidence;

const RECORDINGS: [&str; 2] = ["h200-580.json", "h100-580.json"];

/// A row of a recording: whether the row waits in this mode, and whether the wait is in a call of the host.
struct Row {
    name: String,
    mode: String,
    waits: bool,
    in_call: bool,
}

fn rows(recording: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("census").join(recording);
    let text = fs::read_to_string(path).expect("a recording");
    let recording: Value = serde_json::from_str(&text).expect("JSON");
    let rows = recording["rows"].as_array().expect("a list").iter();
    let row = |row: &Value| Row {
        name: row["row"].as_str().expect("a name").to_owned(),
        mode: row["mode"].as_str().expect("a mode").to_owned(),
        waits: row["result"] == "blocks",
        // The resident kernel ends by itself after a second, so a call that waits takes about a second.
        in_call: row["host_ms"].as_f64().is_some_and(|milliseconds| milliseconds > 500.0),
    };
    rows.map(row).collect()
}

/// Returns the driver's function that a row is named after: `cuMemFree` for `host/cuMemFree_1M`.
fn call(row: &str) -> &str {
    let name = row.rsplit('/').next().unwrap_or_default();
    name.split('_').next().unwrap_or_default()
}

#[test]
fn every_row_that_waits_has_a_rule() {
    for row in RECORDINGS.into_iter().flat_map(rows).filter(|row| row.waits) {
        let mut rules = evidence::rules().filter(|(_, evidence)| evidence.waits(&row.name));
        let is_explained = rules.any(|(rule, evidence)| {
            let waits = if row.in_call { !rule.calls.is_empty() } else { evidence.kernel_waits };
            evidence.holds(&row.mode) && waits
        });
        assert!(is_explained, "`{}`, {}, waits without a rule that says so", row.name, row.mode);
    }
}

#[test]
fn every_rule_has_rows_that_wait_and_none_that_does_not() {
    let rows = rows(RECORDINGS[0]);
    let find = |name: &str| -> Vec<&Row> { rows.iter().filter(|row| row.name == name).collect() };
    for (rule, evidence) in evidence::rules() {
        assert!(!evidence.rows.is_empty(), "no row shows that {}", rule.because);
        for name in &evidence.rows {
            let waits = find(name).iter().any(|row| row.waits && evidence.holds(&row.mode));
            assert!(waits, "`{name}` does not show that {}", rule.because);
        }
        for name in &evidence.runs {
            let rows = find(name);
            assert!(!rows.is_empty() && rows.iter().all(|row| !row.waits), "`{name}` does not run");
        }
        for name in &evidence.later {
            let returns = |row: &&Row| !row.waits && evidence.holds(&row.mode);
            let returns = find(name).into_iter().any(|row| returns(&row));
            assert!(evidence.kernel_waits && returns, "`{name}` waits");
        }
    }
}

/// Checks that a rule names, as its exceptions, the rows that run although they make a call which waits by the rule.
#[test]
fn rows_that_run_are_named_by_the_rules_of_their_calls() {
    let run = rows(RECORDINGS[0]).into_iter().filter(|row| !row.waits);
    for row in run.filter(|row| row.name.starts_with("host/") || row.name.starts_with("capture/")) {
        let rules = evidence::rules().filter(|(rule, _)| rule.calls.contains(&call(&row.name)));
        for (rule, evidence) in rules {
            // The rows of `locked` show calls that wait for another thread. Other rows make these calls without that thread, and
            // run: they are no exceptions.
            let alone = evidence.rows.iter().all(|name| name.starts_with("locked/"));
            let is_excepted = evidence.runs(&row.name) || evidence.waits_later(&row.name);
            let is_named = alone || !evidence.holds(&row.mode) || is_excepted;
            assert!(is_named, "`{}` runs, although {}", row.name, rule.because);
        }
    }
}

/// A row that waits although `warm_all` was called must have a rule for which `warm_all` is no remedy, or is not the whole remedy.
#[test]
fn rows_that_wait_after_warming_need_another_remedy() {
    for row in rows("h200-580-warmed.json").iter().filter(|row| row.waits) {
        let mut rules = evidence::rules().filter(|(_, evidence)| evidence.waits(&row.name));
        // The row waits if it lowers the stack limit after warming, and the remedy of this rule forbids that.
        let has_other =
            rules.any(|(rule, _)| rule.warm_all.is_none_or(|remedy| remedy.contains("never lower")));
        assert!(has_other, "`{}` waits after warming", row.name);
    }
}

#[test]
fn the_document_has_the_rules() {
    let mut table = "| waits because | calls | remedy | rows |\n|---|---|---|---|\n".to_owned();
    for (Rule { calls, because, remedy, warm_all, .. }, evidence) in evidence::rules() {
        let calls: Vec<_> = calls.iter().map(|call| format!("`{call}`")).collect();
        let calls = if calls.is_empty() { "the kernel, not its launch".to_owned() } else { calls.join(", ") };
        let mode =
            evidence.mode.as_ref().map(|mode| format!(" ({})", mode.to_uppercase())).unwrap_or_default();
        // The document names the rows of a group together.
        let mut groups = BTreeMap::<&str, Vec<&str>>::new();
        for row in &evidence.rows {
            let (group, name) = row.split_once('/').expect("rows have groups");
            groups.entry(group).or_default().push(name);
        }
        let groups: Vec<_> =
            groups.iter().map(|(group, names)| format!("{group}: {}", names.join(", "))).collect();
        let remedy = match warm_all {
            None => (*remedy).to_owned(),
            Some(warm_all) => format!("{remedy}. With kernel-registry: {warm_all}"),
        };
        let _ = writeln!(table, "| {because}{mode} | {calls} | {remedy} | {} |", groups.join("; "));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/census.md");
    let document = fs::read_to_string(path).expect("the document");
    assert!(document.contains(&table), "docs/census.md needs this table:\n{table}");
}

/// On a slow machine a call can take longer than the second after which the resident kernel ends. The census then tries the row again
/// with a limit of ten seconds.
#[test]
fn a_slow_machine_changes_no_result_of_the_census() {
    let faults = "cuLaunchKernel=+1500ms,cuLaunchCooperativeKernel=+3500ms";
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("census").join(RECORDINGS[0]);
    let mut census = Command::new(env!("CARGO_BIN_EXE_census"));
    census.args(["--mode", "lazy", "--jobs", "2", "--only", "wait/after_memset"]);
    census.args(["--only", "launch/cuLaunchCooperativeKernel_cold", "--expect"]).arg(recording);
    census.env("KERNEL_REGISTRY_SIM", "1").env("KERNEL_REGISTRY_SIM_FAULTS", faults);
    let output = census.output().expect("it was built");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let (once, again) = said.split_once("\nagain, with more patience:\n").expect("it was too slow once");
    let is = |text: &str, row: &str, result: &str| {
        text.lines().any(|line| line.contains(row) && line.contains(result))
    };
    assert!(is(once, "after_memset", " blocks ") && is(again, "after_memset", " runs "), "{said}");
    assert!(is(once, "cuLaunchCooperativeKernel_cold", " blocks "), "{said}");
}

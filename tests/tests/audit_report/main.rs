//! Tests the report of `cargo kernels audit`: its text, its sums, traces, pages, and the comparison of several processes.

mod page;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::{are_documented, cargo_kernels_command, fails, left_out, scratch_folder};

/// A Python program that loads kernels in threads, half of the kernels of one thread late. Its options make it hang beside a kernel, or
/// run until it is killed.
const LATE: &str = include_str!("late.py");

/// Returns whether Python is installed, which the programs need.
fn has_python() -> bool {
    let is_there = Command::new("python3").arg("--version").output().is_ok();
    if !is_there {
        left_out("python3 is not installed", "REQUIRE_PYTHON");
    }
    is_there
}

/// Runs [`LATE`] on the simulated driver, and keeps its record.
fn recorded(records: &Path, audit: &[&str], program: &[&str]) -> Output {
    let mut command = cargo_kernels_command();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CUDA") || name.starts_with("KERNEL_REGISTRY_SIM") || name.ends_with("RANK") {
            command.env_remove(&*name);
        }
    }
    command.args(["audit", "--sim", "--offline", "--fail-on-findings", "--records"]).arg(records).args(audit);
    command.args(["--", "python3", "-c", LATE]).args(program);
    command.output().expect("the tool runs")
}

/// The reports that `cargo kernels audit merge` writes on records.
struct Merged {
    output: Output,
    json: Value,
    trace: Value,
    page: PathBuf,
}

fn merged(records: &[&Path]) -> Merged {
    let folder = scratch_folder();
    let [json, trace, page] = ["report.json", "report.trace", "report.html"].map(|name| folder.join(name));
    let mut command = cargo_kernels_command();
    command
        .args(["audit", "merge", "--fail-on-findings", "--json"])
        .arg(&json)
        .arg("--trace")
        .arg(&trace)
        .arg("--html")
        .arg(&page);
    let output = command.args(records).output().expect("the tool runs");
    let read = |path: &Path| {
        let text = fs::read(path).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        serde_json::from_slice(&text).expect("JSON")
    };
    Merged { json: read(&json), trace: read(&trace), output, page }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8").trim_end()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns the number in front of a word.
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).unwrap_or_else(|| panic!("`{word}` in {text}")).0;
    let number = before.split_whitespace().next_back().expect("a number");
    number.parse().unwrap_or_else(|_| panic!("`{number}` before `{word}`"))
}

#[test]
fn the_report_on_many_events_is_short_and_counts_what_it_leaves_out() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    let output = recorded(&records, &[], &["--kernels", "300", "--threads", "3", "--resizes", "40"]);
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.lines().count() < 80, "{said}");
    let (late, before) = said.split_once(" more findings, ").expect("findings are left out");
    let listed = late.lines().filter(|line| line.starts_with("! ") && line.contains(" cu")).count() as u64;
    let findings = number_before(said, " findings: calls that were late");
    assert_eq!(listed + number_before(said, " more findings"), findings, "{said}");
    assert!(late.contains("load      cuLaunchKernel           kernel_") && before.contains(" more events, "));
    assert!(said.contains("Remedy: use this operation once"), "{said}");

    // Findings come first, and a line of its own counts the kernels that are not shown.
    let (_, kernels) = said.split_once("AFTER READY  KERNEL\n").expect("a table of kernels");
    let (kernels, _) = kernels.split_once("\n\n").expect("its end");
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let times: u64 = kernels.lines().map(|line| columns(line)[0].parse::<u64>().expect("a number")).sum();
    assert_eq!(times, 900, "{kernels}");
    let first = kernels.lines().next().expect("a kernel");
    assert!(first.contains("_") && first.contains("(float*, int)") && columns(first)[5] == "1", "{kernels}");
    assert!(kernels.ends_with("890 more"), "{kernels}");
    assert!(said.contains("LIBRARY THAT CALLED"), "{said}");

    let Merged { json, output, .. } = merged(&[&records]);
    let report =
        said.split_inclusive('\n').skip_while(|line| line.starts_with("kernel-audit: during serving"));
    let report: String = report.collect();
    assert_eq!(text(&output.stdout), report.rsplit_once("\nerror: ").expect("the error").0.trim_end());
    assert_eq!(json["findings"], findings);
    assert_eq!(list(&json["kernels"]).len(), 900);
    assert_eq!(json["libraries"][0]["times"], 900 + 3 + 40);
    are_documented(
        &[&json, &json["kernels"][0], &json["kernels"][0]["loads"][0], &json["libraries"][0]],
        include_str!("../../../docs/audit-json.md"),
    );
}

#[test]
fn events_that_found_no_room_are_reported_and_counted() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    let output =
        recorded(&records, &["--events", "100", "--slow", "100000"], &["--kernels", "80", "--resizes", "40"]);
    let said = text(&output.stderr);
    let dropped = number_before(said, " further events found no room in the record");
    let Merged { json, page, .. } = merged(&[&records]);
    let process = &json["processes"][0];
    assert_eq!(process["events_dropped"], dropped);
    assert_eq!(list(&process["events"]).len() as u64 + dropped, 80 + 1 + 40);
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains(&format!("{dropped} further events found no room in the record")));
}

#[test]
fn each_process_can_have_a_file_of_json() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    recorded(&records, &[], &["--kernels", "4"]);
    recorded(&records, &[], &["--kernels", "6"]);
    let Merged { json: all, .. } = merged(&[&records]);
    let folder = scratch_folder();
    let merge = |name: &str| {
        let mut command = cargo_kernels_command();
        command.args(["audit", "merge", "--json"]).arg(folder.join(name)).arg(&records);
        command.output().expect("the tool runs")
    };
    assert!(merge("report-{pid}.json").status.success());
    let (processes, mut findings) = (list(&all["processes"]), 0);
    assert_eq!(processes.len(), 2, "{all:#}");
    for process in processes {
        let file = folder.join(format!("report-{}.json", process["process"]));
        let own: Value = serde_json::from_slice(&fs::read(file).expect("a file of its own")).expect("JSON");
        assert_eq!(own["processes"], serde_json::json!([process]));
        assert_eq!(own["kernels"].as_array().map(Vec::len), process["launches"].as_u64().map(|n| n as usize));
        findings += own["findings"].as_u64().expect("a number");
    }
    assert_eq!(all["findings"], findings);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2, "and no file on all of them");

    let output = merge("{pid}/report.json");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("write `{pid}` in the name of the file"));
}

#[test]
fn traces_have_tracks_for_threads_and_streams_on_one_axis() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    let options = ["--kernels", "40", "--threads", "2", "--hang"];
    recorded(&records, &["--hang-after", "0.2"], &options);
    recorded(&records, &[], &["--kernels", "4"]);
    let Merged { json, trace, .. } = merged(&[&records]);

    let events = list(&trace["traceEvents"]);
    let of = |phase: &str| events.iter().filter(move |event| event["ph"] == *phase).collect::<Vec<_>>();
    let mut tracks = HashMap::new();
    let names = |name: &str| of("M").into_iter().filter(|event| event["name"] == *name).collect::<Vec<_>>();
    for event in names("thread_name") {
        let track = (event["pid"].as_u64().expect("a number"), event["tid"].as_u64().expect("a number"));
        assert!(tracks.insert(track, event["args"]["name"].as_str().expect("a name")).is_none());
    }
    let processes: HashSet<_> = names("process_name").iter().map(|event| event["pid"].as_u64()).collect();
    assert_eq!(processes.len(), 2);
    assert!(tracks.values().any(|name| name.starts_with("stream 0x")), "{tracks:?}");
    for event in of("X") {
        let track = (event["pid"].as_u64().expect("a number"), event["tid"].as_u64().expect("a number"));
        let is_launch = event["cat"] == "launches";
        assert_eq!(tracks[&track].contains("stream"), is_launch, "{event}");
        assert!(event["ts"].as_f64() >= Some(0.0) && event["dur"].as_f64() >= Some(0.0), "{event}");
    }
    let launches = |process: &Value| process["launches"].as_u64().expect("a number");
    let in_trace = of("X").iter().filter_map(|event| event["args"]["launches"].as_u64()).sum::<u64>();
    let last = list(&json["processes"]).iter().map(launches).sum::<u64>();
    assert!(in_trace > 0 && in_trace <= last, "{in_trace} of {last}");

    // The second process began after the first had ended.
    let ready: Vec<_> = of("i").iter().map(|event| event["ts"].as_f64().expect("a time")).collect();
    assert_eq!(ready.len(), 2);
    let started = |index: usize| json["processes"][index]["started_unix_ms"].as_f64().expect("a time");
    let (apart, axis) = ((started(1) - started(0)).abs() * 1e3, (ready[1] - ready[0]).abs());
    assert!(apart > 1e6 && axis > 0.5 * apart, "{apart} {axis}");
    let (begin, end) = (of("b"), of("e"));
    assert!(!begin.is_empty() && begin.len() == end.len());
    // The synchronization of the other thread may hang first.
    let explained: Vec<_> = begin.iter().filter_map(|event| event["args"]["explanation"].as_str()).collect();
    let loads = |text: &&str| text.contains("a kernel is loaded only when nothing runs on the device");
    assert!(explained.iter().any(loads), "{explained:?}");
}

/// Returns the record of one process from a folder that also has copies of images.
fn record_in(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).expect("records").map(|entry| entry.expect("readable").path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "rec")).expect("a record")
}

#[test]
fn ranks_are_compared() {
    if !has_python() {
        return;
    }
    let folders = [scratch_folder(), scratch_folder(), scratch_folder()];
    for (rank, folder) in folders.iter().enumerate() {
        let rank = rank.to_string();
        let killed = if rank == "2" { "--killed" } else { "--threads=1" };
        recorded(folder, &[], &["--rank", &rank, "--kernels", "6", "--after", "0.05", killed]);
    }
    // Records can be given in any order, as files and as folders.
    let file = record_in(&folders[1]);
    let Merged { output, json, page, .. } = merged(&[&folders[2], &file, &folders[0]]);
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    let names: Vec<_> = list(&json["processes"]).iter().map(|process| process["name"].as_str()).collect();
    assert_eq!(names, [Some("rank 0"), Some("rank 1"), Some("rank 2")]);
    assert_eq!(json["processes"][2]["ended"], false);

    let said = text(&output.stdout);
    let process = said.lines().find(|line| line.ends_with("  rank 1")).expect("a line for each rank");
    assert_eq!(process.split_whitespace().rev().nth(4), Some("3"), "loads after it was ready: {process}");
    let kernel = said.lines().find(|line| line.contains("kernel_0_5(float*, int): ")).expect("a kernel");
    assert!(
        kernel.ends_with("loaded on 3 of 3, last on rank 2; after it was ready on rank 0, rank 1, rank 2"),
        "{kernel}"
    );
    let found = list(&json["kernels"]).iter().find(|kernel| kernel["symbol"] == "_Z10kernel_0_5Pfi");
    let loads = list(&found.expect("the kernel")["loads"]);
    let ats: Vec<_> = loads.iter().map(|load| load["at_ms"].as_f64().expect("a time")).collect();
    assert!(ats.is_sorted() && ats[2] - ats[0] > 100.0, "they ran one after the other: {ats:?}");
    assert!(loads.iter().all(|load| load["after_ready"] == 1 && load["times"] == 1));
    let page = fs::read_to_string(page).expect("a page");
    for part in
        ["All processes", "Processes compared", "Kernels by process", "rank 0, rank 1, rank 2", "3 of 3"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn damaged_records_are_named_and_left_out() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    recorded(&records, &[], &["--kernels", "4"]);
    let path = record_in(&records);
    let whole = fs::read(&path).expect("a record");
    let mut other = whole.clone();
    other[8] = 99;
    fs::write(records.join("cut-off.rec"), &whole[..whole.len() / 2]).expect("the folder is there");
    fs::write(records.join("other.rec"), &other).expect("the folder is there");
    let Merged { output, json, page, .. } = merged(&[&records]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(12), "{said}");
    assert!(said.contains("cut-off.rec` is left out: it is not a whole record"), "{said}");
    assert!(said.contains("other.rec` is left out: it has version 99"), "{said}");
    assert_eq!((list(&json["processes"]).len(), list(&json["left_out"]).len()), (1, 2));
    assert!(fs::read_to_string(page).expect("a page").contains("cut-off.rec` is left out"));

    let merge = |paths: &[&Path]| {
        let mut command = cargo_kernels_command();
        command.args(["audit", "merge"]).args(paths).output().expect("the tool runs")
    };
    let damaged = merge(&[&records.join("cut-off.rec")]);
    assert_eq!(damaged.status.code(), Some(6));
    assert!(text(&damaged.stderr).ends_with("error: no record could be read (see the warnings above)"));
    assert!(fails(merge(&[&scratch_folder()]), 6).starts_with("there are no records"));
    assert!(fails(merge(&[&records.join("none.rec")]), 3).contains("none.rec"));
}

#[test]
fn records_with_any_bytes_are_reported() {
    if !has_python() {
        return;
    }
    let records = scratch_folder();
    recorded(&records, &["--events", "2000", "--hang-after", "0.2"], &["--kernels", "40", "--hang"]);
    let path = record_in(&records);
    let whole = fs::read(&path).expect("a record");
    // The damage hits some events near the end of the file, and the header after the version.
    let events = whole.len() - 2000 * 80..whole.len() - 1960 * 80;
    for seed in 0..8 {
        fastrand::seed(seed);
        let mut damaged = whole.clone();
        for _ in 0..if seed % 2 == 0 { 20 } else { 600 } {
            let place = if fastrand::u8(..) < 16 {
                fastrand::usize(16..120)
            } else {
                fastrand::usize(events.clone())
            };
            damaged[place] = if fastrand::bool() { 0xff } else { fastrand::u8(..) };
        }
        fs::write(&path, &damaged).expect("the folder is there");
        let mut command = cargo_kernels_command();
        command.args([
            "audit",
            "merge",
            "--fail-on-findings",
            "--html",
            "/dev/null",
            "--trace",
            "/dev/null",
            "--json",
            "/dev/null",
        ]);
        let output = command.arg(&path).output().expect("the tool runs");
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 6 | 12)), "seed {seed}, {code:?}: {}", text(&output.stderr));
    }
}

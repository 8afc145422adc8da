//! Tests that what NVRTC has compiled is not compiled again, and that programs notice nothing of that. A stand-in for NVRTC counts what it compiles.

mod client;
mod loader;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kernel_audit::preload::{Preload, images};
use tests::{cargo_kernels_command, scratch_folder};

use super::{events, simulated, text};
use client::{Client, KERNEL, build, programs};

#[test]
fn what_was_compiled_once_is_given_back() {
    let [_, opens, linked] = programs();
    for program in [opens, linked] {
        let client = Client {
            program: program.clone(),
            option: Some("-w".to_owned()),
            ..Client::new(&[KERNEL, "int x;", KERNEL])
        };
        let plain = client.plain();
        assert_eq!(client.compiled(), 3);
        let (recorded, report) = client.record();
        assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
        assert_eq!(client.compiled(), 3, "{}", text(&recorded.stderr));
        assert_eq!((events(&report, "compile").len(), events(&report, "kept").len()), (3, 0));
        assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 2);

        let (preloaded, report) = client.preload();
        assert_eq!(text(&preloaded.stdout), plain, "{}", text(&preloaded.stderr));
        assert_eq!(client.compiled(), 0, "{}", text(&preloaded.stderr));
        assert_eq!(events(&report, "kept").len(), 3);
        let took: Vec<_> =
            events(&report, "kept").iter().map(|event| event["took_ms"].as_f64().unwrap()).collect();
        assert!(took.iter().any(|took| *took < 1.0), "{took:?}");

        // What a run with a preload records has what the preload had.
        let more = Client { texts: vec!["int y;".to_owned()], ..client };
        let file = more.file();
        let file = file.to_str().unwrap();
        more.audited(&["--preload", file, "--record", file]);
        assert_eq!(more.compiled(), 1);
        assert_eq!(Preload::read(&more.file()).unwrap().compiled.len(), 3);
    }
}

#[test]
fn python_gets_what_was_kept() {
    needs_python!();
    let program = r"
import ctypes, sys
nvrtc = ctypes.CDLL(sys.argv[1])
for text in sys.argv[3:]:
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), None, 0, None, None) == 0
    assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0
    assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    ptx = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetPTX(program, ptx) == 0
    print(ptx.value)
";
    let mut client = Client::new(&[KERNEL]);
    let path = client.folder.join("compile.py");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let script = format!("#!/bin/sh\nexec python3 {} \"$@\"\n", path.display());
    client.program = client.folder.join("compile");
    fs::write(&client.program, script).unwrap();
    fs::set_permissions(&client.program, Permissions::from_mode(0o755)).unwrap();
    let plain = client.plain();
    let (recorded, report) = client.record();
    assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
    let caller = events(&report, "compile")[0]["caller"].as_str().unwrap();
    assert!(caller.starts_with("compile.py:7 "), "{caller}");
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0), "{}", text(&preloaded.stderr));
}

#[test]
fn what_failed_or_is_not_known_to_be_the_same_is_compiled_each_time() {
    for (program, option, why) in [
        ("an error", None, None),
        ("int when = __TIME__;", None, Some("its text has `__TIME__`")),
        (KERNEL, Some("-DX=__DATE__"), Some("its text has `__DATE__`")),
        ("it tells the time", None, Some("another compilation of it gave another result")),
        (KERNEL, Some("--pch"), Some("its option `--pch` shares headers with other compilations")),
        ("it writes a file", None, Some("NVRTC writes the file `/dev/null` for it")),
        ("it lists files", None, Some("NVRTC calls `opendir` for it")),
    ] {
        let client = Client { option: option.map(str::to_owned), ..Client::new(&[program, program]) };
        let plain = client.plain();
        let (output, report) = client.record();
        let is_same = text(&output.stdout) == plain || program.contains("the time");
        // The time alone makes two compilations of a shadow.
        assert!(is_same && client.compiled() >= 2, "{}", text(&output.stderr));
        let compilations = events(&report, "compile");
        assert_eq!(compilations.len(), 2);
        assert_eq!(compilations[0]["reason"], why.unwrap_or_default(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why.unwrap_or_default()));
        client.preload();
        assert_eq!(client.compiled(), 2);
        assert!(Preload::read(&client.file()).unwrap().compiled.is_empty());
    }
}

/// A client whose program includes a header, from the second of two folders, and that header. The first folder does not exist.
fn including(header: &str) -> (Client, PathBuf) {
    let mut client = Client::new(&["#include \"x.h\"\n", "#include \"x.h\"\n"]);
    let folders = ["first", "second"].map(|name| client.folder.join(name));
    fs::create_dir(&folders[1]).unwrap();
    let path = folders[1].join("x.h");
    fs::write(&path, header).unwrap();
    // A file that is as new as the compilation may have changed in the meantime.
    thread::sleep(Duration::from_millis(50));
    client.option = Some(format!("-I{}", folders[1].display()));
    client.name = Some(folders[0].join("program.cu"));
    (client, path)
}

#[test]
fn what_reads_files_is_kept_as_long_as_they_are_the_same() {
    let (client, header) = including("int one;");
    let (first, program) = (header.parent().unwrap().with_file_name("first"), client.plain());
    assert!(program.contains("int one;"));
    let (output, _) = client.record();
    assert_eq!(text(&output.stdout), program, "{}", text(&output.stderr));
    let compiled = || {
        client.is_same_with_preload();
        client.compiled()
    };
    assert_eq!(compiled(), 0);
    // A file where the compiler looks first.
    fs::create_dir(&first).unwrap();
    fs::write(first.join("x.h"), "int first;").unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(compiled(), 2);
    fs::remove_dir_all(&first).unwrap();
    assert_eq!(compiled(), 0);
    // Other contents of the same length, and then the same contents.
    for (contents, times) in [("int two;", 2), ("int one;", 0)] {
        fs::write(&header, contents).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(compiled(), times, "{contents}");
    }
    fs::remove_file(&header).unwrap();
    assert_eq!(compiled(), 2);
    fs::create_dir(&header).unwrap();
    assert_eq!(compiled(), 2);
}

#[test]
fn a_thread_can_be_cancelled_while_the_compiler_opens_a_file() {
    let mut client = Client::new(&[]);
    let pipe = client.folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    client.way = "cancelled";
    client.texts = vec![format!("#include \"{}\"", pipe.display())];
    assert_eq!(client.plain(), "cancelled 1");
    let (output, _) = client.record();
    assert_eq!(text(&output.stdout), "cancelled 1", "{}", text(&output.stderr));
}

#[test]
fn a_header_that_tells_the_time_is_read_each_time() {
    let (client, header) = including("int when = __TIME__;");
    let (output, report) = client.record();
    let why = format!("it reads `{}`, and its text has `__TIME__`", header.display());
    assert_eq!(events(&report, "compile")[1]["reason"], why, "{}", text(&output.stderr));
    assert_eq!(client.compiled(), 2);
}

#[test]
fn a_program_in_another_folder_is_the_same_unless_its_result_depends_on_it() {
    for (program, compiled) in [(KERNEL, 0), ("a warning\n", 1), ("it tells its length", 1)] {
        let mut client = Client::new(&[program]);
        for (name, times) in [("one", 1), ("second", compiled)] {
            let folder = client.folder.join(name);
            fs::create_dir(&folder).unwrap();
            client.name = Some(folder.join("program.cu"));
            if name == "one" {
                client.record();
                continue;
            }
            client.is_same_with_preload();
            assert_eq!(client.compiled(), times, "{program} in {name}");
        }
        client.name = client.name.map(|name| name.with_file_name("other.cu"));
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 1);
    }
}

#[test]
fn another_compiler_compiles_again() {
    let mut client = Client::new(&[KERNEL]);
    client.record();
    for (major, other) in [(13, "two"), (12, "one")] {
        client.nvrtc = build(&client.folder.join(format!("{major}{other}")), major, other);
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 1);
    }
}

#[test]
fn each_of_two_compilers_in_a_process_gets_its_own() {
    let folder = scratch_folder();
    let other = build(&folder, 12, "one").to_str().unwrap().to_owned();
    let client = Client { way: "both", ..Client::new(&[&other, KERNEL]) };
    let plain = client.plain();
    assert!(plain.contains("ptx 12 of") && plain.contains("ptx 13 of"), "{plain}");
    let (recorded, _) = client.record();
    assert_eq!((text(&recorded.stdout), client.compiled()), (&*plain, 2));
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0));
}

#[test]
fn threads_are_given_the_same_result() {
    let client = Client { way: "threads", ..Client::new(&[KERNEL]) };
    let plain = client.plain();
    assert_eq!(client.compiled(), 8);
    let (recorded, _) = client.record();
    assert_eq!((text(&recorded.stdout), client.compiled()), (&*plain, 8), "{}", text(&recorded.stderr));
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0), "{}", text(&preloaded.stderr));
}

#[test]
fn variables_and_the_working_directory_count_where_the_compiler_asks_for_them() {
    let program = "it tells variables";
    let with = |variables: &[(&'static str, &'static str)], client: Client| Client {
        variables: variables.to_vec(),
        ..client
    };
    let mut client = with(&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "two")], Client::new(&[program]));
    client.record();
    for (variables, times) in [
        (&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "two")][..], 0),
        (&[("NVRTC_AT_LOAD", "three"), ("NVRTC_VARIABLE", "two")], 1),
        (&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "three")], 1),
        (&[("NVRTC_AT_LOAD", "one")], 1),
        (&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "two"), ("OTHER", "x")], 0),
    ] {
        client = with(variables, client);
        client.is_same_with_preload();
        assert_eq!(client.compiled(), times, "{variables:?}");
    }

    for (program, times) in [("it tells the place", 1), (KERNEL, 0)] {
        let mut client = Client::new(&[program]);
        let folders = ["one", "second"].map(|name| client.folder.join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        client.directory = Some(folders[0].clone());
        client.record();
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 0, "{program}");
        client.directory = Some(folders[1].clone());
        client.is_same_with_preload();
        assert_eq!(client.compiled(), times, "{program}");
    }
}

#[test]
fn a_program_that_was_given_a_result_is_compiled_once_it_is_used_otherwise() {
    for (variable, program, times) in [("MISUSE", KERNEL, 1), ("TWICE", "it tells its history", 2)] {
        let mut client = Client::new(&[program]);
        client.record();
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 0);
        client.variables = vec![(variable, "1")];
        client.is_same_with_preload();
        assert_eq!(client.compiled(), times, "{variable}");
        // Nor is the second result recorded.
        fs::remove_file(client.file()).unwrap();
        client.record();
        assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 1);
    }
}

/// One folder has everything, and can be carried elsewhere. Its files are trusted although the umask lets others write.
#[test]
fn a_folder_holds_what_was_recorded() {
    let client = Client::new(&[KERNEL]);
    let plain = client.plain();
    let [folder, moved, both] = ["new/warm", "moved", "both"].map(|name| client.folder.join(name));
    let run = |option: &str, folder: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(simulated().get_program());
        command.args(simulated().get_args()).arg(option).arg(folder).arg("--");
        client.configure(&mut command);
        let output = command.output().unwrap();
        assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
        text(&output.stderr).to_owned()
    };
    let said = run("--record", &folder.join(""));
    assert!(said.contains("/new/warm/late.preload` has ") && said.contains("1 result of NVRTC"), "{said}");
    fs::rename(&folder, &moved).unwrap();
    run("--preload", &moved);
    assert_eq!(client.compiled(), 0);
    fs::create_dir(&both).unwrap();
    let mut command = cargo_kernels_command();
    let output = command.args(["audit", "merge", "--record"]).args([&both, &moved]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    run("--preload", &both);
    assert_eq!(client.compiled(), 0);
}

#[test]
fn programs_whose_texts_are_decoded_by_their_own_function_are_kept() {
    let [_, opens, linked] = programs();
    for (program, how) in [
        (opens, "into new memory"),
        (opens, "in one place"),
        (opens, "where they are"),
        (opens, "without an end"),
        (linked, "into new memory"),
    ] {
        let mut client = Client {
            program: program.clone(),
            option: Some("-w".to_owned()),
            variables: vec![("ENCODED", how)],
            ..Client::new(&[KERNEL, "int x;", KERNEL])
        };
        // The output ends with the number of calls of the decoding function.
        let plain = client.plain();
        assert!(plain.contains(KERNEL) && plain.ends_with("decoded 12"), "{plain}");
        let (recorded, report) = client.record();
        assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
        assert!(events(&report, "compile").iter().all(|event| event["reason"] == ""), "{report}");
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 0, "{how}");
        // The decoded options count.
        client.option = Some("-x".to_owned());
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 3, "{how}");
        client.option = Some("-w".to_owned());
        client.variables.push(("TWICE", "1"));
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 6, "{how}");
        // The same texts that aren't encoded are another program.
        client.variables.clear();
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 3, "{how}");
    }
}

#[test]
fn an_option_that_cannot_be_decoded_fails_as_without() {
    let client = Client {
        option: Some("-w".to_owned()),
        variables: vec![("ENCODED", "not -w")],
        ..Client::new(&[KERNEL, KERNEL])
    };
    let plain = client.plain();
    assert!(plain.contains("compile 5") && plain.contains("compile 0"), "{plain}");
    assert_eq!(text(&client.record().0.stdout), plain);
    client.is_same_with_preload();
    assert_eq!(client.compiled(), 1);
}

#[test]
fn a_log_that_may_quote_an_encoded_text_is_not_kept() {
    let client = Client { variables: vec![("ENCODED", "into new memory")], ..Client::new(&["a warning"]) };
    let (_, report) = client.record();
    assert_eq!(
        events(&report, "compile")[0]["reason"],
        "NVRTC's log of it may quote its text, which is encoded"
    );
    client.is_same_with_preload();
    assert_eq!(client.compiled(), 1);
}

#[test]
fn unknown_arguments_of_a_program_are_passed_on() {
    let client = Client { variables: vec![("ENCODED", "kind 3")], ..Client::new(&[KERNEL]) };
    assert_eq!(client.plain(), "create 3");
    let (recorded, _) = client.record();
    assert_eq!(text(&recorded.stdout), "create 3", "{}", text(&recorded.stderr));
}

#[test]
fn a_forked_child_has_the_result_of_its_parent() {
    let client = Client { way: "fork", ..Client::new(&[KERNEL]) };
    let plain = client.plain();
    let (recorded, _) = client.record();
    assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0), "{}", text(&preloaded.stderr));
}

#[test]
fn cancelled_threads_and_callbacks_end_compilations_as_without() {
    let client = Client { way: "ends", ..Client::new(&[KERNEL]) };
    let plain = client.plain();
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let begun = Instant::now();
        let (output, _) = client.record();
        assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
        took = begun.elapsed();
    }
    // Nobody waits for the thread that is gone. The first run may have built the library.
    assert!(took < tests::limit(40), "{took:?}");
    let (output, _) = client.preload();
    assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
}

/// The file of the only result that a client has recorded.
fn kept_file(client: &Client) -> PathBuf {
    let files = fs::read_dir(images(&client.file())).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}

#[test]
fn what_somebody_else_may_have_written_is_compiled_again() {
    let client = Client::new(&[KERNEL]);
    client.record();
    let file = kept_file(&client);
    let folder = images(&client.file());
    let again = |words: &str| {
        let said = client.is_same_with_preload();
        assert!(said.contains(words) && said.contains("compiled again"), "{words}: {said}");
        assert_eq!(client.compiled(), 1);
    };
    for (path, mode) in [(&file, 0o644), (&folder, 0o755)] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        again("others may write it");
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        // Only root gives files away.
        if chown(path, Some(65_534), None).is_ok() {
            again("it belongs to another user (number 65534)");
            chown(path, Some(0), None).unwrap();
        }
    }
    let whole = fs::read(&file).unwrap();
    for at in [0, 40, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&file, &damaged).unwrap();
        again("it isn't the file that was recorded");
    }
    fs::remove_file(&file).unwrap();
    again("No such file");
    fs::write(&file, &whole).unwrap();
    client.is_same_with_preload();
    assert_eq!(client.compiled(), 0, "it is used once it is as it was");
}

/// Another user has made a link in a folder of records where all may.
#[test]
fn results_do_not_go_where_another_user_says() {
    let client = Client::new(&[KERNEL]);
    let (records, elsewhere) = (client.folder.join("records"), client.folder.join("elsewhere"));
    fs::create_dir(&records).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&records, Permissions::from_mode(0o1777)).unwrap();
    symlink(&elsewhere, records.join("images")).unwrap();
    // Only root gives links away.
    if lchown(records.join("images"), Some(65_534), None).is_ok() {
        let (output, _) = client.audited(&["--records", records.to_str().unwrap()]);
        assert_eq!(text(&output.stdout), client.plain());
        assert!(text(&output.stderr).contains("another user made it"), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}

#[test]
fn a_folder_that_the_next_run_would_not_trust_gets_no_results() {
    let client = Client::new(&[KERNEL]);
    fs::set_permissions(&client.folder, Permissions::from_mode(0o777)).unwrap();
    let (output, _) = client.record();
    let said = text(&output.stderr);
    assert!(said.contains("without results of NVRTC") && said.contains("others may write it"), "{said}");
    assert_eq!(text(&output.stdout), client.plain(), "{said}");
    assert!(!images(&client.file()).exists());
    assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 0);
}

#[test]
fn a_folder_without_room_fails_nothing() {
    let client = Client::new(&[KERNEL]);
    let plain = client.plain();
    // Files of this process may have no more bytes than a record has.
    let script = client.folder.join("limited");
    fs::write(&script, "#!/bin/bash\nulimit -f 20\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut command = simulated();
    command.args(["--events", "16", "--record"]).arg(client.file()).arg("--").arg(&script);
    client.configure(&mut command);
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("can't be cached in"), "{}", text(&output.stderr));
}

#[test]
fn many_processes_that_are_killed_leave_whole_files() {
    let client = Client::new(&[KERNEL, "int a;", "int b;", "int c;"]);
    let script = client.folder.join("many");
    // Each is killed at another moment, but for the last ones.
    let lines = "#!/bin/bash\nfor number in $(seq 60); do timeout -s KILL 0.$(printf %03d $((number * 5))) \"$@\" >/dev/null 2>&1 & done; wait\n\"$@\"\n";
    fs::write(&script, lines).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut command = simulated();
    command.arg("--record").arg(client.file()).arg("--").arg(&script);
    client.configure(&mut command);
    let output = command.output().unwrap();
    assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 4, "{}", text(&output.stderr));
    client.is_same_with_preload();
    assert_eq!(client.compiled(), 0);
}

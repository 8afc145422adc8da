//! Tests of the audit's part in the loader: who is bound to the hooks, and what else a program could notice.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tests::scratch_folder;

use super::client::{Client, KERNEL, SOURCES, cc, programs};
use crate::{events, simulated, text};

#[test]
fn libraries_that_stand_in_front_of_the_same_functions_work() {
    let client = Client::new(&[KERNEL]);
    // Sanitizers ask for the functions behind their own when these are called first.
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <link.h>\n#include <pthread.h>\n\
        int dl_iterate_phdr(int (*see)(struct dl_phdr_info *, size_t, void *), void *data) {\n\
        static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);\n\
        if (!next) next = dlsym(RTLD_NEXT, \"dl_iterate_phdr\");\n return next(see, data); }\n\
        int pthread_mutex_lock(pthread_mutex_t *lock) { static int (*next)(pthread_mutex_t *);\n\
        if (!next) next = dlsym(RTLD_NEXT, \"pthread_mutex_lock\");\n return next(lock); }\n\
        int nvrtcCompileProgram(void *program, int count, const char **options) {\n\
        int (*next)(void *, int, const char **) = dlsym(RTLD_NEXT, \"nvrtcCompileProgram\");\n\
        return next ? next(program, count, options) : -1; }\n";
    let (path, library) = (client.folder.join("front.c"), client.folder.join("front.so"));
    fs::write(&path, source).unwrap();
    cc(&["-shared", "-fPIC", "-w", "-o", library.to_str().unwrap(), path.to_str().unwrap(), "-ldl"]);
    for program in &programs()[1..] {
        let client = Client { program: program.clone(), ..Client::new(&[KERNEL, KERNEL]) };
        let plain = client.plain();
        let mut command = simulated();
        command.env("LD_PRELOAD", &library).arg("--record").arg(client.file()).arg("--");
        client.configure(&mut command);
        let output = command.output().unwrap();
        assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
    }
}

#[test]
fn the_loader_is_asked_only_where_results_are_kept() {
    let client = Client::new(&[KERNEL]);
    let audits = |options: &[&str]| {
        let mut command = simulated();
        command.env("LD_AUDIT", "").args(options).args(["--", "sh", "-c", "echo $LD_AUDIT"]);
        text(&command.output().unwrap().stdout).to_owned()
    };
    let file = client.file();
    assert_eq!(audits(&[]), "");
    let value = audits(&["--record", file.to_str().unwrap()]);
    assert!(value.starts_with('/') && value.ends_with("/libkernel_registry_auditor.so"), "{value}");
    fs::write(&file, "kernel-registry preload 1\nstack 1024\n").unwrap();
    assert_eq!(audits(&["--preload", file.to_str().unwrap()]), "");
    let (output, report) = client.audited(&[]);
    assert_eq!((client.compiled(), events(&report, "compile").len()), (1, 0), "{}", text(&output.stderr));
}

#[test]
fn other_names_are_found_as_without_the_library() {
    let folder = scratch_folder();
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n\
        int puts(const char *text) { int (*next)(const char *) = dlsym(RTLD_NEXT, \"puts\"); return next && next != puts ? next(text) : 9; }\n\
        int main(void) { int (*own)(const char *) = dlsym(RTLD_DEFAULT, \"puts\"); puts(\"found\"); char *none = dlsym(RTLD_DEFAULT, \"n\");\n\
        return own != puts || none || !dlerror() || dlsym(RTLD_DEFAULT, \"nvrtcNothing\") || dlsym(RTLD_DEFAULT, \"nvrtcCompileProgram\"); }\n";
    let (path, program) = (folder.join("next.c"), folder.join("next"));
    fs::write(&path, source).unwrap();
    cc(&["-rdynamic", "-w", "-o", program.to_str().unwrap(), path.to_str().unwrap(), "-ldl"]);
    let mut command = simulated();
    command.arg("--record").arg(folder.join("x.preload")).arg("--").arg(&program);
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), "found", "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("exit code"), "{}", text(&output.stderr));
}

#[test]
fn a_program_with_a_shared_address_sanitizer_starts() {
    let mut client = Client::new(&[KERNEL, KERNEL]);
    client.program = client.folder.join("sanitized");
    let program = client.program.to_str().unwrap();
    let source = format!("{SOURCES}/client.c");
    let compiler =
        Command::new("cc").args(["-fsanitize=address", "-o", program, &source, "-ldl", "-lpthread"]).output();
    if !compiler.unwrap().status.success() {
        eprintln!("left out: the C compiler has no AddressSanitizer");
        return;
    }
    let plain = client.plain();
    let (recorded, _) = client.record();
    assert_eq!((text(&recorded.stdout), client.compiled()), (&*plain, 2), "{}", text(&recorded.stderr));
}

#[test]
fn children_that_outlive_the_command_find_the_library() {
    let client = Client::new(&[]);
    let said = client.folder.join("said");
    let child = format!(
        "(while kill -0 $PPID; do sleep 0.1; done; sh -c 'echo $LD_AUDIT'; echo done) >{} 2>&1 &",
        said.display()
    );
    let mut command = simulated();
    command.arg("--record").arg(client.file()).args(["--", "sh", "-c", &child]);
    let output = command.output().unwrap();
    let said = || fs::read_to_string(&said).unwrap_or_default();
    for _ in 0..100 {
        if said().ends_with("done\n") {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(!said().contains("ld.so"), "{} {}", said(), text(&output.stderr));
    let lines = said();
    let library = lines.lines().find(|line| line.ends_with("libkernel_registry_auditor.so")).expect(&lines);
    let mode = Path::new(library).parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "{library}");
}

//! Tests the resident crate's queue and control block in every order of the host's accesses and a worker's.

use std::env;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::time::Duration;

use kernel_registry::cudarc::driver::{LaunchConfig, PushKernelArg};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{MainError, PointerTo};
use kernel_registry_resident::{Control, Mapped, Queue};
use kernel_registry_sim::{Explore, explore};
use kernels::waiting::Task;

/// The worker of the sample kernels: `y = a * x + y` for each task.
const WORKER: &str = include_str!("../../kernels/prebuilt/cuda__worker.cu.ptx");

const LONG: Duration = Duration::from_secs(60);

/// Two warps.
const N: u32 = 64;

/// Lets a worker add 1 and then 2 to each element of a vector. The queue has one slot, so the second task waits for the first one.
fn add_one_and_two(worker: &str) -> Result<(), MainError> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    let entry = worker.split(".entry ").nth(1).and_then(|rest| rest.split('(').next()).unwrap();
    let worker = context.load_module(Ptx::from_src(worker)).unwrap().load_function(entry).unwrap();
    let (x, y) =
        (Mapped::new(&context, &[1.0_f32; N as usize])?, Mapped::new(&context, &[0.0_f32; N as usize])?);
    let (control, mut queue) = (Control::new(&context, 1)?, Queue::<Task>::new(&context, 1)?);
    control.limit(LONG);
    let stream = context.new_stream().unwrap();
    let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (N, 1, 1), shared_mem_bytes: 0 };
    let addresses = [PointerTo::<Control>::address(&control), PointerTo::<Queue<Task>>::address(&queue)];
    // SAFETY: the kernel takes these two pointers, and has ended when they are dropped.
    unsafe { stream.launch_builder(&worker).arg(&addresses[0]).arg(&addresses[1]).launch(shape) }.unwrap();
    for a in [1.0, 2.0] {
        let task = Task { x: x.place(0), y: y.place(0), a, n: N };
        while queue.push(task).is_err() {}
    }
    queue.wait(&control, LONG).unwrap();
    assert_eq!([0, N as usize - 1].map(|at| y.read(at)), [3.0; 2]);
    control.stop();
    stream.synchronize().unwrap();
    Ok(())
}

#[test]
fn tasks_are_done_in_every_order() {
    let explored = explore(Explore::default().schedules(300), || add_one_and_two(WORKER));
    assert!(explored.schedules >= 100, "{explored}");
}

fn failure(worker: &str) -> String {
    let explored = || explore(Explore::default(), || add_one_and_two(worker));
    match panic::catch_unwind(AssertUnwindSafe(explored)) {
        Ok(explored) => panic!("it holds in {explored}"),
        Err(payload) => payload.downcast_ref::<String>().unwrap().clone(),
    }
}

#[test]
fn a_lacking_barrier_races_with_the_host() {
    // The first barrier is the one after a task.
    let report = failure(&WORKER.replacen("bar.sync \t0;", "", 1));
    assert!(report.contains("RACE: ") && report.contains("thread (63, 0, 0), writes it at "), "{report}");
    assert!(report.contains("the host reads it"), "{report}");
}

/// Announces a task as done before it's copied from the queue, so that the host may overwrite it.
fn done_too_early() -> String {
    let announce =
        "$L__BB0_45:\n{ .reg .b64 %early; add.s64 %early, %rd70, 1; st.volatile.global.u64 [%rd8], %early; }";
    let planted = WORKER.replacen("$L__BB0_45:", announce, 1);
    assert!(planted.len() > WORKER.len() && planted.contains("st.volatile.global.u64 \t[%rd8], %rd70;"));
    planted
}

#[test]
#[ignore = "it fails: `a_slot_that_is_free_too_early_is_found` runs it"]
fn planted() {
    explore(Explore::default(), || add_one_and_two(&done_too_early()));
}

/// Runs the test above in a process of its own, in the order of a file if there is one, and returns what it writes.
fn run_planted(schedule: Option<&str>) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["planted", "--exact", "--ignored", "--nocapture"]);
    match schedule {
        Some(file) => command.env("KERNEL_REGISTRY_SCHEDULE", file),
        None => command.env_remove("KERNEL_REGISTRY_SCHEDULE"),
    };
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_slot_that_is_free_too_early_is_found() {
    let report = run_planted(None);
    assert!(report.contains("RACE: "), "{report}");
    let file =
        report.split("KERNEL_REGISTRY_SCHEDULE=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let schedule = fs::read_to_string(file).unwrap();
    let choices = schedule.lines().filter(|line| line.starts_with("before ")).count();
    assert!((1..=10).contains(&choices), "{schedule}");
    let picture = fs::read_to_string(file.replace(".schedule", ".svg")).unwrap();
    assert!(picture.contains("kernel `worker`"), "{picture}");

    // Addresses differ from process to process.
    let reason = |report: &str| {
        report.split_once("nothing orders").and_then(|(_, rest)| Some(rest.lines().next()?.to_owned()))
    };
    assert!(reason(&report).is_some(), "{report}");
    let replays = env::var("KERNEL_REGISTRY_TEST_REPLAYS").map_or(10, |count| count.parse().unwrap());
    for replay in 0..replays {
        let again = run_planted(Some(file));
        assert_eq!(reason(&again), reason(&report), "replay {replay}: {again}");
        assert!(again.contains("It fails in the order of"), "replay {replay}: {again}");
    }
}

//! Tests of threads that diverge and reconverge, wait for each other, exchange values, and fault.

use crate::common::{Arguments, Device, kernel, launch, results, run};
use kernel_registry_ptx::{FaultKind, Grid, LaunchError, Module, Status};

fn lane_results(body: &str) -> Vec<u32> {
    let body = format!("{body}\nst.global.u32 [%rd0], %r8;");
    results(&body, 32).unwrap().iter().map(|words| words[0] as u32).collect()
}

#[test]
fn threads_reconverge_after_a_branch() {
    let body = "setp.lt.u32 %p0, %r0, 10; mov.u32 %r1, 1;\n@%p0 bra LOW;\nmov.u32 %r1, 2; bra JOIN;\n\
                LOW: mov.u32 %r1, 3;\nJOIN: activemask.b32 %r8; add.u32 %r8, %r8, %r1;";
    let expected: Vec<u32> =
        (0..32).map(|lane| u32::MAX.wrapping_add(if lane < 10 { 3 } else { 2 })).collect();
    assert_eq!(lane_results(body), expected);
}

#[test]
fn a_pragma_ends_at_its_semicolon() {
    assert_eq!(lane_results("mov.u32 %r8, 5; .pragma \"nounroll\"; add.u32 %r8, %r8, %r0;")[..2], [5, 6]);
}

#[test]
fn the_star_that_opens_a_comment_does_not_close_it() {
    assert_eq!(lane_results("mov.u32 %r8, 5; /*/ add.u32 %r8, %r8, 1; /**/")[0], 5);
}

#[test]
fn an_instruction_may_write_its_own_guard() {
    for pair in ["%p1|%p2", "%p2|%p1"] {
        let body = format!(
            "setp.lt.u32 %p1, %r0, 16; setp.eq.u32 %p2, %r0, 99;\n@%p1 setp.lt.u32 {pair}, %r0, 8;\n\
             selp.u32 %r8, 1, 0, %p1; selp.u32 %r1, 2, 0, %p2; add.u32 %r8, %r8, %r1;"
        );
        let (below, above) = if pair == "%p1|%p2" { (1, 2) } else { (2, 1) };
        let expected: Vec<u32> = (0..32).map(|lane| [below, above, 0, 0][lane / 8]).collect();
        assert_eq!(lane_results(&body), expected, "{pair}");
    }
}

#[test]
fn loops_of_different_length() {
    let body = "mov.u32 %r1, 0; mov.u32 %r8, 0;\nL: add.u32 %r8, %r8, %r1; add.u32 %r1, %r1, 1;\n\
                setp.le.u32 %p0, %r1, %r0;\n@%p0 bra L;\nactivemask.b32 %r2; popc.b32 %r2, %r2; mad.lo.u32 %r8, %r2, 1000, %r8;";
    let expected: Vec<u32> = (0..32).map(|lane| 32_000 + lane * (lane + 1) / 2).collect();
    assert_eq!(lane_results(body), expected);
}

#[test]
fn a_lock_between_lanes_of_one_warp() {
    let body = ".shared .u32 lock; .shared .u32 count;\n\
                TRY: atom.shared.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %p0, %r1, 0;\n@%p0 bra TRY;\n\
                ld.shared.u32 %r2, [count]; add.u32 %r2, %r2, 1; st.shared.u32 [count], %r2;\n\
                membar.cta; atom.shared.exch.b32 %r3, [lock], 0;\nbar.sync 0; ld.shared.u32 %r8, [count];";
    assert_eq!(lane_results(body), vec![32; 32]);
}

#[test]
fn shuffles() {
    let shuffle = |mode: &str| {
        lane_results(&format!("shfl.sync.{mode}, -1; selp.u32 %r2, 100, 0, %p1; add.u32 %r8, %r1, %r2;"))
    };
    let all = |f: fn(u32) -> u32| (0..32).map(f).collect::<Vec<_>>();
    assert_eq!(
        shuffle("down.b32 %r1|%p1, %r0, 3, 31"),
        all(|lane| if lane < 29 { lane + 103 } else { lane })
    );
    assert_eq!(shuffle("up.b32 %r1|%p1, %r0, 3, 0"), all(|lane| if lane < 3 { lane } else { lane + 97 }));
    assert_eq!(shuffle("bfly.b32 %r1|%p1, %r0, 5, 31"), all(|lane| (lane ^ 5) + 100));
    // Here the warp is divided into segments of eight lanes.
    assert_eq!(shuffle("idx.b32 %r1|%p1, %r0, 2, 0x181f"), all(|lane| lane / 8 * 8 + 102));
}

#[test]
fn votes_and_reductions() {
    assert_eq!(lane_results("setp.lt.u32 %p0, %r0, 3; vote.sync.ballot.b32 %r8, !%p0, -1;"), vec![!7; 32]);
    assert_eq!(
        lane_results("setp.lt.u32 %p0, %r0, 3; vote.sync.any.pred %p1, %p0, -1; selp.u32 %r8, 1, 0, %p1;"),
        vec![1; 32]
    );
    assert_eq!(lane_results("redux.sync.add.u32 %r8, %r0, -1;"), vec![496; 32]);
    assert_eq!(lane_results("redux.sync.max.s32 %r8, %r0, -1;"), vec![31; 32]);
    let even = 0x5555_5555u32;
    let expected: Vec<u32> = (0..32).map(|lane| even << (lane % 2)).collect();
    assert_eq!(lane_results("and.b32 %r1, %r0, 1; match.any.sync.b32 %r8, %r1, -1;"), expected);
}

#[test]
fn lanes_that_arrive_late_are_waited_for() {
    let body = "setp.lt.u32 %p0, %r0, 16; mov.u32 %r1, %r0;\n@%p0 bra L;\nadd.u32 %r1, %r1, 100;\n\
                L: shfl.sync.bfly.b32 %r8, %r1, 16, 31, -1;";
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 16 { lane + 116 } else { lane - 16 }).collect();
    assert_eq!(lane_results(body), expected);
    // Two instructions can be the same barrier of a warp.
    let body = "setp.lt.u32 %p0, %r0, 16;\n@%p0 bra L;\nbar.warp.sync -1; mov.u32 %r8, 1; bra M;\n\
                L: bar.warp.sync -1; mov.u32 %r8, 2;\nM: add.u32 %r8, %r8, 1;";
    assert_eq!(lane_results(body)[15..17], [3, 2]);
}

#[test]
fn barriers_count_and_vote() {
    let body = "setp.lt.u32 %p0, %r0, 40; bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0;\n\
                bar.red.or.pred %p2, 0, %p0; selp.u32 %r2, 1000, 0, %p1; selp.u32 %r3, 500, 0, %p2;\n\
                add.u32 %r8, %r1, %r2; add.u32 %r8, %r8, %r3; st.global.u32 [%rd0], %r8;";
    assert!(results(body, 100).unwrap().iter().all(|words| words[0] == 540));
    // A count of threads means whole warps, and lanes without a thread have no vote.
    let body = "setp.lt.u32 %p0, %r0, 40; bar.red.and.pred %p1, 0, 64, %p0; selp.u32 %r8, 1, 0, %p1;\n\
                st.global.u32 [%rd0], %r8;";
    assert!(results(body, 40).unwrap().iter().all(|words| words[0] == 1));
    // Threads that have ended do not have to arrive.
    let body = "setp.lt.u32 %p0, %r0, 32;\n@%p0 exit;\nbar.sync 0; st.global.u32 [%rd0], 1;";
    assert_eq!(results(body, 64).unwrap().iter().map(|words| words[0]).sum::<u64>(), 32);
}

/// Lanes with a false guard reach the next instruction as a separate split. The other lanes must reconverge
/// with them there.
#[test]
fn lanes_reconverge_after_a_guarded_instruction() {
    let body = "setp.lt.u32 %p0, %r0, 16;\n@%p0 vote.sync.any.pred %p1, %p0, 0xffff;\nactivemask.b32 %r8;";
    assert_eq!(lane_results(body), vec![u32::MAX; 32]);
}

#[test]
fn calls_and_branch_tables() {
    let text = kernel(
        "mov.u32 %r1, 5; add.u32 %r1, %r1, %r0;\n{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;\n\
         call.uni (b), factorial, (a); ld.param.b32 %r2, [b]; }\n\
         rem.u32 %r3, %r0, 3;\nT: .branchtargets A, B, C;\nbrx.idx %r3, T;\n\
         A: add.u32 %r2, %r2, 1; bra END;\nB: add.u32 %r2, %r2, 2; bra END;\nC: add.u32 %r2, %r2, 3;\n\
         END: st.global.u32 [%rd0], %r2;",
    );
    let function = ".func (.param .b32 result) factorial (.param .b32 n) {\n.reg .b32 %r<5>; .reg .pred %p;\n\
                    ld.param.b32 %r1, [n]; mov.u32 %r3, 1; setp.lt.u32 %p, %r1, 2;\n@%p bra END;\nsub.u32 %r2, %r1, 1;\n\
                    { .param .b32 a; st.param.b32 [a], %r2; .param .b32 b; call (b), factorial, (a);\n\
                    ld.param.b32 %r3, [b]; } mul.lo.u32 %r3, %r3, %r1;\nEND: st.param.b32 [result], %r3; ret; }\n.visible .entry";
    let device = Device::default();
    let module = device.load(&text.replace(".visible .entry", function)).unwrap();
    let mut out = vec![[0u32; 4]; 6];
    let arguments = Arguments::default().u64(device.lend(&mut out)).done();
    run(&device, &module, "k", launch(1, 6, arguments.clone())).unwrap();
    let expected: Vec<u32> = (0..6).map(|n| (1..=n + 5).product::<u32>() + n % 3 + 1).collect();
    assert_eq!(out.iter().map(|words| words[0]).collect::<Vec<_>>(), expected);

    let mut little = launch(1, 6, arguments);
    little.stack = 64;
    let fault = run(&device, &module, "k", little).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Stack { .. }), "{fault}");
}

#[test]
fn endless_recursion_exhausts_the_stack() {
    let device = Device::default();
    let text =
        kernel("call forever;").replace(".visible", ".func forever() { call forever; ret; }\n.visible");
    let module = device.load(&text).unwrap();
    let mut parameters = launch(1, 1, vec![0; 8]);
    let status = Grid::new(&module, "k", parameters.clone()).unwrap().step(5_000, &device);
    assert!(matches!(status, Status::Fault(fault) if matches!(fault.kind, FaultKind::Stack { .. })));
    parameters.stack = u64::MAX;
    assert!(matches!(Grid::new(&module, "k", parameters), Err(LaunchError::Memory { .. })));
}

#[test]
fn variables_hold_addresses() {
    let text = kernel("ld.global.u64 %rd2, [pointer]; ld.u32 %r1, [%rd2]; st.global.u32 [%rd0], %r1;");
    let variables = ".extern .global .u32 numbers[];\n.global .align 4 .u32 numbers[3] = {7, 8, 9};\n\
                     .global .u64 pointer = generic(numbers)+8;\n.visible";
    let device = Device::default();
    let module = device.load(&text.replacen(".visible", variables, 1)).unwrap();
    let mut out = [0u64; 2];
    let arguments = Arguments::default().u64(device.lend(&mut out)).done();
    run(&device, &module, "k", launch(1, 1, arguments)).unwrap();
    assert_eq!(out[0], 9);
}

/// An H200's driver does the same.
#[test]
fn a_variable_without_a_definition_is_zero() {
    let text = kernel("ld.global.u32 %r1, [far]; st.global.u32 [%rd0], %r1;");
    let device = Device::default();
    let module = device.load(&text.replacen(".visible", ".extern .global .u32 far;\n.visible", 1)).unwrap();
    let mut out = [7_u32];
    let arguments = Arguments::default().u64(device.lend(&mut out)).done();
    run(&device, &module, "k", launch(1, 1, arguments)).unwrap();
    assert_eq!(out, [0]);
}

#[test]
fn faults_name_the_thread_and_the_line() {
    let fault = |body: &str| results(body, 32).unwrap_err();
    let words = fault("mov.u64 %rd2, 0x1234; setp.eq.u32 %p0, %r0, 9;\n@%p0 st.global.u32 [%rd2], 1;");
    assert!(
        words.contains(
            "kernel `k`, block (0, 0, 0), thread (9, 0, 0): writes 4 bytes at 0x1234, which is not allocated"
        ) && words.contains("(line 8 of the PTX: `@%p0 st.global.u32 [%rd2], 1;`)"),
        "{words}"
    );
    for (body, expected) in [
        ("add.u64 %rd0, %rd0, 2; ld.global.u32 %r1, [%rd0];", "which is not a multiple of 4"),
        ("ld.global.u32 %r1, [%rd0+1048576];", "thread (0, 0, 0): reads 4 bytes"),
        (".shared .b8 s[16]; mov.u32 %r1, s; ld.shared.u32 %r2, [%r1+16];", "of 16 bytes of shared memory"),
        (".local .b8 s[16]; mov.u64 %rd2, s; st.local.u32 [%rd2+64], 1;", "of 16 bytes of local memory"),
        ("mov.b64 %rd2, out; st.b32 [%rd2], 1;", "which may only be read"),
        ("trap;", "ran into a trap"),
        (
            "p: .callprototype ()_(); mov.u64 %rd2, 16; call %rd2, p;",
            "calls 0x10, where there is no function",
        ),
        ("mov.u32 %r1, 16; bar.sync %r1;", "waits at barrier 16"),
    ] {
        let found = fault(body);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn faults_name_the_line_of_the_source() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
                .visible .entry other() {\n.loc\t1 3 5\nret;\n}\n\
                .func none() {\ntrap;\n}\n\
                .visible .entry k() {\n.loc\t1 8 5\nbar.sync 0;\n\
                .loc\t2 21 9, function_name $name, inlined_at 1 9 3\n{\ntrap;\n}\nret;\n}\n\
                .visible .entry calls() {\n.loc\t1 40 1\ncall none;\nret;\n}\n\
                .file\t1 \"/a folder/k.cu\"\n.file\t2 \"/a folder/inner.cuh\", 1700000000, 42\n";
    let device = Device::default();
    let module = device.load(text).unwrap();
    let fault = |kernel| run(&device, &module, kernel, launch(1, 1, Vec::new())).unwrap_err();
    let found = fault("k");
    assert_eq!(found.place.as_deref(), Some("/a folder/inner.cuh:21"));
    assert!(found.to_string().ends_with("(/a folder/inner.cuh:21, line 16 of the PTX: `trap;`)"), "{found}");
    assert_eq!(fault("calls").place, None, "the function has no lines");
}

/// Returns whether a kernel is found to spin within a limited number of steps.
fn spins(body: &str) -> bool {
    let device = Device::default();
    let mut out = vec![[0u64; 2]; 32];
    let arguments = Arguments::default().u64(device.lend(&mut out)).done();
    let mut grid = Grid::new(&device.load(&kernel(body)).unwrap(), "k", launch(1, 32, arguments)).unwrap();
    (0..20).any(|_| grid.step(5_000, &device) == Status::Running { progressed: false })
}

#[test]
fn only_spinning_is_no_progress() {
    let wait = "ld.volatile.global.u32 %r2, [%rd0]; setp.eq.u32 %p0, %r2, 0;\n@%p0 bra L;";
    assert!(spins(&format!("L: {wait}")));
    assert!(spins(&format!(
        "L: mov.u64 %rd5, %globaltimer; add.u64 %rd6, %rd5, 7; nanosleep.u32 20; {wait}"
    )));
    assert!(spins(
        "mov.u32 %r3, 0;\nL: atom.global.cas.b32 %r2, [%rd0], 5, 6; setp.ne.u32 %p0, %r2, 5;\n@%p0 bra L;"
    ));
    assert!(
        spins("setp.lt.u32 %p1, %r0, 1;\n@%p1 bra L;\nbar.sync 0; exit;\nL: bra L;"),
        "others wait at a barrier"
    );
    // A kernel that waits for some time before it reads the word again spins too.
    let pause = "mov.u64 %rd5, %clock64;\nM: mov.u64 %rd6, %clock64; sub.s64 %rd6, %rd6, %rd5; setp.lt.s64 %p1, %rd6, 50000;\n\
                 @%p1 bra M;";
    assert!(spins(&format!("L: {pause} {wait}")));
    // The clock advances, so a loop that compares it with any other value ends some day.
    assert!(!spins(&pause.replace("50000", "1000000000000")));
    assert!(!spins(
        "mov.u64 %rd5, %globaltimer;\nM: nanosleep.u32 99; ld.param.u64 %rd7, [out];\n\
         mov.u64 %rd6, %globaltimer; sub.s64 %rd6, %rd6, %rd5; setp.lt.u64 %p1, %rd6, %rd7;\n@%p1 bra M;"
    ));
    // A loop with a counter may end, and an atomic addition changes memory, which is progress.
    assert!(!spins(&format!("mov.u32 %r3, 0;\nL: add.u32 %r3, %r3, 1; {wait}")));
    assert!(!spins(&format!("mov.u32 %r3, 0;\nL: atom.global.add.u32 %r4, [%rd0+8], 1; {wait}")));
}

#[test]
fn grids_can_move_between_threads() {
    fn movable<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    movable::<Grid>();
    shared::<Module>();
}

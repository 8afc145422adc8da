//! Tests that the text of each error says what to do.

use std::time::Duration;

use crate::driver::CudaVersion;
use crate::info::tests::scale;
use crate::*;

/// The text of a variant's sample, and words of it that say what to do.
type Said = (String, &'static str);

/// Makes a sample of each variant of an error. A variant without a sample doesn't compile. The words can't be the first, because the
/// text says what's wrong before. They're empty if another text has the remedy: that of the source, or of the driver.
macro_rules! samples {
    ($error:ident: $($variant:ident $({ $($fields:tt)* })? $(($($wrapped:tt)*))? => $words:expr,)+) => {{
        #[allow(unreachable_patterns, reason = "a variant can have several samples")]
        let variant = |error: &$error| match error {
            $($error::$variant { .. } => stringify!($variant),)+
        };
        let said: Vec<Said> = vec![$({
            let sample = $error::$variant $({ $($fields)* })? $(($($wrapped)*))?;
            assert_eq!(variant(&sample), stringify!($variant));
            (sample.to_string(), $words)
        }),+];
        said
    }};
}

/// An error of the driver, whose text is the driver's.
const FAILED: DriverCallError = DriverCallError {
    call: "cuX",
    code: 1,
    name: "CUDA_ERROR_INVALID_VALUE",
    description: "invalid argument",
};

const PLACE: Place = Place::new("a::k", "a", "1.0.0", "src/lib.rs", 3);

/// What to do if the image of a linked kernel was not read.
const UNREAD: &str =
    if cfg!(feature = "linked") { "compiling with CUDA 13.0" } else { "turn on the feature `linked`" };

fn text(text: &str) -> String {
    text.to_owned()
}

fn wait() -> Box<WouldWait> {
    Box::new(WouldWait { call: "cuX", because: "it waits", remedy: "do it before", resident: "a::k" })
}

fn report(cause: Cause) -> Report {
    let failure = Failure {
        kernel: "a::k",
        place: PLACE,
        image: Some("k.ptx"),
        variants: "compute_75",
        arch: 90,
        cause,
    };
    Report {
        device: text("a device"),
        arch: 90,
        driver: CudaVersion::new(12, 0),
        loads_lazily: true,
        kernels: Vec::new(),
        unavailable: Vec::new(),
        failures: vec![failure],
        hook_failures: Vec::new(),
        other_copies: &[],
        hooks: Vec::new(),
        images_loaded: 0,
        baked: None,
        not_baked: Vec::new(),
        not_adopted: Vec::new(),
        stack: 0,
        device_memory: 0,
        verified: true,
        stages: Vec::new(),
    }
}

fn of_registry_and_driver() -> Vec<Said> {
    let mut said = samples! { RegistryError:
        RegistrationsLost { records: 2, registrations: 1, missing: vec![PLACE] } => "use another linker",
        RecordsLost { records: 1, registrations: 2 } => "use another linker",
        SectionDamaged { reason: text("why") } => "does something else use this section?",
        NotFound { path: text("k"), near: Vec::new(), other_copy: None } => "`link_kernels!`",
        NotFound { path: text("k"), near: vec!["a::k"], other_copy: None } => "did you mean `a::k`?",
        SymbolNotFound { symbol: text("k"), near: vec!["a::k"] } => "did you mean `a::k`?",
        Ambiguous { path: text("k"), places: vec![PLACE, PLACE] } => "give more of the path",
    };
    said.extend(samples! { DriverUnavailable:
        Missing => "install NVIDIA's driver",
        TooOld { version: CudaVersion::new(11, 8), oldest: CudaVersion::new(12, 0) } => "install a driver of",
        Forked => "fork before CUDA is used",
        Failed(FAILED) => "make sure that `nvidia-smi` shows a device",
    });
    said.extend(samples! { LoadError:
        OtherContext => "load its module through `WarmContext::context`",
        Driver(FAILED) => "",
    });
    said.push((wait().to_string(), "do it before"));
    said
}

fn of_warming() -> Vec<Said> {
    let second = Duration::from_secs(1);
    let mut said = samples! { WarmError:
        DriverUnavailable(DriverUnavailable::Missing) => "install NVIDIA's driver",
        Registry(RegistryError::RecordsLost { records: 1, registrations: 2 }) => "use another linker",
        NotRegistered { missing: vec![text("a-b")], registered: vec!["c"] } => "`kernel_registry::link_kernels!(a_b);`",
        NoBakedFile { file: "a.baked".into() } => "make it with `cargo kernels bake`",
        Driver { error: FAILED, about: "", log: String::new() } => "try again",
        Driver { error: FAILED, about: "k.ptx", log: text("line 2: why") } => "the driver's compiler says",
        InHook { hook: "a::h" } => "select those that it launches",
        HookTimedOut { hook: "a::h", timeout: second } => "allow more time with `Warmup::hook_timeout`",
        LimitFrozen { limit: FrozenLimit::Heap, asked: 2, size: 1 } => "ask in the context's first warm-up",
        NoThread { reason: text("why") } => "let the program start more threads",
        TimedOut { call: "cuX", about: "", timeout: second } => "warm kernels before launching a resident one",
        WouldWait(wait()) => "do it before",
        Kernels { report: Box::new(report(Cause::NoImage)) } => "install one, or commit images",
    };
    said.extend(samples! { RecheckError:
        DriverUnavailable(DriverUnavailable::Forked) => "fork before CUDA is used",
        Reset => "get the device's context again",
        StackLowered { limit: 1, needed: 2 } => "leave `CU_LIMIT_STACK_SIZE` alone",
        NotLoaded { kernel: "a::k" } => "call `warm_all` again",
        Warming => "wait for it, then try again",
        Waiting { timeout: second } => "warm that kernel before",
        NoThread { reason: text("why") } => "let the program start more threads",
        Driver(FAILED) => "",
    });
    said.extend(samples! { HookCause:
        Returned { error: text("what the function says") } => "",
        Setup { cause: Cause::NoImage } => "install one, or commit images",
    });
    said
}

fn of_kernels_and_files() -> Vec<Said> {
    let (error, log) = (FAILED, String::new());
    let mut said = samples! { Cause:
        NoImage => "install one, or commit images",
        NotLinked { symbol: "k", count: 0 } => "call `kernel_registry_build::linked()`",
        NotLinked { symbol: "k", count: 2 } => "name the symbol of one",
        OtherParams { linked: text("k(int)") } => "declare parameters of these sizes",
        ParamsUnread => UNREAD,
        NoVariant { error } => "compile it for this architecture",
        NewPtx { error, ptx: (9, 0), driver: CudaVersion::new(12, 0) } => "or install a newer driver",
        Refused { error, log: log.clone() } => "is the image damaged?",
        Refused { error, log: text("line 2: why") } => "the driver's compiler says",
        NoEntry { symbol: "k" } => "was the image replaced after the build?",
        OutOfMemory { error, free: 1 } => "warm kernels before anything takes",
        StackBudget { stack: 1, needed: 2, budget: 3, free: 4 } => "raise the budget with `Warmup::stack_budget`",
        Shared { fixed: 1, dynamic: 2, most: 3 } => "declare less `shared`",
        NotLoaded => "please report this",
        Unloaded => "call `warm_all` again",
        Driver { error } => "",
    };
    said.extend(samples! { NotBaked:
        Unreadable { file: text("a.baked"), reason: text("why") } => "make it again with `cargo kernels bake`",
        Damaged { file: text("a.baked"), reason: text("why") } => "make it again with `cargo kernels bake`",
        OtherUser { path: text("a"), user: 1 } => "copy the file as the user of the program",
        Writable { path: text("a") } => "`chmod go-w`",
        Refused { image: "k.ptx", error } => "make it again with `cargo kernels bake`",
    });
    said
}

fn of_launches() -> Vec<Said> {
    static OTHERS: [OtherCopy; 1] = [OtherCopy { version: "0.0.9", kernels: Vec::new() }];
    let (kernel, param) = (scale(), Param::new("n", "u32", Pass::Value, 4, 4));
    samples! { LaunchError:
        NotWarm { kernel } => "call `warm_all` with that context",
        RegisteredLater { kernel } => "call `warm_all` again",
        OtherCopy { kernel, others: &OTHERS } => "let all packages depend on one version",
        Unavailable { kernel, min_arch: 100, arch: 90 } => "launch another kernel",
        Reset { kernel } => "get the context again",
        LoadedAnew { kernel } => "prepare the launch again",
        BlockMissing { kernel } => "add `block = ..`",
        Limit { kernel, what: LaunchLimit::BlockAxis('x'), given: 2, most: 1 } => "a block has 1 to 1 there",
        Limit { kernel, what: LaunchLimit::GridAxis('x'), given: 2, most: 1 } => "a grid has 1 to 1 there",
        Limit { kernel, what: LaunchLimit::BlockThreads { block: [2, 1, 1] }, given: 2, most: 1 } => "choose a smaller block",
        Limit { kernel, what: LaunchLimit::DynamicShared, given: 2, most: 1 } => "add `shared = 2`",
        GridOfClusters { kernel, grid: [3, 1, 1], cluster: [2, 1, 1] } => "it has to consist of whole clusters of 2 x 1 x 1",
        ClusterFixed { kernel, chosen: [2, 1, 1], fixed: [4, 1, 1] } => "leave out `cluster(..)`",
        ClusterMissing { kernel } => "set one with `cluster(..)`",
        OtherContext { kernel } => "prepare one for each context",
        OtherMemory { kernel } => "make one in this context",
        OtherStream { kernel } => "launch it in that one",
        ArgumentCount { kernel, given: 2, takes: 3 } => "it takes 3 arguments",
        ParamsUnread { kernel } => UNREAD,
        Argument { kernel, index: 0, param, given: "a value", size: 8 } => "takes a value of 4",
        Late { kernel, error: Box::new(WarmError::InHook { hook: "a::h" }) } => "",
        WouldWait { kernel, wait: wait() } => "",
        DriverUnavailable { kernel, error: DriverUnavailable::Forked } => "",
        Driver { kernel, error: FAILED } => "",
    }
}

#[test]
fn errors_say_what_to_do() {
    for (text, words) in
        [of_registry_and_driver(), of_warming(), of_kernels_and_files(), of_launches()].concat()
    {
        let at = text.find(words);
        assert!(if words.is_empty() { !text.is_empty() } else { at > Some(0) }, "`{words}`: {text}");
    }
}

//! Reports which functions of the driver the rows call while the resident work runs, and why no row calls the
//! others. The list of functions is the simulated driver's, which has all functions of CUDA 13.0.

use std::collections::{BTreeMap, BTreeSet};

use crate::cuda::base;
use crate::recording::{Mode, Recording, Tried, Verdict};

/// Why functions aren't called by any row.
const NOT_TRIED: &[(&str, &[&str])] = &[
    (
        "needs several GPUs",
        &[
            "cuCtxDisablePeerAccess",
            "cuCtxEnablePeerAccess",
            "cuDeviceGetP2PAtomicCapabilities",
            "cuDeviceGetP2PAttribute",
            "cuMulticastAddDevice",
            "cuMulticastBindAddr",
            "cuMulticastBindMem",
            "cuMulticastCreate",
            "cuMulticastGetGranularity",
            "cuMulticastUnbind",
        ],
    ),
    (
        "needs an object of a graphics API",
        &[
            "cuDestroyExternalMemory",
            "cuDestroyExternalSemaphore",
            "cuExternalMemoryGetMappedBuffer",
            "cuExternalMemoryGetMappedMipmappedArray",
            "cuGraphAddExternalSemaphoresSignalNode",
            "cuGraphAddExternalSemaphoresWaitNode",
            "cuGraphExecExternalSemaphoresSignalNodeSetParams",
            "cuGraphExecExternalSemaphoresWaitNodeSetParams",
            "cuGraphExternalSemaphoresSignalNodeGetParams",
            "cuGraphExternalSemaphoresSignalNodeSetParams",
            "cuGraphExternalSemaphoresWaitNodeGetParams",
            "cuGraphExternalSemaphoresWaitNodeSetParams",
            "cuGraphicsMapResources",
            "cuGraphicsResourceGetMappedMipmappedArray",
            "cuGraphicsResourceGetMappedPointer",
            "cuGraphicsResourceSetMapFlags",
            "cuGraphicsSubResourceGetMappedArray",
            "cuGraphicsUnmapResources",
            "cuGraphicsUnregisterResource",
            "cuImportExternalMemory",
            "cuImportExternalSemaphore",
            "cuSignalExternalSemaphoresAsync",
            "cuWaitExternalSemaphoresAsync",
        ],
    ),
    (
        "needs a texture or surface reference in an image, which CUDA 12 and newer do not compile",
        &[
            "cuModuleGetSurfRef",
            "cuModuleGetTexRef",
            "cuParamSetTexRef",
            "cuSurfRefGetArray",
            "cuSurfRefSetArray",
        ],
    ),
    (
        "sets or asks another field of a texture reference, which is an object of the host",
        &[
            "cuTexRefGetAddressMode",
            "cuTexRefGetBorderColor",
            "cuTexRefGetFilterMode",
            "cuTexRefGetFormat",
            "cuTexRefGetMaxAnisotropy",
            "cuTexRefGetMipmapFilterMode",
            "cuTexRefGetMipmapLevelBias",
            "cuTexRefGetMipmapLevelClamp",
            "cuTexRefGetMipmappedArray",
            "cuTexRefSetAddress2D",
            "cuTexRefSetBorderColor",
            "cuTexRefSetMipmapFilterMode",
            "cuTexRefSetMipmapLevelBias",
            "cuTexRefSetMipmapLevelClamp",
            "cuTexRefSetMipmappedArray",
        ],
    ),
    (
        "ends or stops the process of the row itself",
        &[
            "cuCheckpointProcessCheckpoint",
            "cuCheckpointProcessGetRestoreThreadId",
            "cuCheckpointProcessGetState",
            "cuCheckpointProcessLock",
            "cuCheckpointProcessRestore",
            "cuCheckpointProcessUnlock",
        ],
    ),
    (
        "ends the context of the row itself; see `cuCtxDestroy` of another context",
        &["cuDevicePrimaryCtxReset"],
    ),
    (
        "needs hardware that neither H100 nor H200 has",
        &["cuLibraryGetUnifiedFunction", "cuMemBatchDecompressAsync"],
    ),
    ("belongs to Windows, or to DRIVE systems", &["cuDeviceGetLuid", "cuDeviceGetNvSciSyncAttributes"]),
    (
        "asks about an array whose kind is tried: one plane of a picture, or the tiles of a sparse array",
        &["cuArrayGetPlane", "cuArrayGetSparseProperties", "cuMipmappedArrayGetSparseProperties"],
    ),
    (
        "the machine of the recording refuses it (`CUDA_ERROR_MAP_FAILED`): its processes share no events",
        &["cuIpcOpenEventHandle"],
    ),
    ("asks for what was not given: a view of a texture", &["cuTexObjectGetResourceViewDesc"]),
    (
        "computes on the host, as `cuTensorMapEncodeTiled` does",
        &["cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide"],
    ),
    ("copies as `cuMemcpyBatchAsync` and `cuMemcpy3DAsync` do", &["cuMemcpy3DBatchAsync"]),
    ("sets for all contexts what `cuCoredumpSetAttribute` sets for one", &["cuCoredumpSetAttributeGlobal"]),
    ("is called before every other function", &["cuInit"]),
    ("is the first version of `cuGraphInstantiateWithFlags`", &["cuGraphInstantiate"]),
    ("has no documented meaning", &["cuGetExportTable"]),
    ("does nothing since CUDA 11", &["cuProfilerInitialize"]),
];

/// Returns the functions of CUDA 13.0, without the suffixes of their versions.
fn functions() -> BTreeSet<&'static str> {
    let known = kernel_registry_sim::functions().filter(|(_, since)| *since <= (13, 0));
    known.map(|(function, _)| base(function)).collect()
}

/// Returns a table of all functions: the rows of a recording that call it, or why no row does.
pub(crate) fn table(recording: &Recording) -> String {
    let mut callers = BTreeMap::<&str, Vec<&Tried>>::new();
    for tried in recording.rows.iter().filter(|tried| tried.mode == Mode::Lazy) {
        for call in &tried.outcome.calls {
            callers.entry(call).or_default().push(tried);
        }
    }
    let lines = functions().into_iter().map(|function| {
        let cell = match callers.get(function) {
            Some(rows) => rows_of(function, rows),
            None => {
                reason(function).map_or_else(|| "not tried | ".to_owned(), |why| format!("not tried | {why}"))
            }
        };
        format!("| `{function}` | {cell} |\n")
    });
    let head = "| function | while a resident kernel runs | rows, or why not |\n|---|---|---|\n";
    head.to_owned() + &lines.collect::<String>()
}

fn reason(function: &str) -> Option<&'static str> {
    NOT_TRIED.iter().find(|(_, functions)| functions.contains(&function)).map(|(why, _)| *why)
}

/// The most rows to name for a function.
const NAMED: usize = 6;

/// Returns the table's cell for a function that rows call. Only a row named after the function shows whether
/// that function waits. Any other row that runs shows that it doesn't; one that waits may wait in another of
/// its calls.
fn rows_of(function: &str, callers: &[&Tried]) -> String {
    let is_its = |tried: &Tried| {
        let name = tried.row.split('/').next_back().unwrap_or_default();
        base(name) == function && !tried.row.starts_with("locked/")
    };
    let waits = |tried: &Tried| tried.outcome.verdict == Verdict::Blocks;
    let chosen = |is: &dyn Fn(&Tried) -> bool| -> Vec<&Tried> {
        callers.iter().copied().filter(|tried| is(tried)).collect()
    };
    let choices =
        [chosen(&is_its), chosen(&|tried| tried.outcome.verdict == Verdict::Runs), callers.to_vec()];
    let rows = choices.into_iter().find(|rows| !rows.is_empty()).unwrap_or_default();
    let (waiting, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|tried| waits(tried));
    let runs = others.iter().any(|tried| tried.outcome.verdict == Verdict::Runs);
    let verdict = match (waiting.is_empty(), runs) {
        (true, true) => "runs",
        (true, false) => "is refused",
        (false, false) => "waits",
        (false, true) => "waits or runs",
    };
    let waiting_names = waiting.iter().map(|tried| format!("**{}**", tried.row));
    let other_names = others.iter().map(|tried| tried.row.clone());
    let names: Vec<_> = waiting_names.chain(other_names).collect();
    let (named, more) = names.split_at(names.len().min(NAMED));
    let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
    format!("{verdict} | {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn recording() -> Recording {
        Recording::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("census/h200-580.json")).unwrap()
    }

    /// Each function must be called by a row, or have exactly one reason why not.
    #[test]
    fn every_function_is_tried_or_has_a_reason() {
        let recording = recording();
        let called: BTreeSet<_> =
            recording.rows.iter().flat_map(|tried| &tried.outcome.calls).map(String::as_str).collect();
        let reasons: Vec<_> = NOT_TRIED.iter().flat_map(|(_, functions)| *functions).copied().collect();
        for function in functions() {
            let reasons = reasons.iter().filter(|its| **its == function).count();
            assert_eq!(reasons, usize::from(!called.contains(function)), "{function}");
        }
        let unknown: Vec<_> = reasons.iter().filter(|its| !functions().contains(**its)).collect();
        assert!(unknown.is_empty(), "CUDA 13.0 has no {unknown:?}");
    }

    /// Compares with the functions of cudarc, which was generated from NVIDIA's header.
    #[test]
    fn every_function_of_cudarc_is_known() {
        // Without `--filter-platform`, cargo needs the packages of all platforms, which a new machine doesn't
        // have.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let metadata = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--format-version",
                "1",
                "--offline",
                "--locked",
                "--filter-platform",
                &platform,
            ])
            .output()
            .expect("cargo runs");
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
        let packages = metadata["packages"].as_array().expect("a list");
        let cudarc = packages.iter().find(|package| package["name"] == "cudarc").expect("cudarc");
        let manifest = Path::new(cudarc["manifest_path"].as_str().expect("a path"));
        let text = fs::read_to_string(manifest.with_file_name("src/driver/sys/mod.rs")).expect("its source");
        let (mut features, mut count) = ("", 0);
        for line in text.lines() {
            if let Some(function) = line.strip_prefix("pub unsafe fn cu") {
                let name = format!("cu{}", function.split('(').next().expect("a name"));
                let is_of_13 = features.is_empty() || features.contains("\"cuda-13000\"");
                if name != "culib" && is_of_13 {
                    assert!(functions().contains(base(&name)), "{name}");
                    count += 1;
                }
            }
            features = if line.starts_with("#[cfg(any(feature") { line } else { "" };
        }
        assert!(count > 400, "{count}");
    }

    #[test]
    fn the_document_has_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/census-functions.md");
        let document = fs::read_to_string(path).expect("the document");
        let how =
            "`cargo run -p tests --bin census -- --functions tests/census/h200-580.json` prints the table";
        assert!(document.contains(&table(&recording())), "{how} that the document needs");
    }
}

//! Tests sections of the audit: while a kernel is resident, calls that would wait for it are refused, deferred, or made and recorded.

mod calls;
mod cold;
mod deferred;
mod owners;
mod streams;

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kernel_audit::record::Kind;
use kernel_audit::{AfterReady, Audit, Installed, findings, install};
use kernel_registry::cudarc::driver::{CudaContext, CudaStream, DevicePtr, sys};
use kernel_registry::{DeviceAddress, KernelInfo, Warmup};
use kernel_registry_resident::Control;
use kernel_registry_resident::{Ended, Presence};
use kernel_registry_sim::{Config, Device};
use kernels::waiting::{spin_until_flag, touch};
use sys::CUresult;
use tests::scratch_folder;

use self::calls::{Waiting, try_harmless};
use super::{CODE, Outcome, apart, cold, in_child, launch, said, text, watched};

const REFUSED: CUresult = CUresult::CUDA_ERROR_NOT_PERMITTED;
const DONE: CUresult = CUresult::CUDA_SUCCESS;

const REFUSE: u32 = 0;
const REPORT: u32 = 1;
const DEFER: u32 = 2;

type Begin = unsafe extern "C" fn(*const c_char, sys::CUcontext, sys::CUstream, u32) -> u64;
type End = extern "C" fn(u64) -> u64;
type CreateContext = unsafe extern "C" fn(*mut sys::CUcontext, u32, sys::CUdevice) -> CUresult;

/// Finds a function of the audit or of the driver, as kernel-registry does.
///
/// # Safety
///
/// `F` is the function's type in CUDA 4.0.
unsafe fn own<F: Copy>(name: &CStr) -> F {
    let mut address = ptr::null_mut::<c_void>();
    // SAFETY: the name ends with a zero byte, and the status may be null.
    let found = unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, 4_000, 0, ptr::null_mut()) };
    assert!(found == DONE && !address.is_null(), "{name:?}: {found:?}");
    // SAFETY: the caller promises the type, and both types are one pointer wide.
    unsafe { mem::transmute_copy(&address) }
}

fn begin(kernel: &CStr, stream: &CudaStream, on_wait: u32) -> u64 {
    // SAFETY: `Begin` is the function's type.
    let begin = unsafe { own::<Begin>(c"kernel_registry_audit_section_begin") };
    // SAFETY: the name ends with a zero byte.
    let section = unsafe { begin(kernel.as_ptr(), stream.context().cu_ctx(), stream.cu_stream(), on_wait) };
    assert_ne!(section, 0);
    section
}

fn end(section: u64) -> u64 {
    // SAFETY: `End` is the function's type.
    let end = unsafe { own::<End>(c"kernel_registry_audit_section_end") };
    end(section)
}

/// A resident kernel in a section of its own. Tests stop the kernel; its time limit matters only if a test hangs.
struct Resident {
    stream: Arc<CudaStream>,
    /// The control block, which is never freed, because freeing would wait for the kernel.
    control: &'static Control,
    section: u64,
}

impl Resident {
    fn new(context: &Arc<CudaContext>, on_wait: u32) -> Result<Self, Box<dyn Error>> {
        let stream = context.new_stream()?;
        let control: &Control = Box::leak(Box::new(Control::new(context, 1)?));
        control.limit(tests::limit(60));
        let flag: *mut u32 = host(4)?.cast();
        let section = begin(c"worker", &stream, on_wait);
        // SAFETY: the memory of the arguments is never freed.
        unsafe { spin_until_flag::launch(&stream, spin_until_flag::over(1), flag, control)? };
        Ok(Resident { stream, control, section })
    }

    fn stop(&self) {
        self.control.stop();
        // SAFETY: the stream exists.
        while unsafe { sys::cuStreamQuery(self.stream.cu_stream()) } == CUresult::CUDA_ERROR_NOT_READY {
            thread::yield_now();
        }
        assert_eq!(self.control.presence(), Presence::Ended(Ended::Stopped), "something waited for it");
    }

    /// Stops the kernel, and ends its section. Returns the number of deferred calls that were made.
    fn end(self) -> u64 {
        self.stop();
        end(self.section)
    }
}

/// Installs the audit, and returns a context in which the kernels of these tests are warm.
fn ready(audit: Audit) -> Result<Arc<CudaContext>, Box<dyn Error>> {
    let context = watched(audit)?;
    warm(&context)?;
    Ok(context)
}

fn warm(context: &Arc<CudaContext>) -> Outcome {
    let ours = |kernel: &KernelInfo| [touch::INFO, spin_until_flag::INFO].contains(&kernel);
    Warmup::new().only(ours).warm(context)?;
    let x = context.default_stream().alloc_zeros::<u32>(1)?;
    touch_on(&context.default_stream(), &x)?;
    drop(x);
    Ok(context.synchronize()?)
}

fn touch_on(stream: &Arc<CudaStream>, x: &impl DevicePtr<u32>) -> Outcome {
    // SAFETY: the kernel adds to one word.
    unsafe { touch::launch(stream, touch::over(1), DeviceAddress(x.device_ptr(stream).0))? };
    Ok(())
}

fn device(bytes: usize) -> Result<sys::CUdeviceptr, Box<dyn Error>> {
    let mut address = 0;
    // SAFETY: a context is current.
    unsafe { sys::cuMemAlloc_v2(&mut address, bytes).result()? };
    Ok(address)
}

fn host(bytes: usize) -> Result<*mut c_void, Box<dyn Error>> {
    let mut address = ptr::null_mut();
    // SAFETY: a context is current.
    unsafe { sys::cuMemHostAlloc(&mut address, bytes, 2).result()? };
    Ok(address)
}

fn free(address: sys::CUdeviceptr) -> CUresult {
    // SAFETY: the driver refuses an address that it did not allocate.
    unsafe { sys::cuMemFree_v2(address) }
}

fn is_there(address: sys::CUdeviceptr) -> bool {
    let mut context = ptr::null_mut::<c_void>();
    let which = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
    // SAFETY: `context` has room for the answer.
    unsafe { sys::cuPointerGetAttribute((&raw mut context).cast(), which, address) == DONE }
}

fn free_memory() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the driver stores to both variables.
    assert_eq!(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, DONE);
    free
}

fn all_are(tried: &[(&'static str, CUresult)], expected: CUresult) {
    for (call, result) in tried {
        assert_eq!(*result, expected, "{call}");
    }
}

#[test]
fn calls_that_would_wait_are_refused() {
    let output = apart("sections::calls_that_would_wait_are_refused", &[], || {
        let context = ready(Audit::new())?;
        let (stream, waiting) = (context.new_stream()?, Waiting::new()?);
        let resident = Resident::new(&context, REFUSE)?;
        let mut tried = waiting.try_refused(&resident.stream, &stream);
        tried.extend(waiting.try_deferred());
        all_are(&tried, REFUSED);
        let found = findings()?;
        assert_eq!(said(&found).iter().map(|(_, call, _)| *call).collect::<Vec<_>>(), names(&tried));
        assert!(
            found.iter().all(|event| event.kind == Kind::Refused && &*event.resident == "worker"),
            "{found:?}"
        );
        try_harmless(&context, &stream)?;
        assert_eq!(findings()?.len(), tried.len(), "{:?}", findings()?);
        assert_eq!(resident.end(), 0);

        // After the section the calls are made as usual, except the reset, which would end the context of this test.
        let tried = waiting.try_deferred();
        all_are(&tried, DONE);
        assert_eq!(launch(waiting.cold, &stream), DONE);
        context.synchronize()?;
        // SAFETY: the context exists.
        assert_eq!(unsafe { sys::cuCtxDestroy_v2(waiting.other) }, DONE);
        Ok(())
    });
    let Some(output) = output else { return };
    for words in [
        "REFUSED while kernel `worker` is resident: `cuLaunchKernel` of kernel `late`, which is not loaded: a kernel is loaded only when \
         nothing runs on the device. Remedy: call `warm_all` before work starts",
        "`cuModuleLoadData` of a PTX of ",
        "`cuCtxSetLimit` (stack of 16384 bytes): the stack limit is changed only when nothing runs",
        ": memory is freed only when nothing runs on the device. Remedy: free it later, or with `cuMemFreeAsync`",
        "`cuCtxSynchronize`: it waits until that kernel has ended. Remedy: synchronize single streams",
        "`cuLaunchKernel` of kernel `late` in the stream of that kernel: a stream runs its kernels one after the other. Remedy: launch \
         it in another stream.",
        "a context is destroyed, and a green one is made, only when nothing runs",
    ] {
        assert!(text(&output.stderr).contains(words), "{words}: {}", text(&output.stderr));
    }
}

fn names(tried: &[(&'static str, CUresult)]) -> Vec<&'static str> {
    tried.iter().map(|(call, _)| *call).collect()
}

#[test]
fn another_device_is_not_disturbed() {
    apart("sections::another_device_is_not_disturbed", &[], || {
        Config::with_devices([Device::h200(), Device::h200()]).install()?;
        assert_eq!(install()?, Installed::Now);
        let [first, second] = [kernel_registry::context(0)?, kernel_registry::context(1)?];
        second.bind_to_thread()?;
        let (other_memory, stream) = (device(4096)?, second.new_stream()?);
        first.bind_to_thread()?;
        warm(&first)?;
        let memory = device(4096)?;
        let resident = Resident::new(&first, REFUSE)?;
        // The memory's context decides, and not the current context.
        assert_eq!((free(memory), free(other_memory)), (REFUSED, DONE));
        second.bind_to_thread()?;
        assert_eq!(free(memory), REFUSED);
        second.load_module(kernel_registry::cudarc::nvrtc::Ptx::from_src(CODE.to_str()?))?;
        assert_eq!(launch(cold(c"late")?, &stream), DONE);
        second.synchronize()?;
        assert!(!findings()?.iter().any(|event| &*event.call != "cuMemFree_v2"), "{:?}", findings()?);
        // Pinned memory may be used by all devices, so freeing it would wait.
        // SAFETY: the memory was allocated.
        assert_eq!(unsafe { sys::cuMemFreeHost(host(4096)?) }, REFUSED);
        first.bind_to_thread()?;
        assert_eq!(resident.end(), 0);
        assert_eq!(free(memory), DONE);
        Ok(())
    });
}

#[test]
fn only_the_first_launch_in_its_stream_passes() {
    apart("sections::only_the_first_launch_in_its_stream_passes", &[], || {
        let context = ready(Audit::new())?;
        let (stream, x) = (context.new_stream()?, context.default_stream().alloc_zeros::<u32>(1)?);
        let section = begin(c"worker", &stream, DEFER);
        // Before the resident kernel's launch nothing in the stream waits, so the stream can be synchronized.
        stream.synchronize()?;
        touch_on(&stream, &x)?;
        assert!(touch_on(&stream, &x).is_err());
        assert_eq!(said(&findings()?).len(), 1);
        touch_on(&context.new_stream()?, &x)?;
        assert_eq!(end(section), 0);
        touch_on(&stream, &x)?;
        Ok(())
    });
}

#[test]
fn a_kernel_does_not_wait_for_itself() {
    apart("sections::a_kernel_does_not_wait_for_itself", &[], || {
        let context = ready(Audit::new())?;
        let stream = context.new_stream()?;
        let late = cold(c"late")?;
        let section = begin(c"late", &stream, REFUSE);
        assert_eq!(launch(late, &stream), DONE);
        end(section);
        assert_eq!(findings()?, []);
        Ok(())
    });
}

#[test]
fn more_streams_than_the_context_ever_had_are_refused() {
    apart("sections::more_streams_than_the_context_ever_had_are_refused", &[], || {
        let context = ready(Audit::new())?;
        let make = || -> Result<sys::CUstream, CUresult> {
            let mut stream = ptr::null_mut();
            // SAFETY: a context is current.
            match unsafe { sys::cuStreamCreate(&mut stream, 1) } {
                DONE => Ok(stream),
                error => Err(error),
            }
        };
        let resident = Resident::new(&context, DEFER)?;
        let mut streams = Vec::new();
        streams.extend((0..100).map_while(|_| make().ok()));
        assert_eq!(streams.len() + 1, 34, "with the resident kernel's");
        assert_eq!(said(&findings()?), [(Kind::Refused, "cuStreamCreate", "")]);
        // A destroyed stream makes room for a new one.
        // SAFETY: the stream exists.
        unsafe { sys::cuStreamDestroy_v2(streams.pop().ok_or("there are some")?).result()? };
        streams.push(make().map_err(|error| format!("{error:?}"))?);
        resident.end();

        // A context that once had so many streams can have as many again beside a kernel.
        for _ in 0..6 {
            streams.push(make().map_err(|error| format!("{error:?}"))?);
        }
        // SAFETY: the streams exist.
        streams.drain(..).for_each(|stream| unsafe { assert_eq!(sys::cuStreamDestroy_v2(stream), DONE) });
        let resident = Resident::new(&context, DEFER)?;
        streams.extend((0..100).map_while(|_| make().ok()));
        assert_eq!(streams.len() + 1, 33 + 6, "with the resident kernel's");
        resident.end();
        Ok(())
    });
}

#[test]
fn calls_of_other_threads_are_refused_too() {
    apart("sections::calls_of_other_threads_are_refused_too", &[], || {
        let context = ready(Audit::new())?;
        let memory = device(512)?;
        let resident = Resident::new(&context, DEFER)?;
        let of_thread = thread::scope(|scope| {
            let other = scope.spawn(|| {
                context.bind_to_thread().expect("the context is there");
                // SAFETY: a context is current.
                (free(memory), unsafe { sys::cuCtxSynchronize() })
            });
            other.join().expect("no panic")
        });
        assert_eq!(of_thread, (DONE, REFUSED));
        assert_eq!(resident.end(), 1);
        Ok(())
    });
}

#[test]
fn a_forked_child_has_no_section() {
    apart("sections::a_forked_child_has_no_section", &[], || {
        let context = ready(Audit::new())?;
        let memory = device(512)?;
        let resident = Resident::new(&context, DEFER)?;
        assert_eq!(free(memory), DONE);
        let section = resident.section;
        // SAFETY: `End` is the function's type.
        let ending = unsafe { own::<End>(c"kernel_registry_audit_section_end") };
        in_child(|| {
            // The driver does not work in a child process: it refuses the call that the audit would defer.
            // SAFETY: the driver refuses the call.
            let unloaded = unsafe { sys::cuLibraryUnload(ptr::without_provenance_mut(0x1000)) };
            ending(section) == 0 && unloaded != DONE && unloaded != REFUSED
        });
        assert_eq!(resident.end(), 1);
        Ok(())
    });
}

#[test]
fn calls_are_made_and_reported() {
    let output = apart("sections::calls_are_made_and_reported", &[], || {
        let context = ready(Audit::new())?;
        let (stream, memory) = (context.new_stream()?, device(512)?);
        let late = cold(c"late")?;
        let resident = Resident::new(&context, REPORT)?;
        let [begins, is_released] = [const { AtomicBool::new(false) }; 2];
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                while !begins.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(100));
                is_released.store(true, Ordering::SeqCst);
                resident.control.stop();
            });
            begins.store(true, Ordering::SeqCst);
            let freed = free(memory);
            (freed, is_released.load(Ordering::SeqCst), launch(late, &stream))
        });
        assert_eq!(result, (DONE, true, DONE), "it waited");
        let found = findings()?;
        let words: Vec<_> = found.iter().map(|event| (event.kind, &*event.call, &*event.resident)).collect();
        assert_eq!(
            words,
            [(Kind::Waits, "cuMemFree_v2", "worker"), (Kind::Load, "cuLaunchKernel", "worker")]
        );
        assert_eq!(resident.end(), 0);
        Ok(())
    });
    if let Some(output) = output {
        assert!(!text(&output.stderr).contains("REFUSED"), "{}", text(&output.stderr));
    }
}

/// Checks the command's report on the record of a section.
#[test]
fn reports_name_the_resident_kernel() {
    let folder = scratch_folder();
    let records = folder.to_str().expect("UTF-8");
    let variables = [(kernel_audit::variables::RECORDS, records)];
    let output = apart("sections::reports_name_the_resident_kernel", &variables, || {
        let context = ready(Audit::new())?;
        let memory = device(512)?;
        let resident = Resident::new(&context, DEFER)?;
        assert_eq!(free(memory), DONE);
        assert!(context.load_module(kernel_registry::cudarc::nvrtc::Ptx::from_src(CODE.to_str()?)).is_err());
        resident.end();
        Ok(())
    });
    if output.is_none() {
        return;
    }
    let [json, page] = ["report.json", "report.html"].map(|name| scratch_folder().join(name));
    let mut command = tests::cargo_kernels_command();
    command
        .args(["audit", "merge", "--fail-on-findings", "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&page)
        .arg(records);
    let output = command.output().expect("the tool runs");
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.contains("deferred  cuMemFree_v2") && said.contains("while `worker` was resident"),
        "{said}"
    );
    assert!(said.contains("1 x call deferred, 0.0 us in all, 1 while a kernel was resident"), "{said}");
    assert!(said.contains("Remedy: free it later, or with `cuMemFreeAsync`"), "{said}");
    assert!(!said.contains("after it was ready"), "{said}");
    let read = |path| std::fs::read_to_string(path).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&read(json)).expect("JSON");
    let events = report["processes"][0]["events"].as_array().expect("a list");
    let beside = events.iter().filter(|event| event["resident"] == "worker" && event["finding"] == true);
    assert_eq!(beside.count(), 2);
    tests::are_documented(&[&events[0]], include_str!("../../../docs/audit-json.md"));
    let page = read(page);
    assert!(
        page.contains(
            "was called while kernel <code>worker</code> was resident, and was deferred until that ended"
        ),
        "{page}"
    );
    assert!(page.contains("Resident kernel") && page.contains("worker"), "{page}");
}

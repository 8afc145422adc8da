//! Tests of resident kernels: of the checks before the launch, of calls that are refused while they run, and of their
//! end.

mod ends;
mod fits;
mod launches;
#[path = "../serial/mod.rs"]
mod serial;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, result, sys};
use kernel_registry::{Warm, warm_all};
use kernel_registry_resident::{Control, Resident, ResidentError, Section};
use kernel_registry_sim::{Config, races};
use kernels::waiting::spin_until_flag;

kernel_registry::link_kernels!(kernels);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A word of host memory, which is the flag of `spin_until_flag` or the counter of `touch`. It is never freed.
#[derive(Clone, Copy)]
struct Words(&'static AtomicU32);

impl Words {
    fn new() -> Outcome<Self> {
        // SAFETY: a context is current. The memory has the size of a word, which is zeroed before it is read.
        unsafe {
            let words = result::malloc_host(4, sys::CU_MEMHOSTALLOC_DEVICEMAP)?.cast::<AtomicU32>();
            words.write_bytes(0, 1);
            Ok(Words(&*words))
        }
    }

    fn at(self) -> *mut u32 {
        self.0.as_ptr()
    }

    fn stop(self) {
        self.0.store(1, Ordering::Release);
    }
}

/// Waits until the condition is true. Another thread makes it true after a kernel has ended.
fn soon(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Ready {
    context: Arc<CudaContext>,
    warm: Warm,
    words: Words,
    stream: Arc<CudaStream>,
    _turn: serial::Turn,
}

fn ready() -> Outcome<Ready> {
    let turn = serial::take();
    Config::default().races(true).install()?;
    let context = kernel_registry::context(0)?;
    let warm = warm_all(&context)?;
    let words = Words::new()?;
    Ok(Ready { stream: context.new_stream()?, context, warm, words, _turn: turn })
}

/// Waits until what the test's last kernels held is freed: the next test counts frees.
impl Drop for Ready {
    fn drop(&mut self) {
        soon(|| !threads().contains(&"kernel-registry".to_owned()));
        if !std::thread::panicking() {
            assert_eq!(races(), []);
        }
    }
}

/// The names of this process's threads. The library watches each kernel that outlives its section in a thread of its own.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}

impl Ready {
    fn launch(&self, resident: Resident<spin_until_flag>) -> Result<Section, ResidentError> {
        self.launch_in(&self.stream, self.words, resident)
    }

    fn launch_in(
        &self,
        stream: &Arc<CudaStream>,
        words: Words,
        resident: Resident<spin_until_flag>,
    ) -> Result<Section, ResidentError> {
        let checked = resident.check(&self.warm)?;
        // SAFETY: the words are never freed.
        let section = checked.launch(stream, |launch| unsafe {
            spin_until_flag::launch(stream, launch, words.at(), launch.control())
        })?;
        Ok(section)
    }

    /// Launches a kernel that its section cannot stop, because it reads another control block. The caller must keep
    /// that control block until the kernel has ended.
    fn launch_unstoppable(&self, stop_within: Duration) -> Outcome<(Section, Control)> {
        let control = Control::new(&self.context, 1)?;
        control.limit(Duration::from_secs(5));
        let checked = spin(1, 1).stop_within(stop_within).check(&self.warm)?;
        // SAFETY: the words are never freed, and the caller keeps the control block until the kernel has ended.
        let section = checked.launch(&self.stream, |launch| unsafe {
            spin_until_flag::launch(&self.stream, launch, self.words.at(), &control)
        })?;
        Ok((section, control))
    }
}

fn spin(grid: u32, block: u32) -> Resident<spin_until_flag> {
    Resident::new(spin_until_flag::config(grid).block(block))
}

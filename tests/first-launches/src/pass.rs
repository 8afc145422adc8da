//! Makes one pass over the kernels: warms some kernels in a context, and then launches each kernel for the first time.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::{KernelInfo, KernelReport, Late, Prepared, Report, Warmup};

use crate::bench::{self, Bench, Word};
use crate::case::{Case, LAUNCH, N, RECUR, is_simulated};
use crate::resident::Resident;

/// A pass and its results so far.
pub(crate) struct Pass<'a> {
    name: String,
    bench: &'a Bench,
    ran: usize,
    /// The number of kernels that waited although the report knew their needs.
    waited: usize,
    /// The number of kernels that waited, and whose needs the report called unknown.
    unknown: usize,
    /// The number of launches after a launch that waited in the same context. The earlier launch may have prepared what they need.
    after: usize,
    /// The number of kernels that the device or the simulated driver cannot run.
    impossible: usize,
    /// The number of all other failures.
    failed: usize,
    warming: Duration,
    contexts: usize,
}

/// The result of a first launch.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Ran,
    Waited,
    /// The kernel ran, but the kernel that it launched waited.
    ChildWaited,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(name: impl Into<String>, bench: &'a Bench) -> Self {
        Pass {
            name: name.into(),
            bench,
            ran: 0,
            waited: 0,
            unknown: 0,
            after: 0,
            impossible: 0,
            failed: 0,
            warming: Duration::ZERO,
            contexts: 0,
        }
    }

    /// Warms kernels in a context, and launches each of them.
    pub(crate) fn launch(
        &mut self,
        context: &Arc<CudaContext>,
        cases: &[&Case],
    ) -> Result<(), Box<dyn Error>> {
        let report = self.warm(context, cases)?;
        let known: HashMap<_, _> = report.kernels.iter().map(|kernel| (kernel.path, kernel)).collect();
        let (resident_stream, tested_stream) = (context.new_stream()?, context.new_stream()?);
        let mut one_waited = false;
        for case in cases {
            let path = case.kernel.path();
            let Some(kernel) = known.get(path) else {
                self.not_warm(case, &report);
                continue;
            };
            let limit = stack_limit(context)?;
            if let Some(declared) = case.kernel.stack().map(u64::from).filter(|declared| *declared > limit) {
                self.failed += 1;
                println!(
                    "FAIL {path}: {}: the stack has {limit} bytes, and it declares {declared}",
                    case.traits
                );
                continue;
            }
            self.after += usize::from(one_waited);
            let verdict = self
                .attempt(case, &resident_stream, &tested_stream)
                .map_err(|error| with_case(case, error))?;
            let KernelReport { local, stack, stack_known, .. } = kernel;
            match verdict {
                Verdict::Ran => self.ran += 1,
                Verdict::Waited | Verdict::ChildWaited if *stack_known => {
                    self.waited += 1;
                    let what = if verdict == Verdict::Waited { "it" } else { "the kernel that it launched" };
                    println!(
                        "WAITED {path}: {}: {what} waited; reported were {local} bytes of local memory and {stack} of stack",
                        case.traits
                    );
                }
                Verdict::Waited | Verdict::ChildWaited => self.unknown += 1,
            }
            one_waited |= verdict != Verdict::Ran;
            if !stack_known && case.is_bounded() {
                self.failed += 1;
                println!(
                    "FAIL {path}: {}: the report calls its stack unknown, but it can be known",
                    case.traits
                );
            }
        }
        Ok(())
    }

    /// Launches a kernel that is not warm. That launch must wait, which shows that the check can find a wait. Returns the number of
    /// problems.
    pub(crate) fn control(&mut self, cases: &[&Case]) -> Result<usize, Box<dyn Error>> {
        let Some(case) = cases.iter().find(|case| !case.parent) else { return Ok(0) };
        let context = bench::new_context()?;
        let warm = Warmup::new().only(|kernel| kernel == self.bench.stay).late(Late::Allow).warm(&context)?;
        let verdict = self.attempt(case, &context.new_stream()?, &context.new_stream()?)?;
        let waits = warm.report().loads_lazily;
        let is_right = (verdict == Verdict::Waited) == waits;
        let words = if verdict == Verdict::Waited { "waited" } else { "ran" };
        println!("{}: without warming {} {words}", self.name, case.kernel.path());
        Ok(usize::from(!is_right))
    }

    fn warm(&mut self, context: &Arc<CudaContext>, cases: &[&Case]) -> Result<Report, Box<dyn Error>> {
        let begun = Instant::now();
        let is_chosen =
            |kernel: &KernelInfo| kernel == self.bench.stay || cases.iter().any(|case| case.kernel == kernel);
        let warmup = Warmup::new().only(is_chosen).stack_budget(u64::MAX).late(Late::Deny).allow_partial();
        let warm = warmup.warm(context)?;
        self.warming += begun.elapsed();
        self.contexts += 1;
        Ok(warm.report().clone())
    }

    fn not_warm(&mut self, case: &Case, report: &Report) {
        let path = case.kernel.path();
        let failure = report.failures.iter().find(|failure| failure.kernel == path);
        match failure {
            Some(failure) if !(case.parent && is_simulated()) => {
                self.failed += 1;
                println!("FAIL {path}: {}: {failure}", case.traits);
            }
            _ => self.impossible += 1,
        }
    }

    /// Launches a kernel beside the resident kernel.
    fn attempt(
        &self,
        case: &Case,
        resident_stream: &Arc<CudaStream>,
        tested_stream: &Arc<CudaStream>,
    ) -> Result<Verdict, Box<dyn Error>> {
        // The simulated driver does not run kernels that kernels launch.
        let launches = case.parent && !is_simulated();
        // The kernel recurses only if its declaration states the stack. Otherwise the stack may be too small.
        let recurs = case.recursive && case.kernel.stack().is_some();
        let mut really = if launches { LAUNCH } else { 0 } | if recurs { RECUR } else { 0 };
        let (mut done, mut n) = (self.bench.address(Word::Done), N);
        let args = &mut [(&raw mut done).cast(), (&raw mut n).cast(), (&raw mut really).cast()];
        let resident = Resident::start(self.bench, resident_stream)?;
        // SAFETY: the arguments match the kernel's parameters, and the words are never freed.
        unsafe {
            Prepared::untyped(case.kernel, tested_stream.context(), case.config())?
                .launch(tested_stream, args)?
        };
        let verdict = if !resident.sees(Word::Done) {
            Verdict::Waited
        } else if launches && !resident.sees(Word::ChildDone) {
            Verdict::ChildWaited
        } else {
            Verdict::Ran
        };
        resident.release()?;
        tested_stream.synchronize()?;
        let expected = [1, u32::from(launches)];
        let found = [Word::Done, Word::ChildDone].map(|word| self.bench.read(word));
        if found != expected {
            return Err(format!("it set {found:?} and not {expected:?}").into());
        }
        Ok(verdict)
    }

    /// Prints the counts, and returns the number of problems.
    pub(crate) fn finish(self) -> usize {
        let Pass { name, ran, waited, unknown, after, impossible, failed, warming, contexts, .. } = self;
        println!(
            "{name}: {ran} ran, {waited} waited, {unknown} of unknown need waited, {impossible} cannot run here, \
             {failed} failed; {after} launched after one that waited; {contexts} warm-ups in {warming:.1?}"
        );
        waited + failed
    }
}

/// Returns the context's stack limit, in bytes per thread.
fn stack_limit(context: &CudaContext) -> Result<u64, Box<dyn Error>> {
    context.bind_to_thread()?;
    Ok(context.get_limit(sys::CUlimit_enum::CU_LIMIT_STACK_SIZE)? as u64)
}

fn with_case(case: &Case, error: impl Display) -> String {
    format!("{}: {}: {error}", case.kernel.path(), case.traits)
}

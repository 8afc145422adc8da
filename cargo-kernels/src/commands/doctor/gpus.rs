//! Checks the GPUs, and whether each lets kernels run without a time limit.

use kernel_registry_build::OLDEST;

use super::facts::{ComputeMode, Facts, Gpu};
use super::line::Line;

const ABOUT: &str = "gpu";
const STACK: &str = "stack";

pub(super) fn check(facts: &Facts) -> Vec<Line> {
    match facts.started() {
        Some(started) if started.gpus.is_empty() => {
            let remedy = "check whether `nvidia-smi` lists one, and whether `CUDA_VISIBLE_DEVICES` hides it";
            vec![Line::problem(ABOUT, "the driver finds no GPU", remedy)]
        }
        Some(started) => {
            started.gpus.iter().enumerate().flat_map(|(ordinal, gpu)| lines(ordinal, gpu)).collect()
        }
        None => Vec::new(),
    }
}

fn lines(ordinal: usize, gpu: &Gpu) -> Vec<Line> {
    let name = format!("GPU {ordinal}");
    let memory = match &gpu.context {
        Ok(context) => format!("{} of {} GiB free", gib(context.free), gib(gpu.memory)),
        Err(_) => format!("{} GiB", gib(gpu.memory)),
    };
    let mut lines = vec![Line::ok(ABOUT, format!("{name}: {}, sm_{}, {memory}", gpu.name, gpu.arch))];
    lines.extend(context(&name, gpu));
    lines.extend(mode(&name, gpu));
    if gpu.watchdog {
        lines.push(Line::note(
            ABOUT,
            format!("{name}: it draws a screen too, and the driver ends kernels that run for some seconds"),
            "run resident kernels on another GPU, or without a desktop on this one",
        ));
    }
    if gpu.arch < OLDEST {
        let text = format!(
            "{name}: images are built for sm_{OLDEST} and newer by default, and this is sm_{}",
            gpu.arch
        );
        let remedy =
            format!("`Build::ptx(\"compute_{}\")` builds for it, with a toolkit before CUDA 13", gpu.arch);
        lines.push(Line::note(ABOUT, text, remedy));
    }
    lines
}

/// Describes the context: its memory and stack, or the error that kept it from being created.
fn context(name: &str, gpu: &Gpu) -> Vec<Line> {
    let context = match &gpu.context {
        Ok(context) => context,
        Err(refused) => {
            let remedy = match gpu.mode {
                ComputeMode::Prohibited => "set its compute mode to default: `nvidia-smi -c 0`",
                ComputeMode::Exclusive => {
                    "end the process that has it (`nvidia-smi` names it), or share it: `nvidia-smi -c 0`"
                }
                ComputeMode::Shared => "see with `nvidia-smi` what uses it, and whether its memory is full",
            };
            return vec![Line::problem(
                ABOUT,
                format!("{name}: a context cannot be made: {refused}"),
                remedy,
            )];
        }
    };
    let mut lines = Vec::new();
    if context.free < gpu.memory / 10 {
        let text = format!(
            "{name}: less than a tenth of its memory is free, and loading, stacks and priming take some"
        );
        lines.push(Line::note(
            ABOUT,
            text,
            "warm before an allocator takes the memory; `nvidia-smi` names other processes",
        ));
    }
    // The driver reserves stacks for all threads that the device can hold.
    let each = u64::from(gpu.multiprocessors) * u64::from(gpu.threads) * 1024;
    lines.push(Line::ok(
        STACK,
        format!(
            "{name}: {} bytes a thread; each further KiB takes {} MiB of the GPU's memory",
            context.stack,
            each >> 20
        ),
    ));
    lines
}

fn mode(name: &str, gpu: &Gpu) -> Vec<Line> {
    let mut lines = Vec::new();
    if gpu.mode == ComputeMode::Exclusive {
        let text = format!("{name}: exclusive mode: only one process at a time can use it");
        lines.push(Line::note(ABOUT, text, "if others need it too: `nvidia-smi -c 0`"));
    }
    if gpu.mps {
        let text = format!(
            "{name}: shared through MPS: a resident kernel also takes multiprocessors from other processes"
        );
        lines.push(Line::note(ABOUT, text, "count on fewer multiprocessors than the GPU has"));
    }
    lines
}

fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use kernel_registry_command::driver::Refused;

    use super::super::facts::Context;
    use super::super::line::Level;
    use super::*;

    fn with(change: impl FnOnce(&mut Gpu)) -> Vec<Line> {
        let mut facts = Facts::good();
        change(facts.gpu());
        check(&facts)
    }

    /// Returns the only line that is not ok after a change of the GPU.
    fn complaint(change: impl FnOnce(&mut Gpu)) -> Line {
        let mut lines = with(change);
        lines.retain(|line| line.level != Level::Ok);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    #[test]
    fn a_gpu_is_described_with_memory_and_stack() {
        let lines = check(&Facts::good());
        assert_eq!(lines[0], Line::ok(ABOUT, "GPU 0: NVIDIA H200, sm_90, 139.2 of 139.8 GiB free"));
        let stack = "GPU 0: 1024 bytes a thread; each further KiB takes 264 MiB of the GPU's memory";
        assert_eq!(lines[1], Line::ok(STACK, stack));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn every_gpu_has_its_lines() {
        let mut facts = Facts::good();
        let gpus = &mut facts.found().started.as_mut().unwrap().gpus;
        gpus.push(Gpu { watchdog: true, ..Gpu::h200() });
        let lines = check(&facts);
        assert_eq!(lines.iter().filter(|line| line.text.starts_with("GPU 0: ")).count(), 2);
        assert_eq!(lines.iter().filter(|line| line.text.starts_with("GPU 1: ")).count(), 3);
        assert!(lines[4].text.contains("ends kernels"));
        gpus_of(&mut facts).clear();
        assert_eq!(check(&facts)[0].level, Level::Problem);
    }

    fn gpus_of(facts: &mut Facts) -> &mut Vec<Gpu> {
        &mut facts.found().started.as_mut().unwrap().gpus
    }

    #[test]
    fn without_a_driver_there_are_no_lines_about_gpus() {
        let mut facts = Facts::good();
        facts.driver = super::super::facts::Driver::Missing { why: String::new() };
        assert_eq!(check(&facts), []);
    }

    #[test]
    fn an_unusable_gpu_is_a_problem_whose_remedy_depends_on_the_mode() {
        let refused = Refused { call: "cuDevicePrimaryCtxRetain", code: 46, name: "CUDA_ERROR_X".to_owned() };
        let line = complaint(|gpu| (gpu.mode, gpu.context) = (ComputeMode::Prohibited, Err(refused.clone())));
        assert_eq!(line.level, Level::Problem);
        assert!(line.remedy.unwrap().contains("nvidia-smi -c 0"));
        let line = complaint(|gpu| gpu.context = Err(refused));
        assert!(line.remedy.unwrap().contains("memory"));
    }

    #[test]
    fn what_limits_resident_kernels_is_noted() {
        assert!(complaint(|gpu| gpu.mode = ComputeMode::Exclusive).text.contains("exclusive"));
        assert!(complaint(|gpu| gpu.mps = true).text.contains("MPS"));
        assert!(complaint(|gpu| gpu.arch = 61).remedy.unwrap().contains("compute_61"));
        let full = Context { free: 1 << 30, stack: 1024 };
        assert!(complaint(|gpu| gpu.context = Ok(full)).text.contains("tenth"));
    }
}

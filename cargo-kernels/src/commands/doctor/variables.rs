//! Checks environment variables that change the driver's behaviour. `loading` checks `CUDA_MODULE_LOADING`.

use super::facts::Facts;
use super::line::Line;

const ABOUT: &str = "variable";

/// The smallest cache of compiled PTX, in bytes, that is not noted as too small.
const SMALL_CACHE: u64 = 64 << 20;

pub(super) fn check(facts: &Facts) -> Vec<Line> {
    let lines: Vec<Line> = facts.variables.iter().filter_map(|(name, value)| line(name, value)).collect();
    if lines.is_empty() { vec![Line::ok(ABOUT, "none that changes what the driver does")] } else { lines }
}

/// Variables that are switches: the name, the effect of a switch that is on, and remedies besides unsetting it.
const SWITCHES: [(&str, &str, &str); 11] = [
    (
        "CUDA_CACHE_DISABLE",
        "PTX is compiled again in each process, which can take seconds",
        ", or build images with machine code for this GPU",
    ),
    ("CUDA_FORCE_PTX_JIT", FORCED, ""),
    ("CUDA_FORCE_JIT", FORCED, ""),
    ("CUDA_DISABLE_PTX_JIT", DISABLED, ""),
    ("CUDA_DISABLE_JIT", DISABLED, ""),
    (
        "CUDA_BINARY_LOADER_THREAD_COUNT",
        "did not make loading faster when measured; a warm-up compiles PTX in its own threads",
        "; `Warmup::threads` sets how many",
    ),
    ("CUDA_SCALE_LAUNCH_QUEUES", "changes how many launches a stream holds before the next one waits", ""),
    (
        "CUDA_DEVICE_WAITS_ON_EXCEPTION",
        "a kernel that fails remains on the GPU for a debugger, and calls that wait for it never return",
        "",
    ),
    (
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "this process gets a part of each GPU: fewer blocks are resident than the GPU's properties promise",
        "",
    ),
    ("CUDA_INJECTION64_PATH", INJECTED, ""),
    ("CUDA_INJECTION32_PATH", INJECTED, ""),
];
const FORCED: &str =
    "machine code in images is not used: PTX is compiled, and images without PTX are refused";
const DISABLED: &str = "PTX is not compiled: images without machine code for this GPU are refused";
const INJECTED: &str =
    "a tool is loaded into each program that uses CUDA; profilers can run kernels one by one";

/// Returns the line for a variable, if the variable changes the driver's behaviour.
fn line(name: &str, value: &str) -> Option<Line> {
    let is = format!("`{name}={value}`");
    let unset = format!("unset `{name}`");
    let note = |what: &str, more: &str| Line::note(ABOUT, format!("{is}: {what}"), format!("{unset}{more}"));
    let problem =
        |what: &str, more: &str| Line::problem(ABOUT, format!("{is}: {what}"), format!("{unset}{more}"));
    let on = !matches!(value, "" | "0");
    Some(match name {
        "CUDA_LAUNCH_BLOCKING" if on => {
            problem("each launch waits for its kernel, so a resident kernel stops its program", "")
        }
        "CUDA_DEVICE_MAX_CONNECTIONS" => match value.parse::<u32>() {
            Ok(count @ 1..8) => note(
                &format!(
                    "streams share {count} of the GPU's queues, where the default is 8: work can wait behind \
                     another stream's resident kernel"
                ),
                ", or set it to the number of streams, at most 32",
            ),
            Ok(8..=32) => Line::ok(ABOUT, is),
            _ => note("not a number from 1 to 32", ""),
        },
        "CUDA_VISIBLE_DEVICES" => match value.split(',').next().map(str::trim) {
            None | Some("" | "-1") => {
                problem("hides every GPU", &format!(", or name GPUs, as in `{name}=0`"))
            }
            Some(_) => Line::ok(ABOUT, format!("{is}: only these GPUs are seen, counted from 0")),
        },
        "CUDA_MODULE_DATA_LOADING" if value.eq_ignore_ascii_case("EAGER") => note(
            "the data of an image is loaded with it, and not with its first kernel",
            ": a warm-up loads the kernels, and so the data",
        ),
        "CUDA_CACHE_MAXSIZE" => match value.parse::<u64>() {
            Ok(size) if size >= SMALL_CACHE => {
                Line::ok(ABOUT, format!("{is}: bytes of compiled PTX that are kept"))
            }
            Ok(_) => note("the cache is too small to keep compiled PTX for long", ""),
            Err(_) => note("not a number of bytes", ""),
        },
        _ => {
            let (_, what, more) = SWITCHES.iter().find(|(switch, ..)| *switch == name && on)?;
            note(what, more)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Vec<Line> {
        let mut facts = Facts::good();
        facts.variables =
            variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        check(&facts)
    }

    fn level(name: &str, value: &str) -> Level {
        let lines = with(&[(name, value)]);
        assert_eq!(lines.len(), 1);
        lines[0].level
    }

    #[test]
    fn variables_without_effect_are_ignored() {
        let none = [Line::ok(ABOUT, "none that changes what the driver does")];
        assert_eq!(with(&[]), none);
        assert_eq!(
            with(&[("CUDA_HOME", "/cuda"), ("CUDA_LAUNCH_BLOCKING", "0"), ("CUDA_CACHE_DISABLE", "")]),
            none
        );
    }

    #[test]
    fn blocking_launches_are_a_problem() {
        assert_eq!(level("CUDA_LAUNCH_BLOCKING", "1"), Level::Problem);
    }

    #[test]
    fn hidden_gpus_are_a_problem_and_chosen_ones_are_not() {
        for hidden in ["", "-1", " -1 ", "-1,0"] {
            assert_eq!(level("CUDA_VISIBLE_DEVICES", hidden), Level::Problem, "{hidden:?}");
        }
        for seen in ["0", "1,0", "0,-1", "GPU-8932f937"] {
            assert_eq!(level("CUDA_VISIBLE_DEVICES", seen), Level::Ok, "{seen:?}");
        }
    }

    #[test]
    fn numbers_are_compared_with_their_limits() {
        let connections = |value| level("CUDA_DEVICE_MAX_CONNECTIONS", value);
        assert_eq!(["1", "7"].map(connections), [Level::Note; 2]);
        assert_eq!(["8", "32"].map(connections), [Level::Ok; 2]);
        assert_eq!(["0", "33", "many", ""].map(connections), [Level::Note; 4]);
        let size = |value| level("CUDA_CACHE_MAXSIZE", value);
        assert_eq!(["0", "1048576", "1G"].map(size), [Level::Note; 3]);
        assert_eq!(size("1073741824"), Level::Ok);
    }

    #[test]
    fn other_effects_are_notes_that_name_variable_and_value() {
        let switches = SWITCHES.map(|(name, ..)| name);
        assert_eq!(level("CUDA_MODULE_DATA_LOADING", "eager"), Level::Note);
        let lines = with(&switches.map(|name| (name, "1")));
        assert_eq!(lines.len(), switches.len());
        for line in lines {
            assert_eq!(line.level, Level::Note);
            assert!(
                switches.iter().any(|name| line.text.starts_with(&format!("`{name}=1`: "))),
                "{}",
                line.text
            );
        }
    }
}

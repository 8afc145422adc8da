//! Parses compiler output: warnings as lines for cargo, and the causes of known failures.

/// Returns the lines of warnings, each warning once, because nvcc repeats them for every architecture.
pub(crate) fn warnings(text: &str) -> Vec<String> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        // The hint on how to suppress warnings isn't a warning.
        let skipped = line.is_empty() || line.starts_with("Remark: The warnings can be suppressed");
        match blocks.last_mut() {
            _ if skipped => {}
            Some(block) if continues(line) => block.push(line),
            _ => blocks.push(vec![line]),
        }
    }
    let mut seen: Vec<&Vec<&str>> = Vec::new();
    for block in &blocks {
        if !seen.contains(&block) {
            seen.push(block);
        }
    }
    seen.into_iter().flatten().map(|&line| line.to_owned()).collect()
}

/// Returns whether a line continues the message above it. Source lines, carets and notes are indented.
fn continues(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// Returns the header that NVRTC didn't find, if that was the error.
pub(crate) fn missing_header(log: &str) -> Option<String> {
    // NVRTC writes "could not" if it has no folders to search, and "cannot" if it has some.
    let (_, rest) = log.split_once("not open source file \"")?;
    rest.split_once('"').map(|(header, _)| header.to_owned())
}

/// Returns the line that complains about an unknown architecture.
pub(crate) fn unknown_arch(text: &str) -> Option<String> {
    let says = |line: &&str| {
        line.contains("Unsupported gpu architecture")
            || line.contains("invalid value for --gpu-architecture")
            || (line.contains("gpu-architecture") && line.contains("is not defined for option"))
    };
    let line = text.lines().find(says)?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the first line if the host has no C++ compiler.
pub(crate) fn no_host_compiler(text: &str) -> Option<String> {
    let fails = text.contains("Failed to preprocess host compiler properties")
        || text.contains("Cannot find compiler");
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    fails.then(|| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSED: &str =
        "cuda/warns.cu(2): warning #177-D: variable \"unused\" was declared but never referenced
      int unused = 3;
          ^
";

    #[test]
    fn a_warning_comes_once_for_all_architectures() {
        let remark = "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"";
        let other = "cuda/warns.cu(3): warning #186-D: pointless comparison of unsigned integer with zero\n";
        let text = format!("{UNUSED}\n{remark}\n\n{other}\n{UNUSED}\n{other}");
        let expected: Vec<&str> = UNUSED.lines().chain([other.trim_end()]).collect();
        assert_eq!(warnings(&text), expected);
    }

    #[test]
    fn what_gcc_and_ptxas_say_is_kept() {
        let text = "a.cu:1:2: warning: #warning \"hm\" [-Wcpp]\n    1 | #warning \"hm\"\n      |  ^~~~~~~\nptxas warning : x\r\n";
        assert_eq!(warnings(text).len(), 4);
        assert_eq!(warnings(text)[3], "ptxas warning : x");
        assert!(warnings("\n\n").is_empty());
    }

    #[test]
    fn known_failures_are_told_from_others() {
        let log =
            "cuda/nohdr.cu(1): catastrophic error: could not open source file \"nope.h\" (no directories)";
        assert_eq!(missing_header(log), Some("nope.h".into()));
        let log = "cuda/nohdr.cu(1): catastrophic error: cannot open source file \"vector\"";
        assert_eq!(missing_header(log), Some("vector".into()));
        assert_eq!(
            unknown_arch("nvcc fatal   : Unsupported gpu architecture 'sm_42'"),
            Some("nvcc fatal : Unsupported gpu architecture 'sm_42'".into())
        );
        assert!(unknown_arch("nvrtc: error: invalid value for --gpu-architecture (-arch)").is_some());
        let gcc =
            "gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.";
        assert_eq!(no_host_compiler(gcc), Some("gcc: No such file or directory".into()));
        assert_eq!(no_host_compiler("a.cu(1): error: x"), None);
    }
}

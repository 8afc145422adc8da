//! Finds initializations in the audit's hooks that would hang a forked child. `Once` and `OnceLock` stay locked in a child that is forked
//! while another thread initializes them, so the hooks do that in `fork::undivided` only.

use std::fs;
use std::path::Path;

use crate::prose::rust_files;
use crate::run::Outcome;

/// The file that wraps both.
const WRAPPER: &str = "process/fork.rs";

/// Fails if the hooks initialize something that a fork can interrupt.
pub(crate) fn check_hooks(root: &Path) -> Outcome {
    let mut problems = Vec::new();
    for file in rust_files(&root.join("kernel-audit-hooks/src"))? {
        let text = fs::read_to_string(&file)?;
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().zip(1..).filter(|(line, _)| {
            [".call_once(", ".get_or_init("].iter().any(|call| line.contains(call))
                && !line.contains("undivided(")
        });
        for (_, line) in lines.filter(|_| !file.ends_with(WRAPPER)) {
            problems.push(format!(
                "{}:{line} a fork can interrupt this, which hangs the child: use `fork::once` or `fork::call_once`",
                file.display()
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initialization_that_a_fork_can_interrupt_fails_the_check() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("kernel-audit-hooks/src/process");
        fs::create_dir_all(&folder).unwrap();
        let good = "fn f() {\n    undivided(|| *A.get_or_init(g));\n}\n#[cfg(test)]\nmod tests { fn t() { A.get_or_init(g); } }\n";
        fs::write(folder.join("a.rs"), good).unwrap();
        fs::write(folder.join("fork.rs"), "fn f() { A.call_once(g); }").unwrap();
        assert!(check_hooks(root.path()).is_ok());
        fs::write(folder.join("b.rs"), "fn f() {\n    ONCE.call_once(|| g());\n}").unwrap();
        let said = check_hooks(root.path()).unwrap_err().to_string();
        assert!(said.contains("b.rs:2 a fork can interrupt this"), "{said}");
    }

    #[test]
    fn the_hooks_initialize_nothing_that_a_fork_can_interrupt() {
        check_hooks(&crate::run::workspace()).unwrap_or_else(|error| panic!("{error}"));
    }
}

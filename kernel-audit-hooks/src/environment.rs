//! Reads variables of the environment. A process with more rights than its user (a set-user-ID program, or one with
//! capabilities) obeys none of them, because that user chose them: they would name libraries to load and files to
//! write. A variable that the environment lacks can be in the library in front of the driver.

use std::env;
use std::ffi::OsString;

use crate::variables;

/// Returns a variable, if the process may obey it.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    // SAFETY: the call only reads what the kernel passed to the process.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    obeyed(name, is_privileged)
}

fn obeyed(name: &str, is_privileged: bool) -> Option<OsString> {
    env::var_os(name).or_else(|| in_front(name)).filter(|_| !is_privileged)
}

/// Finds a variable in the library that `kernel-audit` put in front of the driver.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_front(name: &str) -> Option<OsString> {
    use std::sync::OnceLock;

    use crate::watch::{loader::symbols, process::fork};

    static CONSTANT: OnceLock<Vec<u8>> = OnceLock::new();
    let find = || symbols::bytes_of(variables::CONSTANT.as_bytes()).unwrap_or_default();
    variables::find(fork::once(&CONSTANT, find).as_slice(), name).map(OsString::from)
}

/// Returns `None`, because other operating systems have no hooks.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_front(_: &str) -> Option<OsString> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::{fs, path};

    use super::*;
    use crate::Audit;

    #[test]
    fn a_privileged_process_obeys_no_variable() {
        assert_eq!(obeyed("PATH", true), None);
        assert_eq!(obeyed("PATH", false), env::var_os("PATH"));
    }

    /// Only root can make a program that runs with the rights of another user.
    #[test]
    fn a_program_that_runs_with_the_rights_of_its_owner_obeys_no_variable() {
        const SHOWS: &str = "environment::tests::shows_what_the_environment_chose";
        // SAFETY: the call only reads.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let folder = env::temp_dir().join(format!("kernel-audit-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.join("program");
        fs::copy(env::current_exe().unwrap(), &program).unwrap();
        let chosen_by_nobody = |mode| {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            let mut command = Command::new(path::absolute(&program).unwrap());
            command.args(["--exact", SHOWS, "--nocapture", "--include-ignored"]).current_dir(&folder);
            command.env(variables::DRIVER, "/chosen/driver").env(variables::RECORDS, "/chosen/records");
            let output = command.uid(65_534).gid(65_534).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().matches("/chosen/").count()
        };
        assert_eq!(chosen_by_nobody(0o755), 2);
        assert_eq!(chosen_by_nobody(0o4755), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[ignore = "the test above runs it, as another user"]
    fn shows_what_the_environment_chose() {
        let Audit { driver, records, .. } = Audit::new().or_environment();
        println!("{driver:?} {records:?}");
    }
}

//! Names the variables of the environment by which `kernel-audit` configures the hooks in the program and its children.
//! A privileged process, such as a set-user-ID program, obeys none of them. Test runners and services pass few
//! variables to their programs, so the library in front of the driver has all of these variables, too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The path of the driver behind the hooks.
pub const DRIVER: &str = "KERNEL_REGISTRY_AUDIT_DRIVER";

/// The folder for the records.
pub const RECORDS: &str = "KERNEL_REGISTRY_AUDIT_RECORDS";

/// A word in the file names of records. It tells apart the runs that write to one folder.
pub const RUN: &str = "KERNEL_REGISTRY_AUDIT_RUN";

/// The treatment of calls that are late after the program is ready: `report`, `refuse` or `abort`.
pub const AFTER_READY: &str = "KERNEL_REGISTRY_AUDIT_AFTER_READY";

/// The seconds after which the program counts as ready.
pub const READY_AFTER: &str = "KERNEL_REGISTRY_AUDIT_READY_AFTER";

/// A file: processes that run when it appears are ready.
pub const READY_FILE: &str = "KERNEL_REGISTRY_AUDIT_READY_FILE";

/// When the command started the program, in seconds since 1970. A process that starts once the file [`READY_FILE`] exists is ready after
/// the time that passed between the start and the file.
pub const BEGAN: &str = "KERNEL_REGISTRY_AUDIT_BEGAN";

/// How many events a record has room for. 65536 by default.
pub const EVENTS: &str = "KERNEL_REGISTRY_AUDIT_EVENTS";

/// The seconds after which a call counts as hanging. 5 by default.
pub const HANG_AFTER: &str = "KERNEL_REGISTRY_AUDIT_HANG_AFTER";

/// The reaction to a call that hangs: `report` or `abort`.
pub const ON_HANG: &str = "KERNEL_REGISTRY_AUDIT_ON_HANG";

/// The number of the command's process, a space, and the namespace of the number. Once a call hangs, the hooks let this process and its children
/// debug the program (`PR_SET_PTRACER`).
pub const DEBUGGER: &str = "KERNEL_REGISTRY_AUDIT_DEBUGGER";

/// The command's standard output and standard error output, each as the numbers of its device and its inode.
pub const OUTPUTS: &str = "KERNEL_REGISTRY_AUDIT_OUTPUTS";

/// The address for messages that a process cannot write to such an output: the name of an abstract socket, and a word
/// with which each message begins. [`SAID`], [`NO_RECORD`] or [`HANGS`] follows the word.
pub const MESSAGES: &str = "KERNEL_REGISTRY_AUDIT_MESSAGES";

/// Marks a message for people.
pub const SAID: &str = "+";

/// Marks a message that says why a process has no record.
pub const NO_RECORD: &str = "-";

/// Marks a message on a call that hangs. The number of the process, the time in its record at which the call began, and words for people
/// follow.
pub const HANGS: &str = "!";

/// The milliseconds from which a call is recorded as slow, if it is no other kind of event. 10 by default.
pub const SLOW_MS: &str = "KERNEL_REGISTRY_AUDIT_SLOW_MS";

/// The file that names what to preload.
pub const PRELOAD: &str = "KERNEL_REGISTRY_AUDIT_PRELOAD";

/// When the preload is loaded: `context` or `call`.
pub const PRELOAD_AT: &str = "KERNEL_REGISTRY_AUDIT_PRELOAD_AT";

/// The folder for copies of images that are in no file.
pub const IMAGES: &str = "KERNEL_REGISTRY_AUDIT_IMAGES";

/// The seconds from ready on, or from a mark of the program on, of which the record says where they went.
pub const FIRST: &str = "KERNEL_REGISTRY_AUDIT_FIRST";

/// Set if late loads are not logged while the program runs.
pub const QUIET: &str = "KERNEL_REGISTRY_AUDIT_QUIET";

/// The name of a constant in the library in front of the driver. The constant holds the variables that a program's
/// environment may lack.
pub const CONSTANT: &str = "kernel_registry_audit_variables";

/// The prefix of all names.
const PREFIX: &[u8] = b"KERNEL_REGISTRY_AUDIT_";

/// Returns the bytes of [`CONSTANT`] for the variables of a program: name, `=`, value and a zero for each.
pub fn constant<'a>(all: impl IntoIterator<Item = (&'a OsStr, Option<&'a OsStr>)>) -> Vec<u8> {
    let own = all.into_iter().filter(|(name, _)| name.as_bytes().starts_with(PREFIX));
    let lines =
        own.filter_map(|(name, value)| Some([name.as_bytes(), b"=", value?.as_bytes(), b"\0"].concat()));
    lines.flatten().collect()
}

/// Finds a variable in the bytes of [`CONSTANT`].
#[doc(hidden)]
pub fn find<'a>(constant: &'a [u8], name: &str) -> Option<&'a OsStr> {
    let value = |line: &'a [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    constant.split(|byte| *byte == 0).find_map(value).map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_finds_what_its_environment_lacks() {
        let own = |value| (OsStr::new(RECORDS), value);
        let constant =
            constant([("PATH".as_ref(), Some("/bin".as_ref())), own(Some("/a=b".as_ref())), own(None)]);
        assert_eq!(find(&constant, RECORDS), Some("/a=b".as_ref()));
        assert_eq!(find(&constant, DRIVER), None);
        assert_eq!(find(&constant, "PATH"), None);
        assert_eq!(find(&[], RECORDS), None);
    }
}

//! Creates the folder in which the loader finds the stub. Processes of the program can outlive this command, with the
//! folder's name in `LD_LIBRARY_PATH`: a user who could create a folder of that name could run code in them. So the
//! folder is inside one that only this user can write to, and that remains.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kernel_registry_command::folder;
use kernel_registry_command::libraries;

use crate::command::failure::Failure;
use crate::command::file_system::may_execute;
use crate::command::trust::{own_folder, temporary, user};
use crate::kept::Digest;

/// The name of the parent folder, which remains.
const NAME: &str = "kernel-registry-front";

/// The prefix of folders that remain, too. A digest of the library in it follows.
const REMAINS: &str = "loader-";

/// The file in them.
const AUDITOR: &str = "libkernel_registry_auditor.so";

/// The prefix of a folder that its command has yet to lock.
const NEW: &str = ".new-";

/// The link to the folder for records.
const RECORDS: &str = "records";

/// The folder of one command. It is removed when the command ends.
pub(crate) struct Front {
    folder: PathBuf,
    /// The lock of the folder, held as long as the command runs.
    _lock: File,
}

impl Front {
    /// Creates the folder in the first parent folder that can be used.
    pub(crate) fn new() -> Result<Self, Failure> {
        in_first_parent("the name of a folder in `LD_LIBRARY_PATH`", Front::inside)
    }

    fn inside(parent: &Path) -> Result<Self, String> {
        let in_words = |error: io::Error| error.to_string();
        // Several machines can share a network folder without knowing each other's locks, so each folder's name begins
        // with its machine's.
        let prefix = host().replace(|c: char| !c.is_ascii_alphanumeric(), "") + "-";
        remove_left(parent, &prefix);
        let folder = temporary().prefix(NEW).rand_bytes(12).tempdir_in(parent).map_err(in_words)?;
        let lock = File::open(&folder).map_err(in_words)?;
        // An error does not matter: where nothing can be locked, nothing is removed either.
        let _ = lock.try_lock();
        // Other commands remove folders with the prefix that nobody has locked.
        let name = folder.path().file_name().unwrap_or_default().to_string_lossy().replacen(NEW, &prefix, 1);
        let path = parent.join(name);
        fs::rename(&folder, &path).map_err(in_words)?;
        let _ = folder.keep();
        Ok(Front { folder: path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns a word that no other command has, the end of the folder's name.
    pub(crate) fn run(&self) -> String {
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        name.rsplit('-').next().unwrap_or_default().to_owned()
    }

    /// Writes the stub into the folder.
    pub(crate) fn put(&self, stub: &[u8]) -> Result<(), Failure> {
        Ok(folder::put(self.path(), stub)?)
    }

    /// Writes the part in the loader, which loads these hooks where a process maps NVRTC. Returns the value of `LD_AUDIT`.
    ///
    /// The loader complains in each program for which the file is missing, and programs can outlive this command, so the
    /// file remains. It's in the user's own folders if there are any, though processes of other users can't read it there
    /// and get the loader's line: in a folder of all, such as `/var/tmp`, another user could take the place of a folder that
    /// a cleaner has removed.
    pub(crate) fn put_auditor(&self, auditor: &Path, hooks: &Path) -> Result<OsString, Failure> {
        let mut bytes = fs::read(auditor).map_err(Failure::of_io(auditor))?;
        kernel_audit_rtld::set_hooks(&mut bytes, hooks.as_os_str().as_bytes())
            .ok_or_else(|| Failure::of_io(auditor)(ErrorKind::InvalidData.into()))?;
        let name = format!("{REMAINS}{}", Digest::new(&bytes));
        let put = in_first_parent("the name of a library in `LD_AUDIT`", |parent| {
            put_remaining(parent, &name, &bytes)
        });
        // In a container, the only folders that take files may let no code run.
        let path = put.or_else(|why| packed(auditor, hooks).ok_or(why))?;
        let mut libraries = env::var_os("LD_AUDIT").unwrap_or_default();
        if !libraries.is_empty() {
            libraries.push(":");
        }
        libraries.push(path);
        Ok(libraries)
    }

    /// Returns the value of `GLIBC_TUNABLES` with which libraries have as much room for thread-local variables as without an
    /// auditor. With one, glibc lays the variables out before it knows of the program's libraries. More room would take too
    /// much of small stacks.
    pub(crate) fn tunables() -> OsString {
        let mut tunables = OsString::from("glibc.rtld.optional_static_tls=4096");
        // Those of the user come last, and win.
        if let Some(own) = env::var_os("GLIBC_TUNABLES").filter(|own| !own.is_empty()) {
            tunables.push(":");
            tunables.push(own);
        }
        tunables
    }

    /// Creates a link in the folder, which no other user can replace, and returns its path.
    pub(crate) fn link(&self, to: &Path) -> Result<PathBuf, Failure> {
        let link = self.path().join(RECORDS);
        symlink(to, &link).map_err(Failure::not_written(&link))?;
        Ok(link)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes something in the first parent folder where that's possible. A separator in its path would end `what`.
fn in_first_parent<T>(what: &str, make: impl Fn(&Path) -> Result<T, String>) -> Result<T, Failure> {
    let mut refused = Vec::new();
    for parent in parents() {
        let made = own_folder(&parent).and_then(|parent| match libraries::separator(&parent) {
            Some(separator) => Err(format!("`{separator}` ends {what}")),
            None => make(&parent),
        });
        match made {
            Ok(made) => return Ok(made),
            Err(why) => refused.push(format!("`{}`: {why}", parent.display())),
        }
    }
    Err(Failure::NoFront { refused: refused.join("; ") })
}

/// Returns the name of this machine.
pub(super) fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
}

/// Writes the part in the loader to a folder that remains. Returns its path, or why it can't be there.
fn put_remaining(parent: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let in_words = |error: io::Error| error.to_string();
    if !may_execute(parent).map_err(in_words)? {
        return Err("no program can be executed there (`noexec`)".to_owned());
    }
    let folder = own_folder(&parent.join(name))?;
    let file = folder.join(AUDITOR);
    kernel_registry_command::write(&file, bytes).map_err(|error| error.to_string())?;
    for (path, mode) in [(&*file, 0o644), (&*folder, 0o755), (parent, 0o755)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(in_words)?;
    }
    Ok(file)
}

/// Returns the path of a packed auditor, which finds the hooks in its own folder.
fn packed(auditor: &Path, hooks: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(auditor).ok()?;
    let is_beside = fs::canonicalize(hooks).is_ok_and(|hooks| hooks.parent() == path.parent());
    (is_beside && libraries::separator(&path).is_none() && may_execute(path.parent()?).ok()?).then_some(path)
}

/// Removes the folders that killed commands have left, and their records: a container that is killed again and again
/// would fill its small temporary folder.
fn remove_left(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with(prefix)
            && !name.starts_with(REMAINS)
            && File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok())
        {
            let records = fs::read_link(path.join(RECORDS));
            // Another user can have taken the name of a folder that a cleaner has removed.
            let is_own = |folder: &PathBuf| fs::symlink_metadata(folder).is_ok_and(|its| its.uid() == user());
            if let Some(records) = records.ok().filter(is_own) {
                let _ = fs::remove_dir_all(records);
            }
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Returns folders of the user that outlive this command. Services often have no home folder, or cannot write there.
fn parents() -> impl Iterator<Item = PathBuf> {
    let folder = |name| {
        let folders = env::var_os(name)?;
        // A service can have several folders in one variable.
        env::split_paths(&folders).next().filter(|path| path.is_absolute())
    };
    let home = folder("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache"));
    let named = [folder("XDG_CACHE_HOME"), home, folder("CACHE_DIRECTORY"), folder("XDG_RUNTIME_DIR")];
    let of_all = [PathBuf::from("/var/tmp"), env::temp_dir()];
    let named = named.into_iter().flatten().map(|parent| parent.join(NAME));
    named.chain(of_all.map(|parent| parent.join(format!("{NAME}-{}", user()))))
}

//! Creates the folder in which the loader finds the stub. Processes of the program can outlive this command, with the
//! folder's name in `LD_LIBRARY_PATH`: a user who could create a folder of that name could run code in them. So the
//! folder is inside one that only this user can write to, and that remains.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_registry_command::folder;
use kernel_registry_command::libraries;
use kernel_registry_cuda::{Jumps, SharedObject};
use tempfile::{Builder, TempDir};

use crate::command::failure::Failure;
use crate::command::program::trust::{own_folder, user};
use crate::kept::Digest;
use crate::variables::{NVRTC_FUNCTIONS, NVRTC_LIBRARY, NVRTC_TABLE};

/// The name of the parent folder, which remains.
const NAME: &str = "kernel-registry-front";

/// The prefix of folders that remain, too. A digest of the library in it follows.
const REMAINS: &str = "nvrtc-";

/// The age below which a folder remains, because its command may not have locked it yet.
const YOUNG: Duration = Duration::from_secs(3600);

/// The folder of one command. It is removed when the command ends.
pub(crate) struct Front {
    folder: TempDir,
    /// The lock of the folder, held as long as the command runs.
    _lock: File,
}

impl Front {
    /// Creates the folder in the first parent folder that can be used.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut refused = Vec::new();
        for parent in parents() {
            match Front::inside(&parent) {
                Ok(front) => return Ok(front),
                Err(why) => refused.push(format!("`{}`: {why}", parent.display())),
            }
        }
        Err(Failure::NoFront { refused: refused.join("; ") })
    }

    fn inside(parent: &Path) -> Result<Self, String> {
        let in_words = |error: std::io::Error| error.to_string();
        let parent = own_folder(parent)?;
        if let Some(separator) = libraries::separator(&parent) {
            return Err(format!("`{separator}` ends the name of a folder in `LD_LIBRARY_PATH`"));
        }
        if parent.to_string_lossy().contains(char::is_whitespace) {
            return Err("a space ends the name of a library in `LD_PRELOAD`".to_owned());
        }
        // Several machines can share a network folder without knowing each other's locks, so each folder's name begins
        // with its machine's.
        let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let prefix = machine.replace(|c: char| !c.is_ascii_alphanumeric(), "") + "-";
        remove_left(&parent, &prefix);
        let folder = Builder::new().prefix(&prefix).rand_bytes(12).tempdir_in(&parent).map_err(in_words)?;
        let lock = File::open(&folder).map_err(in_words)?;
        // An error does not matter: where nothing can be locked, nothing is removed either.
        let _ = lock.try_lock();
        Ok(Front { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
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

    /// Adds the library that finds NVRTC's functions in the hooks, to a folder that remains: the loader complains in each program where it is missing,
    /// and programs can outlive this command. Returns the value of `LD_PRELOAD` that puts it before all others: behind those that are named there
    /// already, because some of these must be the first.
    pub(crate) fn put_before_all(&self, needed: &[&str]) -> Result<OsString, Failure> {
        let jumps = Some(Jumps { table: NVRTC_TABLE, functions: &NVRTC_FUNCTIONS });
        let object = SharedObject { name: NVRTC_LIBRARY, needed, jumps, ..SharedObject::default() };
        let bytes = object.bytes();
        let parent = self.path().parent().unwrap_or(self.path());
        let folder = parent.join(format!("{REMAINS}{}", Digest::new(&bytes)));
        let refused = |why| Failure::NoFront { refused: format!("`{}`: {why}", folder.display()) };
        let path = own_folder(&folder).map_err(refused)?.join(NVRTC_LIBRARY);
        kernel_registry_command::write(&path, &bytes)?;
        let mut libraries = env::var_os("LD_PRELOAD").unwrap_or_default();
        if !libraries.is_empty() {
            libraries.push(":");
        }
        libraries.push(path);
        Ok(libraries)
    }

    /// Returns the value of `ASAN_OPTIONS` with which a program runs behind such a library: a shared AddressSanitizer wants to be the first in
    /// `LD_PRELOAD`, though it works behind a library that has none of its functions.
    pub(crate) fn asan_options() -> OsString {
        let mut options = env::var_os("ASAN_OPTIONS").unwrap_or_default();
        if !options.is_empty() {
            options.push(":");
        }
        options.push("verify_asan_link_order=0");
        options
    }

    /// Creates a link in the folder, which no other user can replace, and returns its path.
    pub(crate) fn link(&self, to: &Path) -> Result<PathBuf, Failure> {
        let link = self.path().join("records");
        symlink(to, &link).map_err(Failure::not_written(&link))?;
        Ok(link)
    }
}

/// Removes the folders that killed commands have left.
fn remove_left(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|its| its.modified()).ok().and_then(|at| at.elapsed().ok());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(prefix)
            && !name.starts_with(REMAINS)
            && age.is_some_and(|age| age > YOUNG)
            && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok())
        {
            let _ = fs::remove_dir_all(entry.path());
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

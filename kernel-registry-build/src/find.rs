//! Searches for compilers: nvcc, and the NVRTC library with its headers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, iter};

use crate::environment::{Environment, PYTHON};

/// Where distributions and NVIDIA's installer put the toolkit.
const STANDARD: &str = "/usr/local/cuda";

/// Finds a program of the CUDA toolkit, such as `ptxas`: in `CUDA_HOME`, `CUDA_PATH`, `PATH`,
/// `/usr/local/cuda`, or the active Python environment.
pub fn toolkit_program(name: &str) -> Option<PathBuf> {
    candidates(&Environment::default(), name).into_iter().find(|path| path.is_file())
}

/// Finds a library of the CUDA toolkit, such as `libnvJitLink.so`: in the same folders, the newest version in
/// the first folder that has one.
pub fn toolkit_library(name: &str) -> Option<PathBuf> {
    library_folders(&Environment::default()).iter().find_map(|folder| named(folder, name).pop())
}

/// Returns the candidates for nvcc, the preferred ones first.
pub(crate) fn nvcc_candidates(environment: &Environment) -> Vec<PathBuf> {
    candidates(environment, NVCC)
}

/// Returns the possible paths of a toolkit program, the preferred ones first.
fn candidates(environment: &Environment, program: &str) -> Vec<PathBuf> {
    let in_bin = |root: PathBuf| root.join("bin").join(program);
    let mut candidates: Vec<PathBuf> = named_toolkits(environment).map(in_bin).collect();
    candidates.extend(on_path(environment, program));
    candidates.push(in_bin(PathBuf::from(STANDARD)));
    candidates.extend(python(environment).into_iter().map(in_bin));
    candidates
}

const NVCC: &str = if cfg!(windows) { "nvcc.exe" } else { "nvcc" };

/// Returns the possible paths of a program in the folders of `PATH`.
fn on_path(environment: &Environment, program: &str) -> Vec<PathBuf> {
    let path = environment.get("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).collect()
}

/// Returns the path to start nvcc by.
pub(crate) fn nvcc(environment: &Environment) -> Option<PathBuf> {
    let found = nvcc_candidates(environment).into_iter().find(|path| path.is_file())?;
    // nvcc looks for its own files next to the path that it was started by, so links are followed. A link to
    // another executable, such as ccache, has to be started by the link's name.
    match fs::canonicalize(&found) {
        Ok(path) if path.file_name() == found.file_name() => Some(path),
        _ => Some(found),
    }
}

/// Returns the folders that can hold libraries such as NVRTC, in search order.
pub(crate) fn library_folders(environment: &Environment) -> Vec<PathBuf> {
    let toolkit_root = |program: PathBuf| Some(program.parent()?.parent()?.to_owned());
    let of_nvcc = on_path(environment, NVCC)
        .into_iter()
        .find(|program| program.is_file())
        .and_then(|program| fs::canonicalize(program).ok())
        .and_then(toolkit_root);
    let toolkits = named_toolkits(environment).chain(of_nvcc).chain([PathBuf::from(STANDARD)]);
    toolkits.chain(python(environment)).flat_map(|root| libraries(&root)).collect()
}

/// Returns the newest NVRTC library in a folder.
pub(crate) fn nvrtc_in(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = named(folder, "libnvrtc.so");
    if found.is_empty() {
        found = named(folder, "nvrtc64_");
        found.retain(|path| path.extension().is_some_and(|extension| extension == "dll"));
    }
    // `alt` is an alternative build of the same compiler.
    found.retain(|path| path.file_stem().is_some_and(|name| !name.to_string_lossy().contains(".alt")));
    found.pop()
}

/// Returns the NVRTC library at a path: a folder with libraries, a toolkit, or a folder that
/// `pip install --target` made.
pub(crate) fn nvrtc_at(place: &Path) -> Option<PathBuf> {
    let wheels = named(&place.join("nvidia"), "cu");
    let below = iter::once(place.to_owned()).chain(wheels).flat_map(|root| libraries(&root));
    iter::once(place.to_owned()).chain(below).find_map(|folder| nvrtc_in(&folder))
}

/// Returns NVRTC's library of built-in headers.
pub(crate) fn builtins_of(nvrtc: &Path) -> Option<PathBuf> {
    let folder = nvrtc.parent()?;
    named(folder, "libnvrtc-builtins.so").pop().or_else(|| named(folder, "nvrtc-builtins64_").pop())
}

/// Headers that identify a folder of toolkit headers, one from each Python wheel.
const TOOLKIT_HEADERS: [&str; 3] = ["cuda_fp16.h", "crt/host_defines.h", "cuda/std/type_traits"];

/// Returns the folders that can have NVRTC's headers, like `cuda_fp16.h`.
pub(crate) fn include_folders_of(nvrtc: &Path, environment: &Environment) -> Vec<PathBuf> {
    let root = nvrtc.parent().and_then(Path::parent);
    // Up to CUDA 12, each Python wheel installs into a separate folder.
    let wheels = root.and_then(Path::parent).into_iter();
    let wheels =
        wheels.flat_map(|nvidia| ["cuda_runtime", "cuda_nvcc", "cuda_cccl"].map(|name| nvidia.join(name)));
    let roots = root.map(Path::to_owned).into_iter().chain(wheels).chain(named_toolkits(environment));
    let mut folders: Vec<PathBuf> = Vec::new();
    // CUDA 13 moved the C++ libraries into their own folder, and `cooperative_groups.h` includes them.
    for folder in roots.flat_map(|root| [root.join("include"), root.join("include/cccl")]) {
        let has_headers = TOOLKIT_HEADERS.iter().any(|header| folder.join(header).is_file());
        if has_headers && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Returns the toolkits that environment variables point to.
fn named_toolkits(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| environment.path(name))
}

/// Returns the folders in `nvidia` of the active Python environments: folders like `cu13` first, the newest
/// before older ones, then the folders of older wheels, one for each library.
fn python(environment: &Environment) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in PYTHON.iter().filter_map(|name| environment.path(name)) {
        let mut sites: Vec<PathBuf> = named(&root.join("lib"), "python");
        sites.push(root.join("Lib"));
        for site in sites {
            let nvidia = site.join("site-packages").join("nvidia");
            let mut packages = [named(&nvidia, "nvjitlink"), named(&nvidia, "cu")].concat();
            packages.reverse();
            packages.sort_by_key(|path| {
                let name = path.file_name().and_then(|name| name.to_str()?.strip_prefix("cu"));
                !name.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
            });
            found.extend(packages);
        }
    }
    found
}

/// Returns the folders of a toolkit that can hold shared libraries.
fn libraries(root: &Path) -> [PathBuf; 5] {
    ["lib64", "lib", "lib/x64", "bin", "bin/x64"].map(|folder| root.join(folder))
}

/// Returns the entries of a folder whose names begin with `prefix`, sorted.
fn named(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let begins = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(prefix));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.filter(|entry| begins(&entry.file_name())).map(|entry| entry.path()).collect();
    paths.sort_by_key(|path| version(path));
    paths
}

/// Returns a sort key that orders `libx.so.9` before `libx.so.13`.
fn version(path: &Path) -> (usize, PathBuf) {
    (path.as_os_str().len(), path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a folder that contains these files, all empty.
    fn machine(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn environment(root: &Path, variables: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::default();
        environment.clear();
        for (name, folder) in variables {
            environment.set(OsStr::new(name), root.join(folder).as_os_str());
        }
        environment
    }

    #[test]
    fn nvcc_is_found_in_the_first_folder_that_has_it() {
        let folders =
            ["home/bin", "path/bin", "on-path", "venv/lib/python3.11/site-packages/nvidia/cu13/bin"];
        let files = folders.map(|folder| format!("{folder}/{NVCC}"));
        let files = files.each_ref().map(String::as_str);
        let variables =
            [("CUDA_HOME", "home"), ("CUDA_PATH", "path"), ("PATH", "on-path"), ("VIRTUAL_ENV", "venv")];
        for first in 0..files.len() {
            let root = machine(&files[first..]);
            let environment = environment(root.path(), &variables);
            let there = fs::canonicalize(root.path()).unwrap();
            // A toolkit in this machine's standard folder takes precedence over Python's.
            if first == 3 && Path::new(STANDARD).join("bin").join(NVCC).exists() {
                continue;
            }
            assert_eq!(nvcc(&environment), Some(there.join(files[first])));
        }
        let order: Vec<PathBuf> = nvcc_candidates(&environment(machine(&[]).path(), &variables));
        assert_eq!(order[3], Path::new(STANDARD).join("bin").join(NVCC));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_to_nvcc_but_not_to_a_wrapper() {
        let root = machine(&["toolkit/bin/nvcc", "bin/ccache"]);
        let there = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(there.join("links")).unwrap();
        let environment = environment(&there, &[("PATH", "links")]);
        let link = there.join("links/nvcc");
        std::os::unix::fs::symlink(there.join("toolkit/bin/nvcc"), &link).unwrap();
        assert_eq!(nvcc(&environment), Some(there.join("toolkit/bin/nvcc")));
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(there.join("bin/ccache"), &link).unwrap();
        assert_eq!(nvcc(&environment), Some(link));
    }

    #[test]
    fn of_a_python_environment_the_newest_toolkit_comes_first() {
        let site = "venv/lib/python3.11/site-packages/nvidia";
        let files = ["cuda_nvrtc", "cu9", "cu13", "cudnn"].map(|name| format!("{site}/{name}/lib/x"));
        let root = machine(&files.each_ref().map(String::as_str));
        let found = python(&environment(root.path(), &[("VIRTUAL_ENV", "venv")]));
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["cu13", "cu9", "cuda_nvrtc", "cudnn"]);
    }

    #[test]
    fn nvrtc_is_the_newest_of_a_folder_and_has_its_builtins_next_to_it() {
        let root = machine(&[
            "lib/libnvrtc.so.9",
            "lib/libnvrtc.so.13",
            "lib/libnvrtc.alt.so.13",
            "lib/libnvrtc-builtins.so.13.0",
            "lib/libnvrtc-builtins.alt.so.13.0",
        ]);
        let lib = root.path().join("lib");
        assert_eq!(nvrtc_in(&lib), Some(lib.join("libnvrtc.so.13")));
        assert_eq!(builtins_of(&lib.join("libnvrtc.so.13")), Some(lib.join("libnvrtc-builtins.so.13.0")));
        assert_eq!(nvrtc_in(root.path()), None);
        assert_eq!(nvrtc_at(&lib), nvrtc_in(&lib));
        assert_eq!(nvrtc_at(root.path()), nvrtc_in(&lib));
        let wheels = machine(&["nvidia/cuda_runtime/lib/x", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"]);
        let library = wheels.path().join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        assert_eq!(nvrtc_at(wheels.path()), Some(library));
    }
}

//! Makes, checks and uses committed images, for machines without a compiler. A source compiles to the same
//! bytes on every machine, so a check compiles it again and compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, iter};

use kernel_registry_cuda::{device_header, ptx};

use crate::environment::Environment;
use crate::includes::Includes;
use crate::job::Job;
use crate::nvrtc::Nvrtc;
use crate::options::Options;
use crate::source::Source;
use crate::{Build, Error, Result, files, fingerprint, index, parallel, source};

/// The folder of a package's prebuilt images and their index.
pub const PREBUILT: &str = "prebuilt";
/// The index file in that folder, which records the inputs of each image.
const INDEX: &str = "index";
/// The file extension of committed images.
pub(crate) const EXTENSION: &str = "ptx";
/// The origin of committed images, in the index of a build.
pub(crate) const ORIGIN: &str = "prebuilt";

const HEADING: &str = "# what the images of this folder were made of: cargo kernels prebuild";

/// Compiles the sources of a package to files that are meant to be committed: `prebuilt/<image>.ptx` and
/// `prebuilt/index`. `cargo kernels prebuild` calls this, with the builds of the package's build script.
///
/// `builds` have to be those of the build script ([`Build::recorded`]), because their options decide whether
/// an image is current. `nvrtc` is the library, or a folder that has it: its own, a toolkit, or one made by
/// `pip install --target`. By default it's the NVRTC that a build would find. It has to be NVRTC 12.0, so
/// that every driver since CUDA 12.0 loads the images. Returns the files that changed.
///
/// A source whose kernels are all template instances must not use variables of an anonymous namespace: the
/// compiler puts its process id into their names, so [`check_prebuilt`] would never see the same image twice.
///
/// `prebuilt/index` has the hashes of source, headers, options and image. The [table of what is
/// compared](crate#committed-images) says where to put headers.
///
/// This changes the process's current folder to the package's while it runs, because the file names that
/// `assert` puts into an image must not depend on where the package is.
///
/// ```no_run
/// # fn main() -> kernel_registry_build::Result<()> {
/// // xtask/src/main.rs
/// use kernel_registry_build::{Build, write_prebuilt};
///
/// let nvrtc = std::path::Path::new("/opt/nvrtc-12.0/lib");
/// for file in write_prebuilt("kernels".as_ref(), &[Build::new()], Some(nvrtc))? {
///     println!("wrote {}", file.display());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Fails if a source doesn't compile, or if NVRTC is too new.
pub fn write_prebuilt(package: &Path, builds: &[Build], nvrtc: Option<&Path>) -> Result<Vec<PathBuf>> {
    let wanted = wanted(package, builds, nvrtc)?;
    let folder = package.join(PREBUILT);
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    let mut changed = Vec::new();
    for path in obsolete_images(&folder, &wanted)? {
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        changed.push(path);
    }
    for (name, bytes) in wanted {
        let path = folder.join(name);
        if !fs::read(&path).is_ok_and(|old| old == bytes) {
            files::replace(&path, &bytes)?;
            changed.push(path);
        }
    }
    Ok(changed)
}

/// Compiles the same sources as [`write_prebuilt`], and compares the results with the committed images.
///
/// ```no_run
/// # fn main() -> kernel_registry_build::Result<()> {
/// # let nvrtc = std::path::Path::new("/opt/nvrtc-12.0/lib");
/// # use kernel_registry_build::{Build, check_prebuilt};
/// check_prebuilt("kernels".as_ref(), &[Build::new()], Some(nvrtc))
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Drift`] with every difference, and the errors of [`write_prebuilt`].
pub fn check_prebuilt(package: &Path, builds: &[Build], nvrtc: Option<&Path>) -> Result<()> {
    let wanted = wanted(package, builds, nvrtc)?;
    let folder = package.join(PREBUILT);
    let recorded = fs::read_to_string(folder.join(INDEX)).unwrap_or_default();
    let then = parse(&recorded);
    let mut sources = Vec::new();
    for (source, now) in parse(&String::from_utf8_lossy(&wanted[INDEX])) {
        let stale = match then.get(&source) {
            Some(then) => difference(&source, &then.hashes, &now.hashes),
            None => Some("there is no prebuilt image".to_owned()),
        };
        // A changed source is the better explanation for a changed image.
        if let Some(stale) = stale {
            sources.push((source, stale));
            continue;
        }
        let name = index::image_name(&source, EXTENSION);
        let problem = match fs::read(folder.join(&name)) {
            Err(_) => "it is missing",
            // Git may have changed the line endings.
            Ok(old) if normalised(&old) != normalised(&wanted[&name]) => {
                "it is not what its source compiles to"
            }
            Ok(_) => continue,
        };
        sources.push((format!("{PREBUILT}/{name}"), problem.to_owned()));
    }
    if folder.is_dir() {
        for path in obsolete_images(&folder, &wanted)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            sources.push((format!("{PREBUILT}/{name}"), "no source belongs to it".to_owned()));
        }
    }
    // Anything else that differs, like a line of a removed source, or the heading.
    if sources.is_empty() && normalised(recorded.as_bytes()) != wanted[INDEX] {
        sources.push((format!("{PREBUILT}/{}", INDEX), "it differs".to_owned()));
    }
    if sources.is_empty() { Ok(()) } else { Err(Error::Drift { sources }) }
}

/// The committed image of a source, or why it cannot be used, and the files to watch.
pub(crate) struct Found {
    pub(crate) image: std::result::Result<Vec<u8>, String>,
    pub(crate) watched: Vec<PathBuf>,
    /// Why the image may be stale. It's used anyway.
    pub(crate) doubts: Vec<String>,
}

/// Reads the committed image of a source, unless it is stale.
pub(crate) fn find(package: &Path, source: &Source, options: &Options) -> Result<Found> {
    let folder = package.join(PREBUILT);
    let path = folder.join(index::image_name(&source.path, EXTENSION));
    let mut state = State::current(package, source, options)?;
    let recorded = fs::read_to_string(folder.join(INDEX)).unwrap_or_default();
    let mut doubts = Vec::new();
    let image = match parse(&recorded).remove(&source.path) {
        None => Err("there is no prebuilt image".to_owned()),
        Some(then) => {
            state.add_unreachable_headers(package, &then.hashes);
            let compared = compare_inputs(&source.path, &then.hashes, &state.hashes);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            compared.map_err(|stale| format!("its prebuilt image is stale: {stale}")).and_then(|doubt| {
                doubts.extend(doubt);
                let bytes = fs::read(&path)
                    .map_err(|error| format!("`{PREBUILT}/{name}` cannot be read: {error}"))?;
                if then.image != seal(&then.hashes, &bytes) {
                    return Err(format!("`{PREBUILT}/{name}` is not the image of `{PREBUILT}/{}`", INDEX));
                }
                Ok(bytes)
            })
        }
    };
    doubts.extend(state.unfollowed);
    // The folder is watched too, for images that are added later.
    state.paths.push(folder);
    Ok(Found { image, watched: state.paths, doubts })
}

/// The key of the options' hash in the index.
const OPTIONS: &str = "options";
/// The key of the hash that ties a source's other lines to its image.
const IMAGE: &str = "image";

/// Hashes of the options and files, by key. Files are keyed by the name of [`File`](crate::includes::File).
type Hashes = BTreeMap<String, String>;

/// The index's lines for a source.
#[derive(Default)]
struct Recorded {
    hashes: Hashes,
    image: String,
}

/// The current inputs of a source's image, which decide whether it can be used.
struct State {
    hashes: Hashes,
    paths: Vec<PathBuf>,
    /// A warning about an `#include` that can't be followed, because its header's name is computed.
    unfollowed: Option<String>,
}

impl State {
    fn current(package: &Path, source: &Source, options: &Options) -> Result<Self> {
        let includes = Includes::follow(package, &source.path, options);
        let mut hashes = Hashes::from([(OPTIONS.to_owned(), hash_of(source, options))]);
        for file in &includes.files {
            let bytes = fs::read(&file.path).map_err(Error::file("read", &file.path))?;
            let hash = fingerprint::hash(&normalised(&bytes));
            // Two headers in different folders outside of the package can have the same name.
            let both = |other: &mut String| *other = fingerprint::hash_all([&*other, &hash]);
            hashes.entry(file.name.clone()).and_modify(both).or_insert_with(|| hash.clone());
        }
        if includes.device_header {
            hashes.insert(device_header::NAME.to_owned(), fingerprint::hash_device_header());
        }
        let unfollowed = includes.unfollowed.first().map(|(file, directive)| {
            format!("the header in `{directive}` ({file}) is not compared, because its name is computed")
        });
        Ok(State { hashes, paths: includes.paths().collect(), unfollowed })
    }

    /// Adds headers of the package that are reached only through headers outside of it, if this machine lacks
    /// one of those.
    fn add_unreachable_headers(&mut self, package: &Path, then: &Hashes) {
        if then.keys().all(|name| !is_outside(name) || self.hashes.contains_key(name)) {
            return;
        }
        for name in then.keys().filter(|name| !is_outside(name) && *name != OPTIONS) {
            let path = package.join(name);
            if let (false, Ok(bytes)) = (self.hashes.contains_key(name), fs::read(&path)) {
                self.hashes.insert(name.clone(), fingerprint::hash(&normalised(&bytes)));
                self.paths.push(path);
            }
        }
    }
}

/// Returns whether a file is outside of the package.
fn is_outside(name: &str) -> bool {
    name.starts_with("../") || is_foreign(name)
}

/// Returns whether a header is in a folder that was given by an absolute path, such as a toolkit's.
fn is_foreign(name: &str) -> bool {
    name.starts_with('<')
}

/// Compares the recorded inputs with the current ones. Fails with the reason if the image is stale, and
/// returns a reason if it only may be: a machine without a compiler may lack files outside of the package, or
/// have other versions of them.
fn compare_inputs(source: &str, then: &Hashes, now: &Hashes) -> std::result::Result<Option<String>, String> {
    let own = |hashes: &Hashes| -> Hashes {
        let counts = |name: &String| !is_foreign(name) && (!is_outside(name) || now.contains_key(name));
        hashes
            .iter()
            .filter(|(name, _)| counts(name))
            .map(|(name, hash)| (name.clone(), hash.clone()))
            .collect()
    };
    match difference(source, &own(then), &own(now)) {
        Some(stale) => Err(stale),
        None => Ok(difference(source, then, now)),
    }
}

/// Returns a hash of an image and its inputs, so that neither can be replaced without the other.
fn seal(hashes: &Hashes, image: &[u8]) -> String {
    let made_of = hashes.iter().flat_map(|(name, hash)| [name.as_bytes(), hash.as_bytes()]);
    fingerprint::hash_all(made_of.chain([&*normalised(image)]))
}

/// Returns the hash of the options that affect a prebuilt image.
fn hash_of(source: &Source, Options { std, includes: _, defines, flags }: &Options) -> String {
    let count = |list: &[String]| list.len().to_string();
    let target = source.targets.lowest();
    let std = std.clone().unwrap_or_default();
    let all = [target, std, count(defines)].into_iter().chain(defines.iter().cloned());
    fingerprint::hash_all(all.chain(iter::once(count(flags))).chain(flags.iter().cloned()))
}

/// Returns the first difference between the recorded and the current inputs, as text.
fn difference(source: &str, then: &Hashes, now: &Hashes) -> Option<String> {
    let changed = |name: &&String| then.get(*name).is_some_and(|hash| now.get(*name) != Some(hash));
    // The source comes first, because its change also explains other headers.
    let names = [source.to_owned()];
    let name = names.iter().chain(then.keys()).find(changed);
    match name {
        Some(name) if name == OPTIONS => Some("the options have changed".to_owned()),
        Some(name) if now.contains_key(name) => Some(format!("`{name}` changed since it was made")),
        Some(name) if is_outside(name) => Some(format!("it was made with `{name}`, which is not found here")),
        Some(name) => Some(format!("`{name}` is not included any more")),
        None => {
            let new = now.keys().find(|name| !then.contains_key(*name))?;
            Some(format!("`{new}` is included now"))
        }
    }
}

fn parse(text: &str) -> BTreeMap<String, Recorded> {
    let mut sources: BTreeMap<String, Recorded> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let [source, name, hash] = line.split('\t').collect::<Vec<_>>()[..] {
            let recorded = sources.entry(source.to_owned()).or_default();
            match name {
                IMAGE => recorded.image = hash.to_owned(),
                name => drop(recorded.hashes.insert(name.to_owned(), hash.to_owned())),
            }
        }
    }
    sources
}

/// Compiles the sources, and returns the files that the folder of committed images should have, by name.
fn wanted(package: &Path, builds: &[Build], nvrtc: Option<&Path>) -> Result<BTreeMap<String, Vec<u8>>> {
    let package = &fs::canonicalize(package).map_err(Error::file("find", package))?;
    let nvrtc = compiler(builds, nvrtc)?;
    let mut wanted = BTreeMap::new();
    // Lines by source. If several builds have a source, the last one wins, as in a build script's index.
    let mut recorded = BTreeMap::new();
    let mut errors = Vec::new();
    for build in builds {
        let Build { options, environment, .. } = build;
        let (sources, _) = source::find_sources(build, package)?;
        let images = inside(package, || {
            parallel::each(environment, &sources, |source| {
                let ptx = nvrtc.ptx(&Job { package, source, options, environment })?;
                if is_too_new(&ptx) {
                    return Err(Error::TooNew { compiler: nvrtc.name()? });
                }
                Ok(without_call_numbers(&ptx))
            })
        })?;
        for (source, image) in sources.iter().zip(images) {
            match image {
                Ok(ptx) => {
                    let hashes = State::current(package, source, options)?.hashes;
                    let seal = seal(&hashes, &ptx);
                    let hashes = hashes.iter().map(|(name, hash)| (&**name, hash)).chain([(IMAGE, &seal)]);
                    let lines = hashes.map(|(name, hash)| format!("{}\t{name}\t{hash}\n", source.path));
                    recorded.insert(source.path.clone(), lines.collect::<String>());
                    wanted.insert(index::image_name(&source.path, EXTENSION), ptx);
                }
                Err(error) => errors.push(error),
            }
        }
    }
    let index: String = iter::once(format!("{HEADING}\n")).chain(recorded.into_values()).collect();
    wanted.insert(INDEX.to_owned(), index.into_bytes());
    Error::several(errors).map_or(Ok(wanted), Err)
}

/// Returns the NVRTC at this path, or else the first on this machine.
fn compiler(builds: &[Build], place: Option<&Path>) -> Result<Nvrtc> {
    let of_builds = builds.first().map(|build| build.environment.clone()).unwrap_or_default();
    match place {
        // Absolute, because the current folder changes.
        Some(place) => {
            let place = std::path::absolute(place).map_err(Error::file("find", place))?;
            Ok(Nvrtc::at(place, &of_builds))
        }
        None => Nvrtc::find(&Environment::default())?.ok_or(Error::NoNvrtc),
    }
}

/// Removes call numbers, which NVRTC counts over all threads of the process. Comments lose them, and
/// prototypes are renumbered within their file.
fn without_call_numbers(ptx: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(ptx);
    let lines = text.split('\n').map(|line| line.split_once(" // callseq").map_or(line, |(code, _)| code));
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut numbers = Vec::new();
    let mut parts = text.split(PROTOTYPE);
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &part[..part.len() - name.len()];
        let place = numbers.iter().position(|found| *found == number).unwrap_or(numbers.len());
        if place == numbers.len() {
            numbers.push(number);
        }
        done.push_str(&format!("{PROTOTYPE}{place}{name}"));
    }
    done.into_bytes()
}

/// The prefix of prototypes' names.
const PROTOTYPE: &str = "prototype_";

/// Returns whether drivers of CUDA 12.0, which accept PTX up to 8.0, would refuse the image.
fn is_too_new(ptx: &[u8]) -> bool {
    ptx::version(ptx).is_none_or(|version| version > (8, 0))
}

/// Returns the folder's `.ptx` files that no source compiles to any longer.
fn obsolete_images(folder: &Path, wanted: &BTreeMap<String, Vec<u8>>) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::file("read", folder))?;
    let ours = |path: &PathBuf| path.to_string_lossy().ends_with(".ptx");
    let known = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| wanted.contains_key(name))
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| ours(path) && !known(path));
    paths.sort();
    Ok(paths)
}

/// Removes the carriage returns that git adds on Windows.
fn normalised(bytes: &[u8]) -> Vec<u8> {
    let ends = |i: usize| bytes.get(i + 1) == Some(&b'\n');
    bytes.iter().enumerate().filter(|&(i, &byte)| byte != b'\r' || !ends(i)).map(|(_, &byte)| byte).collect()
}

/// Calls a function while the package is the current folder.
fn inside<T>(package: &Path, work: impl FnOnce() -> T) -> Result<T> {
    // The current folder is global to the process.
    static CURRENT: Mutex<()> = Mutex::new(());
    let _guard = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let before = env::current_dir().map_err(Error::file("find", "."))?;
    env::set_current_dir(package).map_err(Error::file("enter", package))?;
    let result = work();
    env::set_current_dir(&before).map_err(Error::file("enter", &before))?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_not_counted() {
        assert_eq!(
            without_call_numbers(b"\t{ // callseq 4, 0\n\t} // callseq 4\n// kept\n"),
            b"\t{\n\t}\n// kept\n"
        );
        let called = b"\tprototype_7 : .callprototype _;\n\tprototype_7;\n\tprototype_9;";
        assert_eq!(
            without_call_numbers(called),
            b"\tprototype_0 : .callprototype _;\n\tprototype_0;\n\tprototype_1;"
        );
    }

    #[test]
    fn ends_of_lines_do_not_matter() {
        assert_eq!(normalised(b"a\r\nb\rc\r\r\n"), b"a\nb\rc\r\n");
    }

    #[test]
    fn a_stale_image_says_what_changed() {
        let hashes = |pairs: &[(&str, &str)]| -> Hashes {
            pairs.iter().map(|&(name, hash)| (name.to_owned(), hash.to_owned())).collect()
        };
        let then = hashes(&[("a.cu", "1"), ("b.cuh", "2"), ("options", "3")]);
        let say = |now: &[(&str, &str)]| difference("a.cu", &then, &hashes(now)).unwrap_or_default();
        assert_eq!(say(&[("a.cu", "1"), ("b.cuh", "2"), ("options", "3")]), "");
        assert_eq!(
            say(&[("a.cu", "9"), ("b.cuh", "9"), ("options", "3")]),
            "`a.cu` changed since it was made"
        );
        assert_eq!(
            say(&[("a.cu", "1"), ("b.cuh", "9"), ("options", "3")]),
            "`b.cuh` changed since it was made"
        );
        assert_eq!(say(&[("a.cu", "1"), ("options", "3")]), "`b.cuh` is not included any more");
        assert_eq!(say(&[("a.cu", "1"), ("b.cuh", "2"), ("options", "9")]), "the options have changed");
        let new = [("a.cu", "1"), ("b.cuh", "2"), ("c.cuh", "2"), ("options", "3")];
        assert_eq!(say(&new), "`c.cuh` is included now");
    }

    #[test]
    fn the_age_of_ptx_is_read() {
        assert!(!is_too_new(b"//\n.version 8.0\n.target sm_75\n"));
        assert!(is_too_new(b".version 9.0\n"));
        assert!(is_too_new(b".version 8.4\n"));
        assert!(is_too_new(b""));
    }
}

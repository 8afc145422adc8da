//! Follows the includes of a source in its text, because NVRTC doesn't list the headers that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use kernel_registry_cuda::device_header;

use crate::directives::{Directives, Header, Include};
use crate::options::Options;
use crate::source::tidy;

/// The headers that a source includes, directly or through other headers. Conditions are ignored.
#[derive(Debug, Default)]
pub(crate) struct Includes {
    /// The source and the headers that were found, in order of discovery.
    pub(crate) files: Vec<File>,
    /// `<names>` that were not found.
    pub(crate) foreign: BTreeSet<String>,
    /// Whether this crate's device header is included: no file with its name was found.
    pub(crate) device_header: bool,
    /// The directives that can't be followed, each with the name of its file.
    pub(crate) unfollowed: BTreeSet<(String, String)>,
    /// The macros without parameters that options, source and headers define.
    pub(crate) macros: BTreeSet<String>,
}

/// The source, or a header that was found.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// The file's name, the same on every machine: relative to the package, with `..` if it's outside; or
    /// `<lib/x.h>`, relative to a folder of headers that was given by an absolute path.
    pub(crate) name: String,
    /// The folder to which `<lib/x.h>` is relative.
    root: Option<PathBuf>,
}

/// A folder that is searched for headers.
struct Folder {
    path: PathBuf,
    root: Option<PathBuf>,
}

impl Includes {
    /// Follows the includes of a source as NVRTC does when it runs in the package's folder.
    pub(crate) fn follow(package: &Path, source: &str, options: &Options) -> Self {
        let package = &tidy(package);
        let folders = folders(package, options);
        let mut includes = Includes::default();
        includes.files.push(File { path: tidy(&package.join(source)), name: source.to_owned(), root: None });
        // Headers that options include are searched from the folder of Cargo.toml.
        let by = File { path: package.join("Cargo.toml"), name: String::new(), root: None };
        for name in values(&options.flags, "--pre-include", "-include", false) {
            includes.add(package, &by, &Header::Quoted(name.to_owned()), false, &folders);
        }
        let mut macros = defined(options);
        let mut by_macro: Vec<(File, Include, String)> = Vec::new();
        let mut computed = BTreeSet::new();
        let mut next = 0;
        while next < includes.files.len() {
            while let Some(file) = includes.files.get(next).cloned() {
                next += 1;
                // Reporting unreadable files is left to the compiler.
                let text = fs::read(&file.path).unwrap_or_default();
                let Directives { includes: found, macros: more } =
                    Directives::parse(&String::from_utf8_lossy(&text));
                for (name, header) in more {
                    macros.entry(name).or_default().push(header);
                }
                for include in found {
                    match &include.header {
                        Header::Macro(name) => by_macro.push((file.clone(), include.clone(), name.clone())),
                        header if includes.add(package, &file, header, include.next, &folders) => {}
                        _ => drop(includes.unfollowed.insert((file.name.clone(), include.text))),
                    }
                }
            }
            // A later file may define the macro.
            computed.clear();
            for (file, include, name) in &by_macro {
                for header in expanded(name, &macros) {
                    if !includes.add(package, file, &header, include.next, &folders) {
                        computed.insert((file.name.clone(), include.text.clone()));
                    }
                }
            }
        }
        includes.unfollowed.append(&mut computed);
        includes.macros = macros.into_keys().collect();
        includes
    }

    pub(crate) fn paths(self) -> impl Iterator<Item = PathBuf> {
        self.files.into_iter().map(|file| file.path)
    }

    /// Returns the warning that changes of a header go unnoticed, if a directive can't be followed.
    pub(crate) fn unnoticed_warning(&self, source: &str) -> Option<String> {
        let (file, directive) = self.unfollowed.first()?;
        Some(format!(
            "{source}: changes of the header in `{directive}` ({file}) go unnoticed, because its name is computed: \
             write the name itself"
        ))
    }

    /// Adds the files that a directive can mean. Returns whether it could be followed.
    fn add(&mut self, package: &Path, by: &File, header: &Header, next: bool, folders: &[Folder]) -> bool {
        let (name, quoted) = match header {
            Header::Quoted(name) => (name, true),
            Header::Angled(name) => (name, false),
            Header::Macro(_) | Header::Other => return false,
        };
        // The name wasn't UTF-8, so its replacement names no file.
        if name.contains(char::REPLACEMENT_CHARACTER) {
            return false;
        }
        let own_folder = by.path.parent().filter(|_| quoted);
        let own_folder = own_folder.map(|path| Folder { path: path.to_owned(), root: by.root.clone() });
        let mut found = false;
        for folder in own_folder.iter().chain(folders) {
            if !folder.path.join(name).is_file() {
                continue;
            }
            found = true;
            let file = folder.file(package, name);
            if !self.files.iter().any(|there| there.path == file.path) {
                self.files.push(file);
            }
            if !next {
                break;
            }
        }
        if !found && name == device_header::NAME {
            self.device_header = true;
        } else if !found && !quoted {
            self.foreign.insert(name.clone());
        }
        true
    }
}

impl Folder {
    fn file(&self, package: &Path, name: &str) -> File {
        let given = self.path.join(name);
        let path = tidy(&given);
        let name = match &self.root {
            Some(root) => format!("<{}>", relative(root, &path)),
            None => relative(package, &path),
        };
        let real = fs::canonicalize(&given);
        // `..` after a link to a folder leads elsewhere.
        let path = match (real, fs::canonicalize(&path)) {
            (Ok(real), Ok(named)) if real == named => path,
            (Ok(real), _) => real,
            _ => path,
        };
        File { path, name, root: self.root.clone() }
    }
}

/// Returns the folders to search, in NVRTC's order.
fn folders(package: &Path, options: &Options) -> Vec<Folder> {
    let flags = values(&options.flags, "--include-path", "-I", true).into_iter().map(Path::new);
    let folders = flags.chain(options.includes.iter().map(PathBuf::as_path));
    let inside = |folder: &Path| {
        let real = || Some((fs::canonicalize(folder).ok()?, fs::canonicalize(package).ok()?));
        folder.starts_with(package) || real().is_some_and(|(folder, package)| folder.starts_with(package))
    };
    folders
        .map(|folder| Folder {
            path: package.join(folder),
            root: (folder.is_absolute() && !inside(folder)).then(|| tidy(folder)),
        })
        .collect()
}

/// Returns the macros that options define.
fn defined(options: &Options) -> BTreeMap<String, Vec<Header>> {
    let flags = values(&options.flags, "--define-macro", "-D", true);
    let mut macros: BTreeMap<String, Vec<Header>> = BTreeMap::new();
    for define in options.defines.iter().map(String::as_str).chain(flags) {
        let (name, value) = define.split_once('=').unwrap_or((define, ""));
        macros.entry(name.to_owned()).or_default().push(Header::parse(value));
    }
    macros
}

/// Returns the headers that a macro can name, with [`Header::Other`] if there may be more.
fn expanded(name: &str, macros: &BTreeMap<String, Vec<Header>>) -> Vec<Header> {
    let mut names = vec![name];
    let mut headers = Vec::new();
    let mut next = 0;
    while let Some(name) = names.get(next).copied() {
        next += 1;
        match macros.get(name) {
            None => headers.push(Header::Other),
            Some(definitions) => {
                for header in definitions {
                    match header {
                        Header::Macro(name) if names.contains(&name.as_str()) => {}
                        Header::Macro(name) => names.push(name),
                        header => headers.push(header.clone()),
                    }
                }
            }
        }
    }
    headers
}

/// Returns the values of an option: `--long=x`, `--long x`, `-s=x`, `-s x`, and `-sx` if `joined`.
fn values<'a>(flags: &'a [String], long: &str, short: &str, joined: bool) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut flags = flags.iter().map(String::as_str);
    while let Some(flag) = flags.next() {
        if flag == long || flag == short {
            values.extend(flags.next());
        } else if let Some(value) =
            [long, short].iter().find_map(|name| flag.strip_prefix(name)?.strip_prefix('='))
        {
            values.push(value);
        } else if let Some(value) = flag.strip_prefix(short).filter(|_| joined) {
            values.push(value);
        }
    }
    values
}

/// Returns the relative path from a folder to a file, with slashes.
fn relative(folder: &Path, file: &Path) -> String {
    let (mut folder, mut file) = (folder.components().peekable(), file.components().peekable());
    while folder.peek().is_some() && folder.peek() == file.peek() {
        folder.next();
        file.next();
    }
    let up = folder.map(|_| Component::ParentDir);
    let parts: Vec<_> = up.chain(file).map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the includes of `pkg/cuda/a.cu` in a folder with these files: the files found, and includes
    /// that cannot be resolved.
    fn found(files: &[(&str, &str)], options: Options) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("ROOT", folder.path().to_str().unwrap())).unwrap();
        }
        let there = |text: &str| text.replace("ROOT", folder.path().to_str().unwrap());
        let options = Options {
            includes: options.includes.iter().map(|path| there(path.to_str().unwrap()).into()).collect(),
            ..options
        };
        let includes = Includes::follow(&folder.path().join("pkg"), "cuda/a.cu", &options);
        let files = includes.files.iter().map(|file| {
            assert!(file.path.is_file(), "{file:?}");
            file.name.clone()
        });
        let files = files.collect();
        (files, includes.unfollowed.into_iter().map(|(file, text)| format!("{file}: {text}")).collect())
    }

    #[test]
    fn includes_are_followed() {
        let files = [
            (
                "pkg/cuda/a.cu",
                "#include \"b.cuh\"\r\n  # include <lib.h>\n#include <cassert>\n#include \"gone.h\"\n",
            ),
            ("pkg/cuda/b.cuh", "#include \"../shared/c.cuh\"\n#include \"b.cuh\"\n// #include <commented>\n"),
            ("pkg/cuda/lib.h", "not found by <lib.h>"),
            ("pkg/shared/c.cuh", ""),
            ("pkg/include/lib.h", ""),
            ("pkg/later/lib.h", ""),
        ];
        let options = Options { includes: vec!["include".into(), "later".into()], ..Options::default() };
        let (names, unfollowed) = found(&files, options);
        assert_eq!(names, ["cuda/a.cu", "cuda/b.cuh", "include/lib.h", "shared/c.cuh"]);
        assert_eq!(unfollowed, [""; 0]);
    }

    #[test]
    fn headers_outside_have_the_same_names_everywhere() {
        let files = [
            ("pkg/cuda/a.cu", "#include \"../../common/x.h\"\n#include <lib/y.h>\n#include <near.h>\n"),
            ("common/x.h", "#include \"in.h\"\n"),
            ("common/in.h", ""),
            ("elsewhere/lib/y.h", "#include \"deep/z.h\"\n"),
            ("elsewhere/lib/deep/z.h", ""),
            ("vendor/near.h", ""),
        ];
        let options =
            Options { includes: vec!["ROOT/elsewhere".into(), "../vendor".into()], ..Options::default() };
        let (names, _) = found(&files, options);
        let expected = [
            "cuda/a.cu",
            "../common/x.h",
            "<lib/y.h>",
            "../vendor/near.h",
            "../common/in.h",
            "<lib/deep/z.h>",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn macros_are_followed_to_their_definitions() {
        let files = [
            ("pkg/cuda/a.cu", "#include HEADER\n#include CHAIN\n#include \"config.h\"\n#include OF_OPTION\n"),
            (
                "pkg/cuda/config.h",
                "#ifdef X\n#define HEADER \"x.h\"\n#else\n#define HEADER <y.h>\n#endif\n#define CHAIN LINK\n#define LINK \"z.h\"\n",
            ),
            ("pkg/cuda/x.h", ""),
            ("pkg/cuda/z.h", "#include STR(w.h)\n#include UNDEFINED\n"),
            ("pkg/include/y.h", ""),
            ("pkg/cuda/option.h", ""),
        ];
        let options = Options {
            includes: vec!["include".into()],
            defines: vec!["OF_OPTION=\"option.h\"".to_owned()],
            ..Options::default()
        };
        let (mut names, unfollowed) = found(&files, options);
        names[1..].sort();
        assert_eq!(
            names,
            ["cuda/a.cu", "cuda/config.h", "cuda/option.h", "cuda/x.h", "cuda/z.h", "include/y.h"]
        );
        assert_eq!(unfollowed, ["cuda/z.h: #include STR(w.h)", "cuda/z.h: #include UNDEFINED"]);
    }

    #[test]
    fn folders_and_headers_of_flags_count() {
        let files = [
            ("pkg/cuda/a.cu", "#include <one.h>\n#include <two.h>\n#include <three.h>\n"),
            ("pkg/i/one.h", "#include_next <one.h>\n"),
            ("pkg/j/one.h", ""),
            ("pkg/j/two.h", ""),
            ("pkg/k/three.h", ""),
            ("pkg/before.h", ""),
        ];
        let flags = ["-Ii", "-I", "j", "--include-path=k", "-include", "before.h", "-lineinfo"];
        let options = Options { flags: flags.map(str::to_owned).to_vec(), ..Options::default() };
        let (names, _) = found(&files, options);
        assert_eq!(names, ["cuda/a.cu", "before.h", "i/one.h", "j/two.h", "k/three.h", "j/one.h"]);
    }
}

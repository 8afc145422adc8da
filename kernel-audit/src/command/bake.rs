//! Makes machine code of the PTX that a preload names, in a file beside it: with the driver's linker after a recorded run, or ahead of time for GPUs that are
//! not there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use kernel_registry_command::bake::{Entry, Job, Update};
use kernel_registry_command::compiler::{Compiler, Options};
use kernel_registry_command::driver::{Answer, Library};
use kernel_registry_command::{Failure as Shared, many, terminal, with_causes};
use kernel_registry_cuda::fatbin::{self, Kind};
use kernel_registry_cuda::{Portability, Target};
use kernel_registry_image::{ptx_of_entry, read as read_image};

use crate::command::cli::Bake;
use crate::command::failure::Failure;
use crate::command::preload::{self, content};
use crate::command::report::words::Time;
use crate::preload::{Preload, Ptx, baked_file, baked_key, baked_key_of_entry};

/// PTX that a preload names, or that's in a fatbin that it names.
struct Image {
    key: [u8; 32],
    options: Options,
    text: Vec<u8>,
    name: String,
    /// The fatbin that has it, and where.
    fatbin: Option<(Rc<[u8]>, usize)>,
}

/// Compiles the PTX that a preload names for some architectures.
pub(super) fn bake(options: &Bake) -> Result<(), Failure> {
    let path = &options.preload;
    let images = images(&preload::read(path)?);
    if images.is_empty() {
        return Err(Failure::WithoutPtx { path: path.clone() });
    }
    let file = baked_file(path);
    let mut update = update(&file, &images)?;
    let compiler = Compiler::find().map_err(|source| Shared::NoCompiler { source })?;
    // Images with the same options are compiled in parallel.
    let mut jobs = BTreeMap::<String, (Options, Vec<Job<'_>>)>::new();
    for image in &images {
        for arch in options.arch.iter().filter_map(|arch| image.arch(*arch)) {
            if update.find(&image.key, arch, compiler.name()).is_none() {
                let Image { key, options, ref text, ref name, .. } = *image;
                let (_, jobs) = jobs.entry(options.lines()).or_insert((options, Vec::new()));
                jobs.push(Job { name, key, text, arch, may_fail: false });
            }
        }
    }
    let made = jobs.values().flat_map(|(options, jobs)| update.compile(&compiler, *options, jobs));
    let compiled = made.filter(|(code, _)| code.is_some()).count();
    update.write()?;
    let (pieces, images) = (many(update.entries().len(), "piece"), many(images.len(), "PTX image"));
    terminal::say(format_args!(
        "`{}` has {pieces} of machine code of {images}, {compiled} of them compiled now by {}",
        file.display(),
        compiler.name()
    ));
    Ok(update.end()?)
}

/// Compiles what is missing with the linker of the driver in this file, for the first of its GPUs. What fails is said, and changes nothing: the driver
/// compiles the PTX when the program loads it.
pub(super) fn bake_with_driver(path: &Path, driver: &Path) {
    // A warning has said so before the program ran.
    if kernel_registry_files::check(&baked_file(path)).is_err() {
        return;
    }
    match try_with_driver(path, driver) {
        Ok(()) => {}
        Err(why) => terminal::say(format_args!(
            "warning: PTX gets no machine code now: {why}; `kernel-audit bake {} --arch sm_90` makes it, for any GPU",
            path.display()
        )),
    }
}

fn try_with_driver(path: &Path, driver: &Path) -> Result<(), String> {
    let in_words = |failure: Failure| with_causes(&failure).to_string();
    let images = images(&preload::read(path).map_err(in_words)?);
    if images.is_empty() {
        return Ok(());
    }
    let file = baked_file(path);
    let mut update = update(&file, &images).map_err(in_words)?;
    let library = Library::open_file(driver)?;
    let begun = Instant::now();
    let made = link_missing(&library, &images, update.entries()).map_err(|refused| refused.to_string())?;
    let (compiler, arch) = (&made.compiler, made.arch);
    let mut count = 0;
    for (image, code) in made.codes {
        match code {
            Ok(code) => {
                count += 1;
                update.add(image.key, arch, compiler, code);
            }
            Err(why) => terminal::say(format_args!("warning: {} gets no machine code: {why}", image.name)),
        }
    }
    if count > 0 {
        update.write().map_err(|failure| with_causes(&failure))?;
        let took = Time(begun.elapsed().as_nanos() as u64);
        let (images, file) = (many(count, "PTX image"), file.display());
        terminal::say(format_args!(
            "`{file}` has machine code of {images} for {arch}, compiled by the driver in {took}"
        ));
    }
    Ok(())
}

/// What the driver's linker made.
struct Linked<'a> {
    arch: Target,
    compiler: String,
    codes: Vec<(&'a Image, Answer<Vec<u8>>)>,
}

fn link_missing<'a>(library: &Library, images: &'a [Image], entries: &[Entry]) -> Answer<Linked<'a>> {
    library.init()?;
    let device = library.device(0)?;
    let arch = device.arch()?;
    let compiler = format!("the driver of CUDA {}", library.version()?);
    let has_code = |image: &&Image| {
        entries.iter().any(|entry| {
            let runs = |target: Target| target.binary_runs_on(arch.capability());
            entry.key == image.key && entry.target().is_some_and(runs)
        })
    };
    let missing = images.iter().filter(|image| image.fatbin.is_none() || image.arch(arch).is_some());
    let missing: Vec<_> = missing.filter(|image| !has_code(image)).collect();
    if missing.is_empty() {
        return Ok(Linked { arch, compiler, codes: Vec::new() });
    }
    let link = |image: &'a Image| {
        let Options { max_registers, level } = image.options;
        (image, library.link(&image.text, max_registers, level))
    };
    let codes = device.in_context(|_| Ok(missing.into_iter().map(link).collect()))?;
    Ok(Linked { arch, compiler, codes })
}

/// The PTX of a preload whose bytes are where it says. The rest is said.
fn images(preload: &Preload) -> Vec<Image> {
    let mut missing = BTreeSet::new();
    let mut images = Vec::new();
    for Ptx { options, origin, .. } in &preload.ptx {
        let path = Path::new(&origin.path);
        match content(path, origin).zip(compiler_options(options)) {
            Some((bytes, known)) if fatbin::is_fatbin(&bytes) => {
                let bytes = Rc::from(bytes);
                let name = format!("PTX of a fatbin of {} bytes of `{}`", origin.bytes, path.display());
                images.extend(of_fatbin(&bytes, options, known, &name));
            }
            Some((text, known)) => {
                let name = format!("PTX of {} bytes of `{}`", origin.bytes, path.display());
                images.push(Image {
                    key: baked_key(&text, options),
                    options: known,
                    text,
                    name,
                    fatbin: None,
                });
            }
            None => _ = missing.insert(origin.path.clone()),
        }
    }
    for path in missing {
        terminal::say(format_args!(
            "warning: PTX in `{path}` is not the one that was recorded: record it again"
        ));
    }
    images.sort_by_key(|image| image.key);
    images.dedup_by_key(|image| image.key);
    images
}

/// The options in a preload, for a compiler.
fn compiler_options(text: &str) -> Option<Options> {
    let mut options = Options::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word.split_once('=')? {
            ("maxrregcount", value) => options.max_registers = Some(value.parse().ok()?),
            ("optlevel", value) => options.level = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(options)
}

/// Begins to update the file beside a preload. Entries of PTX that the preload does not name are dropped.
fn update<'p>(file: &'p Path, images: &[Image]) -> Result<Update<'p>, Failure> {
    Ok(Update::begin(file, |key| images.iter().any(|image| image.key == *key))?)
}

/// Returns the PTX images of a fatbin.
fn of_fatbin(bytes: &Rc<[u8]>, options: &str, known: Options, name: &str) -> Vec<Image> {
    let mut images = Vec::new();
    for entry in fatbin::entries(bytes).filter_map(Result::ok).filter(|entry| entry.kind == Kind::Ptx) {
        let (key, name) = (baked_key_of_entry(&entry, options), format!("{name} for {}", entry.target()));
        match ptx_of_entry(&entry) {
            Ok(text) => {
                let fatbin = Some((bytes.clone(), place(bytes, &entry)));
                images.push(Image { key, options: known, text, name, fatbin });
            }
            Err(why) => terminal::say(format_args!("warning: {name} gets no machine code: {why}")),
        }
    }
    images
}

/// Returns where the code of an entry is in its fatbin.
fn place(fatbin: &[u8], entry: &fatbin::Entry<'_>) -> usize {
    entry.payload.as_ptr().addr() - fatbin.as_ptr().addr()
}

impl Image {
    /// The architecture to compile for, so that the code runs on this one: PTX for `sm_90a` is compiled for nothing else. `None` if it does not run there,
    /// or if the driver compiles other PTX of the fatbin.
    fn arch(&self, arch: Target) -> Option<Target> {
        let image = read_image(&self.text).ok()?;
        let own = image.variants.first()?.target;
        let chosen = match own.portability {
            Portability::Forward => own.jit_runs_on(arch.capability()).then_some(arch),
            _ => own.jit_runs_on(arch.capability()).then_some(own),
        };
        chosen.filter(|arch| {
            self.fatbin.as_ref().is_none_or(|(fatbin, at)| {
                let entry = fatbin::compiled_ptx(fatbin, &[arch.capability()]);
                entry.is_some_and(|entry| place(fatbin, &entry) == *at)
            })
        })
    }
}

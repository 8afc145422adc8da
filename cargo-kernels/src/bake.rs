//! `cargo kernels bake`: compiles the PTX of a binary, and writes the machine code to a file from which the program loads it.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use kernel_registry_command::bake::{self, Entry, Job, Made};
use kernel_registry_command::compiler::{Compiler, Options};
use kernel_registry_command::driver::{Attribute, Library};
use kernel_registry_command::{Mapped, many, terminal};
use kernel_registry_image::{Portability, Target};

use crate::binaries;
use crate::binary::Contents;
use crate::cli::Bake;
use crate::failure::Failure;
use crate::ptx_images::{self, Need, PtxImage};
use crate::table;

/// What becomes of an image for an architecture.
enum Outcome {
    /// It has machine code.
    HasCode,
    NotFor,
    /// The number of the entry that is there already.
    Kept(usize),
    /// The number of the job.
    Job(usize),
}

pub(crate) fn run(options: &Bake) -> Result<(), Failure> {
    let path = &options.binary;
    let mapped = Mapped::open(path)?;
    let images = PtxImage::find(&Contents::read(path, &mapped)?);
    if images.is_empty() {
        return Err(Failure::WithoutPtx { path: path.clone() });
    }
    let archs = match &options.arch[..] {
        [] => archs_here().ok_or(Failure::NoArch)?,
        archs => archs.iter().copied().collect(),
    };
    let is_ptx = |image: &PtxImage<'_>| archs.iter().any(|arch| matches!(image.need(*arch), Need::Ptx(..)));
    if !images.iter().any(is_ptx) {
        let archs = archs.iter().map(Target::to_string).collect::<Vec<_>>().join(" and ");
        let why = "each image has machine code for it, or no PTX that runs there; no file is written";
        return binaries::print(|out| writeln!(out, "there is nothing to compile for {archs}: {why}"));
    }
    let output = options.output.clone().unwrap_or_else(|| ptx_images::beside(path));
    bake::can_be_written(&output)?;
    let compiler = Compiler::find().map_err(|source| Failure::NoCompiler { source })?;
    let mut entries = bake::read_earlier(&output)?;
    entries.retain(|entry| images.iter().any(|image| image.key == entry.key));

    let (mut jobs, mut of_jobs, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for image in &images {
        let mut outcome = |arch: &Target| match image.need(*arch) {
            Need::Code => Outcome::HasCode,
            Need::NotFor => Outcome::NotFor,
            Need::Ptx(text, arch) => {
                let is_same = |entry: &Entry| {
                    entry.key == image.key
                        && entry.target() == Some(arch)
                        && entry.compiler == compiler.name()
                };
                entries.iter().position(is_same).map_or_else(
                    || {
                        jobs.push(Job { text, arch });
                        of_jobs.push(image);
                        Outcome::Job(jobs.len() - 1)
                    },
                    Outcome::Kept,
                )
            }
        };
        outcomes.push(archs.iter().map(&mut outcome).collect::<Vec<_>>());
    }
    let made = bake::compile(&compiler, Options::default(), &jobs);

    let mut rows = vec![["IMAGE", "KERNELS", "PTX"].map(str::to_owned).to_vec()];
    rows[0].extend(archs.iter().map(Target::to_string));
    for (image, outcomes) in images.iter().zip(&outcomes) {
        let mut row = vec![image.name.clone(), image.kernels.to_string(), size(image.len())];
        row.extend(outcomes.iter().map(|outcome| cell(outcome, &entries, &made)));
        rows.push(row);
    }
    let mut failed = 0;
    for ((image, job), (result, _)) in of_jobs.iter().zip(&jobs).zip(made) {
        match result {
            Ok(code) => {
                let (arch, compiler) = (job.arch.to_string(), compiler.name().to_owned());
                bake::put(&mut entries, Entry { key: image.key, arch, compiler, code });
            }
            // Text that nothing declares may be no PTX that is ever loaded.
            Err(error) if image.recorded.is_empty() => {
                terminal::say(format_args!("warning: {}: {error}", image.name));
            }
            Err(error) => {
                failed += 1;
                terminal::say(format_args!("error: {}: {error}", image.name));
            }
        }
    }
    entries.sort_by(|a, b| (a.key, &a.arch).cmp(&(b.key, &b.arch)));
    bake::write(&output, &entries)?;
    let bytes = entries.iter().map(|entry| entry.code.len()).sum();
    binaries::print(|out| {
        table::columns(&rows, "", out)?;
        let (codes, compiled) = (many(entries.len(), "piece"), jobs.len() - failed);
        writeln!(
            out,
            "\n{}: {codes} of machine code, {}, {compiled} compiled now by {}",
            output.display(),
            size(bytes),
            compiler.name()
        )
    })?;
    match failed {
        0 => Ok(()),
        count => Err(Failure::NotBaked { count }),
    }
}

/// The architectures of the GPUs of this machine, if there is a driver with some.
fn archs_here() -> Option<BTreeSet<Target>> {
    let driver = Library::open_unwatched().ok()?;
    driver.init().ok()?;
    let arch = |ordinal| {
        let device = driver.device(ordinal)?;
        let sm = 10 * device.attribute(Attribute::Major)? + device.attribute(Attribute::Minor)?;
        Ok(Target { sm, portability: Portability::Forward })
    };
    let archs: kernel_registry_command::driver::Answer<BTreeSet<_>> =
        (0..driver.device_count().ok()?).map(arch).collect();
    archs.ok().filter(|archs| !archs.is_empty())
}

fn cell(outcome: &Outcome, entries: &[Entry], made: &[Made]) -> String {
    match outcome {
        Outcome::HasCode => "in the image".to_owned(),
        Outcome::NotFor => "not for it".to_owned(),
        Outcome::Kept(number) => format!("{}, there", size(entries[*number].code.len())),
        Outcome::Job(number) => match &made[*number] {
            (Ok(code), time) => format!("{}, {}", size(code.len()), seconds(*time)),
            (Err(_), _) => "FAILED".to_owned(),
        },
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

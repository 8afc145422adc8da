//! `cargo kernels bake`: compiles the PTX of a binary, and writes the machine code to a file from which the program loads it.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use kernel_registry_command::bake::{Job, Made, Update};
use kernel_registry_command::compiler::{Compiler, Options};
use kernel_registry_command::driver::Library;
use kernel_registry_command::{Failure as Shared, Mapped, many};
use kernel_registry_image::Target;

use crate::binary::Contents;
use crate::cli::Bake;
use crate::failure::Failure;
use crate::images::ptx::{self, Need, PtxImage};
use crate::output;
use crate::output::table;

/// What baking does with an image for one architecture.
enum Outcome {
    /// It has machine code.
    HasCode,
    NotFor,
    /// Its machine code is there already, with so many bytes.
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
        return output::print(|out| writeln!(out, "there is nothing to compile for {archs}: {why}"));
    }
    let output = options.output.clone().unwrap_or_else(|| ptx::beside(path));
    let mut update = Update::begin(&output, |key| images.iter().any(|image| image.key == *key))?;
    let compiler = Compiler::find().map_err(|source| Shared::NoCompiler { source })?;

    let (mut jobs, mut outcomes) = (Vec::new(), Vec::new());
    for image in &images {
        let mut outcome = |arch: &Target| match image.need(*arch) {
            Need::Code => Outcome::HasCode,
            Need::NotFor => Outcome::NotFor,
            Need::Ptx(text, arch) => match update.find(&image.key, arch, compiler.name()) {
                Some(entry) => Outcome::Kept(entry.code.len()),
                None => {
                    // Text that nothing declares may be no PTX that is ever loaded.
                    let may_fail = image.declared_as.is_empty();
                    jobs.push(Job { name: &image.name, key: image.key, text, arch, may_fail });
                    Outcome::Job(jobs.len() - 1)
                }
            },
        };
        outcomes.push(archs.iter().map(&mut outcome).collect::<Vec<_>>());
    }
    let made = update.compile(&compiler, Options::default(), &jobs);
    update.write()?;

    let mut rows = vec![["IMAGE", "KERNELS", "PTX"].map(str::to_owned).to_vec()];
    rows[0].extend(archs.iter().map(Target::to_string));
    for (image, outcomes) in images.iter().zip(&outcomes) {
        let mut row = vec![image.name.clone(), image.kernels.to_string(), size(image.len())];
        row.extend(outcomes.iter().map(|outcome| cell(outcome, &made)));
        rows.push(row);
    }
    let entries = update.entries();
    let bytes = entries.iter().map(|entry| entry.code.len()).sum();
    let compiled = made.iter().filter(|(code, _)| code.is_some()).count();
    output::print(|out| {
        table::columns(&rows, "", out)?;
        writeln!(
            out,
            "\n{}: {} of machine code, {}, {compiled} compiled now by {}",
            output.display(),
            many(entries.len(), "piece"),
            size(bytes),
            compiler.name()
        )
    })?;
    Ok(update.end()?)
}

/// The architectures of the GPUs of this machine, if there is a driver with some.
fn archs_here() -> Option<BTreeSet<Target>> {
    let driver = Library::found().ok()?;
    driver.init().ok()?;
    let arch = |ordinal| driver.device(ordinal).ok()?.arch().ok();
    let archs: BTreeSet<_> = (0..driver.device_count().ok()?).map(arch).collect::<Option<_>>()?;
    (!archs.is_empty()).then_some(archs)
}

fn cell(outcome: &Outcome, made: &[Made]) -> String {
    match *outcome {
        Outcome::HasCode => "in the image".to_owned(),
        Outcome::NotFor => "not for it".to_owned(),
        Outcome::Kept(bytes) => format!("{}, there", size(bytes)),
        Outcome::Job(number) => match made[number] {
            (Some(bytes), time) => format!("{}, {}", size(bytes), seconds(time)),
            (None, _) => "FAILED".to_owned(),
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

//! Counts the kernels of PTX files that the interpreter can run, and lists the instructions that it lacks for
//! other kernels.
//!
//! ```sh
//! nvcc -ptx -arch=compute_80 kernels.cu -o ptx/kernels.ptx
//! cargo run --release -p kernel-registry-ptx --example coverage -- ptx
//! ```
//!
//! The folder's subfolders are counted one by one: with a subfolder for each repository, the table has a row
//! for each.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use kernel_registry_ptx::Program;

/// The counts of one folder.
#[derive(Default)]
struct Counts {
    files: usize,
    kernels: usize,
    run: usize,
}

/// How many kernels each instruction that is lacking prevents from running, and one file with such a kernel.
type Lacking = BTreeMap<String, (usize, PathBuf)>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name a folder with PTX files")?;
    let folder = Path::new(&folder);
    let mut lacking = Lacking::new();
    let mut total = Counts::default();
    println!("{:30} {:>6} {:>8} {:>8} {:>7}", "folder", "files", "kernels", "run", "part");
    let inner =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    let mut folders: Vec<PathBuf> = inner.into_iter().filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.push(folder.to_owned());
    for folder in folders {
        let counts = count(&folder, &mut lacking)?;
        if counts.files > 0 {
            print(&folder.display().to_string(), &counts);
        }
        total.files += counts.files;
        total.kernels += counts.kernels;
        total.run += counts.run;
    }
    print("all", &total);
    let mut lacking: Vec<_> = lacking.into_iter().collect();
    lacking.sort_by_key(|(_, (kernels, _))| std::cmp::Reverse(*kernels));
    for (what, (kernels, file)) in lacking {
        println!("{kernels:8} {what}  ({})", file.display());
    }
    Ok(())
}

fn print(name: &str, Counts { files, kernels, run }: &Counts) {
    let part = 100.0 * *run as f64 / (*kernels).max(1) as f64;
    println!("{name:30} {files:6} {kernels:8} {run:8} {part:6.1}%");
}

/// Counts the files of one folder.
fn count(folder: &Path, lacking: &mut Lacking) -> Result<Counts, Box<dyn Error>> {
    let mut counts = Counts::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let mut lacks = |what: String, kernels: usize| {
            lacking.entry(what).or_insert_with(|| (0, path.clone())).0 += kernels;
        };
        counts.files += 1;
        match Program::load(&text) {
            Ok(program) => {
                for kernel in program.kernels() {
                    counts.kernels += 1;
                    match program.lacking(kernel) {
                        None => counts.run += 1,
                        Some(found) => lacks(found.what.clone(), 1),
                    }
                }
            }
            // The whole file was refused. Its kernels are counted by the word `.entry`.
            Err(error) => {
                let kernels = text.matches(".entry ").count();
                counts.kernels += kernels;
                lacks(error.to_string(), kernels);
            }
        }
    }
    Ok(counts)
}

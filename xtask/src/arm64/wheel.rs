//! Makes the audit's wheel for arm64, installs it there in an empty virtual environment, and uses it on the
//! simulated driver.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{LittleEndian, Object, ObjectSegment};

use crate::run::{Outcome, link, remove, run};
use crate::toolkit;
use crate::wheel::files;

/// The name in lists of test parts.
pub(super) const WHEEL: &str = "wheel";

/// Runs `cargo xtask wheel` through `command`, where Python, `strip` and the packed command are arm64's,
/// while cargo and zig are this machine's. `target` is the target directory there.
pub(super) fn test(command: impl FnOnce(&str) -> Command, target: &Path, triple: &str) -> Outcome {
    let zig = toolkit::zig()?;
    let toolkits = zig.ancestors().nth(3).ok_or("zig is in a folder of `target/toolkit`")?;
    fs::create_dir_all(target)?;
    link(toolkits, &target.join("toolkit"))?;
    let xtask = env::current_exe()?;
    let xtask = xtask.to_str().ok_or("the path of xtask is not UTF-8")?;
    run(command(xtask).args(["wheel", "--test", "--target", triple]))?;
    check_segments(&target.join("wheel/kernel-audit"))?;
    remove(&target.join("wheel-build"))
}

/// The largest page size of Linux on arm64. The loader refuses segments that are aligned to less than the
/// machine's page, and qemu only has the pages of its host.
const LARGEST_PAGE: u64 = 1 << 16;

/// Checks that programs and libraries can be loaded where pages are largest.
fn check_segments(folder: &Path) -> Outcome {
    for file in files(folder)? {
        let bytes = fs::read(&file)?;
        let elf = ElfFile::<FileHeader64<LittleEndian>>::parse(&*bytes)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        if let Some(segment) = elf.segments().find(|segment| segment.align() < LARGEST_PAGE) {
            let (address, align) = (segment.address(), segment.align());
            return Err(
                format!("{}: the segment at {address:#x} is aligned to {align:#x}", file.display()).into()
            );
        }
    }
    Ok(())
}

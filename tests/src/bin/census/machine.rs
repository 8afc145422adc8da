//! Finds the GPU, the driver and the date, for recordings.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use kernel_registry::cudarc::driver::sys::CUdevice_attribute_enum as Attribute;

use crate::cuda::{self, Failed};
use crate::recording::Machine;

/// Describes the first device, or returns an error message if there is none.
pub(crate) fn machine() -> Result<Machine, String> {
    // Dropped on return, because each row creates its own context.
    let context = kernel_registry::context(0).map_err(|error| ::tests::with_causes(&error))?;
    let attribute = |which| context.attribute(which).map_err(|error| error.to_string());
    let (major, minor) = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let cuda = cuda::version().map_err(|Failed(error)| error)?;
    Ok(Machine {
        gpu: context.name().map_err(|error| error.to_string())?,
        arch: format!("sm_{major}{minor}"),
        driver: fs::read_to_string("/proc/driver/nvidia/version").ok().as_deref().and_then(driver_version),
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
    })
}

/// Finds the driver's version in the kernel module's description of itself: the first word of digits with a
/// dot.
fn driver_version(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|b| b == b'.' || b.is_ascii_digit());
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

/// Returns today's date in UTC, as year, month and day.
pub(crate) fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    civil(seconds / (24 * 60 * 60))
}

/// Returns the date this many days after 1 January 1970.
fn civil(days: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut days) = (1970, days);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (364, "1970-12-31"),
            (365, "1971-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_778, "2026-11-21"),
        ] {
            assert_eq!(civil(days), date);
        }
    }

    #[test]
    fn the_version_is_found_in_either_kernel_module() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build  (x)\nGCC 12.3\n";
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";
        assert_eq!(driver_version(open).as_deref(), Some("580.159.03"));
        assert_eq!(driver_version(closed).as_deref(), Some("535.104.05"));
        assert_eq!(driver_version("something else\n"), None);
    }
}

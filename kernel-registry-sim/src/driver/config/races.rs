//! Configures the detector of races, and reports what it finds.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use kernel_registry_image::Signature;
use kernel_registry_ptx::Race;

use crate::driver::report::failures::report_at_once;

/// Whether races are looked for, and where they are written besides standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Races {
    /// They aren't looked for.
    #[default]
    Off,
    Report,
    /// The file gets a byte for what is done, for the command that has started this process: see [`Noted`].
    Note(PathBuf),
}

/// What the command is told, in the order of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// A process has initialised the driver.
    Begun = b'b' as isize,
    /// A race.
    Race = b'r' as isize,
    /// A kernel that isn't watched, because it has clusters.
    Unwatched = b'u' as isize,
}

impl Races {
    /// Parses the variable: `report`, or the absolute path of a file.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        match value {
            "report" => Some(Races::Report),
            path => path.starts_with('/').then(|| Races::Note(path.into())),
        }
    }

    /// Notes something in the file, if there is one.
    pub(crate) fn note(&self, noted: Noted) {
        let Races::Note(path) = self else { return };
        // Opening a pipe would wait for a reader.
        let file = OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(&[noted as u8])) {
            report_at_once(&format!("`{}` can't be written to: {error}", path.display()));
        }
    }

    /// Reports a race, with the kernels' names as in the source.
    pub(crate) fn report(&self, race: &Race) {
        report_at_once(&with_source_names(race).to_string());
        self.note(Noted::Race);
    }
}

/// Returns a race with the kernels' names as in the source.
pub(crate) fn with_source_names(race: &Race) -> Race {
    let mut race = race.clone();
    for side in [&mut race.first, &mut race.second] {
        if let Some(signature) = Signature::parse(&side.kernel) {
            side.kernel = signature.name;
        }
    }
    race
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_means_nothing_turns_nothing_on() {
        assert_eq!(Races::parse("report"), Some(Races::Report));
        assert_eq!(Races::parse("/tmp/noted"), Some(Races::Note("/tmp/noted".into())));
        assert_eq!(["", "off", "0", "yes"].map(Races::parse), [const { None }; 4]);
    }
}

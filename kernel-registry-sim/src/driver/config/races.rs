//! What is done with races that were found.

use std::fs::OpenOptions;
use std::io::Write;
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
    /// The file gets a byte for each, for the command that has started this process.
    Count(PathBuf),
}

impl Races {
    /// Parses the variable: `report`, or a file.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        match value {
            "" => None,
            "report" => Some(Races::Report),
            path => Some(Races::Count(path.into())),
        }
    }

    /// Reports a race, with the kernels' names as in the source.
    pub(crate) fn report(&self, race: &Race) {
        let mut race = race.clone();
        for side in [&mut race.first, &mut race.second] {
            if let Some(signature) = Signature::parse(&side.kernel) {
                side.kernel = signature.name;
            }
        }
        report_at_once(&race.to_string());
        if let Races::Count(path) = self {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(b"."));
        }
    }
}

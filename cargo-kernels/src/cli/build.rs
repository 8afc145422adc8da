//! Options for builds by cargo, which several commands have.

use std::path::PathBuf;

use clap::Args;

/// The names of the options of a build. They conflict with the path of a file.
pub(crate) const OF_BUILDS: [&str; 12] = [
    "bin",
    "release",
    "profile",
    "target",
    "spec",
    "features",
    "all_features",
    "no_default_features",
    "manifest_path",
    "locked",
    "offline",
    "quiet",
];

/// Options that are passed on to `cargo build`.
#[derive(Args)]
#[command(next_help_heading = "Building (without a path)")]
pub(crate) struct Build {
    /// Build and read this binary only
    #[arg(long, value_name = "NAME")]
    pub(crate) bin: Option<String>,

    /// Build with optimisations
    #[arg(short, long)]
    pub(crate) release: bool,

    /// Build with this profile
    #[arg(long, value_name = "NAME", conflicts_with = "release")]
    pub(crate) profile: Option<String>,

    /// Build for this target
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,

    #[command(flatten)]
    pub(crate) package: Package,
}

/// Which package, and how cargo is run on it.
#[derive(Args)]
pub(crate) struct Package {
    /// Build this package of the workspace
    #[arg(short = 'p', long = "package", value_name = "SPEC")]
    pub(crate) spec: Option<String>,

    /// Features to activate
    #[arg(short = 'F', long, value_name = "FEATURES")]
    pub(crate) features: Vec<String>,

    /// Activate all features
    #[arg(long)]
    pub(crate) all_features: bool,

    /// Do not activate the default feature
    #[arg(long)]
    pub(crate) no_default_features: bool,

    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,

    /// Fail if Cargo.lock would change
    #[arg(long)]
    pub(crate) locked: bool,

    /// Use no network
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print no messages of cargo but warnings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

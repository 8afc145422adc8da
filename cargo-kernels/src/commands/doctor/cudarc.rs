//! Checks whether the package's cudarc has bindings, and whether they fit the driver.
//!
//! cudarc has bindings of one CUDA version, chosen by its features. It panics if a program calls a function that
//! the driver lacks.

use std::collections::BTreeMap;

use kernel_registry_cuda::CudaVersion;

use super::facts::{Cudarc, Facts, Package, version_of_feature};
use super::line::Line;

const ABOUT: &str = "cudarc";

/// The variable that overrides the features, as in `CUDARC_CUDA_VERSION=12040`.
const VARIABLE: &str = "CUDARC_CUDA_VERSION";

/// The oldest bindings that kernel-registry builds with.
const OLDEST: CudaVersion = CudaVersion::new(12, 0);

pub(super) fn check(facts: &Facts) -> Vec<Line> {
    let (crates, nvcc) = match &facts.package {
        Package::Cudarc { crates, nvcc } => (crates, *nvcc),
        Package::None => {
            let text = "not checked: there is no Cargo.toml in this folder or above";
            return vec![Line::note(ABOUT, text, "run this in the folder of a package")];
        }
        Package::Unknown { why } => {
            let text = format!("not checked: cargo cannot list the dependencies: {why}");
            return vec![Line::note(ABOUT, text, "see what `cargo metadata` says")];
        }
    };
    if crates.is_empty() {
        return vec![Line::ok(ABOUT, "not among the package's dependencies")];
    }
    crates.iter().map(|cudarc| line(cudarc, nvcc, facts)).collect()
}

fn line(cudarc: &Cudarc, nvcc: Option<CudaVersion>, facts: &Facts) -> Line {
    let name = format!("cudarc {}", cudarc.version);
    let named = named(cudarc, facts.variable(VARIABLE));
    if let Some(named) = named.as_ref().filter(|named| named.len() > 1) {
        let all: Vec<_> = named.iter().map(|(cuda, by)| format!("{cuda} by {by}")).collect();
        let text = format!("{name} does not build: several CUDA versions are chosen: {}", all.join(", "));
        return Line::problem(ABOUT, text, "name a version only in the program, never in libraries");
    }
    let bindings = named.and_then(|named| match named.into_iter().next() {
        Some((cuda, by)) => Some(Bindings { cuda, by, pinned: true }),
        None => by_build_system(cudarc, nvcc),
    });
    match bindings {
        Some(bindings) => fit(&name, cudarc, &bindings, facts.driver_version()),
        None => {
            let newest = example(cudarc, None);
            let text = format!("{name} does not build: no CUDA version that it knows is chosen");
            let remedy = format!(
                "name one in the program, as in `features = [\"{newest}\"]`, or set `{VARIABLE}` to its number"
            );
            Line::problem(ABOUT, text, remedy)
        }
    }
}

/// The CUDA version of cudarc's bindings, and what chose it.
struct Bindings {
    cuda: CudaVersion,
    by: String,
    /// Whether a feature or the variable names this version; otherwise cudarc's build script chose it.
    pinned: bool,
}

/// Returns the CUDA versions that features or the variable name, each with the crates, the feature or the
/// variable that names it. Returns `None` if cudarc doesn't know the variable's version.
fn named(cudarc: &Cudarc, variable: Option<&str>) -> Option<BTreeMap<CudaVersion, String>> {
    let mut named: BTreeMap<CudaVersion, String> = BTreeMap::new();
    for feature in &cudarc.features {
        if let Some(cuda) = version_of_feature(feature) {
            let users = cudarc.users.iter().filter(|(_, asked)| *asked == Some(cuda));
            let users: Vec<_> = users.map(|(user, _)| format!("`{user}`")).collect();
            named.insert(
                cuda,
                if users.is_empty() { format!("its feature `{feature}`") } else { users.join(" and ") },
            );
        }
    }
    if let Some(value) = variable {
        let cuda = CudaVersion::from_number(value.parse().ok()?);
        cudarc.known.contains(&cuda).then(|| named.entry(cuda).or_insert_with(|| format!("`{VARIABLE}`")))?;
    }
    Some(named)
}

/// Returns the bindings that cudarc's build script chooses if no version is named.
fn by_build_system(cudarc: &Cudarc, nvcc: Option<CudaVersion>) -> Option<Bindings> {
    let has = |feature: &str| cudarc.features.iter().any(|there| there == feature);
    let (cuda, by) = match nvcc {
        _ if !has("cuda-version-from-build-system") => return None,
        Some(cuda) => (cuda, "the nvcc on the path"),
        None if has("fallback-latest") => (*cudarc.known.last()?, "default if no nvcc is on the path"),
        None => return None,
    };
    cudarc.known.contains(&cuda).then(|| Bindings { cuda, by: by.to_owned(), pinned: false })
}

/// Compares the bindings with the driver.
fn fit(name: &str, cudarc: &Cudarc, bindings: &Bindings, driver: Option<CudaVersion>) -> Line {
    let Bindings { cuda, by, pinned } = bindings;
    let is = format!("{name} has bindings of CUDA {cuda}, by {by}");
    if *cuda < OLDEST {
        let text = format!("{is}: kernel-registry does not build with bindings older than CUDA {OLDEST}");
        return Line::problem(ABOUT, text, format!("build with `{VARIABLE}={}`", OLDEST.number()));
    }
    let Some(driver) = driver.filter(|driver| driver < cuda) else { return Line::ok(ABOUT, is) };
    let text = format!("{is}, but the driver is of {driver}: calling a function newer than that panics");
    let remedy = format!(
        "name the driver's version, only in the program: `features = [\"{}\"]`",
        example(cudarc, Some(driver))
    );
    if *pinned { Line::problem(ABOUT, text, remedy) } else { Line::note(ABOUT, text, remedy) }
}

/// Returns the feature for the newest CUDA version that cudarc knows and this driver supports, or else for the
/// oldest that cudarc knows.
fn example(cudarc: &Cudarc, driver: Option<CudaVersion>) -> String {
    let fits = |cuda: &&CudaVersion| driver.is_none_or(|driver| **cuda <= driver);
    let newest = cudarc.known.iter().rev().find(fits).or(cudarc.known.first());
    format!("cuda-{}", newest.map_or(12_000, |cuda| cuda.number()))
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    fn with(crates: Vec<Cudarc>, nvcc: Option<u32>, driver: u32) -> Vec<Line> {
        let mut facts = Facts::good();
        facts.found().version = Some(CudaVersion::from_number(driver));
        facts.package = Package::Cudarc { crates, nvcc: nvcc.map(CudaVersion::from_number) };
        check(&facts)
    }

    fn featured(features: &[&str]) -> Cudarc {
        let features = features.iter().map(|feature| feature.to_string()).collect();
        Cudarc { features, users: vec![("app".to_owned(), None)], ..Cudarc::pinned(12_080) }
    }

    fn only(lines: &[Line]) -> (Level, &str) {
        assert_eq!(lines.len(), 1, "{lines:?}");
        (lines[0].level, &lines[0].text)
    }

    #[test]
    fn bindings_that_the_driver_has_are_fine() {
        let lines = with(vec![Cudarc::pinned(12_080)], None, 13_000);
        assert_eq!(only(&lines), (Level::Ok, "cudarc 0.19.10 has bindings of CUDA 12.8, by `app`"));
    }

    #[test]
    fn bindings_older_than_kernel_registry_needs_do_not_build() {
        let mut cudarc = Cudarc::pinned(11_080);
        cudarc.known.insert(0, CudaVersion::new(11, 8));
        let lines = with(vec![cudarc], None, 13_000);
        let expected = "cudarc 0.19.10 has bindings of CUDA 11.8, by `app`: kernel-registry does not build with bindings older than CUDA 12.0";
        assert_eq!(only(&lines), (Level::Problem, expected));
        assert_eq!(lines[0].remedy.as_deref(), Some("build with `CUDARC_CUDA_VERSION=12000`"));
    }

    #[test]
    fn bindings_newer_than_the_driver_panic() {
        let lines = with(vec![Cudarc::pinned(13_000)], None, 12_080);
        assert_eq!(only(&lines).0, Level::Problem);
        assert!(lines[0].remedy.as_ref().unwrap().contains("cuda-12080"));
    }

    #[test]
    fn two_crates_that_name_two_versions_do_not_build() {
        let mut cudarc = Cudarc::pinned(12_080);
        cudarc.features.push("cuda-13000".to_owned());
        cudarc.users.push(("ml".to_owned(), Some(CudaVersion::new(13, 0))));
        let expected =
            "cudarc 0.19.10 does not build: several CUDA versions are chosen: 12.8 by `app`, 13.0 by `ml`";
        assert_eq!(only(&with(vec![cudarc], None, 13_000)), (Level::Problem, expected));
    }

    #[test]
    fn the_build_system_is_asked_as_cudarc_asks_it() {
        let cudarc =
            || featured(&["cuda-version-from-build-system", "fallback-latest", "fallback-dynamic-loading"]);
        let by_nvcc = with(vec![cudarc()], Some(12_040), 13_000);
        assert_eq!(
            only(&by_nvcc),
            (Level::Ok, "cudarc 0.19.10 has bindings of CUDA 12.4, by the nvcc on the path")
        );
        assert_eq!(only(&with(vec![cudarc()], None, 13_040)).0, Level::Ok);
        let latest = with(vec![cudarc()], None, 13_000);
        assert_eq!(only(&latest).0, Level::Note);
        assert!(latest[0].remedy.as_ref().unwrap().contains("cuda-13000"));
        // cudarc has no bindings for 13.9.
        assert_eq!(only(&with(vec![cudarc()], Some(13_090), 13_090)).0, Level::Problem);
        let without_fallback = featured(&["cuda-version-from-build-system"]);
        assert_eq!(only(&with(vec![without_fallback], None, 13_000)).0, Level::Problem);
        assert_eq!(only(&with(vec![featured(&[])], None, 13_000)).0, Level::Problem);
    }

    #[test]
    fn the_variable_counts_like_a_feature() {
        let with_variable = |cudarc, value: &str| {
            let mut facts = Facts::good();
            facts.variables.insert(VARIABLE.to_owned(), value.to_owned());
            facts.package = Package::Cudarc { crates: vec![cudarc], nvcc: None };
            check(&facts)
        };
        let unpinned = || featured(&["cuda-version-from-build-system"]);
        assert_eq!(only(&with_variable(unpinned(), "12040")).0, Level::Ok);
        assert_eq!(only(&with_variable(unpinned(), "12.4")).0, Level::Problem);
        assert_eq!(only(&with_variable(Cudarc::pinned(12_040), "12040")).0, Level::Ok);
        assert_eq!(only(&with_variable(Cudarc::pinned(12_080), "12040")).0, Level::Problem);
    }

    #[test]
    fn a_package_that_cannot_be_asked_is_a_note() {
        let mut facts = Facts::good();
        for package in [Package::None, Package::Unknown { why: "no cargo".to_owned() }] {
            facts.package = package;
            assert_eq!(only(&check(&facts)).0, Level::Note);
        }
        assert_eq!(only(&with(Vec::new(), None, 13_000)).0, Level::Ok);
    }
}

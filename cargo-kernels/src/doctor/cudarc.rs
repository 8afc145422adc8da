//! Checks whether the package's cudarc builds, and fits the driver.
//!
//! cudarc has bindings of one CUDA version, chosen by its features. It panics when a function is called that the
//! driver lacks.

use std::collections::BTreeMap;

use kernel_registry_format::CudaVersion;

use super::facts::{Cudarc, Facts, Package, version_of_feature};
use super::line::Line;

const ABOUT: &str = "cudarc";

/// The variable that overrides the features, as in `CUDARC_CUDA_VERSION=12040`.
const VARIABLE: &str = "CUDARC_CUDA_VERSION";

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
    let mut lines: Vec<Line> = crates.iter().flat_map(|cudarc| lines(cudarc, nvcc, facts)).collect();
    lines.extend(versions(crates));
    lines
}

/// Notes if one program has several versions of cudarc.
fn versions(crates: &[Cudarc]) -> Option<Line> {
    let users = |cudarc: &Cudarc| {
        let users: Vec<_> = cudarc.users.iter().map(|(user, _)| format!("`{user}`")).collect();
        format!("{} for {}", cudarc.version, users.join(", "))
    };
    let all: Vec<_> = crates.iter().map(users).collect();
    (all.len() > 1).then(|| {
        let text = format!(
            "several versions: {}; a context or slice of one does not fit the others",
            all.join("; ")
        );
        Line::note(
            ABOUT,
            text,
            "depend on the version that kernel-registry uses; `cargo tree -i cudarc` shows the packages",
        )
    })
}

fn lines(cudarc: &Cudarc, nvcc: Option<CudaVersion>, facts: &Facts) -> Vec<Line> {
    let name = format!("cudarc {}", cudarc.version);
    let mut lines = vec![match bindings(cudarc, nvcc, facts.variable(VARIABLE)) {
        Err((text, remedy)) => Line::problem(ABOUT, format!("{name} does not build: {text}"), remedy),
        Ok(bindings) => fit(&name, cudarc, &bindings, facts.driver_version()),
    }];
    let has = |feature: &str| cudarc.features.iter().any(|there| there == feature);
    let ways = ["dynamic-loading", "dynamic-linking", "static-linking"].map(has);
    if ways.iter().filter(|way| **way).count() > 1 {
        let text =
            format!("{name} does not build: its features ask for more than one of loading and linking");
        lines.push(Line::problem(ABOUT, text, "name none of `dynamic-linking`, `static-linking` and `dynamic-loading` in \
                                               libraries: `fallback-dynamic-loading` gives way to the program's choice"));
    } else if ways[1] || ways[2] {
        let text = format!("{name} links the driver: its programs do not start without one");
        lines.push(Line::note(ABOUT, text, "take its feature `fallback-dynamic-loading` instead"));
    }
    lines
}

/// The CUDA version of cudarc's bindings, and what chose it.
struct Bindings {
    cuda: CudaVersion,
    by: String,
    /// A feature or variable names this version.
    pinned: bool,
}

/// What is wrong, and the remedy.
type Wrong = (String, String);

/// Chooses the bindings as cudarc's build script does.
fn bindings(cudarc: &Cudarc, nvcc: Option<CudaVersion>, variable: Option<&str>) -> Result<Bindings, Wrong> {
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
        let cuda =
            value.parse().map(CudaVersion::from_number).ok().filter(|cuda| cudarc.known.contains(cuda));
        let unknown = || (format!("it does not know `{VARIABLE}={value}`"), format!("unset `{VARIABLE}`"));
        named.entry(cuda.ok_or_else(unknown)?).or_insert_with(|| format!("`{VARIABLE}`"));
    }
    if named.len() > 1 {
        let all: Vec<_> = named.iter().map(|(cuda, by)| format!("{cuda} by {by}")).collect();
        let text = format!("several CUDA versions are chosen: {}", all.join(", "));
        return Err((text, "name a version only in the program, never in libraries".to_owned()));
    }
    if let Some((cuda, by)) = named.pop_first() {
        return Ok(Bindings { cuda, by, pinned: true });
    }
    let has = |feature: &str| cudarc.features.iter().any(|there| there == feature);
    let remedy = || format!("name a version in the program: `features = [\"{}\"]`", example(cudarc, None));
    if !has("cuda-version-from-build-system") {
        return Err(("its features name no CUDA version".to_owned(), remedy()));
    }
    match (nvcc, cudarc.known.last()) {
        (Some(cuda), _) if cudarc.known.contains(&cuda) => {
            Ok(Bindings { cuda, by: "the nvcc on the path".to_owned(), pinned: false })
        }
        (Some(cuda), _) => Err((format!("it does not know CUDA {cuda}, of the nvcc on the path"), remedy())),
        (None, Some(&cuda)) if has("fallback-latest") => {
            Ok(Bindings { cuda, by: "default if no nvcc is on the path".to_owned(), pinned: false })
        }
        (None, _) => {
            Err(("it asks nvcc for its version, and there is none on the path".to_owned(), remedy()))
        }
    }
}

/// Compares the bindings with the driver.
fn fit(name: &str, cudarc: &Cudarc, bindings: &Bindings, driver: Option<CudaVersion>) -> Line {
    let Bindings { cuda, by, pinned } = bindings;
    let is = format!("{name} has bindings of CUDA {cuda}, by {by}");
    let Some(driver) = driver.filter(|driver| driver < cuda) else { return Line::ok(ABOUT, is) };
    let text = format!("{is}, but the driver is of {driver}: calling a function newer than that panics");
    let remedy = format!(
        "name the driver's version, only in the program: `features = [\"{}\"]`",
        example(cudarc, Some(driver))
    );
    if *pinned { Line::problem(ABOUT, text, remedy) } else { Line::note(ABOUT, text, remedy) }
}

/// The feature for the newest CUDA version that cudarc knows and this driver supports.
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
        assert_eq!(
            only(&with(vec![featured(&["cuda-version-from-build-system"])], None, 13_000)).0,
            Level::Problem
        );
        assert_eq!(only(&with(vec![featured(&[])], None, 13_000)).0, Level::Problem);
    }

    #[test]
    fn the_variable_counts_beside_the_features() {
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
    fn linking_is_noted_and_two_ways_at_once_do_not_build() {
        let linked = with(
            vec![featured(&["cuda-12080", "dynamic-linking", "fallback-dynamic-loading"])],
            None,
            13_000,
        );
        assert_eq!((linked[0].level, linked[1].level), (Level::Ok, Level::Note));
        let both = with(vec![featured(&["cuda-12080", "dynamic-linking", "dynamic-loading"])], None, 13_000);
        assert_eq!(both[1].level, Level::Problem);
    }

    #[test]
    fn several_versions_are_told_with_who_uses_them() {
        let old = Cudarc { version: "0.16.0".to_owned(), ..Cudarc::pinned(12_080) };
        let lines = with(vec![Cudarc::pinned(12_080), old], None, 13_000);
        assert_eq!(lines[2].level, Level::Note);
        assert!(lines[2].text.contains("0.19.10 for `app`; 0.16.0 for `app`"));
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

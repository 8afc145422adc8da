//! Checks the driver's loading mode (lazy or eager), and what chose it.

use super::facts::Facts;
use super::line::Line;

const ABOUT: &str = "loading mode";
const VARIABLE: &str = "CUDA_MODULE_LOADING";

pub(super) fn check(facts: &Facts) -> Vec<Line> {
    let value = facts.variable(VARIABLE);
    // The driver ignores case.
    let named = value.map(str::to_ascii_uppercase);
    let is_known = matches!(named.as_deref(), None | Some("" | "DEFAULT" | "LAZY" | "EAGER"));
    let unknown = value.filter(|_| !is_known).map(|value| {
        let text = format!("`{VARIABLE}={value}` is none of DEFAULT, LAZY and EAGER");
        Line::note(ABOUT, text, format!("unset `{VARIABLE}`"))
    });
    let lazy = facts.started().and_then(|started| started.lazy);
    let mode = lazy.map(|lazy| match (lazy, named.as_deref()) {
        (true, Some("LAZY")) => Line::ok(ABOUT, format!("lazy, by `{VARIABLE}`")),
        (true, _) => Line::ok(ABOUT, "lazy, the driver's default"),
        (false, Some("EAGER")) => Line::note(
            ABOUT,
            format!(
                "eager, by `{VARIABLE}`: it prevents few of the waits that a warm-up prevents, and adds one in \
                 `cuLibraryLoadData`"
            ),
            format!("unset `{VARIABLE}`, and call `warm_all`"),
        ),
        (false, _) => Line::ok(ABOUT, "eager, the driver's default"),
    });
    mode.into_iter().chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    fn with(lazy: Option<bool>, value: Option<&str>) -> Vec<Line> {
        let mut facts = Facts::good();
        facts.found().started.as_mut().unwrap().lazy = lazy;
        facts.variables.extend(value.map(|value| (VARIABLE.to_owned(), value.to_owned())));
        check(&facts)
    }

    #[test]
    fn the_mode_is_named_with_what_chose_it() {
        assert_eq!(with(Some(true), None), [Line::ok(ABOUT, "lazy, the driver's default")]);
        assert_eq!(with(Some(true), Some("DEFAULT")), with(Some(true), None));
        assert_eq!(with(Some(true), Some("LAZY")), [Line::ok(ABOUT, "lazy, by `CUDA_MODULE_LOADING`")]);
        assert_eq!(with(Some(false), None), [Line::ok(ABOUT, "eager, the driver's default")]);
        let eager = with(Some(false), Some("EAGER"));
        assert_eq!((eager.len(), eager[0].level), (1, Level::Note));
        assert_eq!(with(Some(false), Some("eager")), eager);
    }

    #[test]
    fn a_value_that_nobody_knows_is_noted_also_without_a_mode() {
        let lines = with(None, Some("lzay"));
        assert_eq!((lines.len(), lines[0].level), (1, Level::Note));
        assert!(lines[0].text.contains("`CUDA_MODULE_LOADING=lzay`"));
        assert_eq!(with(Some(true), Some("lzay")).len(), 2);
    }
}

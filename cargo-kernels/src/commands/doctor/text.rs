//! Writes the doctor's answer as text: one line per result, its remedy below, then a line with the counts.

use std::io::{self, Write};

use kernel_registry_command::many;

use super::line::{self, Level, Line};

pub(super) fn write(lines: &[Line], out: &mut impl Write) -> io::Result<()> {
    let width = lines.iter().map(|line| line.about.len()).max().unwrap_or_default();
    for Line { level, about, text, remedy } in lines {
        writeln!(out, "{:7}  {about:width$}  {text}", level.as_str())?;
        if let Some(remedy) = remedy {
            writeln!(out, "{:7}  {:width$}  -> {remedy}", "", "")?;
        }
    }
    let counted = |level: Level, one: &str| many(line::count(lines, level), one);
    let ok = line::count(lines, Level::Ok);
    writeln!(out, "{ok} ok, {}, {}", counted(Level::Note, "note"), counted(Level::Problem, "problem"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_are_below_their_messages() {
        let lines = [
            Line::ok("driver", "CUDA 13.0"),
            Line::problem("variable", "`X=1` is wrong", "unset it"),
            Line::note("gpu", "it is old", "buy another"),
        ];
        let mut out = Vec::new();
        write(&lines, &mut out).unwrap();
        let expected = "\
ok       driver    CUDA 13.0
problem  variable  `X=1` is wrong
                   -> unset it
note     gpu       it is old
                   -> buy another
1 ok, 1 note, 1 problem
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

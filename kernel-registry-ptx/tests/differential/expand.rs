//! Expands patterns into texts: `<add,sub>.f<32,64>` becomes four opcodes. The brackets are angular because
//! PTX uses braces.

/// Returns all expansions of a pattern: every combination of the choices between `<` and `>`.
pub fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('<') else { return vec![pattern.to_owned()] };
    let (choices, after) = rest.split_once('>').expect("a bracket that opens also closes");
    let after = expand(after);
    choices
        .split(',')
        .flat_map(|choice| after.iter().map(move |after| format!("{before}{choice}{after}")))
        .collect()
}

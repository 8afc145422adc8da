//! Compares the declarations of two modules. Comments and format do not count.

use std::collections::BTreeMap;

/// Lists the items that differ or that only one module has. Each has a line, and the lines are sorted by name.
pub(super) fn between(old: &str, new: &str) -> Vec<String> {
    let (old, new) = (items(old), items(new));
    let mut lines = BTreeMap::new();
    for (name, item) in &new {
        match old.get(name) {
            None => lines.insert(name, format!("new: {name}")),
            Some(there) if there != item => lines.insert(name, format!("changed: {name}")),
            Some(_) => None,
        };
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        lines.insert(name, format!("gone: {name}"));
    }
    lines.into_values().collect()
}

/// Returns the items of a module by their names, without comments and spaces. A struct with named fields ends with its `}`. Other
/// items end with a `;` outside of brackets.
fn items(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let (mut items, mut item, mut depth, mut start) = (BTreeMap::new(), String::new(), 0u32, 0);
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            // A comma before a closing bracket means nothing.
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                item.truncate(item.trim_end_matches(',').len());
            }
            '(' | '[' | '{' => depth += 1,
            c if c.is_whitespace() => continue,
            _ => {}
        }
        item.push(c);
        if c == '"' {
            quoted(&mut chars, &mut item);
        }
        let is_struct = c == '}' && text[start..index].contains("struct ");
        if depth == 0 && (c == ';' || is_struct) {
            items.insert(name(&text[start..index]), std::mem::take(&mut item));
            start = index + 1;
        }
    }
    if !item.is_empty() {
        items.insert(name(&text[start..]), item);
    }
    items
}

/// Copies the rest of a string literal to `item`.
fn quoted(chars: &mut std::str::CharIndices<'_>, item: &mut String) {
    let mut is_escaped = false;
    for (_, c) in chars {
        item.push(c);
        match c {
            '"' if !is_escaped => return,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
}

/// Returns the kind and the name of an item. The name is the text after `fn`, `struct` or `use`, up to a bracket or colon.
fn name(item: &str) -> String {
    for (keyword, kind) in [("fn ", "kernel"), ("struct ", "struct"), ("use ", "use")] {
        // The last keyword counts, because strings in attributes can contain keywords.
        if let Some(at) = item.rfind(keyword) {
            let name = item[at + keyword.len()..].split(['(', '<', '{', ':']).next().unwrap_or_default();
            return format!("{kind} `{}`", name.trim());
        }
    }
    item.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "// Old.
        use kernel_registry::gpu_kernel;
        /// Documentation; of any kind.
        #[gpu_kernel(image = \"a;b.ptx\")]
        pub unsafe fn same(
            p0: u32,
            p1: &[f32],
        );
        #[gpu_kernel(image = \"x.ptx\")]
        pub unsafe fn other(p0: u32);
        pub struct Fields { pub a: u32 }
        pub struct Gone(pub [u8; 4]);";

    #[test]
    fn format_and_comments_make_no_difference() {
        let formatted = OLD.replace("            ", "").replace(",\n        );", ");");
        assert_eq!(between(OLD, &formatted), [""; 0]);
    }

    #[test]
    fn changes_are_named() {
        let new = OLD.replace("other(p0: u32)", "other(p0: i32)").replace("a: u32", "a: i32").replace(
            "pub struct Gone(pub [u8; 4]);",
            "#[gpu_kernel(image = \"fn x\")] pub unsafe fn more();",
        );
        assert_eq!(
            between(OLD, &new),
            [
                "new: kernel `more`",
                "changed: kernel `other`",
                "changed: struct `Fields`",
                "gone: struct `Gone`"
            ]
        );
    }
}

//! Parses the structs of a CUDA source whose fields are plain: numbers, pointers, CUDA's vectors, other
//! structs, and arrays of these.

use std::collections::HashMap;

use super::nesting::{Plain, closing, split};
use super::tokens::is_directive;
use super::types::{self, Names};
use crate::CudaType;

/// A field as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// The field's type, or the type of the array's elements.
    pub ty: CudaType,
    /// The lengths of an array, the outermost first.
    pub lengths: Vec<u32>,
}

/// A field and its offset in the struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PlacedField {
    /// The field.
    pub field: Field,
    /// Bytes from the beginning of the struct.
    pub offset: u32,
}

/// A struct of plain fields.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) fields: Vec<Field>,
    /// Whether its fields and layout are certain: it's at file scope, outside of preprocessor conditions,
    /// without attributes, and nothing in it is a macro.
    pub(super) is_certain: bool,
}

/// Collects the structs, by name without namespaces. Leaves out structs that share a name.
pub(super) fn collect(tokens: &[&str], plain: &[Plain], names: &Names<'_, '_>) -> HashMap<String, Record> {
    let mut all: HashMap<String, Option<Record>> = HashMap::new();
    for index in 0..tokens.len() {
        let (tag, body) = match &tokens[index..] {
            ["struct", "{", ..] => (None, index + 1),
            ["struct", tag, "{", ..] => (Some(*tag), index + 2),
            _ => continue,
        };
        let Some(end) = closing(&tokens[body..], "{", "}").map(|length| body + length) else { continue };
        let is_typedef = index > 0 && tokens[index - 1] == "typedef";
        let alias = match tokens.get(end + 1..) {
            Some([alias, ";", ..]) if is_typedef => Some(*alias),
            _ => None,
        };
        let before = tokens[..index - usize::from(is_typedef)].last();
        let is_alone = before.is_none_or(|token| [";", "{", "}"].contains(token) || is_directive(token))
            && (alias.is_some() || tokens.get(end + 1) == Some(&";"))
            && !tokens[index..end].iter().any(is_directive);
        let record = fields(&tokens[body + 1..end], names);
        for name in tag.into_iter().chain(alias.filter(|alias| Some(*alias) != tag)) {
            let is_plain = plain[index] != Plain::No && is_alone && !(names.is_macro)(name);
            let record = record
                .clone()
                .map(|Record { fields, is_certain }| Record { fields, is_certain: is_certain && is_plain });
            all.entry(name.to_owned()).and_modify(|known| *known = None).or_insert(record);
        }
    }
    all.into_iter().filter_map(|(name, record)| Some((name, record?))).collect()
}

/// Parses the fields of a struct, if it has nothing else in it.
fn fields(body: &[&str], names: &Names<'_, '_>) -> Option<Record> {
    const OTHER: [&str; 15] = [
        "(", "{", ":", "static", "using", "typedef", "struct", "union", "enum", "class", "template",
        "friend", "operator", "alignas", "&",
    ];
    if body.iter().any(|token| OTHER.contains(token)) {
        return None;
    }
    let (mut all, mut is_certain) = (Vec::new(), true);
    for statement in split(body, ";").into_iter().filter(|statement| !statement.is_empty()) {
        let declared = split(statement, ",");
        let (first, lengths) = array(declared[0])?;
        let parameter = types::parameter(first, names);
        is_certain &= parameter.is_certain;
        // A `*` belongs to one name only, but the words before it belong to all names.
        if declared.len() > 1 && first.contains(&"*") {
            return None;
        }
        all.push(Field { name: parameter.name?, ty: parameter.ty.clone(), lengths });
        for more in &declared[1..] {
            let (name, lengths) = array(more)?;
            let [name] = name else { return None };
            is_certain &= !(names.is_macro)(name);
            all.push(Field { name: (*name).to_owned(), ty: parameter.ty.clone(), lengths });
        }
    }
    (!all.is_empty()).then_some(Record { fields: all, is_certain })
}

/// Splits a declaration into the part before the lengths of an array, and these lengths.
fn array<'a, 'b>(declared: &'b [&'a str]) -> Option<(&'b [&'a str], Vec<u32>)> {
    let mut declared = split(declared, "=")[0];
    let mut lengths = Vec::new();
    while let [before @ .., "[", length, "]"] = declared {
        lengths.insert(0, length.parse().ok().filter(|length| *length > 0)?);
        declared = before;
    }
    (!declared.contains(&"[")).then_some((declared, lengths))
}

#[cfg(test)]
mod tests {
    use super::super::structs;
    use super::*;

    /// Returns the fields of a struct, each as `name: type`, with its lengths.
    fn fields_of(text: &str, name: &str) -> Option<Vec<String>> {
        let all = structs(text);
        let lengths =
            |field: &Field| field.lengths.iter().map(|length| format!("[{length}]")).collect::<String>();
        let field = |field: &Field| format!("{}: {}{}", field.name, field.ty, lengths(field));
        Some(all.get(name)?.iter().map(field).collect())
    }

    #[test]
    fn plain_fields_are_read() {
        let text =
            "typedef unsigned int count; struct Shape { int rows, columns; count n = 3; const float* x;
            float4 v; float m[2][3], k; Other o; };";
        let expected = [
            "rows: int",
            "columns: int",
            "n: unsigned int",
            "x: const float*",
            "v: float4",
            "m: float[2][3]",
            "k: float",
            "o: Other",
        ];
        assert_eq!(fields_of(text, "Shape").unwrap(), expected);
        assert_eq!(fields_of("typedef struct { int a; } Pair;", "Pair").unwrap(), ["a: int"]);
        let both = "typedef struct tag { int a; } Pair;";
        assert_eq!(fields_of(both, "tag"), fields_of(both, "Pair"));
    }

    #[test]
    fn structs_of_more_than_fields_are_left_out() {
        for body in [
            "int a; S() {}",
            "int a : 3;",
            "int a; static int b;",
            "virtual void f();",
            "union { int a; };",
            "int *a, b;",
            "int a[N];",
            "int a[];",
            "",
            "int a; public: int b;",
        ] {
            assert_eq!(fields_of(&format!("struct S {{ {body} }};"), "S"), None, "{body}");
        }
        assert_eq!(fields_of("struct S : T { int a; };", "S"), None);
        assert_eq!(fields_of("struct __align__(16) S { int a; };", "S"), None);
        assert_eq!(
            fields_of("namespace a { struct S { int a; }; } namespace b { struct S { int b; }; }", "S"),
            None
        );
        assert_eq!(fields_of("struct S { int a;", "S"), None);
    }
}

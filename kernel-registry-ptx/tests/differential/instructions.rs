//! Makes a kernel for each instruction of the table. Each thread of the kernel has its own operands.

use super::case::{Argument, Case};
use super::expand::expand;
use super::operands::{Kind, tuples};
use super::table::{APPROXIMATE, Bound, EXACT, REFUSED, Row};

/// An instruction, the operands that it is tested with, and how its result is checked.
pub struct Instruction {
    pub case: Case,
    pub operands: Vec<Vec<u64>>,
    pub result: Kind,
    /// None if the result is exact.
    pub bound: Option<Bound>,
}

pub fn instructions() -> Vec<Instruction> {
    let exact = EXACT.iter().map(|row| (row, None));
    let approximate = APPROXIMATE.iter().map(|(row, bound)| (row, Some(*bound)));
    exact.chain(approximate).flat_map(|(row, bound)| of_row(row, bound)).collect()
}

/// Returns instructions that neither a GPU nor the interpreter may accept.
pub fn refused() -> Vec<Instruction> {
    REFUSED.iter().flat_map(|row| of_row(row, None)).collect()
}

/// Returns the instructions of a row of the table.
fn of_row((pattern, from, to): &Row, bound: Option<Bound>) -> Vec<Instruction> {
    let kinds: Vec<Kind> = from.split(' ').map(Kind::named).collect();
    let result = Kind::named(to);
    let operands = tuples(&kinds);
    let input: Vec<u8> = operands.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    expand(pattern)
        .into_iter()
        .map(|name| Instruction {
            case: Case {
                text: text(&body(&name, &kinds, result), &kinds, result),
                name,
                kernel: "k".to_owned(),
                grid: [1; 3],
                block: [operands.len() as u32, 1, 1],
                shared: 0,
                arguments: vec![
                    Argument::Input(input.clone()),
                    Argument::Output(vec![0; operands.len() * result.size()]),
                    Argument::Input(vec![0; operands.len() * 8]),
                ],
            },
            operands: operands.clone(),
            result,
            bound,
        })
        .collect()
}

/// Returns the statements of an expanded pattern.
fn body(pattern: &str, kinds: &[Kind], result: Kind) -> String {
    if pattern.contains('%') {
        return pattern.to_owned();
    }
    let operands: String =
        ["%a", "%b", "%c", "%d"][..kinds.len()].iter().map(|name| format!(", {name}")).collect();
    match result {
        Kind::Pred => format!("{pattern} %p{operands}; selp.b32 %x, 1, 0, %p;"),
        _ => format!("{pattern} %x{operands};"),
    }
}

fn text(body: &str, kinds: &[Kind], result: Kind) -> String {
    let mut text = ".version 8.0\n.target sm_90\n.address_size 64\n\n\
        .visible .entry k(.param .u64 in, .param .u64 out, .param .u64 memory)\n{\n\
        .reg .b32 %me, %r<4>, %s;\n.reg .b64 %in, %out, %m, %at, %l<4>;\n.reg .pred %p, %q;\n\
        .shared .align 8 .b8 pool[4096];\n"
        .to_owned();
    let names = ["%a", "%b", "%c", "%d"];
    let stored = match result {
        Kind::Pred => "b8".to_owned(),
        _ => format!("b{}", 8 * result.size()),
    };
    for (kind, name) in kinds.iter().zip(names) {
        text += &format!(".reg .b{} {name};\n", 8 * kind.size());
    }
    text += &format!(".reg .b{} %x;\n", if result == Kind::Pred { 32 } else { 8 * result.size() });
    text += "mov.u32 %me, %tid.x;\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %m, [memory];\n\
        mov.u32 %s, pool;\nmad.lo.u32 %s, %me, 8, %s;\nmul.wide.u32 %at, %me, 8;\nadd.u64 %m, %m, %at;\n";
    text += &format!("mul.wide.u32 %at, %me, {};\nadd.u64 %in, %in, %at;\n", 8 * kinds.len());
    text += &format!("mul.wide.u32 %at, %me, {};\nadd.u64 %out, %out, %at;\n", result.size());
    for (index, (kind, name)) in kinds.iter().zip(names).enumerate() {
        text += &format!("ld.global.b{} {name}, [%in+{}];\n", 8 * kind.size(), 8 * index);
    }
    text + &format!("{body}\nst.global.{stored} [%out], %x;\nret;\n}}\n")
}

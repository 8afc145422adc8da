//! Splits an opcode into its parts: `add.rn.ftz.f32` is `add` with two modifiers and one type.

use crate::types::{How, Rounding, Type};

/// The parts of an opcode that are not decoded yet. Decoding removes each part. An opcode with a part left
/// over is refused.
pub(crate) struct Opcode<'a> {
    pub name: &'a str,
    pub modifiers: Vec<&'a str>,
    pub types: Vec<Type>,
}

impl<'a> Opcode<'a> {
    pub(crate) fn new(parts: &[&'a str]) -> Self {
        let (name, parts) = parts.split_first().map_or(("", parts), |(name, parts)| (*name, parts));
        let mut opcode = Self { name, modifiers: Vec::new(), types: Vec::new() };
        for part in parts.iter().copied() {
            match Type::named(part) {
                Some(kind) => opcode.types.push(kind),
                None => opcode.modifiers.push(part),
            }
        }
        opcode
    }

    /// Removes a modifier, and returns whether it was there.
    pub(crate) fn take(&mut self, modifier: &str) -> bool {
        self.take_any(&[modifier]).is_some()
    }

    pub(crate) fn take_any(&mut self, modifiers: &[&str]) -> Option<&'a str> {
        let index = self.modifiers.iter().position(|found| modifiers.contains(found))?;
        Some(self.modifiers.remove(index))
    }

    /// Removes modifiers that have no effect here. The list is separated by spaces.
    pub(crate) fn ignore(&mut self, modifiers: &str) {
        self.modifiers.retain(|found| modifiers.split(' ').all(|modifier| modifier != *found));
    }

    /// Removes and returns the type, if there is exactly one.
    pub(crate) fn kind(&mut self) -> Option<Type> {
        (self.types.len() == 1).then(|| self.types.remove(0))
    }

    /// Removes and returns the types, if there are exactly two. The type of the result is first.
    pub(crate) fn kinds(&mut self) -> Option<[Type; 2]> {
        (self.types.len() == 2).then(|| [self.types.remove(0), self.types.remove(0)])
    }

    pub(crate) fn rounding(&mut self) -> Option<Rounding> {
        self.take_any(&["rn", "rz", "rm", "rp"]).map(|name| match name {
            "rz" => Rounding::Zero,
            "rm" => Rounding::Down,
            "rp" => Rounding::Up,
            _ => Rounding::Near,
        })
    }

    pub(crate) fn how(&mut self) -> How {
        How {
            rounding: self.rounding().unwrap_or_default(),
            flush: self.take("ftz"),
            saturate: self.take("sat"),
            nan: self.take("NaN"),
            relu: self.take("relu"),
        }
    }

    pub(crate) fn understood(&self) -> bool {
        self.modifiers.is_empty() && self.types.is_empty()
    }
}

//! Checks operands before they are decoded, and refuses what ptxas refuses. An instruction that this check
//! does not know passes, or is reported as not simulated. Valid PTX is never reported as wrong.

use crate::decode::declare::Place;
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::form::{self, Class, Kind};
use crate::error::Reason;
use crate::parse::syntax::Operand;
use crate::slot::special;

impl<'a> Decoder<'a, '_> {
    /// Checks the types, modifiers, operands and guard of a statement.
    pub(crate) fn check(
        &mut self,
        parts: &[&'a str],
        operands: &[Operand<'a>],
        guard: Option<(&'a str, bool)>,
    ) -> Decoding<()> {
        if let Some((name, _)) = guard {
            self.fits(&Operand::Name(name), PREDICATE, false)?;
        }
        let types: Vec<&str> =
            parts[1..].iter().copied().filter(|part| Kind::named(part).is_some()).collect();
        let Some(form) = form::form(parts) else { return Ok(()) };
        if parts[1..].iter().any(|part| !form::is_known(part)) {
            return Err(Reason::Instruction);
        }
        form::check(&form, parts, &types)?;
        let mut alternatives = form.operands.split(' ').filter(|letters| letters.len() == operands.len());
        let Some(letters) = alternatives.next() else { return Err(Reason::Operands) };
        for (operand, letter) in operands.iter().zip(letters.chars()) {
            self.operand(parts, &types, operand, letter)?;
        }
        Ok(())
    }

    fn operand(
        &mut self,
        parts: &[&str],
        types: &[&str],
        operand: &Operand<'a>,
        letter: char,
    ) -> Decoding<()> {
        let kind =
            |index: usize| types.get(index).and_then(|name| Kind::named(name)).ok_or(Reason::Instruction);
        match letter {
            't' if parts[0] == "mov" => self.moved(operand, kind(0)?),
            't' => self.fits(operand, kind(0)?, false),
            'r' if parts[0] == "cvt" && special_kind(operand).is_some() => Err(Reason::Operands),
            'R' if special_kind(operand).is_some() => Ok(()),
            'r' if parts[0] != "cvt" => match operand {
                Operand::Vector(elements) => self.elements_fit(elements, kind(0)?),
                _ if ["v2", "v4", "v8"].iter().any(|vector| parts.contains(vector)) => Err(Reason::Operands),
                _ => self.fits(operand, kind(0)?, true),
            },
            'r' => self.fits(operand, kind(0)?, true),
            'R' => self.fits(operand, kind(1)?, true),
            's' => self.fits(operand, kind(1)?, false),
            'w' => self.fits(operand, Kind { size: 2 * kind(0)?.size, ..kind(0)? }, false),
            'u' => self.fits(operand, WORD, false),
            'q' => self.fits(operand, Kind { size: 8, class: Class::Integer }, false),
            'p' => self.fits(operand, PREDICATE, false),
            'a' => self.address_fits(parts, operand),
            'b' if matches!(operand, Operand::Integer(16..)) => Err(Reason::Operands),
            'n' if matches!(operand, Operand::Integer(count) if count % 32 != 0) => Err(Reason::Operands),
            'b' | 'n' => self.fits(operand, WORD, false),
            'c' if !matches!(operand, Operand::Integer(_)) => Err(Reason::Operands),
            _ => Ok(()),
        }
    }

    /// Checks that an operand fits a kind.
    pub(crate) fn fits(&mut self, operand: &Operand<'a>, kind: Kind, wider: bool) -> Decoding<()> {
        let right = match operand {
            Operand::Name("_") => true,
            Operand::Name(name) | Operand::Not(name) => match self.lookup(name) {
                Some(Place::Register(_, declared)) => {
                    let negated = matches!(operand, Operand::Not(_));
                    declared.fits(kind, wider) && (!negated || kind == PREDICATE)
                }
                Some(_) => matches!(kind.class, Class::Bits | Class::Integer),
                None if *name == "WARP_SZ" => true,
                // Only moves and conversions can read special registers.
                None if special_kind(operand).is_some() => false,
                None => return Err(self.shared.unknown(name)),
            },
            Operand::Integer(_) => kind.class != Class::Float,
            Operand::Single(_) => kind.class == Class::Float || kind == Kind { size: 4, class: Class::Bits },
            Operand::Double(_) => kind.class == Class::Float || kind == Kind { size: 8, class: Class::Bits },
            Operand::Pair(first, second) => {
                self.fits(&Operand::Name(first), kind, wider)?;
                return self.fits(&Operand::Name(second), PREDICATE, false);
            }
            Operand::Address(base, _) => !matches!(**base, Operand::Name(name) if self.is_register(name)),
            Operand::List(_) | Operand::Vector(_) | Operand::Coordinates(_) => false,
        };
        if right { Ok(()) } else { Err(Reason::Operands) }
    }

    /// Checks that the elements of a vector fit, and that they have equal widths. In a vector, an integer
    /// register also fits a floating-point type.
    fn elements_fit(&mut self, elements: &[Operand<'a>], kind: Kind) -> Decoding<()> {
        let Some(first) = elements.first() else { return Err(Reason::Operands) };
        let mut registers = Vec::new();
        for element in elements {
            if let Operand::Name(name) = element
                && let Some(Place::Register(_, declared)) = self.lookup(name)
            {
                registers.push(declared);
            }
        }
        let untyped = Kind { class: Class::Bits, ..kind };
        let integer = registers.first().is_some_and(|register| register.class == Class::Integer);
        self.fits(first, if integer { untyped } else { kind }, true)?;
        let equal = registers.windows(2).all(|pair| pair[0].size == pair[1].size);
        if equal { Ok(()) } else { Err(Reason::Operands) }
    }

    /// Checks an address. A name must be in the space of the access, and a register must have the width that
    /// the space requires.
    fn address_fits(&mut self, parts: &[&str], operand: &Operand<'a>) -> Decoding<()> {
        let Operand::Address(base, _) = operand else { return Err(Reason::Operands) };
        let any = |spaces: &[&str]| spaces.iter().any(|space| parts.contains(space));
        let shared = any(&["shared", "shared::cta", "shared::cluster"]);
        let parameter = any(&["param", "param::entry", "param::func"]);
        let right = match **base {
            Operand::Name(name) => match self.lookup(name) {
                Some(Place::Register(_, kind)) => {
                    let narrow = shared || any(&["local"]) || parameter;
                    matches!(kind.class, Class::Bits | Class::Integer)
                        && (kind.size == 8 || narrow && kind.size == 4)
                }
                Some(Place::Shared(_) | Place::DynamicShared) => shared,
                Some(Place::Variable(_)) => any(&["global", "const"]),
                Some(Place::Parameter(_)) => parameter && parts[0] != "st",
                Some(Place::Frame(_, _, true)) => parameter,
                Some(Place::Frame(_, _, false)) => any(&["local"]),
                Some(_) => false,
                None => return Err(Reason::Name(name.to_owned())),
            },
            Operand::Integer(_) => any(&["local"]),
            _ => false,
        };
        if right { Ok(()) } else { Err(Reason::Operands) }
    }

    fn is_register(&mut self, name: &str) -> bool {
        matches!(self.lookup(name), Some(Place::Register(..)))
    }

    /// Checks an operand of `mov`. It may be a vector to pack or unpack, or a special register.
    fn moved(&mut self, operand: &Operand<'a>, kind: Kind) -> Decoding<()> {
        if let Some(special) = special_kind(operand) {
            let right = if special.size == 8 { kind.size == 8 } else { (2..=4).contains(&kind.size) };
            return if right && kind.class != Class::Float { Ok(()) } else { Err(Reason::Operands) };
        }
        let Operand::Vector(parts) = operand else { return self.fits(operand, kind, false) };
        let size = kind.size / parts.len().max(1) as u64;
        if kind.class != Class::Bits || size * parts.len() as u64 != kind.size {
            return Err(Reason::Operands);
        }
        parts.iter().try_for_each(|part| self.fits(part, Kind { size, class: Class::Bits }, false))
    }
}

pub(crate) const WORD: Kind = Kind { size: 4, class: Class::Integer };
pub(crate) const PREDICATE: Kind = Kind { size: 1, class: Class::Predicate };

/// Returns the kind of a special register, or `None` for any other operand.
fn special_kind(operand: &Operand<'_>) -> Option<Kind> {
    let Operand::Name(name) = operand else { return None };
    let size = match *name {
        "%clock64" | "%globaltimer" | "%gridid" => 8,
        "%clock" | "%clock_hi" | "%globaltimer_lo" | "%globaltimer_hi" => 4,
        name => special(name).map(|_| 4)?,
    };
    Some(Kind { size, class: Class::Integer })
}

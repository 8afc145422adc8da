//! Decodes instructions on matrices: `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix`.

use crate::address::Space;
use crate::decode::compute::float::{Bf16, F16, Number};
use crate::decode::compute::fp8::{E4m3, E5m2};
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::opcode::Opcode;
use crate::error::Reason;
use crate::matrix::{Element, Layout, MMA, Matrix, Part, Product, Shape, Together, WMMA};
use crate::op::Op;
use crate::parse::syntax::Operand;
use crate::slot::Slot;
use crate::types::{How, Scalar, Type};

impl<'a> Decoder<'a, '_> {
    pub(crate) fn matrix(&mut self, parts: &[&'a str], operands: &[Operand<'a>]) -> Decoding<()> {
        let parts: Vec<&str> =
            parts.iter().copied().filter(|part| !matches!(*part, "sync" | "aligned")).collect();
        let together = match parts[..] {
            ["mma", shape, "row", "col", ref types @ ..] => self.multiply(true, shape, types, operands)?,
            ["wmma", "mma", "row" | "col", "row" | "col", shape, ref types @ ..] => {
                self.multiply(false, shape, types, operands)?
            }
            ["wmma", "load", part, layout, shape, ref rest @ ..] => {
                let [registers, address, stride @ ..] = operands else { return Err(Reason::Operands) };
                self.whole((part, layout, shape, rest), registers, (address, stride), false)?
            }
            ["wmma", "store", "d", layout, shape, ref rest @ ..] => {
                let [address, registers, stride @ ..] = operands else { return Err(Reason::Operands) };
                self.whole(("c", layout, shape, rest), registers, (address, stride), true)?
            }
            ["ldmatrix" | "stmatrix", ..] => self.rows(&mut Opcode::new(&parts), operands)?,
            ["movmatrix", "m8n8", "trans", "b16"] => {
                let [to, from] = operands else { return Err(Reason::Operands) };
                Together::Transpose { to: self.square(to, false)?, from: self.square(from, true)? }
            }
            _ => return Err(Reason::Instruction),
        };
        self.emit(Op::Matrix(Box::new(together)));
        Ok(())
    }

    /// Decodes `mma`, whose operands are fragments, and `wmma.mma`.
    fn multiply(
        &mut self,
        fragments: bool,
        shape: &str,
        types: &[&str],
        operands: &[Operand<'a>],
    ) -> Decoding<Together> {
        let (mut saturate, mut xor) = (false, false);
        let types: Vec<&str> = types
            .iter()
            .copied()
            .filter(|part| {
                saturate |= *part == "satfinite";
                xor |= *part == "xor";
                !matches!(*part, "satfinite" | "xor" | "and" | "popc" | "rn")
            })
            .collect();
        let [d, a, b, c] = match types[..] {
            // `wmma` has a short form, in which the factors are f16.
            [d, c] => [d, "f16", "f16", c],
            [d, a, b, c] => [d, a, b, c],
            _ => return Err(Reason::Instruction),
        };
        let has = |list: &str, name: &str| list.split(' ').any(|found| found == name);
        let rows = if fragments { MMA } else { WMMA };
        let known = rows.iter().any(|(shapes, factors, sums)| {
            has(shapes, shape) && has(factors, a) && has(factors, b) && has(sums, c) && has(sums, d)
        });
        let (true, Some(shape)) = (known, Shape::named(shape)) else { return Err(Reason::Instruction) };
        let [to, left, right, sum] = operands else { return Err(Reason::Operands) };
        let mut matrix = |part, name, operand, written| {
            let layout = if fragments { Layout::Fragment(part) } else { Layout::Linear };
            self.part((shape, part), name, layout, operand, written)
        };
        let (d, c) = (matrix(Part::C, d, to, true)?, matrix(Part::C, c, sum, false)?);
        let (a, b) = (matrix(Part::A, a, left, false)?, matrix(Part::B, b, right, false)?);
        let product = match (a.element, d.element) {
            (Element::B1, _) => Product::Bits { xor },
            (_, Element::S32) => Product::Integer { a: integer(a.element), b: integer(b.element), saturate },
            _ if saturate => return Err(Reason::Instruction),
            _ => Product::Float {
                a: widened(a.element),
                b: widened(b.element),
                c: widened(c.element),
                d: narrowed(d.element),
                fused: d.element == Element::F64,
            },
        };
        Ok(Together::Multiply { d, a, b, c, product })
    }

    /// Decodes `ldmatrix` and `stmatrix`, with modifiers in any order.
    fn rows(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<Together> {
        let stores = opcode.name == "stmatrix";
        let shared = opcode.take_any(&["shared", "shared::cta"]).is_some();
        let space = if shared { Space::Shared } else { Space::Generic };
        let transposed = opcode.take("trans");
        let count = match opcode.take_any(&["x1", "x2", "x4"]) {
            Some("x1") => 1,
            Some("x2") => 2,
            _ => 4,
        };
        if !opcode.take("m8n8") || opcode.kind() != Some(Type::U16) || !opcode.understood() {
            return Err(Reason::Instruction);
        }
        let [first, second] = operands else { return Err(Reason::Operands) };
        let (registers, address) = if stores { (second, first) } else { (first, second) };
        let matrix = self.square(registers, stores)?;
        if matrix.registers.len() != count {
            return Err(Reason::Operands);
        }
        let address = self.address(space, address)?;
        Ok(Together::Rows { stores, matrix, address, transposed })
    }

    /// Decodes a load or a store of `wmma`.
    fn whole(
        &mut self,
        (part, layout, shape, rest): (&str, &str, &str, &[&str]),
        registers: &Operand<'a>,
        (address, stride): (&Operand<'a>, &[Operand<'a>]),
        stores: bool,
    ) -> Decoding<Together> {
        let part = match part {
            "a" => Part::A,
            "b" => Part::B,
            "c" => Part::C,
            _ => return Err(Reason::Instruction),
        };
        let [place @ .., kind] = rest else { return Err(Reason::Instruction) };
        let known = WMMA.iter().any(|(shapes, factors, sums)| {
            let kinds = if part == Part::C { sums } else { factors };
            shapes.split(' ').any(|found| found == shape) && kinds.split(' ').any(|found| found == *kind)
        });
        let (true, Some(shape)) = (known, Shape::named(shape)) else { return Err(Reason::Instruction) };
        let by_columns = match layout {
            "row" => false,
            "col" => true,
            _ => return Err(Reason::Instruction),
        };
        let matrix = self.part((shape, part), kind, Layout::Linear, registers, !stores)?;
        let address = self.address(space(place)?, address)?;
        let stride = match stride {
            [] => self.bits(if by_columns { matrix.rows } else { matrix.columns } as u64),
            [stride] => self.source(stride, Type::U32)?,
            _ => return Err(Reason::Operands),
        };
        Ok(Together::Whole { stores, matrix, address, stride, by_columns })
    }

    /// Returns a matrix of a product. The matrix's registers must hold all elements. Fragments hold each
    /// element exactly once. Other layouts can hold an element several times.
    fn part(
        &mut self,
        (shape, part): (Shape, Part),
        element: &str,
        layout: Layout,
        operand: &Operand<'a>,
        written: bool,
    ) -> Decoding<Matrix> {
        let element = Element::named(element).ok_or(Reason::Instruction)?;
        let registers = self.registers(operand, element, written)?;
        let (rows, columns) = shape.part_size(part);
        let matrix = Matrix { rows, columns, element, layout, registers };
        let (held, size) = (32 * matrix.elements(), rows * columns);
        let fits =
            if layout == Layout::Linear { held > 0 && held.is_multiple_of(size) } else { held == size };
        if fits { Ok(matrix) } else { Err(Reason::Operands) }
    }

    /// Returns matrices of 8 by 8 elements, one in each register.
    fn square(&mut self, operand: &Operand<'a>, read: bool) -> Decoding<Matrix> {
        let element = Element::F16;
        let registers = self.registers(operand, element, !read)?;
        Ok(Matrix { rows: 8, columns: 8, element, layout: Layout::Fragment(Part::A), registers })
    }

    /// Returns the registers of an operand that the instruction reads or writes.
    fn registers(&mut self, operand: &Operand<'a>, element: Element, written: bool) -> Decoding<Box<[Slot]>> {
        let parts = match operand {
            Operand::Vector(parts) => &parts[..],
            single => std::slice::from_ref(single),
        };
        let kind = if element.bits() == 64 { Type::F64 } else { Type::U32 };
        let slot = |part| if written { self.target(part) } else { self.source(part, kind) };
        parts.iter().map(slot).collect()
    }
}

fn integer(element: Element) -> fn(u64) -> i64 {
    match element {
        Element::S8 => |bits| i64::from(bits as i8),
        Element::S4 => |bits| i64::from((bits as i8) << 4 >> 4),
        _ => |bits| bits as i64,
    }
}

fn widened(element: Element) -> fn(u64) -> f64 {
    match element {
        Element::F16 => |bits| F16::from_register(bits).wide(),
        Element::Bf16 => |bits| Bf16::from_register(bits).wide(),
        Element::E4m3 => |bits| E4m3::from_register(bits).wide(),
        Element::E5m2 => |bits| E5m2::from_register(bits).wide(),
        // A tf32 has the highest 19 bits of an f32.
        Element::Tf32 => |bits| f32::from_register(bits & !0x1fff).wide(),
        Element::F64 => f64::from_bits,
        _ => |bits| f32::from_register(bits).wide(),
    }
}

fn narrowed(element: Element) -> fn(f64) -> u64 {
    fn round<T: Number>(value: f64) -> u64 {
        T::finish_exact(How::default(), value, 0.0).bits()
    }
    match element {
        Element::F16 => round::<F16>,
        Element::F64 => round::<f64>,
        _ => round::<f32>,
    }
}

/// Returns the address space that the modifiers name, or the generic space if they name none.
fn space(parts: &[&str]) -> Decoding<Space> {
    match parts {
        [] => Ok(Space::Generic),
        ["shared" | "shared::cta"] => Ok(Space::Shared),
        ["global"] => Ok(Space::Global),
        _ => Err(Reason::Instruction),
    }
}

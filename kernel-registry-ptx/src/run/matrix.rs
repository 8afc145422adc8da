//! Executes matrix instructions for a whole warp.

use crate::address::Place;
use crate::matrix::{Matrix, Product, Together};
use crate::run::fault::FaultKind;
use crate::run::warp::{Context, Lane, Next, Wait, Warp};
use crate::slot::Address;

impl Warp {
    /// Executes an instruction once all lanes have arrived at it.
    pub(crate) fn matrix(&mut self, index: usize, context: &mut Context<'_>, op: &Together) -> Lane<Next> {
        let split = &self.splits[index];
        let (base, frame) = (split.base, split.local);
        if split.lanes != self.live {
            self.splits[index].wait = Wait::Lanes;
            return Ok(Next::Yield);
        }
        match op {
            Together::Multiply { d, a, b, c, product } => {
                let [left, right, sum] = [a, b, c].map(|matrix| self.gather(context, base, matrix));
                let result = multiply((a, &left), (b, &right), &sum, product);
                self.scatter(context, base, d, |row, column| result[row * d.columns + column]);
            }
            Together::Transpose { to, from } => {
                let whole = self.gather(context, base, from);
                self.scatter(context, base, to, |row, column| whole[column * from.columns + row]);
            }
            Together::Whole { stores, matrix, address, stride, by_columns } => {
                let strides = self.row(context, base, *stride).each_ref().map(|lane| lane.get() as u32);
                let at = self.starts(context, base, address);
                let size = matrix.element.bits() as u64 / 8;
                let place = |lane: usize, element: usize| {
                    let (row, column) = matrix.place(lane, element);
                    let (along, across) = if *by_columns { (row, column) } else { (column, row) };
                    at[lane].wrapping_add(size * (along as u64 + across as u64 * u64::from(strides[lane])))
                };
                self.transfer(context, (base, frame), (matrix, address, *stores), place)?;
            }
            Together::Rows { stores, matrix, address, transposed } => {
                let at = self.starts(context, base, address);
                let rows = &at[..8 * matrix.registers.len()];
                if let Some(lane) = rows.iter().position(|row| !row.is_multiple_of(16)) {
                    return Err((lane, FaultKind::Misaligned { address: at[lane], size: 16 }));
                }
                let place = |lane: usize, element: usize| {
                    let (row, column) = matrix.place(lane, element % 2);
                    let (row, column) = if *transposed { (column, row) } else { (row, column) };
                    at[8 * (element / 2) + row].wrapping_add(2 * column as u64)
                };
                self.transfer(context, (base, frame), (matrix, address, *stores), place)?;
            }
        }
        self.splits[index].at += 1;
        Ok(Next::Continue)
    }

    /// Returns the address operand of each lane.
    fn starts(&self, context: &Context<'_>, base: usize, address: &Address) -> [u64; 32] {
        self.row(context, base, address.base)
            .each_ref()
            .map(|lane| lane.get().wrapping_add_signed(address.offset))
    }

    /// Returns the elements of a matrix, row by row.
    fn gather(&self, context: &Context<'_>, base: usize, matrix: &Matrix) -> Vec<u64> {
        let mut whole = vec![0; matrix.rows * matrix.columns];
        let (bits, per) = (matrix.element.bits(), matrix.element.per_register());
        for (register, slot) in matrix.registers.iter().enumerate() {
            let values = self.row(context, base, *slot);
            for (lane, value) in values.iter().enumerate() {
                for number in 0..per {
                    let (row, column) = matrix.place(lane, register * per + number);
                    whole[row * matrix.columns + column] = field(value.get(), number, bits);
                }
            }
        }
        whole
    }

    /// Writes elements into the registers of a matrix.
    fn scatter(
        &self,
        context: &Context<'_>,
        base: usize,
        matrix: &Matrix,
        element: impl Fn(usize, usize) -> u64,
    ) {
        let (bits, per) = (matrix.element.bits(), matrix.element.per_register());
        for (register, slot) in matrix.registers.iter().enumerate() {
            for (lane, value) in self.row(context, base, *slot).iter().enumerate() {
                value.set((0..per).fold(0, |all, number| {
                    let (row, column) = matrix.place(lane, register * per + number);
                    all | element(row, column) << (number * bits)
                }));
            }
        }
    }

    /// Loads or stores the elements of a matrix. `place` returns the address of a lane's element.
    fn transfer(
        &mut self,
        context: &mut Context<'_>,
        (base, frame): (usize, u64),
        (matrix, address, stores): (&Matrix, &Address, bool),
        place: impl Fn(usize, usize) -> u64,
    ) -> Lane<()> {
        let (bits, per) = (matrix.element.bits(), matrix.element.per_register());
        let size = bits as u64 / 8;
        let live = self.live;
        for lane in (0..32).filter(|lane| live >> lane & 1 == 1) {
            for (register, slot) in matrix.registers.iter().enumerate() {
                let mut value = if stores { self.row(context, base, *slot)[lane].get() } else { 0 };
                for number in 0..per {
                    let at = place(lane, register * per + number);
                    let fault = |kind: FaultKind| (lane, kind);
                    if !at.is_multiple_of(size) {
                        return Err((lane, FaultKind::Misaligned { address: at, size }));
                    }
                    let at: Place = address.space.place(at, frame);
                    if stores {
                        let part = field(value, number, bits);
                        if self.write_at(context, lane, at, size, part).map_err(fault)? {
                            self.spin.restart();
                        }
                    } else {
                        value |= self.read_at(context, lane, at, size).map_err(fault)? << (number * bits);
                    }
                }
                if !stores {
                    self.row(context, base, *slot)[lane].set(value);
                }
            }
        }
        Ok(())
    }
}

fn field(value: u64, number: usize, bits: usize) -> u64 {
    value >> (number * bits) & u64::MAX >> (64 - bits)
}

/// Returns A * B + C, row by row.
fn multiply(
    (a, left): (&Matrix, &[u64]),
    (b, right): (&Matrix, &[u64]),
    sum: &[u64],
    product: &Product,
) -> Vec<u64> {
    match product {
        Product::Float { a: of_a, b: of_b, c, d, fused } => {
            let left: Vec<f64> = left.iter().map(|bits| of_a(*bits)).collect();
            let right: Vec<f64> = right.iter().map(|bits| of_b(*bits)).collect();
            products(a, &left, b, &right, sum, |total, terms| {
                let first = c(total);
                d(if *fused {
                    terms.fold(first, |total, (x, y)| x.mul_add(y, total))
                } else {
                    first + terms.map(|(x, y)| x * y).sum::<f64>()
                })
            })
        }
        Product::Integer { a: of_a, b: of_b, saturate } => {
            let left: Vec<i64> = left.iter().map(|bits| of_a(*bits)).collect();
            let right: Vec<i64> = right.iter().map(|bits| of_b(*bits)).collect();
            products(a, &left, b, &right, sum, |total, terms| {
                let total = i64::from(total as u32 as i32) + terms.map(|(x, y)| x * y).sum::<i64>();
                let clamped = total.clamp(i32::MIN.into(), i32::MAX.into());
                u64::from(if *saturate { clamped } else { total } as u32)
            })
        }
        Product::Bits { xor } => products(a, left, b, right, sum, |total, terms| {
            let count = terms.filter(|(x, y)| if *xor { x != y } else { x & y == 1 }).count();
            u64::from((total as u32).wrapping_add(count as u32))
        }),
    }
}

/// Computes an element for each row of A and column of B. `combine` gets the element of C and the pairs of
/// factors.
fn products<T: Copy>(
    a: &Matrix,
    left: &[T],
    b: &Matrix,
    right: &[T],
    sum: &[u64],
    combine: impl Fn(u64, &mut dyn Iterator<Item = (T, T)>) -> u64,
) -> Vec<u64> {
    let (rows, columns) = (a.rows, b.columns);
    (0..rows * columns)
        .map(|at| {
            let row = &left[at / columns * a.columns..][..a.columns];
            let column = right[at % columns..].iter().step_by(columns);
            combine(sum[at], &mut row.iter().copied().zip(column.copied()))
        })
        .collect()
}

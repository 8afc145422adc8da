//! Executes loads, stores and atomics, in all address spaces.

use crate::address::{LOCAL_WINDOW, Place, Space};
use crate::op::Op;
use crate::run::fault::FaultKind;
use crate::run::memory::{MemoryFault, Span};
use crate::run::warp::Warp;
use crate::run::warp::{Context, Lane};
use crate::slot::{Address, Slot};
use crate::types::each;

/// The addresses of a warp are checked together if they differ by at most this many bytes.
const TOGETHER: u64 = 4096;

impl Warp {
    /// Executes an instruction that accesses memory. Returns whether it changed any memory.
    pub(crate) fn access(
        &mut self,
        context: &mut Context<'_>,
        op: &Op,
        lanes: u32,
        base: usize,
        frame: u64,
    ) -> Lane<bool> {
        let (address, kind, count) = match op {
            Op::Load { to, kind, address } => (address, kind, to.len() as u64),
            Op::Store { from, kind, address } => (address, kind, from.len() as u64),
            Op::Atomic { address, kind, .. } => (address, kind, 1),
            Op::Copy { to, from, size } => return self.copy(context, (to, from, *size), lanes, base, frame),
            _ => return Ok(false),
        };
        let size = kind.size();
        let (addresses, low, high) = self.addresses(context, address, lanes, base);
        let whole = size * count;
        let write = !matches!(op, Op::Load { .. });
        // Inactive lanes have address 0, which is aligned.
        let misaligned = |address: u64| address & (whole - 1) != 0;
        if misaligned(addresses.iter().fold(0, |any, address| any | address))
            && let Some(lane) = addresses.iter().position(|address| misaligned(*address))
        {
            return Err((lane, FaultKind::Misaligned { address: addresses[lane], size: whole }));
        }
        let global = match address.space {
            Space::Global => true,
            Space::Generic => high < LOCAL_WINDOW,
            _ => false,
        };
        if global
            && high - low <= TOGETHER
            && let Ok(span) = Span::new(context.memory, low, high - low + whole)
        {
            return Ok(self.access_span(context, op, lanes, base, &addresses, &span));
        }
        if let (Op::Load { to, .. }, Space::Parameter) = (op, address.space) {
            // All lanes read the same arguments, so one read serves the row.
            for (part, to) in to.iter().enumerate() {
                let lane = lanes.trailing_zeros() as usize;
                let bytes = self.slice_at(context, lane, Place::Parameter(low), part as u64 * size, size);
                let bits = kind.extend(read(bytes.map_err(|kind| (lane, kind))?));
                each(lanes, |lane| self.row(context, base, *to)[lane].set(bits));
            }
            return Ok(false);
        }
        let mut changed = false;
        for_each_lane(lanes, |lane| {
            let one = 1 << lane;
            changed |= match address.space.place(addresses[lane], frame) {
                Place::Global(address) => {
                    let span = Span::new(context.memory, address, whole)
                        .map_err(|why| (lane, FaultKind::Global { address, size: whole, write, why }))?;
                    self.access_span(context, op, one, base, &addresses, &span)
                }
                Place::Parameter(_) if write => {
                    let (address, why) = (addresses[lane], MemoryFault::ReadOnly);
                    return Err((lane, FaultKind::Global { address, size: whole, write, why }));
                }
                place => self.access_own(context, op, lane, base, place).map_err(|kind| (lane, kind))?,
            };
            Ok(())
        })?;
        Ok(changed)
    }

    /// Executes a copy for `cp.async.bulk`. Addresses and size must be multiples of 16.
    fn copy(
        &mut self,
        context: &mut Context<'_>,
        (to, from, size): (&Address, &Address, Slot),
        lanes: u32,
        base: usize,
        frame: u64,
    ) -> Lane<bool> {
        let (from_each, to_each) =
            (self.addresses(context, from, lanes, base).0, self.addresses(context, to, lanes, base).0);
        let mut changed = false;
        for_each_lane(lanes, |lane| {
            let size = self.row(context, base, size)[lane].get() as u32;
            for address in [from_each[lane], to_each[lane], u64::from(size)] {
                if !address.is_multiple_of(16) {
                    return Err((lane, FaultKind::Misaligned { address, size: 16 }));
                }
            }
            for offset in (0..u64::from(size)).step_by(8) {
                let place =
                    |start: &[u64; 32], space: Space| space.place(start[lane].wrapping_add(offset), frame);
                let value = self.read_at(context, lane, place(&from_each, from.space), 8);
                let value = value.map_err(|kind| (lane, kind))?;
                let written = self.write_at(context, lane, place(&to_each, to.space), 8, value);
                changed |= written.map_err(|kind| (lane, kind))?;
            }
            Ok(())
        })?;
        Ok(changed)
    }

    /// Computes the address of each lane. Returns also the lowest and the highest of these addresses.
    #[inline]
    pub(crate) fn addresses(
        &self,
        context: &Context<'_>,
        address: &Address,
        lanes: u32,
        base: usize,
    ) -> ([u64; 32], u64, u64) {
        let from = self.row(context, base, address.base);
        let mut addresses = [0; 32];
        let (mut low, mut high) = (u64::MAX, 0);
        each(lanes, |lane| {
            let place = from[lane].get().wrapping_add_signed(address.offset);
            // Addresses of shared memory may have been computed in 32 bits, so they wrap around at 32 bits.
            let place = if address.space == Space::Shared { u64::from(place as u32) } else { place };
            addresses[lane] = place;
            low = low.min(place);
            high = high.max(place);
        });
        (addresses, low, high)
    }

    /// Accesses global memory in a span that was checked.
    #[inline]
    fn access_span(
        &self,
        context: &Context<'_>,
        op: &Op,
        lanes: u32,
        base: usize,
        addresses: &[u64; 32],
        span: &Span,
    ) -> bool {
        let row = |slot| self.row(context, base, slot);
        let mut changed = false;
        match op {
            Op::Load { to, kind, .. } => {
                for (part, to) in to.iter().enumerate() {
                    let (to, size) = (row(*to), kind.size());
                    each(lanes, |lane| {
                        let bits = span.load(addresses[lane] + part as u64 * size, size);
                        to[lane].set(kind.extend(bits));
                    });
                }
            }
            Op::Store { from, kind, .. } => {
                for (part, from) in from.iter().enumerate() {
                    let (from, size) = (row(*from), kind.size());
                    each(lanes, |lane| {
                        changed |= span.store(addresses[lane] + part as u64 * size, size, from[lane].get());
                    });
                }
            }
            Op::Atomic { to, update, kind, operands: [a, b], .. } => {
                let (a, b) = (row(*a), row(*b));
                each(lanes, |lane| {
                    let (old, new) =
                        span.update(addresses[lane], kind.size(), *update, a[lane].get(), b[lane].get());
                    changed |= new;
                    if let Some(to) = to {
                        row(*to)[lane].set(kind.extend(old));
                    }
                });
            }
            _ => {}
        }
        changed
    }

    /// Accesses shared memory, local memory or the arguments.
    fn access_own(
        &mut self,
        context: &mut Context<'_>,
        op: &Op,
        lane: usize,
        base: usize,
        place: Place,
    ) -> Result<bool, FaultKind> {
        let get = |warp: &Self, context: &Context<'_>, slot| warp.row(context, base, slot)[lane].get();
        match op {
            Op::Load { to, kind, .. } => {
                let size = kind.size();
                for (part, to) in to.iter().enumerate() {
                    let bytes = self.slice_at(context, lane, place, part as u64 * size, size)?;
                    let bits = read(bytes);
                    self.row(context, base, *to)[lane].set(kind.extend(bits));
                }
                Ok(false)
            }
            Op::Store { from, kind, .. } => {
                let (size, mut changed) = (kind.size(), false);
                for (part, from) in from.iter().enumerate() {
                    let value = get(self, context, *from);
                    let bytes = self.slice_at(context, lane, place, part as u64 * size, size)?;
                    changed |= write(bytes, value);
                }
                Ok(changed)
            }
            Op::Atomic { to, update, kind, operands: [a, b], .. } => {
                let (a, b) = (get(self, context, *a), get(self, context, *b));
                let bytes = self.slice_at(context, lane, place, 0, kind.size())?;
                let old = read(bytes);
                let changed = write(bytes, update(old, a, b));
                if let Some(to) = to {
                    self.row(context, base, *to)[lane].set(kind.extend(old));
                }
                Ok(changed)
            }
            _ => Ok(false),
        }
    }

    /// Returns a slice of shared memory, local memory or the arguments.
    pub(crate) fn slice_at<'r>(
        &'r mut self,
        context: &'r mut Context<'_>,
        lane: usize,
        place: Place,
        offset: u64,
        size: u64,
    ) -> Result<&'r mut [u8], FaultKind> {
        let (space, place, bytes) = match place {
            Place::Shared(block, place) => {
                let block = block.checked_sub(1).unwrap_or(self.block);
                let bytes = context.blocks.get_mut(block).map_or(&mut [][..], |block| &mut block.shared);
                ("shared", place, bytes)
            }
            Place::Local(place) => {
                let size = self.local_size as usize;
                ("local", place, &mut self.local[lane * size..][..size])
            }
            Place::Parameter(place) => ("parameter", place, &mut context.arguments[..]),
            Place::Global(place) => ("global", place, &mut [][..]),
        };
        let address = place.wrapping_add(offset);
        let limit = bytes.len() as u64;
        let beyond = FaultKind::Beyond { space, address, size, limit };
        let Some(end) = address.checked_add(size).filter(|end| *end <= limit) else { return Err(beyond) };
        Ok(&mut bytes[address as usize..end as usize])
    }

    /// Reads a number at an address, as seen by a lane.
    pub(crate) fn read_at(
        &mut self,
        context: &mut Context<'_>,
        lane: usize,
        place: Place,
        size: u64,
    ) -> Result<u64, FaultKind> {
        match place {
            Place::Global(address) => Span::new(context.memory, address, size)
                .map(|span| span.load(address, size))
                .map_err(|why| FaultKind::Global { address, size, write: false, why }),
            place => self.slice_at(context, lane, place, 0, size).map(|bytes| read(bytes)),
        }
    }

    /// Writes a number at an address, as seen by a lane. Returns whether this changed memory.
    pub(crate) fn write_at(
        &mut self,
        context: &mut Context<'_>,
        lane: usize,
        place: Place,
        size: u64,
        value: u64,
    ) -> Result<bool, FaultKind> {
        match place {
            Place::Global(address) => Span::new(context.memory, address, size)
                .map(|span| span.store(address, size, value))
                .map_err(|why| FaultKind::Global { address, size, write: true, why }),
            place => self.slice_at(context, lane, place, 0, size).map(|bytes| write(bytes, value)),
        }
    }

    /// Copies bytes within the local memory of each lane.
    pub(crate) fn copy_local(&mut self, lanes: u32, from: u64, to: u64, size: u64) {
        let stride = self.local_size as usize;
        each(lanes, |lane| {
            let own = &mut self.local[lane * stride..][..stride];
            own.copy_within(from as usize..(from + size) as usize, to as usize);
        });
    }
}

fn for_each_lane(lanes: u32, mut visit: impl FnMut(usize) -> Lane<()>) -> Lane<()> {
    let mut rest = lanes;
    while rest != 0 {
        visit(rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
    }
    Ok(())
}

/// Reads a number of 1, 2, 4 or 8 bytes. Each size has its own code, because copies of variable length are
/// slow.
pub(crate) fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("the size of a type"),
    }
}

/// Writes a number. Returns whether this changed the bytes.
pub(crate) fn write(bytes: &mut [u8], value: u64) -> bool {
    let changed = read(bytes) != value & u64::MAX >> (64 - 8 * bytes.len());
    let all = value.to_le_bytes();
    match bytes.len() {
        1 => bytes.copy_from_slice(&all[..1]),
        2 => bytes.copy_from_slice(&all[..2]),
        4 => bytes.copy_from_slice(&all[..4]),
        _ => bytes.copy_from_slice(&all),
    }
    changed
}

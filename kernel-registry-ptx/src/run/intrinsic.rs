//! Implements functions that the driver provides to kernels: printf, assert, malloc and free.

use crate::address::{Place, Space};
use crate::op::Intrinsic;
use crate::run::access::{read, write};
use crate::run::fault::FaultKind;
use crate::run::printf::format;
use crate::run::warp::Warp;
use crate::run::warp::{Context, Lane};

impl Warp {
    /// Calls such a function for each lane, with arguments from the frame.
    pub(crate) fn intrinsic(
        &mut self,
        context: &mut Context<'_>,
        what: Intrinsic,
        lanes: u32,
        frame: u64,
        arguments: &[u64],
        results: &[u64],
    ) -> Lane<()> {
        for lane in (0..32).filter(|lane| lanes >> lane & 1 == 1) {
            let result =
                self.intrinsic_of(context, what, lane, frame, arguments).map_err(|kind| (lane, kind))?;
            if let Some(place) = results.first() {
                let size = if what == Intrinsic::Malloc { 8 } else { 4 };
                let bytes = self.slice_at(context, lane, Place::Local(frame + place), 0, size);
                write(bytes.map_err(|kind| (lane, kind))?, result);
            }
        }
        Ok(())
    }

    fn intrinsic_of(
        &mut self,
        context: &mut Context<'_>,
        what: Intrinsic,
        lane: usize,
        frame: u64,
        arguments: &[u64],
    ) -> Result<u64, FaultKind> {
        let argument = |warp: &mut Self, context: &mut Context<'_>, number: usize, size| {
            warp.slice_at(context, lane, Place::Local(frame + arguments[number]), 0, size)
                .map(|bytes| read(bytes))
        };
        match what {
            Intrinsic::Printf => {
                let text = argument(self, context, 0, 8)?;
                let values = argument(self, context, 1, 8)?;
                let text = self.text(context, lane, text)?;
                let mut offset = 0u64;
                let mut printed = 0;
                let out = format(&text, |wanted| {
                    let size = wanted.size();
                    let place = values + offset.next_multiple_of(size);
                    offset = place - values + size;
                    let bits = self.read_at(context, lane, Space::Generic.place(place, 0), size)?;
                    printed += 1;
                    if wanted.is_text() { self.text(context, lane, bits).map(Ok) } else { Ok(Err(bits)) }
                })?;
                context.memory.print(&out);
                Ok(printed)
            }
            Intrinsic::AssertFail => {
                let mut words = |number| {
                    let address = argument(self, context, number, 8)?;
                    self.text(context, lane, address)
                };
                let (condition, file, function) = (words(0)?, words(1)?, words(3)?);
                let line = argument(self, context, 2, 4)?;
                let text = format!("{file}:{line}: {function}: assertion `{condition}` does not hold");
                Err(FaultKind::Assertion { text })
            }
            Intrinsic::ParameterBuffer | Intrinsic::LaunchDevice => Err(FaultKind::DeviceLaunch),
            Intrinsic::Malloc => {
                let size = argument(self, context, 0, 8)?;
                let address = context.memory.malloc(size);
                if let Some(watch) = &mut context.watch {
                    watch.races.forget(address, size);
                }
                Ok(address)
            }
            Intrinsic::Free => {
                let address = argument(self, context, 0, 8)?;
                match context.memory.free(address) {
                    Err(why) if address != 0 => Err(FaultKind::Free { address, why }),
                    _ => Ok(0),
                }
            }
        }
    }

    /// Reads the zero-terminated text at a generic address.
    fn text(&mut self, context: &mut Context<'_>, lane: usize, address: u64) -> Result<String, FaultKind> {
        let mut bytes = Vec::new();
        loop {
            let place = Space::Generic.place(address + bytes.len() as u64, 0);
            match self.read_at(context, lane, place, 1)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte as u8),
            }
        }
    }
}

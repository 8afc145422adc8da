//! Finds the function and the line of an address in the images of a dump.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, SectionHeader, Sym};

use super::lines::LineTable;
use super::model::{DEPTH, Frame, printable};
use crate::Error;

/// The code of a dump's images.
pub(super) struct Code<'a> {
    images: Vec<Image<'a>>,
    /// Sections with code by their last addresses: the first address, and the index of the image.
    sections: BTreeMap<u64, (u64, usize)>,
}

/// An image, whose symbols and lines are read when a thread is in it: a program can have thousands of images.
struct Image<'a> {
    bytes: &'a [u8],
    contents: OnceCell<Contents>,
}

#[derive(Default)]
struct Contents {
    /// Functions by their addresses: the last address, and the name. One that isn't inlined lies inside its kernel.
    functions: BTreeMap<u64, (u64, Arc<str>)>,
    lines: LineTable,
}

type Header = FileHeader64<LE>;

impl<'a> Code<'a> {
    pub(super) fn index(images: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let (mut all, mut sections) = (Vec::new(), BTreeMap::new());
        for bytes in images {
            let malformed =
                |error: object::read::Error| Error::malformed("an image of the dump", error.to_string());
            let header = Header::parse(bytes).map_err(malformed)?;
            for section in header.section_headers(LE, bytes).map_err(malformed)? {
                let (begin, size) = (section.sh_addr(LE), section.sh_size(LE));
                let is_code = section.sh_flags(LE).0 & SHF_EXECINSTR.0 != 0;
                // What isn't loaded has address 0.
                if let Some(last) = begin.checked_add(size).and_then(|end| end.checked_sub(1))
                    && is_code
                    && begin > 0
                {
                    sections.insert(last, (begin, all.len()));
                }
            }
            all.push(Image { bytes, contents: OnceCell::new() });
        }
        Ok(Code { images: all, sections })
    }

    fn contents(&self, address: u64) -> Option<&Contents> {
        let (_, (begin, image)) = self.sections.range(address..).next()?;
        let image = self.images.get(*image).filter(|_| *begin <= address)?;
        Some(image.contents.get_or_init(|| contents(image.bytes).unwrap_or_default()))
    }

    /// Returns the function of an address, and the address's offset in it.
    pub(super) fn function(&self, address: u64) -> Option<(&Arc<str>, u64)> {
        /// The most functions of a kernel before the end of the one that is looked for.
        const NEAR: usize = 256;
        let before = self.contents(address)?.functions.range(..=address).rev().take(NEAR);
        let (begin, (_, name)) = before.into_iter().find(|(_, (last, _))| address <= *last)?;
        Some((name, address - begin))
    }

    /// Returns the frames of a stack of addresses, the innermost first.
    pub(super) fn frames(&self, stack: &[u64]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (depth, address) in stack.iter().copied().enumerate() {
            if frames.len() >= DEPTH {
                break;
            }
            // A call is before the instruction to which it returns, maybe at another line.
            let inside = if depth == 0 { address } else { address.saturating_sub(1) };
            let (function, offset) = match self.function(inside) {
                Some((function, offset)) => (function.clone(), offset + (address - inside)),
                None => (format!("{address:#x}").into(), 0),
            };
            let lines = self.contents(inside).map(|contents| contents.lines.find(inside)).unwrap_or_default();
            let count = lines.len();
            for (index, (inlined, line)) in lines.into_iter().enumerate() {
                let is_inlined = index + 1 < count;
                let function = inlined.filter(|_| is_inlined).unwrap_or_else(|| function.clone());
                frames.push(Frame { function, offset, line: Some(line), is_inlined });
            }
            if count == 0 {
                frames.push(Frame { function, offset, line: None, is_inlined: false });
            }
        }
        frames
    }
}

/// Reads the functions and the lines of an image. Lines that can't be read are left out.
fn contents(image: &[u8]) -> object::read::Result<Contents> {
    let header = Header::parse(image)?;
    let table = header.sections(LE, image)?;
    let symbols = table.symbols(LE, image, SHT_SYMTAB)?;
    // Names can overlap, so that a small image has far more text than bytes.
    let mut room = image.len();
    let mut functions = BTreeMap::new();
    for symbol in symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC) {
        let (begin, size) = (symbol.st_value(LE), symbol.st_size(LE));
        let Some(last) = begin.checked_add(size).and_then(|end| end.checked_sub(1)) else { continue };
        let name = symbol.name(LE, symbols.strings())?;
        if begin > 0 {
            let Some(left) = room.checked_sub(name.len()) else { break };
            room = left;
            functions.insert(begin, (last, printable(own_name(&String::from_utf8_lossy(name))).into()));
        }
    }
    let sections: HashMap<&[u8], &[u8]> = table
        .iter()
        .filter_map(|section| Some((table.section_name(LE, section).ok()?, section.data(LE, image).ok()?)))
        .filter(|(name, _)| [&b".debug_line"[..], b".debug_str"].contains(name))
        .collect();
    let section = |name: &[u8]| sections.get(name).copied().unwrap_or_default();
    let lines = LineTable::read(section(b".debug_line"), section(b".debug_str"));
    Ok(Contents { functions, lines })
}

/// Returns a function's own name. ptxas calls a function that isn't inlined `$KERNEL$FUNCTION`.
fn own_name(symbol: &str) -> &str {
    match symbol.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
        Some((_, own)) if !own.is_empty() => own,
        _ => symbol,
    }
}

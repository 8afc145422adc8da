//! Reads the lines of machine code, with functions that were inlined. For these, NVIDIA's compilers add
//! instructions of their own to the DWARF line program: the number of the row where the function was called,
//! and the offset of its name in `.debug_str`.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, DwLne, EndianSlice, LineInstruction, LineProgramHeader,
    LineRow, LittleEndian, Reader,
};

use super::model::{DEPTH, Line, printable, text_at};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The instruction that sets the call of the rows that follow.
const INLINED: DwLne = DwLne(0x90);

/// The most bytes of a name.
const LONGEST: usize = 4096;

/// The lines of an image.
#[derive(Default)]
pub(super) struct LineTable {
    /// Sequences of rows by their last addresses: the first address, and the rows.
    sequences: BTreeMap<u64, (u64, Vec<TableRow>)>,
    folders: Vec<String>,
    /// Files: the index of the folder, and the name.
    files: Vec<(usize, String)>,
    /// The section with the names of inlined functions.
    names: Vec<u8>,
    /// The texts that were made, by the offset of the name, or the index of the file: many rows share one.
    made: RefCell<HashMap<Text, Arc<str>>>,
}

#[derive(PartialEq, Eq, Hash)]
enum Text {
    Name(u64),
    File(usize),
}

/// The line of the instructions from an address up to the next row's.
struct TableRow {
    address: u64,
    /// The index of the file.
    file: usize,
    line: u32,
    /// The number of the row where the inlined function was called, counted from 1, or 0.
    call: u32,
    /// The offset of the function's name, if it was inlined.
    function: u64,
}

impl LineTable {
    /// Reads the line programs of an image, up to the first that's damaged.
    pub(super) fn read(programs: &[u8], names: &[u8]) -> Self {
        let mut table = LineTable { names: names.to_vec(), ..LineTable::default() };
        let section = DebugLine::new(programs, LittleEndian);
        let mut offset = 0;
        while offset < programs.len() {
            match table.add_program(&section, offset) {
                Ok(size) => offset += size,
                Err(_) => break,
            }
        }
        table
    }

    /// Adds the rows of a program. Returns its size.
    fn add_program(&mut self, section: &DebugLine<Bytes<'_>>, offset: usize) -> gimli::Result<usize> {
        const ADDRESS: u8 = 8;
        /// The size of the field with the size of the rest.
        const LENGTH: usize = 4;
        let mut program = section.program(DebugLineOffset(offset), ADDRESS, None, None)?;
        let header = program.header().clone();
        let files = self.add_files(&header);
        let (mut row, mut rows, mut begin) = (LineRow::new(&header), Vec::new(), 0);
        let (mut call, mut function) = (0, 0);
        let mut instructions = header.instructions();
        while let Some(instruction) = instructions.next_instruction(&header)? {
            if let LineInstruction::UnknownExtended(INLINED, mut operands) = instruction {
                call = u32::try_from(operands.read_uleb128()?).unwrap_or(0);
                function = operands.read_uleb128()?;
                continue;
            }
            if !row.execute(instruction, &mut program)? {
                continue;
            }
            let address = row.address();
            if row.end_sequence() {
                if let Some(last) = address.checked_sub(1).filter(|last| *last >= begin && begin > 0) {
                    self.sequences.insert(last, (begin, std::mem::take(&mut rows)));
                }
                (rows, call, function) = (Vec::new(), 0, 0);
            } else {
                begin = if rows.is_empty() { address } else { begin };
                let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
                let file =
                    usize::try_from(row.file_index()).map_or(usize::MAX, |file| files.saturating_add(file));
                rows.push(TableRow { address, file, line, call, function });
            }
            row.reset(&header);
        }
        Ok(header.unit_length().saturating_add(LENGTH))
    }

    /// Adds the files of a program. Returns the index of the file that the program calls 0.
    fn add_files(&mut self, header: &LineProgramHeader<Bytes<'_>>) -> usize {
        let text = |value: Option<AttributeValue<Bytes<'_>>>| match value {
            Some(AttributeValue::String(bytes)) => printable(&String::from_utf8_lossy(bytes.slice())),
            _ => String::new(),
        };
        let (first, first_folder) = (self.files.len(), self.folders.len());
        let is_old = header.version() < 5;
        // Before DWARF 5, folders and files are counted from 1.
        self.folders.extend(is_old.then(String::new));
        self.folders.extend(header.include_directories().iter().map(|folder| text(Some(*folder))));
        self.files.extend(is_old.then(|| (first_folder, String::new())));
        for file in header.file_names() {
            let folder = usize::try_from(file.directory_index()).unwrap_or(usize::MAX);
            self.files.push((first_folder.saturating_add(folder), text(Some(file.path_name()))));
        }
        first
    }

    /// Returns a text that was made before, or makes it.
    fn text(&self, which: Text, make: impl FnOnce() -> String) -> Arc<str> {
        self.made.borrow_mut().entry(which).or_insert_with(|| make().into()).clone()
    }

    /// Returns the path of a file.
    fn file(&self, index: usize) -> Option<Arc<str>> {
        let (folder, name) = self.files.get(index)?;
        let folder = self.folders.get(*folder).filter(|folder| !folder.is_empty() && !name.starts_with('/'));
        Some(self.text(Text::File(index), || match folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.clone(),
        }))
    }

    /// Returns the lines of an instruction, the innermost first: inlined functions, and in the end the function that
    /// has a symbol.
    pub(super) fn find(&self, address: u64) -> Vec<(Option<Arc<str>>, Line)> {
        let mut lines = Vec::new();
        let Some((_, (begin, rows))) = self.sequences.range(address..).next() else { return lines };
        // Of several rows with one address, the last has an effect.
        let mut index = rows.partition_point(|row| row.address <= address);
        // A call is in a row before, which ends this also for damaged tables.
        while *begin <= address
            && lines.len() < DEPTH
            && let Some(row) = index.checked_sub(1).and_then(|index| rows.get(index))
        {
            if let Some(file) = self.file(row.file).filter(|_| row.line > 0) {
                let function = || text_at(&self.names, row.function, LONGEST);
                let function = (row.call > 0).then(|| self.text(Text::Name(row.function), function));
                lines.push((function, Line { file, line: row.line }));
            }
            if row.call == 0 || row.call as usize >= index {
                break;
            }
            index = row.call as usize;
        }
        lines
    }
}

//! Writes cubins that compilers never write, with arbitrary symbols, sections and strings.

#![allow(dead_code)]

/// The contents of a cubin, except for the tables that every cubin has.
#[derive(Default)]
pub struct Cubin {
    abi: u8,
    /// Names of symbols and sections.
    strings: Vec<u8>,
    symbols: Vec<u8>,
    /// Offset of the name, and start and length of the data.
    sections: Vec<(usize, usize, usize)>,
    data: Vec<u8>,
}

/// `st_info` of a global function, and `st_other` of a kernel.
const FUNCTION: u8 = 0x12;
const KERNEL: u8 = 0x10;

const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;

impl Cubin {
    pub fn new(abi: u8) -> Self {
        Cubin { abi, strings: vec![0], symbols: vec![0; 24], ..Cubin::default() }
    }

    /// Adds a name, and returns its offset.
    pub fn string(&mut self, text: &str) -> usize {
        let offset = self.strings.len();
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        offset
    }

    /// Adds a kernel whose name is at this offset.
    pub fn kernel(&mut self, name: usize) {
        self.symbols.extend((name as u32).to_le_bytes());
        self.symbols.extend([FUNCTION, KERNEL, 1, 0]);
        self.symbols.extend([0; 16]);
    }

    /// Adds bytes, and returns their start and length.
    pub fn data(&mut self, bytes: &[u8]) -> (usize, usize) {
        let range = (self.data.len(), bytes.len());
        self.data.extend(bytes);
        range
    }

    /// Adds a section, given the offset of its name, and start and length of its bytes.
    pub fn section(&mut self, name: usize, (start, length): (usize, usize)) {
        self.sections.push((name, start, length));
    }

    pub fn write(self) -> Vec<u8> {
        const HEADER: usize = 64;
        let (strings, symbols) = (HEADER, HEADER + self.strings.len());
        let data = symbols + self.symbols.len();
        let headers = data + self.data.len();
        let mut file = b"\x7fELF\x02\x01\x01\x41".to_vec();
        file.extend([self.abi, 0, 0, 0, 0, 0, 0, 0]);
        let u16s = |file: &mut Vec<u8>, values: &[u16]| {
            values.iter().for_each(|value| file.extend(value.to_le_bytes()));
        };
        u16s(&mut file, &[2, 190]);
        file.extend(1u32.to_le_bytes());
        [0, 0, headers as u64].iter().for_each(|value| file.extend(value.to_le_bytes()));
        // Flags of both versions of the format: sm_90.
        let flags: u32 = if self.abi < 8 { 90 } else { 90 << 8 };
        file.extend(flags.to_le_bytes());
        u16s(&mut file, &[64, 56, 0, 64, self.sections.len() as u16 + 3, 1]);
        file.extend(&self.strings);
        file.extend(&self.symbols);
        file.extend(&self.data);

        let mut header = |name: usize, kind: u32, start: usize, length: usize, link: u32, entry: u64| {
            file.extend((name as u32).to_le_bytes());
            file.extend(kind.to_le_bytes());
            [0, 0, start as u64, length as u64].iter().for_each(|value| file.extend(value.to_le_bytes()));
            [link, 0].iter().for_each(|value| file.extend(value.to_le_bytes()));
            [1, entry].iter().for_each(|value| file.extend(value.to_le_bytes()));
        };
        header(0, 0, 0, 0, 0, 0);
        header(0, STRTAB, strings, self.strings.len(), 0, 0);
        header(0, SYMTAB, symbols, self.symbols.len(), 1, 24);
        for (name, start, length) in self.sections {
            header(name, PROGBITS, data + start, length, 0, 0);
        }
        file
    }
}

//! Parses kernels in PTX: name, parameters and launch limits.

use super::lexer::{Token, number};
use super::{Functions, Parser};
use crate::entry::threads;
use crate::{Entry, Error, Limits, ParamLayout};

/// The most parameters that are accepted. Kernels have fewer, because their parameters have at most 32,764
/// bytes.
const MAX_PARAMS: usize = 4096;

impl<'a> Parser<'a> {
    /// Parses a kernel after its `.entry`, to the end of its body. Returns its name and facts, or `None` if
    /// it's only declared.
    pub(super) fn entry(&mut self, functions: &mut Functions<'a>) -> Result<Option<(&'a str, Entry)>, Error> {
        let start = self.lexer.offset();
        let name = self.word("the name of a kernel")?;
        let mut entry = Entry::new(name);
        if self.lexer.eat(b'(') {
            entry.set_params(self.params()?);
        }
        loop {
            match self.lexer.next() {
                Some(Token::Punct(b'{')) => break,
                Some(Token::Punct(b';')) => return Ok(None),
                Some(Token::Word(".pragma")) => self.punct(b';')?,
                Some(Token::Word(directive)) => self.limit(directive, &mut entry.limits)?,
                _ => return Err(self.malformed(format!("the kernel `{name}` has no body"))),
            }
        }
        self.body(name, functions)?;
        entry.code_size = u32::try_from(self.lexer.offset() - start).unwrap_or(u32::MAX);
        Ok(Some((name, entry)))
    }

    fn limit(&mut self, directive: &str, limits: &mut Limits) -> Result<(), Error> {
        match directive {
            ".maxntid" => {
                let threads = threads(self.dimensions()?);
                limits.max_threads = Some(limits.max_threads.map_or(threads, |max| max.min(threads)));
            }
            ".reqntid" => {
                let block = self.dimensions()?;
                limits.required_threads = Some(block);
                limits.max_threads = Some(threads(block));
            }
            ".reqnctapercluster" => limits.cluster = Some(self.dimensions()?),
            ".minnctapersm" => limits.min_blocks = Some(self.number()?),
            ".maxclusterrank" => limits.max_cluster = Some(self.number()?),
            // Other directives, such as `.maxnreg 32` and `.explicitcluster`, and their numbers.
            _ => {}
        }
        Ok(())
    }

    /// Parses one to three numbers. Missing ones are 1.
    fn dimensions(&mut self) -> Result<[u32; 3], Error> {
        let mut dimensions = [self.number()?, 1, 1];
        for dimension in &mut dimensions[1..] {
            if self.lexer.eat(b',') {
                *dimension = self.number()?;
            }
        }
        Ok(dimensions)
    }

    /// Reads the parameters after the `(`.
    fn params(&mut self) -> Result<Vec<ParamLayout>, Error> {
        let mut params = Vec::new();
        let mut end = 0;
        if self.lexer.eat(b')') {
            return Ok(params);
        }
        loop {
            let param = self.param(end)?;
            end = param.offset + param.size;
            params.push(param);
            if self.lexer.eat(b')') {
                params.shrink_to_fit();
                return Ok(params);
            }
            if params.len() == MAX_PARAMS {
                return Err(self.malformed(format!("more than {MAX_PARAMS} parameters")));
            }
            self.punct(b',')?;
        }
    }

    /// Parses `.param .u64 .ptr .global .align 16 name` or `.param .align 8 .b8 name[24]`. `end` is the end
    /// of the previous parameter.
    fn param(&mut self, end: u32) -> Result<ParamLayout, Error> {
        let (mut ty, mut lanes, mut pointer) = (None, 1, false);
        let (mut align, mut pointee_align) = (None, None);
        loop {
            match self.word("a parameter")? {
                ".param" | ".global" | ".const" | ".local" | ".shared" => {}
                ".ptr" => pointer = true,
                ".align" if pointer => pointee_align = Some(self.align()?),
                ".align" => align = Some(self.align()?),
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                directive if directive.starts_with('.') => {
                    let size = type_size(&directive[1..]);
                    let unknown = || self.malformed(format!("unknown type `{directive}`"));
                    ty = Some((&directive[1..], size.ok_or_else(unknown)?));
                }
                _name => break,
            }
        }
        let (name, size) = ty.ok_or_else(|| self.malformed("a parameter without a type"))?;
        let (count, array) = self.array()?;
        let vector = if lanes > 1 { format!("v{lanes}.") } else { String::new() };
        let ptx_type = Some(format!("{vector}{name}{array}"));
        let align = align.unwrap_or(size * lanes);

        let too_large = || self.malformed("the parameters are too large");
        let offset = end.checked_next_multiple_of(align).ok_or_else(too_large)?;
        let size = count.checked_mul(size * lanes).ok_or_else(too_large)?;
        offset.checked_add(size).ok_or_else(too_large)?;
        Ok(ParamLayout { offset, size, align: Some(align), ptx_type, pointee_align, fields: Vec::new() })
    }

    /// Parses a variable after its `.local`, and returns its size in bytes:
    /// `.align 16 .b8 __local_depot0[8192]`.
    pub(super) fn variable(&mut self) -> u32 {
        let (mut size, mut count, mut length) = (1, 1u32, None);
        loop {
            match self.lexer.peek() {
                Some(Token::Word(word)) => {
                    size = word.strip_prefix('.').and_then(type_size).unwrap_or(size);
                    count = count.saturating_mul(length.take().and_then(|()| number(word)).unwrap_or(1));
                }
                Some(Token::Punct(b'[')) => length = Some(()),
                Some(Token::Punct(b']')) => {}
                _ => return count.saturating_mul(size),
            }
            self.lexer.next();
        }
    }

    fn align(&mut self) -> Result<u32, Error> {
        let align = self.number()?;
        match align.is_power_of_two() {
            true => Ok(align),
            false => Err(self.malformed(format!("{align} is no alignment"))),
        }
    }

    /// Reads `[24]`, `[2][12]` or nothing. Returns the number of elements, and the text.
    fn array(&mut self) -> Result<(u32, String), Error> {
        let (mut count, mut text) = (1u32, String::new());
        while self.lexer.eat(b'[') {
            let length = self.number()?;
            self.punct(b']')?;
            let too_large = || self.malformed("the parameters are too large");
            count = count.checked_mul(length).ok_or_else(too_large)?;
            text += &format!("[{length}]");
        }
        Ok((count, text))
    }
}

/// Returns the size in bytes of a fundamental type, named without its dot.
fn type_size(name: &str) -> Option<u32> {
    Some(match name {
        "b8" | "u8" | "s8" | "e4m3" | "e5m2" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" | "e4m3x2" | "e5m2x2" => 2,
        "b32" | "u32" | "s32" | "f32" | "tf32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        // Opaque handles, which launches pass as 64-bit values.
        "texref" | "samplerref" | "surfref" => 8,
        _ => return None,
    })
}

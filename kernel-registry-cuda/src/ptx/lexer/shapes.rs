//! Finds words in the body of a kernel, where almost everything else is registers, opcodes and numbers.

use core::ops::Range;

use super::{Kind, Lexer, Token, opaque_length, word_length};

/// First bytes and lengths of the words to find.
#[derive(Clone, Debug)]
pub struct Shapes {
    /// For each first byte, a bit for each length of the words that begin with it. The last bit covers all
    /// greater lengths.
    lengths: [u64; 128],
}

/// The last bit of [`Shapes::lengths`].
const LONGEST: usize = 63;

impl Shapes {
    /// Returns the empty set.
    pub const fn new() -> Self {
        Shapes { lengths: [0; 128] }
    }

    /// Adds the shape of a word.
    pub fn insert(&mut self, word: &str) {
        if let Some(first) = word.bytes().next() {
            self.lengths[usize::from(first & 127)] |= 1 << word.len().min(LONGEST);
        }
    }

    /// Adds the shapes of all words that begin with this one.
    pub fn insert_beginning(&mut self, word: &str) {
        if let Some(first) = word.bytes().next() {
            self.lengths[usize::from(first & 127)] |= u64::MAX << word.len().min(LONGEST);
        }
    }

    /// Returns whether a word has one of the shapes. No shape has length 0.
    #[inline]
    fn has(&self, first: u8, length: usize) -> bool {
        self.lengths[usize::from(first & 127)] >> length.min(LONGEST) & 1 != 0
    }
}

impl Default for Shapes {
    fn default() -> Self {
        Shapes::new()
    }
}

/// Bytes that are examined together.
const BLOCK: usize = 64;

/// The kinds of the bytes in a block, a bit for each byte, the lowest for the first.
#[derive(Clone, Copy)]
struct Bits {
    /// Bytes that words can have.
    word: u64,
    /// Braces, starts of strings and comments, colons, which can be part of a word, and dots, which begin
    /// directives. Only the dot is also a byte of words.
    stop: u64,
}

impl Bits {
    /// The compiler vectorizes these comparisons.
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let is_word = |byte: u8| {
            let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
            let digit = byte.wrapping_sub(b'0') < 10;
            letter | digit | (byte == b'_') | (byte == b'$') | (byte == b'%') | (byte == b'.')
        };
        let is_stop = |byte: u8| {
            (byte == b'{')
                | (byte == b'}')
                | (byte == b'"')
                | (byte == b'/')
                | (byte == b':')
                | (byte == b'.')
        };
        Bits { word: bits(block, is_word), stop: bits(block, is_stop) }
    }
}

/// Returns a bit for each byte, whether it `is` something.
#[inline]
fn bits(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    let flags = block.map(|byte| u8::from(is(byte)));
    let (eights, _) = flags.as_chunks::<8>();
    let mut bits = 0;
    for eight in eights.iter().rev() {
        // The product's highest byte has the lowest bits of all eight bytes.
        let gathered = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits = bits << 8 | gathered;
    }
    bits
}

impl Lexer<'_> {
    /// Returns the next token that is a brace, a directive or a word of one of these shapes, skipping all
    /// others.
    ///
    /// A word at the end of the text may be missed, because a body doesn't end with a word. This is several
    /// times faster than visiting each token: it visits blocks of bytes, and the words in them, but not the
    /// bytes of words.
    pub fn next_of(&mut self, shapes: &Shapes) -> Option<Token> {
        loop {
            let Some((at, word)) = self.stop(shapes) else {
                self.at = self.text.len();
                return None;
            };
            self.at = at;
            let rest = self.text.get(at..)?;
            let length = match rest.first()? {
                b'.' => word_length(rest),
                b':' if rest.get(1) == Some(&b':') => {
                    // The word continues here; a colon doesn't begin a word.
                    let start = word.start.min(at);
                    let end = match word.is_empty() {
                        true => at + 1,
                        false => start + word_length(self.text.get(start..)?),
                    };
                    self.at = end;
                    let length = end - start;
                    if !word.is_empty() && shapes.has(self.text[start], length) {
                        return Some(Token { kind: Kind::Word, range: start..end });
                    }
                    continue;
                }
                _ if !word.is_empty() && shapes.has(self.text[word.start], word.len()) => {
                    return Some(Token { kind: Kind::Word, range: word });
                }
                brace @ (b'{' | b'}') => {
                    self.at += 1;
                    return Some(Token { kind: Kind::Sign(*brace), range: at..at + 1 });
                }
                b'"' | b'/' => {
                    self.at += opaque_length(rest).unwrap_or(rest.len()).max(1);
                    continue;
                }
                _ => {
                    self.at += 1;
                    continue;
                }
            };
            self.at += length;
            return Some(Token { kind: Kind::Word, range: at..self.at });
        }
    }

    /// Returns the offset of the next byte to examine, and the word before it, which is empty if there is
    /// none.
    #[inline]
    fn stop(&self, shapes: &Shapes) -> Option<(usize, Range<usize>)> {
        // The start of the word that the previous block ended in.
        let mut begun = None;
        let mut at = self.at;
        while let Some(rest) = self.text.get(at..).filter(|rest| !rest.is_empty()) {
            let Bits { word, stop } = match rest.first_chunk() {
                Some(block) => Bits::of(block),
                None => {
                    let mut block = [0; BLOCK];
                    block[..rest.len()].copy_from_slice(rest);
                    Bits::of(&block)
                }
            };
            let before = word << 1 | u64::from(begun.is_some());
            let (mut starts, mut ends) = (word & !before, !word & before);
            // A dot inside a word doesn't count.
            let stop = stop & (!word | starts);
            // Words that end after the stop are left for later.
            ends &= stop ^ stop.wrapping_sub(1);
            let mut last = None;
            while ends != 0 {
                let end = at + ends.trailing_zeros() as usize;
                let start = begun.take().unwrap_or_else(|| {
                    let start = at + starts.trailing_zeros() as usize;
                    starts &= starts - 1;
                    start
                });
                ends &= ends - 1;
                if shapes.has(self.text[start], end - start) {
                    return Some((end, start..end));
                }
                last = Some(start..end);
            }
            if stop != 0 {
                let stop = at + stop.trailing_zeros() as usize;
                let word = last.filter(|word| word.end == stop);
                return Some((stop, word.unwrap_or(stop..stop)));
            }
            if begun.is_none() && starts != 0 {
                begun = Some(at + starts.trailing_zeros() as usize);
            }
            at += BLOCK;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;
    use std::vec::Vec;

    use super::*;

    const WORDS: [&str; 4] =
        ["vprintf", "$str", "%f", "a_name_that_is_longer_than_the_last_bit_of_a_shape_which_is_for_63_bytes"];

    fn shapes() -> Shapes {
        let mut shapes = Shapes::new();
        WORDS.iter().for_each(|word| shapes.insert(word));
        shapes.insert_beginning("call");
        shapes
    }

    /// Returns the expected results of `next_of`, found token by token.
    fn looked_for(text: &[u8], shapes: &Shapes) -> Vec<Token> {
        let wanted = |token: &Token| match token.kind {
            Kind::Word => {
                let first = text[token.range.start];
                first == b'.' || shapes.has(first, token.range.len())
            }
            Kind::Sign(sign) => matches!(sign, b'{' | b'}'),
            Kind::Text | Kind::Open => false,
        };
        Lexer::new(text, 0).filter(wanted).collect()
    }

    fn found(text: &[u8], shapes: &Shapes) -> Vec<Token> {
        let mut lexer = Lexer::new(text, 0);
        let mut tokens = Vec::new();
        while let Some(token) = lexer.next_of(shapes) {
            tokens.push(token);
        }
        assert_eq!(lexer.offset(), text.len());
        tokens
    }

    #[test]
    fn words_of_other_shapes_are_passed_over() {
        let text = "$L_12: ld.shared::cta.u32 %f, [%r1]; .local.b8 x; { call.uni vprintf; \"{\" // }\n}";
        let words: Vec<_> =
            found(text.as_bytes(), &shapes()).into_iter().map(|token| &text[token.range]).collect();
        assert_eq!(words, ["%f", ".local", ".b8", "{", "call.uni", "vprintf", "}"]);
    }

    /// Pieces that matter to the lexer, so that each occurs at every position of a block.
    #[test]
    fn random_texts_have_the_tokens_that_one_by_one_are_looked_for() {
        let pieces = [
            "{",
            "}",
            ":",
            "::",
            ".",
            "\"",
            "/",
            "//",
            "/*",
            "*/",
            "\\",
            "\n",
            " ",
            "\0",
            "\u{e9}",
            ";",
            "a",
            "%r12",
            "call",
            "call.uni",
            "cvt.f32.f16",
            ".b32",
            "$str",
            "vprintf",
            "0f3F800000",
            "ld.global.nc.v4.f32",
            WORDS[3],
            "        ",
        ];
        let shapes = shapes();
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let text: String = (0..random(40)).map(|_| pieces[random(pieces.len())]).chain(["\n"]).collect();
            assert_eq!(found(text.as_bytes(), &shapes), looked_for(text.as_bytes(), &shapes), "{text:?}");
        }
    }
}

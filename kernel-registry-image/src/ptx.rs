//! Parses PTX: splits the text into modules, and reads their directives and kernel declarations.

mod entry;
mod lexer;
mod sharing;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use crate::needs::{self, Calls};
use crate::{Entry, Error, Target, Variant, VariantKind};
use kernel_registry_cuda::ptx::kernels;
use kernel_registry_cuda::ptx::lexer::Shapes;
use lexer::{Lexer, Token, number};
use sharing::Sharing;

/// Returns whether the first token is `.version`, which begins every PTX module.
pub(crate) fn is_ptx(bytes: &[u8]) -> bool {
    let text = text(bytes);
    Lexer::new(&text).next() == Some(Token::Word(".version"))
}

/// Reads PTX text. There is a variant for each `.version` in it.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Variant>, Error> {
    let text = text(bytes);
    let mut parser = Parser { lexer: Lexer::new(&text) };
    let mut variants = Vec::new();
    let mut before = 0;
    while let Some(token) = parser.lexer.next() {
        if token != Token::Word(".version") {
            return Err(parser.malformed("expected `.version`"));
        }
        let comments = &text[before..parser.lexer.offset()];
        let mut variant = parser.module(toolkit(comments))?;
        let is_of_llvm = comments.contains("LLVM NVPTX");
        variant.entries.iter_mut().for_each(|entry| entry.is_of_llvm = is_of_llvm);
        variants.push(variant);
        before = parser.lexer.offset();
    }
    let is_alone = variants.len() == 1;
    for variant in &mut variants {
        variant.separable &= is_alone && can_be_cut(bytes, &variant.entries);
    }
    Ok(variants)
}

/// Returns whether the function that splits PTX into pieces finds exactly these kernels.
fn can_be_cut(bytes: &[u8], entries: &[Entry]) -> bool {
    let mut found = kernels(bytes);
    let all =
        entries.iter().all(|entry| matches!(found.next(), Some(Ok(kernel)) if kernel.name == entry.symbol));
    all && found.next().is_none()
}

/// Returns PTX as text, without the NUL that may end it. Only comments can have bytes that aren't UTF-8.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let bytes = &bytes[..end];
    // The lossy conversion is slow even where nothing is lost.
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the release that the compiler names in a comment before `.version`.
fn toolkit(comments: &str) -> Option<String> {
    let (_, release) = comments.rsplit_once("Cuda compilation tools, release ")?;
    let number: String = release.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    (!number.is_empty() && number.len() <= 16).then_some(number)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
}

/// The functions and kernels of a module, and their call graph.
#[derive(Default)]
struct Functions<'a> {
    numbers: BTreeMap<&'a str, u32>,
    /// Bytes of variables in local memory, for functions that have some.
    locals: BTreeMap<u32, u32>,
    calls: Calls,
    sharing: Sharing<'a>,
    /// The shapes of words that matter in a body: calls, and names of functions and variables.
    shapes: Shapes,
}

impl<'a> Functions<'a> {
    /// Returns the number of a function. A new function gets the next number.
    fn declare(&mut self, name: &'a str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(name).or_insert_with(|| {
            self.shapes.insert(name);
            next
        })
    }
}

/// The number of kernels that any module may have, and the bytes of text that each further kernel needs. This
/// bounds a text's memory. Even the shortest useful kernel is longer.
const SMALL_KERNELS: usize = 1000;
const KERNEL_TEXT: usize = 64;

/// An estimate of the bytes in which a function saves its caller's registers. Only the assembler knows how
/// many there are.
const SAVED: u32 = 64;

impl<'a> Parser<'a> {
    /// Reads everything after a `.version` up to the next `.version`.
    fn module(&mut self, toolkit: Option<String>) -> Result<Variant, Error> {
        let version = self.version()?;
        let start = self.lexer.offset();
        let mut functions = Functions::default();
        functions.shapes.insert_beginning("call");
        let (mut target, mut entries) = (None, Vec::<Entry>::new());
        let mut symbols = HashSet::new();
        while let Some(token) = self.lexer.peek() {
            if token == Token::Word(".version") {
                break;
            }
            self.lexer.next();
            functions.sharing.token(token, &mut functions.shapes);
            match token {
                Token::Word(".target") => target = Some(self.target()?),
                Token::Word(".entry") => {
                    let start = self.lexer.clone();
                    if let Some((symbol, entry)) = self.entry(&mut functions)? {
                        if !symbols.insert(symbol) {
                            return Err(Error::duplicate(start.place(), symbol));
                        }
                        entries.push(entry);
                    }
                }
                Token::Word(".func") => self.function(&mut functions)?,
                // A table of functions: `.global .u64 table[2] = {first, second};`
                Token::Word(word) => {
                    if let Some(function) = functions.numbers.get(word) {
                        functions.calls.take_address(*function);
                    }
                }
                Token::Punct(_) => {}
            }
            let room = SMALL_KERNELS.max((self.lexer.offset() - start) / KERNEL_TEXT);
            if entries.len() > room {
                return Err(self.malformed("there are more kernels than the text has room for"));
            }
        }
        let target = target.ok_or_else(|| self.malformed("the module has no `.target`"))?;

        let Functions { numbers, locals, calls, sharing, shapes: _ } = functions;
        let shares_nothing = !sharing.keeps_together() && !calls.has_pointers();
        let stacks =
            calls.stacks(|function| locals.get(&function).map_or(SAVED, |bytes| bytes.saturating_add(SAVED)));
        let largest = stacks.values().map(|stack| stack.bytes).chain(locals.values().copied()).max();
        let named = numbers.iter().map(|(name, number)| (*number, needs::function_needs(name)));
        let needs = calls.needs(named);
        for entry in &mut entries {
            let Some(number) = numbers.get(entry.symbol.as_str()) else { continue };
            entry.needs = needs.get(number).copied().unwrap_or_default();
            let stack = stacks.get(number).filter(|stack| stack.is_recursive);
            entry.frames.recursive = stack.map(|stack| stack.bytes);
            entry.frames.launched = largest.filter(|_| entry.needs.device_launch);
        }
        // A vector with one entry has room for four, which adds up: there can be a module for every few
        // bytes.
        entries.shrink_to_fit();
        let separable = shares_nothing && !entries.iter().any(|entry| entry.needs.device_launch);
        let variable = sharing.found().map(str::to_owned);
        Ok(Variant { kind: VariantKind::Ptx { version }, target, toolkit, entries, separable, variable })
    }

    fn version(&mut self) -> Result<(u8, u8), Error> {
        let text = self.word("a version")?;
        let number =
            text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        number.ok_or_else(|| self.malformed("the version is not like `8.0`"))
    }

    /// Parses the words after `.target`: `sm_90a, texmode_independent, debug`. One of them is the
    /// architecture.
    fn target(&mut self) -> Result<Target, Error> {
        let mut target = None;
        loop {
            let word = self.word("a target")?;
            target = target.or_else(|| word.parse().ok());
            if !self.lexer.eat(b',') {
                return target.ok_or_else(|| self.malformed("`.target` names no architecture"));
            }
        }
    }

    /// Reads a function up to the end of its body, or of its declaration.
    fn function(&mut self, functions: &mut Functions<'a>) -> Result<(), Error> {
        // The return value: `.func (.param .b32 result) name (..)`.
        if self.lexer.eat(b'(') {
            self.skip_group(b'(', b')')?;
        }
        let name = self.word("the name of a function")?;
        functions.declare(name);
        while let Some(token) = self.lexer.next() {
            match token {
                Token::Punct(b';') => return Ok(()),
                Token::Punct(b'{') => return self.body(name, functions),
                _ => {}
            }
        }
        Err(self.malformed(format!("the text ends within the function `{name}`")))
    }

    /// Reads a body after its `{`. Only references to functions and variables matter.
    fn body(&mut self, name: &'a str, functions: &mut Functions<'a>) -> Result<(), Error> {
        let caller = functions.declare(name);
        let mut depth = 1u32;
        // Between `call` and its target: how many brackets are open, because the result is in brackets.
        let mut call = None;
        let mut locals = 0u32;
        loop {
            let next = if call.is_some() { self.lexer.next() } else { self.lexer.next_of(&functions.shapes) };
            let Some(token) = next else { break };
            match token {
                Token::Punct(b'{') => depth += 1,
                Token::Punct(b'}') => {
                    depth -= 1;
                    if depth == 0 {
                        if locals > 0 {
                            functions.locals.insert(caller, locals);
                        }
                        return Ok(());
                    }
                }
                Token::Word(".local") => locals = locals.saturating_add(self.variable()),
                Token::Punct(b';') => call = None,
                Token::Punct(b'(') => call = call.map(|open: u32| open + 1),
                Token::Punct(b')') => call = call.map(|open| open.saturating_sub(1)),
                Token::Punct(_) => {}
                Token::Word(word) if word == "call" || word.starts_with("call.") => call = Some(0),
                Token::Word(word) => {
                    // `call (result), function, (arguments);` or `.. %rd1, (arguments), prototype;`
                    let is_target = call == Some(0);
                    if is_target {
                        call = None;
                        if word.starts_with('%') {
                            functions.calls.call_pointer(caller);
                        }
                    }
                    functions.sharing.mention(word);
                    if let Some(callee) = functions.numbers.get(word) {
                        match is_target {
                            true => functions.calls.call(caller, *callee),
                            // `mov.u64 %rd1, function;`
                            false => functions.calls.refer(caller, *callee),
                        }
                    }
                }
            }
        }
        Err(self.malformed(format!("the text ends within the body of `{name}`")))
    }

    /// Skips to the bracket that closes an open one.
    fn skip_group(&mut self, open: u8, close: u8) -> Result<(), Error> {
        let mut depth = 1u32;
        while depth > 0 {
            match self.lexer.next() {
                Some(Token::Punct(punct)) if punct == open => depth += 1,
                Some(Token::Punct(punct)) if punct == close => depth -= 1,
                // These can't be between the brackets of a list.
                Some(Token::Punct(b';' | b'{' | b'}')) | None => {
                    return Err(self.malformed(format!("expected `{}`", char::from(close))));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn word(&mut self, what: &str) -> Result<&'a str, Error> {
        match self.lexer.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => Err(self.malformed(format!("expected {what}"))),
        }
    }

    fn punct(&mut self, punct: u8) -> Result<(), Error> {
        match self.lexer.eat(punct) {
            true => Ok(()),
            false => Err(self.malformed(format!("expected `{}`", char::from(punct)))),
        }
    }

    fn number(&mut self) -> Result<u32, Error> {
        let text = self.word("a number")?;
        number(text).ok_or_else(|| self.malformed("expected a number"))
    }

    fn malformed(&self, problem: impl Into<String>) -> Error {
        Error::malformed(self.lexer.place(), problem)
    }
}

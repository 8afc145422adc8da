//! Finds images within other bytes, such as those of a program that carries them.
//!
//! Nothing has to say where an image lies, only how long it is: fatbins and cubins begin with their magic numbers,
//! and PTX with `.version`, behind comments. What lies around an image is not part of it, so each candidate has to
//! be one from its first byte to its last.
//!
//! This takes time for each place at which an image may begin, of which other bytes than those of programs can have
//! many.

use crate::{Image, elf, fatbin, read};

/// `.version`, with which the code of every PTX text begins.
const VERSION: &[u8] = b".version";

/// Bytes of comments in front of `.version` that are looked through.
const MOST_COMMENTS: usize = 16 * 1024;

/// Places at which images may begin.
///
/// ```
/// use kernel_registry_image::embedded::Starts;
///
/// let ptx = "// mine\n.version 8.0 .target sm_75 .entry n(.param .u32 n) { ret; }\n";
/// let program = format!("text before{ptx}text behind");
/// let images = Starts::of(program.as_bytes()).images(ptx.len());
/// assert_eq!(images.len(), 1);
/// assert_eq!(images[0].variants[0].entries[0].symbol, "n");
/// ```
#[derive(Clone, Debug)]
pub struct Starts<'a> {
    bytes: &'a [u8],
    /// Where fatbins and cubins begin.
    binaries: Vec<usize>,
    /// Where `.version` stands.
    texts: Vec<usize>,
}

impl<'a> Starts<'a> {
    /// Looks through all bytes, once.
    pub fn of(bytes: &'a [u8]) -> Self {
        let mut starts = Starts { bytes, binaries: Vec::new(), texts: Vec::new() };
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                0x50 if fatbin::is_fatbin(&bytes[at..]) => starts.binaries.push(at),
                0x7f if elf::is_cubin(&bytes[at..]) => starts.binaries.push(at),
                b'.' if is_version(&bytes[at..]) => starts.texts.push(at),
                _ => {}
            }
        }
        starts
    }

    /// The images of this length. Equal ones count once, wherever they lie.
    pub fn images(&self, length: usize) -> Vec<Image> {
        let mut images: Vec<Image> = Vec::new();
        let mut add = |image| {
            if !images.contains(&image) {
                images.push(image);
            }
        };
        let slice = |start: usize| self.bytes.get(start..start.checked_add(length)?);
        for bytes in self.binaries.iter().filter_map(|start| slice(*start)) {
            // A cubin says itself where it ends; a fatbin with something behind it cannot be read.
            if !elf::is_elf(bytes) || elf::is_whole(bytes) {
                read(bytes).ok().into_iter().for_each(&mut add);
            }
        }
        // As a rule a text ends with its last kernel. A comment behind that could also be the next text's first.
        let texts = |is_end: fn(&[u8]) -> bool| {
            let text = move |version: &usize| {
                let found = beginnings(self.bytes, *version).into_iter().filter_map(slice);
                found.filter(|text| is_end(text) && is_text(text)).find_map(|text| read(text).ok())
            };
            self.texts.iter().filter_map(text).collect::<Vec<_>>()
        };
        let mut found = texts(|text| trimmed(text).ends_with(b"}"));
        if found.is_empty() {
            found = texts(ends_with_comment);
        }
        found.into_iter().for_each(add);
        images
    }
}

/// Whether this is the word `.version`, and not the beginning of a longer one.
fn is_version(bytes: &[u8]) -> bool {
    let behind = bytes.strip_prefix(VERSION).and_then(|rest| rest.first());
    behind.is_some_and(u8::is_ascii_whitespace)
}

/// Where a PTX text may begin whose `.version` is at `version`: there, or at space or comments before that. The
/// furthest comes first, because comments belong to the text rather than to what precedes it.
fn beginnings(bytes: &[u8], version: usize) -> Vec<usize> {
    let nearest = version.saturating_sub(MOST_COMMENTS);
    let mut beginnings = vec![version];
    let mut at = version;
    loop {
        let space = bytes[nearest..at].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
        beginnings.extend((at - space..at).rev());
        let before = &bytes[nearest..at - space];
        if before.ends_with(b"*/") {
            let Some(open) = before.windows(2).rposition(|window| window == b"/*") else { break };
            at = nearest + open;
            beginnings.push(at);
        } else {
            // On the line of a comment there may be something else before it, which is not of this text.
            let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let comments = (line..before.len()).rev().filter(|at| before[*at..].starts_with(b"//"));
            let comments: Vec<usize> = comments.collect();
            beginnings.extend(comments.iter().map(|at| nearest + at));
            let Some(first) = comments.last() else { break };
            let in_front = before[line..*first].trim_ascii();
            if !in_front.is_empty() && !in_front.ends_with(b"*/") {
                break;
            }
            at = nearest + first;
        }
    }
    beginnings.reverse();
    beginnings
}

/// Whether this can be a text as a whole: only at its end there may be NULs.
fn is_text(bytes: &[u8]) -> bool {
    !trimmed(bytes).contains(&0)
}

fn ends_with_comment(text: &[u8]) -> bool {
    let text = trimmed(text);
    let line = text.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    text.ends_with(b"*/") || line.windows(2).any(|window| window == b"//")
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_filler = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let end = text.iter().rposition(|byte| !is_filler(byte)).map_or(0, |last| last + 1);
    &text[..end]
}

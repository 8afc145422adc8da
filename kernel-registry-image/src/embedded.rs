//! Finds images embedded in other bytes, such as a program's.
//!
//! The caller has to know an image's length, but not its offset: fatbins and cubins begin with their magic
//! numbers, and PTX with `.version`, which comments can precede. A candidate has to be an image from its
//! first byte to its last.
//!
//! One pass collects the offsets where images may begin and end, then compares them with all lengths. So a
//! search reads little besides the images, in time proportional to their bytes.

mod span;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use kernel_registry_cuda::fatbin;

use crate::{Image, elf, read};
use span::{End, Start};

/// The most bytes read to find the ends of images, for each byte that is searched. Images don't overlap, so
/// only hostile bytes need more.
const EFFORT: usize = 8;

/// The most candidates of one length that may begin within that length.
const OVERLAPPING: u8 = 4;

/// A search for images of certain lengths, wherever they lie.
///
/// ```
/// use kernel_registry_image::embedded::Search;
///
/// let ptx = "// mine\n.version 8.0 .target sm_75 .entry n(.param .u32 n) { ret; }\n";
/// let program = format!("text before{ptx}text after");
/// let images = Search::new(program.as_bytes(), [ptx.len()]).images(ptx.len());
/// assert_eq!(images.len(), 1);
/// assert_eq!(images[0].variants[0].entries[0].symbol, "n");
/// ```
#[derive(Clone, Debug)]
pub struct Search<'a> {
    bytes: &'a [u8],
    /// The candidates, by length.
    candidates: BTreeMap<usize, Candidates>,
}

/// The offsets at which images of one length may begin, ascending.
#[derive(Clone, Debug, Default)]
struct Candidates {
    /// Fatbins and cubins.
    binaries: Vec<Candidate>,
    /// PTX texts. Most end with their last kernel.
    texts: Vec<Candidate>,
    /// PTX texts that end with a comment, which may instead belong to the next text.
    commented: Vec<Candidate>,
}

/// An offset at which an image may begin.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The index of its [`Start`]. At most one image begins at each.
    start: usize,
    begin: usize,
}

/// Offsets at which images may begin and end.
struct Starts<'a> {
    bytes: &'a [u8],
    /// Fatbins and cubins.
    binaries: Vec<Start>,
    /// PTX texts.
    texts: Vec<Start>,
    ends: Vec<End>,
    /// Where containers of fatbins are.
    containers: Vec<Range<usize>>,
}

/// Returns the largest offset at which an image may end, for one `End`.
type Latest = fn(&End) -> usize;

impl<'a> Search<'a> {
    /// Searches all bytes once, for images of these lengths.
    pub fn new(bytes: &'a [u8], lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut candidates: BTreeMap<usize, Candidates> =
            lengths.into_iter().map(|length| (length, Candidates::default())).collect();
        let lengths: Vec<usize> = candidates.keys().copied().collect();
        let starts = Starts::find(bytes);
        let mut note = |starts: &Starts<'_>,
                        among: &[Start],
                        latest: Latest,
                        of: fn(&mut Candidates) -> &mut Vec<Candidate>| {
            starts.candidates(among, &lengths, latest, |length, candidate| {
                of(candidates.entry(length).or_default()).push(candidate);
            });
        };
        note(&starts, &starts.binaries, |end| end.with_filler, |candidates| &mut candidates.binaries);
        note(&starts, &starts.texts, |end| end.with_filler, |candidates| &mut candidates.texts);
        note(&starts, &starts.texts, |end| end.with_comments, |candidates| &mut candidates.commented);
        Search { bytes, candidates }
    }

    /// Returns the images of one of the lengths. Equal images count once.
    pub fn images(&self, length: usize) -> Vec<Image> {
        let mut found = Found { bytes: self.bytes, length, read: HashMap::new(), images: HashMap::new() };
        found.read_candidates(self.candidates.get(&length));
        found.in_order()
    }

    /// Returns the bytes of these images, sorted and without duplicates.
    pub fn bytes(&self, length: usize) -> Vec<&'a [u8]> {
        let mut found = Found { bytes: self.bytes, length, read: HashMap::new(), images: HashMap::new() };
        found.read_candidates(self.candidates.get(&length));
        let images = found.read.into_iter().filter(|(_, is_image)| *is_image);
        let mut bytes: Vec<_> = images.map(|(bytes, _)| bytes).collect();
        bytes.sort_unstable();
        bytes
    }
}

/// Returns the PTX texts of any length with kernels, outside of fatbins, each with its offset. A text begins
/// with its comments, and ends with the last kernel or function before a zero, another text, or anything that
/// isn't PTX.
///
/// ```
/// let ptx = "// mine\n.version 8.0 .target sm_75 .entry n(.param .u32 n) { ret; }";
/// let program = format!("text before\0{ptx}text behind");
/// let texts = kernel_registry_image::embedded::texts(program.as_bytes());
/// assert_eq!(texts[0].0, 12);
/// assert_eq!(texts[0].1, ptx.as_bytes());
/// ```
pub fn texts(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let starts = Starts::find(bytes);
    let is_packed = |at: usize| starts.containers.iter().any(|range| range.contains(&at));
    let text = |(number, start): (usize, &Start)| {
        let begin = *start.beginnings.first()?;
        let begin = begin + bytes[begin..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let next = starts.texts.get(number + 1).and_then(|next| next.beginnings.first());
        let ends = starts.ends[start.ends.clone()].iter().map(|end| end.earliest);
        // A semicolon follows the closing brace of a variable's values.
        let ends = ends
            .filter(|end| bytes.get(*end..).is_none_or(|rest| !rest.trim_ascii_start().starts_with(b";")));
        let ends = ends.take_while(|end| next.is_none_or(|next| end <= next));
        let mut texts = ends.take(OVERLAPPING.into()).filter_map(|end| bytes.get(begin..end));
        let has_kernels = |text: &&[u8]| {
            read(text).is_ok_and(|image| image.variants.iter().any(|variant| !variant.entries.is_empty()))
        };
        Some((begin, texts.find(has_kernels).filter(|_| !is_packed(begin))?))
    };
    starts.texts.iter().enumerate().filter_map(text).collect()
}

impl<'a> Starts<'a> {
    fn find(bytes: &'a [u8]) -> Self {
        let mut starts = Starts {
            bytes,
            binaries: Vec::new(),
            texts: Vec::new(),
            ends: Vec::new(),
            containers: Vec::new(),
        };
        let (mut versions, mut containers) = (Vec::new(), 0);
        let mut effort = EFFORT * bytes.len();
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                0x50 if at >= containers && fatbin::is_fatbin(&bytes[at..]) => {
                    containers = starts.add_fatbins(at);
                    starts.containers.push(at..containers);
                }
                0x7f if elf::is_cubin(&bytes[at..]) => starts.add_cubin(at, &mut effort),
                b'.' if text::is_version(&bytes[at..]) => versions.push(at),
                _ => {}
            }
        }
        starts.texts = text::starts(bytes, &versions, &mut starts.ends, &mut effort);
        starts
    }

    /// Adds the consecutive containers at this offset, any of which may begin an image. Returns the offset
    /// after the last.
    fn add_fatbins(&mut self, mut at: usize) -> usize {
        let (first, start) = (self.binaries.len(), self.ends.len());
        while let Some(length) = fatbin::container_len(&self.bytes[at..]) {
            let begins = Start { beginnings: vec![at], ends: self.ends.len()..0 };
            self.binaries.push(begins);
            at += length;
            let zeros = self.bytes[at..].iter().take_while(|byte| **byte == 0).count();
            self.ends.push(End { with_filler: at + zeros, ..End::at(at) });
            at += zeros;
        }
        let end = self.ends.len();
        self.binaries[first..].iter_mut().for_each(|start| start.ends.end = end);
        if end == start { 0 } else { at }
    }

    /// Adds the cubin at this offset, whose header says where it ends.
    fn add_cubin(&mut self, at: usize, effort: &mut usize) {
        if let Some(end) = elf::end(&self.bytes[at..], effort) {
            let index = self.ends.len();
            self.ends.push(End::at(at.saturating_add(end)));
            self.binaries.push(Start { beginnings: vec![at], ends: index..index + 1 });
        }
    }

    /// Calls `note` with each length and each candidate of that length at one of these starts. `lengths` is
    /// ascending.
    fn candidates(
        &self,
        among: &[Start],
        lengths: &[usize],
        latest: Latest,
        mut note: impl FnMut(usize, Candidate),
    ) {
        let mut noted: HashMap<(usize, usize), u8> = HashMap::new();
        for (start, Start { beginnings, ends }) in among.iter().enumerate() {
            let ends = &self.ends[ends.clone()];
            for begin in beginnings.iter().copied() {
                // Ends and lengths both ascend, so the search skips those without a counterpart.
                let mut next = 0;
                while let Some(length) = lengths.get(next).copied() {
                    let end = begin.saturating_add(length);
                    let Some(possible) = ends.get(ends.partition_point(|there| latest(there) < end)) else {
                        break;
                    };
                    if end < possible.earliest {
                        next = lengths.partition_point(|length| *length < possible.earliest - begin);
                        continue;
                    }
                    next += 1;
                    let noted_here = noted.entry((length, begin / length.max(1))).or_default();
                    if *noted_here < OVERLAPPING && end <= self.bytes.len() {
                        *noted_here += 1;
                        note(length, Candidate { start, begin });
                    }
                }
            }
        }
    }
}

/// The images of one length that were found.
struct Found<'a> {
    bytes: &'a [u8],
    length: usize,
    /// Whether bytes are an image. A program can have many copies of an image, and each is parsed once.
    read: HashMap<&'a [u8], bool>,
    /// The images, in the order in which they were found.
    images: HashMap<Image, usize>,
}

impl Found<'_> {
    fn in_order(self) -> Vec<Image> {
        let mut images: Vec<_> = self.images.into_iter().collect();
        images.sort_unstable_by_key(|(_, order)| *order);
        images.into_iter().map(|(image, _)| image).collect()
    }

    /// Reads the images of one length. Comments before a PTX version are included only if no other text
    /// matches.
    fn read_candidates(&mut self, candidates: Option<&Candidates>) {
        let Some(candidates) = candidates else { return };
        self.read_all(&candidates.binaries);
        if !self.read_all(&candidates.texts) {
            self.read_all(&candidates.commented);
        }
    }

    /// Reads the images at these offsets, at most one for each start. Returns whether there was any.
    fn read_all(&mut self, candidates: &[Candidate]) -> bool {
        let mut last = None;
        for Candidate { start, begin } in candidates.iter().copied() {
            if last != Some(start) && self.read_one(begin) {
                last = Some(start);
            }
        }
        last.is_some()
    }

    fn read_one(&mut self, begin: usize) -> bool {
        let bytes = &self.bytes[begin..begin + self.length];
        *self.read.entry(bytes).or_insert_with(|| {
            let Ok(image) = read(bytes) else { return false };
            let order = self.images.len();
            self.images.entry(image).or_insert(order);
            true
        })
    }
}

//! Finds images within other bytes, such as those of a program that carries them.
//!
//! Nothing has to say where an image lies, only how long it is: fatbins and cubins begin with their magic numbers,
//! and PTX with `.version`, behind comments. What lies around an image is not part of it, so each candidate has to
//! be one from its first byte to its last.
//!
//! Where images may begin and end is noted once. So a search reads little but images, however many begin there.

mod text;

use std::collections::HashMap;
use std::ops::Range;

use kernel_registry_format::fatbin;

use crate::{Image, elf, read};

/// Bytes that are looked at to find where images end, for each byte that there is. Images overlap neither each other
/// nor themselves, so only bytes that are no program's need more.
const EFFORT: usize = 8;

/// Images that are read at most among those that begin within one length of each other.
const OVERLAPPING: u8 = 4;

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
    /// Fatbins and cubins.
    binaries: Vec<Start>,
    /// PTX texts.
    texts: Vec<Start>,
    ends: Vec<End>,
}

/// An image whose exact beginning and end are not known.
#[derive(Clone, Debug)]
struct Start {
    /// Where it may begin, the likeliest first.
    beginnings: Vec<usize>,
    /// Those of the ends that it may have.
    ends: Range<usize>,
}

/// A place where an image may end, which is behind all that has to be in it.
#[derive(Clone, Copy, Debug)]
struct End {
    earliest: usize,
    /// Behind zeros and space.
    with_filler: usize,
    /// Behind comments, too.
    with_comments: usize,
}

impl End {
    fn at(place: usize) -> Self {
        End { earliest: place, with_filler: place, with_comments: place }
    }
}

/// Where an image is in the bytes.
type Place = Range<usize>;

impl<'a> Starts<'a> {
    /// Looks through all bytes, once.
    pub fn of(bytes: &'a [u8]) -> Self {
        let mut starts = Starts { bytes, binaries: Vec::new(), texts: Vec::new(), ends: Vec::new() };
        let (mut versions, mut containers) = (Vec::new(), 0);
        let mut effort = EFFORT * bytes.len();
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                0x50 if at >= containers && fatbin::is_fatbin(&bytes[at..]) => {
                    containers = starts.add_fatbins(at);
                }
                0x7f if elf::is_cubin(&bytes[at..]) => starts.add_cubin(at, &mut effort),
                b'.' if text::is_version(&bytes[at..]) => versions.push(at),
                _ => {}
            }
        }
        starts.texts = text::starts(bytes, &versions, &mut starts.ends, &mut effort);
        starts
    }

    /// Adds the containers that follow each other from here on; an image may begin with any of them. Returns their end.
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

    /// A cubin says itself where it ends.
    fn add_cubin(&mut self, at: usize, effort: &mut usize) {
        if let Some(end) = elf::end(&self.bytes[at..], effort) {
            let index = self.ends.len();
            self.ends.push(End::at(at.saturating_add(end)));
            self.binaries.push(Start { beginnings: vec![at], ends: index..index + 1 });
        }
    }

    /// The images of this length. Equal ones count once, wherever they lie.
    pub fn images(&self, length: usize) -> Vec<Image> {
        let mut found = Found::new(self.bytes, length);
        for start in &self.binaries {
            found.read_first(self.places(start, length, |end| end.with_filler));
        }
        // As a rule a text ends with its last kernel. A comment behind that could also be the next text's first.
        let before = found.images.len();
        for start in &self.texts {
            found.read_first(self.places(start, length, |end| end.with_filler));
        }
        if found.images.len() == before {
            for start in &self.texts {
                found.read_first(self.places(start, length, |end| end.with_comments));
            }
        }
        found.in_order()
    }

    /// Where an image of this length can lie that begins at a start.
    fn places(&self, start: &Start, length: usize, latest: fn(&End) -> usize) -> impl Iterator<Item = Place> {
        let ends = &self.ends[start.ends.clone()];
        start.beginnings.iter().filter_map(move |begin| {
            let end = begin.checked_add(length).filter(|end| *end <= self.bytes.len())?;
            let behind = ends.partition_point(|possible| possible.earliest <= end);
            let possible = behind.checked_sub(1).map(|last| &ends[last])?;
            (end <= latest(possible)).then_some(*begin..end)
        })
    }
}

/// The images of one length.
struct Found<'a> {
    bytes: &'a [u8],
    length: usize,
    /// How many were read that begin in each stretch of this length.
    read: Vec<u8>,
    /// With the order in which they were found.
    images: HashMap<Image, usize>,
}

impl<'a> Found<'a> {
    fn new(bytes: &'a [u8], length: usize) -> Self {
        let stretches = bytes.len() / length.max(1) + 1;
        Found { bytes, length, read: vec![0; stretches], images: HashMap::new() }
    }

    fn in_order(self) -> Vec<Image> {
        let mut images: Vec<_> = self.images.into_iter().collect();
        images.sort_unstable_by_key(|(_, order)| *order);
        images.into_iter().map(|(image, _)| image).collect()
    }

    /// Reads the first image among these places.
    fn read_first(&mut self, places: impl Iterator<Item = Place>) {
        for place in places {
            let read_here = &mut self.read[place.start / self.length.max(1)];
            if *read_here == OVERLAPPING {
                return;
            }
            *read_here += 1;
            if let Ok(image) = read(&self.bytes[place]) {
                let order = self.images.len();
                self.images.entry(image).or_insert(order);
                return;
            }
        }
    }
}

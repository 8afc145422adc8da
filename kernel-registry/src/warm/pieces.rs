//! Cuts PTX images into pieces, so that the driver compiles a large image on all cores.
//!
//! An image is cut only if its kernels share no variables. The macro finds that out: see `ImageRecord::separable`. A piece
//! has some of the kernels to warm, and all functions and declarations of the image. The same kernels and the same number of
//! threads give the same pieces, so that later processes find the pieces in the driver's cache.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use kernel_registry_cuda::ptx;

use crate::contexts::{Kernels, Libraries, Piece};

/// The least size of an image that is cut, in bytes. Smaller images are compiled whole.
pub(super) const LARGE: usize = 64 << 10;

/// The least size of the text of a piece's kernels, in bytes.
const LEAST: usize = 16 << 10;

/// The number of pieces for each thread, over all images. With more than one piece each, threads finish at about the same
/// time.
const PER_THREAD: usize = 4;

/// An image to cut, and those of its kernels that are to be warmed.
pub(super) struct Cut {
    image: &'static [u8],
    libraries: Arc<Libraries>,
    all: Arc<[ptx::Kernel<'static>]>,
    /// The indices in `all` of the kernels to warm that are in no piece yet.
    missing: Vec<usize>,
}

impl Cut {
    /// Plans the cut of an image for kernels of these symbols. Returns `None` if the image is to be compiled whole.
    pub(super) fn plan(
        image: &'static [u8],
        libraries: &Arc<Libraries>,
        symbols: impl Iterator<Item = &'static str>,
    ) -> Option<Cut> {
        if image.len() < LARGE || libraries.has_whole() {
            return None;
        }
        let mut missing: HashSet<_> = symbols.filter(|symbol| libraries.piece(symbol).is_none()).collect();
        let mut cut = Cut {
            image,
            libraries: libraries.clone(),
            all: Arc::default(),
            missing: Vec::with_capacity(missing.len()),
        };
        if missing.is_empty() {
            return Some(cut);
        }
        cut.all = ptx::kernels(image).collect::<Result<_, _>>().ok()?;
        cut.missing = (0..cut.all.len()).filter(|number| missing.remove(cut.all[*number].name)).collect();
        // If a symbol is not in the text, the image is compiled whole. The macro found all symbols there, so this is rare.
        missing.is_empty().then_some(cut)
    }

    /// Returns the size of the text that every piece contains, in bytes.
    fn shared(&self) -> usize {
        self.image.len() - self.all.iter().map(|kernel| kernel.range.len()).sum::<usize>()
    }

    fn missing_text(&self) -> usize {
        self.missing.iter().map(|number| self.all[*number].range.len()).sum()
    }

    /// Puts the missing kernels into new pieces of about this many bytes of text.
    fn add_pieces(self, text: usize) {
        // The text of a piece's kernels is at least as long as the shared text.
        let text = text.max(LEAST).max(self.shared());
        let sizes: Vec<_> = self.missing.iter().map(|number| self.all[*number].range.len()).collect();
        let pieces = (self.missing_text() + text / 2) / text;
        for group in spread(&sizes, pieces.max(1)) {
            let chosen = group.into_iter().map(|item| self.missing[item]).collect();
            self.libraries.add(Piece::new(self.image, Some(Kernels { all: self.all.clone(), chosen })));
        }
    }
}

/// Puts the missing kernels of all images into pieces for this many threads.
pub(super) fn add_pieces(cuts: Vec<Cut>, threads: usize) {
    let text: usize = cuts.iter().map(Cut::missing_text).sum();
    let pieces = if threads == 1 { 1 } else { PER_THREAD.saturating_mul(threads) };
    cuts.into_iter().for_each(|cut| cut.add_pieces(text.div_ceil(pieces)));
}

/// Spreads items over groups of about the same size (greedy: the largest item first, each into the group that is smallest).
/// Returns the indices of each group's items in ascending order.
fn spread(sizes: &[usize], groups: usize) -> Vec<Vec<usize>> {
    let mut spread = vec![Vec::new(); groups];
    let mut smallest: BinaryHeap<_> = (0..groups).map(|group| Reverse((0, group))).collect();
    let mut items: Vec<_> = (0..sizes.len()).collect();
    items.sort_by_key(|item| Reverse(sizes[*item]));
    for item in items {
        let Some(Reverse((size, group))) = smallest.pop() else { break };
        spread[group].push(item);
        smallest.push(Reverse((size + sizes[item], group)));
    }
    spread.retain(|group| !group.is_empty());
    spread.iter_mut().for_each(|group| group.sort_unstable());
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_about_the_same_size() {
        assert_eq!(spread(&[5, 1, 1, 1, 1, 1], 2), [vec![0], vec![1, 2, 3, 4, 5]]);
        assert_eq!(spread(&[1, 2], 5), [vec![1], vec![0]]);
        assert!(spread(&[], 3).is_empty());
        let sizes: Vec<_> = (0..1000).map(|item| 100 + item * 7919 % 1000).collect();
        let groups = spread(&sizes, 64);
        let size = |group: &Vec<usize>| group.iter().map(|item| sizes[*item]).sum::<usize>();
        let (least, most) = (groups.iter().map(size).min(), groups.iter().map(size).max());
        assert!(most.unwrap() - least.unwrap() < 1000, "{least:?} {most:?}");
        let mut all = groups.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
    }

    /// Builds a PTX module with kernels of about this many bytes of text each. Leaks it, because images are never freed.
    fn image(kernels: usize, text: usize, shared: usize) -> &'static [u8] {
        let line = "\tadd.u32 %r1, %r1, 1;\n";
        let kernel = |number| format!(".entry k{number}() {{\n{}}}\n", line.repeat(text / line.len()));
        let functions = format!(".func f() {{\n{}}}\n", line.repeat(shared / line.len()));
        let kernels: String = (0..kernels).map(kernel).collect();
        let image = format!(".version 8.0\n.target sm_80\n{functions}{kernels}");
        // A static that refers to the leaked memory keeps leak checkers quiet.
        static KEPT: std::sync::Mutex<Vec<&'static [u8]>> = std::sync::Mutex::new(Vec::new());
        let image = Box::leak(image.into_bytes().into_boxed_slice());
        crate::lock::lock(&KEPT).push(image);
        image
    }

    const NAMES: [&str; 8] = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"];

    /// Cuts the image, and returns for each of these kernels how many of them are in its piece.
    fn cut(image: &'static [u8], symbols: &[&'static str], threads: usize) -> Option<Vec<usize>> {
        let libraries = Libraries::find_or_add(image, 90);
        add_pieces(vec![Cut::plan(image, &libraries, symbols.iter().copied())?], threads);
        let piece = |symbol: &&str| libraries.piece(symbol).unwrap();
        let pieces: Vec<_> = symbols.iter().map(piece).collect();
        let count = |piece| pieces.iter().filter(|other| Arc::ptr_eq(other, piece)).count();
        Some(pieces.iter().map(count).collect())
    }

    #[test]
    fn pieces_are_neither_too_many_nor_too_small() {
        assert_eq!(cut(image(8, 20_000, 0), &NAMES, 2), Some(vec![1; 8]));
        assert_eq!(cut(image(8, 20_000, 0), &NAMES, 1), Some(vec![8; 8]));
        assert_eq!(cut(image(8, 9_000, 0), &NAMES, 16), Some(vec![2; 8]), "16 KiB at least");
        assert_eq!(cut(image(8, 20_000, 80_000), &NAMES, 16), Some(vec![4; 8]), "as much as they share");
        assert_eq!(cut(image(8, 20_000, 0), &NAMES[..1], 16), Some(vec![1]));
        assert_eq!(
            cut(image(8, 20_000, 0), &NAMES, usize::MAX),
            Some(vec![1; 8]),
            "more threads than any machine has"
        );
        assert_eq!(cut(image(8, 7_000, 0), &NAMES, 16), None, "a small image");
        assert_eq!(cut(image(8, 20_000, 0), &["k0", "other"], 16), None, "a kernel that is not there");
    }

    #[test]
    fn kernels_stay_in_their_pieces() {
        let image = image(8, 20_000, 0);
        assert_eq!(cut(image, &NAMES[..2], 1), Some(vec![2; 2]));
        assert_eq!(cut(image, &NAMES, 16), Some(vec![2, 2, 1, 1, 1, 1, 1, 1]));
        assert_eq!(cut(image, &NAMES, 1), Some(vec![2, 2, 1, 1, 1, 1, 1, 1]));
    }
}

//! The libraries that were loaded with `cuLibraryLoadData`. They belong to the process and serve every context.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex};

use kernel_registry_cuda::ptx;

use crate::driver::{Code, Library};
use crate::lock::lock;

/// Code that is loaded as one library: a whole image, or some kernels of a PTX text.
pub(crate) struct Piece {
    image: &'static [u8],
    kernels: Option<Kernels>,
    library: Mutex<Option<Library>>,
}

/// Some kernels of an image.
pub(crate) struct Kernels {
    /// All kernels of the image.
    pub(crate) all: Arc<[ptx::Kernel<'static>]>,
    /// The indices in `all` of the kernels that are in the piece, in ascending order.
    pub(crate) chosen: Vec<usize>,
}

impl Piece {
    pub(crate) fn new(image: &'static [u8], kernels: Option<Kernels>) -> Self {
        Piece { image, kernels, library: Mutex::default() }
    }

    /// Returns whether the piece is the whole image.
    pub(crate) fn is_whole(&self) -> bool {
        self.kernels.is_none()
    }

    /// Returns the length of the whole image, or of the chosen kernels' text, in bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.kernels {
            None => self.image.len(),
            Some(Kernels { all, chosen }) => chosen.iter().map(|number| all[*number].range.len()).sum(),
        }
    }

    /// Returns the code that the driver gets. `is_text` says whether the image is PTX text.
    pub(crate) fn code(&self, is_text: bool) -> Code<'static> {
        match &self.kernels {
            None => Code::new(self.image, is_text),
            Some(Kernels { all, chosen }) => {
                Code::text(ptx::cut(self.image, all, |number| chosen.binary_search(&number).is_ok()))
            }
        }
    }

    fn symbols(&self) -> impl Iterator<Item = &'static str> {
        let kernels = self.kernels.iter();
        kernels.flat_map(|Kernels { all, chosen }| chosen.iter().map(|number| all[*number].name))
    }

    /// Returns the piece's library, and whether this call has loaded it. Calls `load` unless an earlier `load` succeeded.
    pub(crate) fn library<E>(&self, load: impl FnOnce() -> Result<Library, E>) -> Result<(Library, bool), E> {
        let mut library = lock(&self.library);
        match *library {
            Some(library) => Ok((library, false)),
            None => Ok((*library.insert(load()?), true)),
        }
    }
}

/// The libraries of an image for an architecture.
///
/// One library could serve all devices. But for a device of another architecture than the first device's, the driver would
/// compile the library's kernels when they are resolved, one after the other. A separate library for each architecture is
/// compiled when it is loaded, on all cores.
pub(crate) struct Libraries {
    whole: Arc<Piece>,
    /// A map from a kernel's symbol to the kernel's piece. A kernel stays in its piece.
    pieces: Mutex<HashMap<&'static str, Arc<Piece>>>,
}

impl Libraries {
    pub(crate) fn find_or_add(image: &'static [u8], arch: u32) -> Arc<Libraries> {
        type All = HashMap<(usize, u32), Arc<Libraries>>;
        static LIBRARIES: Mutex<Option<All>> = Mutex::new(None);
        let new =
            || Arc::new(Libraries { whole: Arc::new(Piece::new(image, None)), pieces: Mutex::default() });
        lock(&LIBRARIES).get_or_insert_default().entry((key(image), arch)).or_insert_with(new).clone()
    }

    /// Returns the piece that is the whole image.
    pub(crate) fn whole(&self) -> &Arc<Piece> {
        &self.whole
    }

    /// Returns whether the whole image was loaded as one library.
    pub(crate) fn has_whole(&self) -> bool {
        lock(&self.whole.library).is_some()
    }

    /// Returns the piece that has a kernel, if a piece has the kernel.
    pub(crate) fn piece(&self, symbol: &str) -> Option<Arc<Piece>> {
        lock(&self.pieces).get(symbol).cloned()
    }

    /// Adds a piece. Kernels that another thread has put into a piece by now stay in that piece.
    pub(crate) fn add(&self, piece: Piece) {
        let piece = Arc::new(piece);
        let mut pieces = lock(&self.pieces);
        for symbol in piece.symbols() {
            pieces.entry(symbol).or_insert_with(|| piece.clone());
        }
    }
}

/// Returns a number that identifies an image: its address, because the program contains each image once.
pub(crate) fn key(bytes: &'static [u8]) -> usize {
    ptr::from_ref(bytes).addr()
}

//! Kernels of images that are compiled at run time, by NVRTC, Triton or another compiler. They are registered like declared kernels, so
//! that both are warmed, reported and checked in the same way.

mod record;

use std::collections::HashSet;
use std::ffi::CStr;
use std::fmt;
use std::panic::Location;
use std::sync::Mutex;

use kernel_registry_cuda::fatbin;
use kernel_registry_format::{Printable, is_control};
use kernel_registry_image::{Entry, Image, read};

use crate::lock::lock;
use crate::{Dim3, KernelInfo, adopt};
use record::Declared;

/// An image that was compiled at run time: PTX, a cubin or a fatbin. Registering the image registers each of its kernels.
///
/// Registered kernels are treated like declared kernels: [`find`](crate::find) finds them, [`warm_all`](crate::warm_all) loads them and
/// lists them in its report, and [`launch_dyn`](crate::launch_dyn) compares arguments with the parameters that the image names. For a C++
/// kernel the image names all types, because the symbol contains them. For an `extern "C"` kernel it names the sizes of parameters,
/// and, if it is PTX, which of them are `f32` or `f64`.
///
/// ```no_run
/// use kernel_registry::{DynArg, RuntimeImage, launch_dyn, warm_all};
///
/// # fn compile() -> String { String::new() }
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// let context = kernel_registry::context(0)?;
/// let ptx = compile(); // NVRTC, for example
/// RuntimeImage::new("softmax.ptx", ptx).shared("softmax", 64 * 1024).register()?;
/// warm_all(&context)?;
///
/// let stream = context.new_stream()?;
/// let mut x = stream.clone_htod(&[1.0_f32; 1000])?;
/// let softmax = kernel_registry::find("softmax")?;
/// let args = [DynArg::slice_mut(&mut x), DynArg::value(&1000_u32)];
/// // SAFETY: `softmax` takes these, and the vector has 1000 elements.
/// unsafe { launch_dyn(softmax, &stream, softmax.over(1000).block(256), args)? };
/// # Ok(())
/// # }
/// ```
///
/// Register all images before the warm-up. A kernel that is registered later is loaded by another `warm_all`, which is cheap, or at its
/// first launch, if the policy of the context allows that ([`Late`](crate::Late)).
///
/// Registered images stay in memory until the process ends, and so does their code on the device. So a launch never uses a kernel that was
/// unloaded. For code that shall be unloaded, use cudarc's modules.
#[derive(Clone)]
#[must_use = "nothing is registered before `register` is called"]
pub struct RuntimeImage {
    name: String,
    bytes: Vec<u8>,
    place: &'static Location<'static>,
    /// The names of kernels, and what the caller declares for each.
    declared: Vec<(String, Declared)>,
    adopt: bool,
}

/// An image whose kernels are registered.
struct Registered {
    name: &'static str,
    bytes: &'static [u8],
    declared: Vec<(String, Declared)>,
    kernels: Vec<&'static KernelInfo>,
    /// A variable of the image.
    variable: Option<String>,
}

/// The registered images, in the order of registration.
static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// Returns all kernels of images that were compiled at run time.
pub(crate) fn kernels() -> Vec<&'static KernelInfo> {
    lock(&REGISTERED).iter().flat_map(|image| &image.kernels).copied().collect()
}

/// Returns how many kernels `kernels` returns.
pub(crate) fn count() -> usize {
    lock(&REGISTERED).iter().map(|image| image.kernels.len()).sum()
}

const CONTROL_CHARACTER: &str =
    "its name has an invisible character, such as a line break, which a terminal may obey: leave it out";

impl RuntimeImage {
    /// Creates an image with a name. The paths of the image's kernels begin with the name: `softmax.ptx::softmax`.
    #[track_caller]
    pub fn new(name: impl Into<String>, image: impl Into<Vec<u8>>) -> Self {
        let place = Location::caller();
        RuntimeImage { name: name.into(), bytes: image.into(), place, declared: Vec::new(), adopt: false }
    }

    /// Sets the block of a kernel, as `block = ..` does in a declaration. `kernel` is the kernel's symbol or its name in C++.
    pub fn block(self, kernel: impl Into<String>, threads: impl Into<Dim3>) -> Self {
        self.declare(kernel, Declared::Block(threads.into().0))
    }

    /// Grants a kernel this many bytes of dynamic shared memory, as `shared = ..` does in a declaration.
    pub fn shared(self, kernel: impl Into<String>, bytes: u32) -> Self {
        self.declare(kernel, Declared::Shared(bytes))
    }

    /// Grants each thread of a kernel this many bytes of stack, as `stack = ..` does in a declaration.
    pub fn stack(self, kernel: impl Into<String>, bytes: u32) -> Self {
        self.declare(kernel, Declared::Stack(bytes))
    }

    /// Lets other code of the program have the warm kernels: where the image is warm in a context, and other code loads an image of
    /// exactly these bytes there with `cuModuleLoadData`, for example by cudarc's `load_module`, nothing is loaded. The other code gets
    /// the registry's module. It may unload this module, which changes nothing.
    ///
    /// Every other load goes to the driver, also one before the warm-up. A kernel that the warm-up left out is loaded as at a late launch,
    /// when the other code asks for it. If the policy of the context does not allow that, the whole image is loaded.
    ///
    /// An image with variables is not adopted, because two loads of it would share them: a `.global` or `.const` variable that a kernel uses or
    /// that the host can set, a texture, and in machine code any variable, also the text of a `printf`. The other code loads such an image as
    /// if it were not registered, and [`Report::not_adopted`](crate::Report::not_adopted) names the variable.
    ///
    /// This works in programs in which cudarc is linked with the driver (its feature `dynamic-linking`, which candle turns on), on Linux.
    /// In others, [`register`](Self::register) fails.
    #[cfg(feature = "adopt")]
    pub fn adopt(self) -> Self {
        RuntimeImage { adopt: true, ..self }
    }

    fn declare(mut self, kernel: impl Into<String>, declared: Declared) -> Self {
        self.declared.push((kernel.into(), declared));
        self
    }

    /// Registers the kernels of the image, and returns them in the image's order. If the same image is registered again under the
    /// same name, this returns the same kernels.
    ///
    /// # Errors
    ///
    /// The bytes are not an image; the name has a control character; the image has no kernels, or no kernel with a name that was passed to [`block`](Self::block),
    /// [`shared`](Self::shared) or [`stack`](Self::stack); the block, shared memory or stack is larger than any device allows; or another
    /// image is registered under this name.
    pub fn register(mut self) -> Result<Vec<&'static KernelInfo>, RuntimeImageError> {
        // The driver reads PTX only up to the first zero byte.
        if !fatbin::is_fatbin(&self.bytes) && !self.bytes.starts_with(b"\x7fELF") {
            let end = CStr::from_bytes_until_nul(&self.bytes).map(CStr::count_bytes);
            self.bytes.truncate(end.unwrap_or(self.bytes.len()));
        }
        // The name is a part of paths, which reports and errors show.
        if self.name.contains(is_control) {
            return Err(self.error(CONTROL_CHARACTER.to_owned()));
        }
        if self.adopt
            && let Some(why) = adopt::why_not_in_place()
        {
            return Err(self.error(why.to_owned()));
        }
        if let Some(kernels) = self.find(&lock(&REGISTERED))? {
            return Ok(kernels);
        }
        // Threads may register large images at the same time.
        let (records, variable) = self.records().map_err(|reason| self.error(reason))?;
        let mut registered = lock(&REGISTERED);
        if let Some(kernels) = self.find(&registered)? {
            return Ok(kernels);
        }
        let RuntimeImage { name, bytes, declared, adopt, .. } = self;
        let bytes: &'static [u8] = bytes.leak();
        let kernels: Vec<_> = records.into_iter().map(|record| record::info(record, bytes)).collect();
        if adopt {
            adopt::add(bytes, &kernels, variable.as_deref());
        }
        registered.push(Registered {
            name: name.leak(),
            bytes,
            declared,
            kernels: kernels.clone(),
            variable,
        });
        Ok(kernels)
    }

    /// Returns the kernels of this image if it is registered already.
    fn find(&self, registered: &[Registered]) -> Result<Option<Vec<&'static KernelInfo>>, RuntimeImageError> {
        let Some(image) = registered.iter().find(|image| image.name == self.name) else { return Ok(None) };
        if image.bytes != self.bytes || image.declared != self.declared {
            return Err(
                self.error("another image is registered under this name: give each its own".to_owned())
            );
        }
        if self.adopt {
            adopt::add(image.bytes, &image.kernels, image.variable.as_deref());
        }
        Ok(Some(image.kernels.clone()))
    }

    fn error(&self, reason: String) -> RuntimeImageError {
        RuntimeImageError { image: self.name.clone(), reason }
    }

    /// Writes the records of the image's kernels. Returns also a variable of the image.
    fn records(&self) -> Result<(Vec<Vec<u8>>, Option<String>), String> {
        let image = read(&self.bytes).map_err(|error| error.to_string())?;
        let mut declared = Vec::new();
        for (kernel, what) in &self.declared {
            let entry = image.find(kernel, &self.name).map_err(|error| error.to_string())?;
            what.check().map_err(|reason| format!("{reason} of `{kernel}`"))?;
            declared.push((&*entry.symbol, *what));
        }
        let entries = entries(&image);
        if entries.is_empty() {
            return Err("it contains no kernels".to_owned());
        }
        let variants = image.variant_names();
        let file =
            record::File { name: &self.name, len: self.bytes.len(), variants: &variants, place: self.place };
        let record = |entry: &&Entry| {
            let declared = declared.iter().filter(|(symbol, _)| *symbol == entry.symbol);
            record::record(&image, entry, &file, declared.map(|(_, what)| *what))
        };
        Ok((entries.iter().map(record).collect(), image.variable().map(str::to_owned)))
    }
}

/// Returns the kernels of an image, each once. If several variants contain a kernel, a variant with parameter types is chosen: PTX.
fn entries(image: &Image) -> Vec<&Entry> {
    let mut symbols = HashSet::new();
    let all = image.variants.iter().flat_map(|variant| &variant.entries);
    all.filter(|entry| symbols.insert(&entry.symbol))
        .map(|first| {
            let variants = image.named(&first.symbol);
            variants.into_iter().find(|entry| entry.tells_types()).unwrap_or(first)
        })
        .collect()
}

impl fmt::Debug for RuntimeImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuntimeImage({:?}, {} bytes)", self.name, self.bytes.len())
    }
}

/// Why an image that was compiled at run time was not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeImageError {
    /// The name of the image.
    pub image: String,
    /// A sentence that says why the image cannot be used.
    pub reason: String,
}

impl fmt::Display for RuntimeImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "image `{}`, made at run time: {}", Printable(&self.image), self.reason)
    }
}

impl std::error::Error for RuntimeImageError {}

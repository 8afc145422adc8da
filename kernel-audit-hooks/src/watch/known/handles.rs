//! Tracks which kernels are loaded or launched, and the objects behind handles. A launch costs a few reads.
//! Only calls that load something lock and allocate.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::preload::How;
use crate::record;
use crate::watch::known::contexts;
use crate::watch::known::table::Table;
use crate::watch::process::locked::Locked;

/// The keys of loaded kernels (see `contexts::key`).
static LOADED: Table = Table::new();

/// The keys of launched kernels: launching them again neither loads anything nor raises the stack limit.
static LAUNCHED: Table = Table::new();

/// Returns whether a kernel is known to be loaded.
pub(crate) fn is_loaded(key: u64) -> bool {
    LOADED.has(key)
}

pub(crate) fn mark_loaded(key: u64) {
    LOADED.add(key);
}

/// Returns whether a kernel is known to have been launched.
#[inline]
pub(crate) fn is_launched(key: u64) -> bool {
    LAUNCHED.has(key)
}

/// Marks a kernel as launched, and so as loaded.
pub(crate) fn mark_launched(key: u64) {
    LOADED.add(key);
    LAUNCHED.add(key);
}

fn forget(key: u64) {
    LOADED.remove(key);
    LAUNCHED.remove(key);
}

/// Forgets launches after the stack limit was set: the next launch of any kernel may raise it again.
pub(crate) fn forget_launches() {
    LAUNCHED.clear();
}

static HANDLES: Locked<Handles> = Locked::new();

/// Kernels and images by handle. All lookups are by hash, because programs load and unload tens of thousands
/// of images.
#[derive(Default)]
struct Handles {
    kernels: HashMap<u64, Kernel>,
    images: HashMap<u64, Image>,
    /// Loaded images that are in the preload.
    contents: HashMap<Content, BTreeSet<u64>>,
}

/// An image: a module or a library.
#[derive(Default)]
struct Image {
    /// The image as events name it, if its load was seen.
    described: Option<record::Image>,
    content: Option<Content>,
    /// The handles of kernels, by name. A library's kernel has several.
    kernels: HashMap<String, Vec<u64>>,
    /// The handles that were obtained from a module, by the function's name.
    functions: HashMap<String, u64>,
    /// The library that the module belongs to, or 0.
    library: u64,
    /// The library's modules.
    modules: Vec<u64>,
    /// Whether the program keeps the code in memory until it unloads the library.
    is_kept: bool,
    /// The contexts that the image is loaded into.
    contexts: HashSet<u64>,
}

impl Handles {
    fn image(&mut self, image: u64) -> &mut Image {
        self.images.entry(image).or_default()
    }

    /// Adds a kernel's handle, which may have been another kernel's before.
    fn add_kernel(&mut self, handle: u64, kernel: Kernel) {
        if self.kernels.get(&handle) == Some(&kernel) {
            return;
        }
        if let Some(before) = self.kernels.insert(handle, kernel.clone())
            && let Some(others) =
                self.images.get_mut(&before.image).and_then(|image| image.kernels.get_mut(&before.name))
        {
            others.retain(|other| *other != handle);
        }
        // 0 is an unknown image.
        if kernel.image != 0 {
            self.image(kernel.image).kernels.entry(kernel.name).or_default().push(handle);
        }
    }

    /// Removes an image with its kernels and modules.
    fn remove(&mut self, image: u64, contexts: &[u64]) {
        let Some(gone) = self.images.remove(&image) else { return };
        for handle in gone.kernels.into_values().flatten() {
            self.kernels.remove(&handle);
            forget(handle);
            contexts.iter().for_each(|context| forget(contexts::key_in(handle, *context)));
        }
        if let Some(content) = gone.content
            && let Some(same) = self.contents.get_mut(&content)
        {
            same.remove(&image);
            if same.is_empty() {
                self.contents.remove(&content);
            }
        }
        for module in gone.modules {
            if self.images.get(&module).is_some_and(|its| its.library == image) {
                self.remove(module, contexts);
            }
        }
    }
}

/// The images being loaded, by thread.
static LOADING: Locked<HashMap<u32, record::Image>> = Locked::new();

/// Makes a call that loads an image. Meanwhile `find_loading` returns the image.
pub(crate) fn while_loading<T>(thread: u32, image: record::Image, load: impl FnOnce() -> T) -> T {
    LOADING.lock().insert(thread, image);
    let result = load();
    LOADING.lock().remove(&thread);
    result
}

/// Returns the image that a thread is loading now.
pub(crate) fn find_loading(thread: u32) -> Option<record::Image> {
    LOADING.lock().get(&thread).cloned()
}

/// Identifies an image of the preload: how it's loaded, and the address of its bytes, which are read once.
pub(crate) type Content = (How, usize);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kernel {
    name: String,
    /// The handle of the kernel's module or library, or 0.
    image: u64,
}

/// Adds a kernel's handle with its name and its image.
pub(crate) fn add_name(handle: u64, name: &str, image: u64) {
    HANDLES.lock().add_kernel(handle, Kernel { name: name.to_owned(), image });
}

/// Adds another handle of a kernel.
pub(crate) fn add_handle(handle: u64, existing: u64) {
    let mut handles = HANDLES.lock();
    if let Some(kernel) = handles.kernels.get(&existing).cloned() {
        handles.add_kernel(handle, kernel);
    }
}

pub(crate) fn name_of(handle: u64) -> Option<String> {
    HANDLES.lock().kernels.get(&handle).map(|kernel| kernel.name.clone())
}

/// Returns description and origin of a kernel's image.
pub(crate) fn image_of(kernel: u64) -> Option<record::Image> {
    let handles = HANDLES.lock();
    handles.images.get(&handles.kernels.get(&kernel)?.image)?.described.clone()
}

/// Returns an image by its handle.
pub(crate) fn image_at(image: u64) -> Option<record::Image> {
    HANDLES.lock().images.get(&image)?.described.clone()
}

/// Returns the handles of loaded images with this content that `fits` accepts.
pub(crate) fn find_images(content: Content, fits: impl Fn(u64) -> bool) -> Vec<u64> {
    let handles = HANDLES.lock();
    handles.contents.get(&content).into_iter().flatten().copied().filter(|handle| fits(*handle)).collect()
}

/// Adds a loaded image. The handle may have been that of another one, whose context was destroyed.
pub(crate) fn add_image(handle: u64, described: record::Image, content: Option<Content>) {
    let contexts = contexts::list();
    let mut handles = HANDLES.lock();
    handles.remove(handle, &contexts);
    if let Some(content) = content {
        handles.contents.entry(content).or_default().insert(handle);
    }
    let image = Image { described: Some(described), content, ..Image::default() };
    handles.images.insert(handle, image);
}

/// Adds the handle of a function that was obtained from a module, and may not be loaded yet.
pub(crate) fn add_function(module: u64, name: &str, function: u64) {
    HANDLES.lock().image(module).functions.insert(name.to_owned(), function);
}

/// Returns the handle of this name that was obtained from a module.
pub(crate) fn find_function(module: u64, name: &str) -> Option<u64> {
    HANDLES.lock().images.get(&module)?.functions.get(name).copied()
}

/// Marks a library whose code the program keeps in memory.
pub(crate) fn mark_kept(library: u64) {
    HANDLES.lock().image(library).is_kept = true;
}

/// Returns whether the program keeps a library's code in memory until it unloads the library.
pub(crate) fn is_kept(library: u64) -> bool {
    HANDLES.lock().images.get(&library).is_some_and(|image| image.is_kept)
}

pub(crate) fn mark_library_loaded(library: u64, context: u64) {
    HANDLES.lock().image(library).contexts.insert(context);
}

/// Marks a kernel's image as loaded in a context.
pub(crate) fn mark_image_loaded(kernel: u64, context: u64) {
    let mut handles = HANDLES.lock();
    if let Some(image) = handles.kernels.get(&kernel).map(|kernel| kernel.image) {
        handles.image(image).contexts.insert(context);
    }
}

pub(crate) fn is_library_loaded(library: u64, context: u64) -> bool {
    HANDLES.lock().images.get(&library).is_some_and(|image| image.contexts.contains(&context))
}

/// Returns whether the kernel of this name, in a module or its library, is known to be loaded in the current
/// context.
pub(crate) fn is_loaded_in(module: u64, kernel: &str) -> bool {
    let of_name: Vec<u64> = {
        let handles = HANDLES.lock();
        let library = handles.images.get(&module).map_or(0, |image| image.library);
        let images = [module, library].into_iter().filter_map(|image| handles.images.get(&image));
        images.filter_map(|image| image.kernels.get(kernel)).flatten().copied().collect()
    };
    of_name.into_iter().any(|handle| is_loaded(contexts::key(handle, 0)))
}

/// Adds a library's module in some context.
pub(crate) fn add_module(module: u64, library: u64) {
    let mut handles = HANDLES.lock();
    let its = handles.image(library);
    let described = its.described.clone();
    if handles.image(module).library != library {
        handles.image(library).modules.push(module);
    }
    let image = handles.image(module);
    (image.described, image.library) = (described, library);
}

/// Forgets an unloaded image with its modules: their handles may be reused.
pub(crate) fn forget_image(image: u64) {
    let contexts = contexts::list();
    HANDLES.lock().remove(image, &contexts);
}

/// Forgets everything in a destroyed context, including these modules.
pub(crate) fn forget_context(context: u64, modules: &HashSet<u64>) {
    let mut handles = HANDLES.lock();
    handles.kernels.keys().for_each(|handle| forget(contexts::key_in(*handle, context)));
    handles.images.values_mut().for_each(|image| _ = image.contexts.remove(&context));
    modules.iter().for_each(|module| handles.remove(*module, &[context]));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_kernels_of_an_image_are_forgotten_with_it() {
        for (handle, image) in [(0x1000, 1), (0x1010, 2)] {
            add_name(handle, "kernel", image);
            mark_loaded(handle);
        }
        forget_image(1);
        assert_eq!((is_loaded(0x1000), name_of(0x1000)), (false, None));
        assert!(is_loaded(0x1010) && name_of(0x1010).is_some());
        mark_loaded(0x1000);
        assert!(is_loaded(0x1000), "the slot is used again");
    }

    #[test]
    fn modules_go_with_their_library() {
        add_module(31, 3);
        add_name(0x3000, "kernel", 31);
        mark_loaded(0x3000);
        forget_image(3);
        assert_eq!((is_loaded(0x3000), name_of(0x3000)), (false, None));
    }

    /// Returns this thread's processor time, which other work on the machine doesn't affect.
    fn computed() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` has room for the answer.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn each_of_many_images_is_found_and_forgotten_as_fast_as_one() {
        const FIRST: u64 = 1 << 40;
        let images = || (0..40_000).map(|number| FIRST + (number << 8));
        let content = |image| (How::Module, image as usize);
        let begun = computed();
        for image in images() {
            add_image(image, record::Image::default(), Some(content(image)));
            add_name(image + 1, "kernel", image);
            add_function(image, "kernel", image + 1);
            mark_library_loaded(image, 7);
            mark_loaded(image + 1);
        }
        for image in images() {
            assert!(is_loaded_in(image, "kernel") && !is_loaded_in(image, "other"));
            assert_eq!(find_images(content(image), |_| true), [image]);
            assert!(computed() - begun < Duration::from_secs(20), "{}", image - FIRST);
        }
        for image in images() {
            forget_image(image);
            assert!(!is_loaded(image + 1) && find_images(content(image), |_| true).is_empty());
            assert!(computed() - begun < Duration::from_secs(20), "{}", image - FIRST);
        }
    }

    #[test]
    fn a_handle_that_is_used_again_keeps_nothing() {
        add_module(41, 4);
        add_name(0x4000, "kernel", 41);
        add_function(41, "kernel", 0x4000);
        mark_loaded(0x4000);
        // The context of module 41 has ended without a hooked call.
        add_image(41, record::Image::default(), None);
        assert_eq!((find_function(41, "kernel"), is_loaded_in(41, "kernel")), (None, false));
        forget_image(4);
        assert!(image_at(41).is_some(), "it is no module of that library any more");
    }
}

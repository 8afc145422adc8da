//! Remembers which kernels are loaded, or launched, and what handles stand for. Asking whether a kernel was launched
//! costs a launch a few reads; only calls that load something lock and allocate.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::preload::How;
use crate::watch::known::contexts;
use crate::watch::known::table::Table;
use crate::watch::process::locked::Locked;

/// Kernels that are loaded, by their keys (see `contexts::key`).
static LOADED: Table = Table::new();

/// Kernels that were launched, so that another launch neither loads anything nor enlarges the stack.
static LAUNCHED: Table = Table::new();

/// Returns whether a kernel is known to be loaded.
pub(crate) fn is_loaded(key: u64) -> bool {
    LOADED.has(key)
}

/// Remembers that a kernel is loaded.
pub(crate) fn mark_loaded(key: u64) {
    LOADED.add(key);
}

/// Returns whether a kernel is known to have been launched.
#[inline]
pub(crate) fn is_launched(key: u64) -> bool {
    LAUNCHED.has(key)
}

/// Remembers that a kernel was launched, and so is loaded.
pub(crate) fn mark_launched(key: u64) {
    LOADED.add(key);
    LAUNCHED.add(key);
}

/// Forgets a kernel that was unloaded.
fn forget(key: u64) {
    LOADED.remove(key);
    LAUNCHED.remove(key);
}

/// Forgets launches, because the stack limit was set: the next launch of any kernel may enlarge the stack again.
pub(crate) fn forget_launches() {
    LAUNCHED.clear();
}

/// The objects that handles stand for.
static HANDLES: Locked<Handles> = Locked::new();

/// Kernels and images by their handles. Nothing is searched through, because programs load and unload tens of thousands
/// of images.
#[derive(Default)]
struct Handles {
    kernels: HashMap<u64, Kernel>,
    images: HashMap<u64, Image>,
    /// The images that a preload names.
    contents: HashMap<Content, BTreeSet<u64>>,
}

/// An image: a module or a library.
#[derive(Default)]
struct Image {
    words: Arc<str>,
    /// The origin of the image, as a preload writes it; or nothing.
    origin: Arc<str>,
    content: Option<Content>,
    /// The handles of the image's kernels, by the kernels' names. A library's kernel has several handles.
    kernels: HashMap<String, Vec<u64>>,
    /// The functions whose handles were obtained from a module, by name.
    taken: HashMap<String, u64>,
    /// The library that the module is of, or 0.
    library: u64,
    /// The modules of the library.
    modules: Vec<u64>,
    /// Whether the program keeps the code until it unloads the library.
    is_kept: bool,
    /// The contexts in which the image is loaded.
    contexts: HashSet<u64>,
}

impl Handles {
    fn image(&mut self, image: u64) -> &mut Image {
        self.images.entry(image).or_default()
    }

    /// Adds a handle of a kernel, or replaces the kernel that the handle stood for.
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
        // Image 0 stands for an image that is not known.
        if kernel.image != 0 {
            self.image(kernel.image).kernels.entry(kernel.name).or_default().push(handle);
        }
    }

    /// Forgets an image and its kernels, and the modules of a library.
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

/// The images that threads are loading, by the numbers of the threads.
static LOADING: Locked<HashMap<u32, Loading>> = Locked::new();

/// An image that is being loaded.
#[derive(Clone, Default)]
pub(crate) struct Loading {
    pub(crate) kind: &'static str,
    pub(crate) bytes: u64,
    pub(crate) origin: Arc<str>,
}

/// Makes a call that loads an image. Meanwhile `find_loading` returns the image.
pub(crate) fn while_loading<T>(thread: u32, image: Loading, load: impl FnOnce() -> T) -> T {
    LOADING.lock().insert(thread, image);
    let result = load();
    LOADING.lock().remove(&thread);
    result
}

/// Returns the image that a thread is loading.
pub(crate) fn find_loading(thread: u32) -> Option<Loading> {
    LOADING.lock().get(&thread).cloned()
}

/// The key that tells the images of a preload apart: how they are loaded, and the address of their bytes, which are
/// read once.
pub(crate) type Content = (How, usize);

/// A kernel, by one of its handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kernel {
    name: String,
    /// The handle of the kernel's module or library, or 0.
    image: u64,
}

/// Remembers the name of a kernel, and its image.
pub(crate) fn add_name(handle: u64, name: &str, image: u64) {
    HANDLES.lock().add_kernel(handle, Kernel { name: name.to_owned(), image });
}

/// Remembers another handle of the same kernel.
pub(crate) fn add_handle(handle: u64, as_of: u64) {
    let mut handles = HANDLES.lock();
    if let Some(kernel) = handles.kernels.get(&as_of).cloned() {
        handles.add_kernel(handle, kernel);
    }
}

/// Returns the name of a kernel.
pub(crate) fn name_of(handle: u64) -> Option<String> {
    HANDLES.lock().kernels.get(&handle).map(|kernel| kernel.name.clone())
}

/// Returns the description of a kernel's image, and the image's origin.
pub(crate) fn image_of(kernel: u64) -> Option<(Arc<str>, Arc<str>)> {
    let handles = HANDLES.lock();
    let Image { words, origin, .. } = handles.images.get(&handles.kernels.get(&kernel)?.image)?;
    Some((words.clone(), origin.clone()))
}

/// Returns the origin of an image.
pub(crate) fn origin_of(image: u64) -> Option<Arc<str>> {
    HANDLES.lock().images.get(&image).map(|image| image.origin.clone())
}

/// Returns the handles of loaded images with this content, as far as `fits` accepts them.
pub(crate) fn find_images(content: Content, fits: impl Fn(u64) -> bool) -> Vec<u64> {
    let handles = HANDLES.lock();
    handles.contents.get(&content).into_iter().flatten().copied().filter(|handle| fits(*handle)).collect()
}

/// Remembers an image that was loaded, with its description and its origin. The handle may have been that of another
/// image, whose context is gone.
pub(crate) fn add_image(handle: u64, words: &str, origin: &str, content: Option<Content>) {
    let contexts = contexts::list();
    let mut handles = HANDLES.lock();
    handles.remove(handle, &contexts);
    if let Some(content) = content {
        handles.contents.entry(content).or_default().insert(handle);
    }
    let image = Image { words: words.into(), origin: origin.into(), content, ..Image::default() };
    handles.images.insert(handle, image);
}

/// Remembers that the handle of a function was obtained from a module. The function may be loaded only by its launch.
pub(crate) fn add_function(module: u64, name: &str, function: u64) {
    HANDLES.lock().image(module).taken.insert(name.to_owned(), function);
}

/// Returns the handle of the function of this name that was obtained from a module.
pub(crate) fn find_function(module: u64, name: &str) -> Option<u64> {
    HANDLES.lock().images.get(&module)?.taken.get(name).copied()
}

/// Remembers that the program keeps the code of a library.
pub(crate) fn mark_kept(library: u64) {
    HANDLES.lock().image(library).is_kept = true;
}

/// Returns whether the program keeps the code of a library until it unloads the library.
pub(crate) fn is_kept(library: u64) -> bool {
    HANDLES.lock().images.get(&library).is_some_and(|image| image.is_kept)
}

/// Remembers that a library is loaded in a context.
pub(crate) fn mark_library_loaded(library: u64, context: u64) {
    HANDLES.lock().image(library).contexts.insert(context);
}

/// Remembers that the image of a kernel is loaded in a context.
pub(crate) fn mark_image_loaded(kernel: u64, context: u64) {
    let mut handles = HANDLES.lock();
    if let Some(image) = handles.kernels.get(&kernel).map(|kernel| kernel.image) {
        handles.image(image).contexts.insert(context);
    }
}

/// Returns whether a library is known to be loaded in a context.
pub(crate) fn is_library_loaded(library: u64, context: u64) -> bool {
    HANDLES.lock().images.get(&library).is_some_and(|image| image.contexts.contains(&context))
}

/// Returns whether the kernel of this name, in a module or in the library that the module is of, is known to be loaded in the current
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

/// Remembers that a module is that of a library in some context.
pub(crate) fn add_module(module: u64, library: u64) {
    let mut handles = HANDLES.lock();
    let its = handles.image(library);
    let (words, origin) = (its.words.clone(), its.origin.clone());
    if handles.image(module).library != library {
        handles.image(library).modules.push(module);
    }
    let image = handles.image(module);
    (image.words, image.origin, image.library) = (words, origin, library);
}

/// Forgets an image that was unloaded, and the modules of a library: their handles may soon stand for other kernels.
pub(crate) fn forget_image(image: u64) {
    let contexts = contexts::list();
    HANDLES.lock().remove(image, &contexts);
}

/// Forgets what was loaded in a context that was destroyed, including its modules.
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

    /// Returns the time that this thread has computed. Other work on the machine does not count.
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
            add_image(image, "image", "", Some(content(image)));
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
        // The context of module 41 is gone, and nobody has seen that.
        add_image(41, "another", "", None);
        assert_eq!((find_function(41, "kernel"), is_loaded_in(41, "kernel")), (None, false));
        forget_image(4);
        assert_eq!(origin_of(41).as_deref(), Some(""), "it is no module of that library any more");
    }
}

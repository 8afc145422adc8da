//! The kernels that are known to be loaded, or launched, and what handles stand for. Asking whether a kernel was launched costs a
//! launch a few reads; only calls that load something lock and allocate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::preload::How;
use crate::watch::contexts;
use crate::watch::locked::Locked;
use crate::watch::table::Table;

/// Kernels that are loaded, by their keys (see `contexts::key`).
static LOADED: Table = Table::new();

/// Kernels that were launched, so that another launch neither loads anything nor enlarges the stack.
static LAUNCHED: Table = Table::new();

/// Whether a kernel is known to be loaded.
pub(crate) fn is_loaded(key: u64) -> bool {
    LOADED.has(key)
}

/// Remembers that a kernel is loaded.
pub(crate) fn mark_loaded(key: u64) {
    LOADED.add(key);
}

/// Whether a kernel is known to have been launched.
#[inline]
pub(crate) fn is_launched(key: u64) -> bool {
    LAUNCHED.has(key)
}

/// Remembers that a kernel was launched, and so is loaded.
pub(crate) fn mark_launched(key: u64) {
    LOADED.add(key);
    LAUNCHED.add(key);
}

/// Forgets a kernel that is unloaded.
fn forget(key: u64) {
    LOADED.remove(key);
    LAUNCHED.remove(key);
}

/// Forgets launches, because the stack limit was set: the next launch of any kernel may enlarge the stack again.
pub(crate) fn forget_launches() {
    LAUNCHED.clear();
}

/// What handles stand for.
static HANDLES: Locked<Handles> = Locked::new();

#[derive(Default)]
struct Handles {
    kernels: HashMap<u64, Kernel>,
    images: HashMap<u64, Image>,
    /// The modules that are those of libraries.
    modules: HashMap<u64, u64>,
    /// The functions that were taken from each module, by their names.
    taken: HashMap<u64, HashMap<String, u64>>,
    /// Libraries whose code the program keeps until it unloads them.
    kept: HashSet<u64>,
    /// Libraries, each with a context that it is loaded in.
    loaded: HashSet<(u64, u64)>,
}

impl Handles {
    /// Removes images, and their kernels.
    fn remove(&mut self, gone: &HashSet<u64>) {
        for image in gone {
            self.images.remove(image);
            self.modules.remove(image);
            self.taken.remove(image);
            self.kept.remove(image);
        }
        self.loaded.retain(|(image, _)| !gone.contains(image));
        self.kernels.retain(|_, kernel| !gone.contains(&kernel.image));
    }
}

/// An image that was loaded.
#[derive(Clone)]
struct Image {
    words: Arc<str>,
    /// Where it is from, as a preload says it; or nothing.
    origin: Arc<str>,
    content: Option<Content>,
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

/// Makes a call that loads an image, which is known meanwhile.
pub(crate) fn while_loading<T>(thread: u32, image: Loading, load: impl FnOnce() -> T) -> T {
    LOADING.lock().insert(thread, image);
    let result = load();
    LOADING.lock().remove(&thread);
    result
}

/// The image that a thread is loading.
pub(crate) fn find_loading(thread: u32) -> Option<Loading> {
    LOADING.lock().get(&thread).cloned()
}

/// What tells images apart: how they are loaded, and their length and hash.
pub(crate) type Content = (How, u64, u64);

/// A kernel, by one of its handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The handle of its module or library, or 0.
    image: u64,
}

/// Remembers what a kernel is called, and where it is from.
pub(crate) fn add_name(handle: u64, name: &str, image: u64) {
    HANDLES.lock().kernels.insert(handle, Kernel { name: name.to_owned(), image });
}

/// Remembers that a handle is another one of the same kernel.
pub(crate) fn add_handle(handle: u64, as_of: u64) {
    let mut handles = HANDLES.lock();
    if let Some(kernel) = handles.kernels.get(&as_of).cloned() {
        handles.kernels.insert(handle, kernel);
    }
}

/// What a kernel is called.
pub(crate) fn name_of(handle: u64) -> Option<String> {
    HANDLES.lock().kernels.get(&handle).map(|kernel| kernel.name.clone())
}

/// The image of a kernel, in words, and where it is from.
pub(crate) fn image_of(kernel: u64) -> Option<(Arc<str>, Arc<str>)> {
    let handles = HANDLES.lock();
    let Image { words, origin, .. } = handles.images.get(&handles.kernels.get(&kernel)?.image)?;
    Some((words.clone(), origin.clone()))
}

/// Where an image is from.
pub(crate) fn origin_of(image: u64) -> Option<Arc<str>> {
    HANDLES.lock().images.get(&image).map(|image| image.origin.clone())
}

/// The images of this content that are loaded, by their handles, as far as `fits` says that of them.
pub(crate) fn find_images(content: Content, fits: impl Fn(u64) -> bool) -> Vec<u64> {
    let handles = HANDLES.lock();
    let same = handles.images.iter().filter(|(_, image)| image.content == Some(content));
    let mut same: Vec<_> = same.map(|(handle, _)| *handle).filter(|handle| fits(*handle)).collect();
    same.sort_unstable();
    same
}

/// Remembers an image that was loaded, in words, and where it is from. Its handle may have been that of another image, whose context is gone.
pub(crate) fn add_image(handle: u64, words: &str, origin: &str, content: Option<Content>) {
    let mut handles = HANDLES.lock();
    handles.taken.remove(&handle);
    handles.images.insert(handle, Image { words: words.into(), origin: origin.into(), content });
}

/// Remembers that a function was taken from a module. It may be loaded only by its launch.
pub(crate) fn add_function(module: u64, name: &str, function: u64) {
    HANDLES.lock().taken.entry(module).or_default().insert(name.to_owned(), function);
}

/// The function that was taken from a module under this name.
pub(crate) fn find_function(module: u64, name: &str) -> Option<u64> {
    HANDLES.lock().taken.get(&module)?.get(name).copied()
}

/// Remembers that the program keeps the code of a library.
pub(crate) fn mark_kept(library: u64) {
    HANDLES.lock().kept.insert(library);
}

/// Whether the program keeps the code of a library until it unloads it.
pub(crate) fn is_kept(library: u64) -> bool {
    HANDLES.lock().kept.contains(&library)
}

/// Remembers that a library is loaded in a context.
pub(crate) fn mark_library_loaded(library: u64, context: u64) {
    HANDLES.lock().loaded.insert((library, context));
}

/// Remembers that the image of a kernel is loaded in a context.
pub(crate) fn mark_image_loaded(kernel: u64, context: u64) {
    let mut handles = HANDLES.lock();
    if let Some(image) = handles.kernels.get(&kernel).map(|kernel| kernel.image) {
        handles.loaded.insert((image, context));
    }
}

/// Whether a library is known to be loaded in a context.
pub(crate) fn is_library_loaded(library: u64, context: u64) -> bool {
    HANDLES.lock().loaded.contains(&(library, context))
}

/// Whether the kernel of this name, in a module or in the library that the module is of, is known to be loaded in the current
/// context.
pub(crate) fn is_loaded_in(module: u64, kernel: &str) -> bool {
    let handles = HANDLES.lock();
    let library = handles.modules.get(&module);
    let of_name = handles.kernels.iter().filter(|(_, its)| {
        its.name == kernel && (its.image == module || library.is_some_and(|library| its.image == *library))
    });
    of_name.into_iter().any(|(handle, _)| is_loaded(contexts::key(*handle, 0)))
}

/// Remembers that a module is that of a library in some context.
pub(crate) fn add_module(module: u64, library: u64) {
    let mut handles = HANDLES.lock();
    handles.modules.insert(module, library);
    if let Some(image) = handles.images.get(&library).cloned() {
        handles.images.insert(module, Image { content: None, ..image });
    }
}

/// Forgets an image that is unloaded, and the modules of a library: their handles may stand for other kernels soon.
pub(crate) fn forget_image(image: u64) {
    let contexts = contexts::all();
    let mut handles = HANDLES.lock();
    let its = handles.modules.iter().filter(|(_, library)| **library == image).map(|(module, _)| *module);
    let gone: HashSet<u64> = its.chain([image]).collect();
    for (handle, _) in handles.kernels.iter().filter(|(_, kernel)| gone.contains(&kernel.image)) {
        forget(*handle);
        contexts.iter().for_each(|context| forget(contexts::key_in(*handle, *context)));
    }
    handles.remove(&gone);
}

/// Forgets what was loaded in a context that was destroyed, with its modules.
pub(crate) fn forget_context(context: u64, modules: &HashSet<u64>) {
    let mut handles = HANDLES.lock();
    handles.kernels.keys().for_each(|handle| forget(contexts::key_in(*handle, context)));
    handles.loaded.retain(|(_, its)| *its != context);
    handles.remove(modules);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_image_had_is_forgotten_with_it() {
        for (handle, image) in [(0x1000, 1), (0x1010, 2)] {
            add_name(handle, "kernel", image);
            mark_loaded(handle);
        }
        forget_image(1);
        assert_eq!((is_loaded(0x1000), name_of(0x1000)), (false, None));
        assert!(is_loaded(0x1010) && name_of(0x1010).is_some());
        mark_loaded(0x1000);
        assert!(is_loaded(0x1000), "the place is used again");
    }

    #[test]
    fn modules_go_with_their_library() {
        add_module(31, 3);
        add_name(0x3000, "kernel", 31);
        mark_loaded(0x3000);
        forget_image(3);
        assert_eq!((is_loaded(0x3000), name_of(0x3000)), (false, None));
    }
}

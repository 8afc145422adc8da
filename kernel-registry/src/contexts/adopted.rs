//! The table of adopted modules: images that are warm in a context, with the handle that other code gets for them.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cudarc::driver::sys;

use crate::driver::{ContextId, Current, Function};

/// An image that is warm in a context. Handles are kept as addresses.
struct Adopted {
    id: ContextId,
    image: &'static [u8],
    /// The module that other code gets, one of `modules`. A later warm-up keeps it if it is still among them.
    handle: usize,
    /// The modules of all warm kernels. There are several if the image was cut into pieces.
    modules: Vec<usize>,
    /// Whether `handle` is a module of the whole image.
    is_whole: bool,
    /// The module of the whole image, if it was loaded because a piece lacks something.
    whole: Option<usize>,
    /// The warm kernels, by their symbols.
    functions: HashMap<&'static [u8], Function>,
    /// How many loads by other code have not been unloaded yet.
    loads: usize,
}

static ADOPTED: RwLock<Vec<Adopted>> = RwLock::new(Vec::new());

/// Whether `ADOPTED` was ever filled. Until then, calls of other code take no lock.
static ANY: AtomicBool = AtomicBool::new(false);

fn read() -> RwLockReadGuard<'static, Vec<Adopted>> {
    ADOPTED.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Vec<Adopted>> {
    ADOPTED.write().unwrap_or_else(PoisonError::into_inner)
}

fn is_any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Enters the warm kernels of an image in a context. `is_whole` says whether they are in one module, which is the whole image.
pub(crate) fn enter(
    current: &Current<'_>,
    id: ContextId,
    image: &'static [u8],
    is_whole: bool,
    kernels: impl Iterator<Item = (&'static str, Function)>,
) {
    let (mut modules, mut functions) = (Vec::new(), HashMap::new());
    for (symbol, function) in kernels {
        let Ok(module) = current.module_of_function(function) else { continue };
        let module = module.expose_provenance();
        if !modules.contains(&module) {
            modules.push(module);
        }
        functions.insert(symbol.as_bytes(), function);
    }
    enter_modules(id, image, is_whole, modules, functions);
}

fn enter_modules(
    id: ContextId,
    image: &'static [u8],
    is_whole: bool,
    modules: Vec<usize>,
    functions: HashMap<&'static [u8], Function>,
) {
    let mut adopted = write();
    // The driver reuses the handles of a destroyed context for other modules.
    adopted.retain(|other| other.id == id || !modules.contains(&other.handle));
    let earlier = adopted.iter().position(|other| other.id == id && ptr::eq(other.image, image));
    let Some(first) = modules.first() else {
        earlier.into_iter().for_each(|place| _ = adopted.remove(place));
        return;
    };
    if let Some(place) = earlier {
        let earlier = &mut adopted[place];
        // Other code has the handle, so it stays as long as the module does.
        let handle = if modules.contains(&earlier.handle) { earlier.handle } else { *first };
        *earlier =
            Adopted { handle, is_whole: is_whole && modules.len() == 1, modules, functions, ..*earlier };
        return;
    }
    adopted.push(Adopted {
        id,
        image,
        handle: *first,
        is_whole: is_whole && modules.len() == 1,
        modules,
        whole: None,
        functions,
        loads: 0,
    });
    ANY.store(true, Ordering::Release);
}

/// Removes the modules of a context that no longer exists.
pub(crate) fn forget(id: ContextId) {
    if is_any() {
        write().retain(|adopted| adopted.id != id);
    }
}

/// Removes an adopted module whose handle the driver has given to another module: its context no longer exists.
pub(crate) fn forget_handle(module: sys::CUmodule) {
    let has_module = |adopted: &Adopted| adopted.modules.contains(&module.addr());
    if is_any() && read().iter().any(has_module) {
        write().retain(|adopted| !has_module(adopted));
    }
}

/// Counts a load of an image in a context. Returns the module if the image is warm there.
pub(crate) fn load(id: ContextId, images: &[&'static [u8]]) -> Option<sys::CUmodule> {
    let is_wanted = |adopted: &&mut Adopted| {
        adopted.id == id && images.iter().any(|image| ptr::eq(*image, adopted.image))
    };
    let mut all = write();
    let adopted = all.iter_mut().find(is_wanted)?;
    adopted.loads += 1;
    Some(ptr::with_exposed_provenance_mut(adopted.handle))
}

/// Counts an unload by other code. Returns whether that code had loaded the module, or `None` if the module is not adopted.
pub(crate) fn unload(module: sys::CUmodule) -> Option<bool> {
    if !is_any() || find(module, |_| ()).is_none() {
        return None;
    }
    let mut all = write();
    let adopted = all.iter_mut().find(|adopted| adopted.handle == module.addr())?;
    let was_loaded = adopted.loads > 0;
    adopted.loads = adopted.loads.saturating_sub(1);
    Some(was_loaded)
}

fn find<T>(module: sys::CUmodule, read_one: impl FnOnce(&Adopted) -> T) -> Option<T> {
    if !is_any() {
        return None;
    }
    read().iter().find(|adopted| adopted.handle == module.addr()).map(read_one)
}

/// A kernel of an adopted module.
pub(crate) enum Found {
    Warm(sys::CUfunction),
    /// The kernel is not warm, or not in the image.
    Not,
}

/// Returns the kernel of this symbol, or `None` if the module is not adopted.
pub(crate) fn function(module: sys::CUmodule, symbol: &[u8]) -> Option<Found> {
    find(module, |adopted| match adopted.functions.get(symbol) {
        Some(function) => Found::Warm(function.0),
        None => Found::Not,
    })
}

/// The context, image and modules behind the handle of an adopted module.
pub(crate) struct Module {
    pub(crate) id: ContextId,
    pub(crate) image: &'static [u8],
    /// The module of the whole image, if there is one.
    pub(crate) whole: Option<sys::CUmodule>,
    /// The modules of all warm kernels.
    pub(crate) modules: Vec<sys::CUmodule>,
}

/// Returns the adopted module with this handle, or `None` if there is none.
pub(crate) fn module(module: sys::CUmodule) -> Option<Module> {
    find(module, |adopted| {
        let whole = adopted.whole.or_else(|| adopted.is_whole.then_some(adopted.handle));
        Module {
            id: adopted.id,
            image: adopted.image,
            whole: whole.map(ptr::with_exposed_provenance_mut),
            modules: adopted.modules.iter().copied().map(ptr::with_exposed_provenance_mut).collect(),
        }
    })
}

/// Enters the module of the whole image.
pub(crate) fn set_whole(module: sys::CUmodule, whole: sys::CUmodule) {
    let mut all = write();
    if let Some(adopted) = all.iter_mut().find(|adopted| adopted.handle == module.addr()) {
        adopted.whole = Some(whole.expose_provenance());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &[u8] = b"image of a test";

    fn handle(address: usize) -> sys::CUmodule {
        ptr::without_provenance_mut(address)
    }

    fn kernels(address: usize) -> HashMap<&'static [u8], Function> {
        HashMap::from([(&b"add"[..], Function(ptr::without_provenance_mut(address)))])
    }

    fn add(module: usize) -> Option<usize> {
        match function(handle(module), b"add")? {
            Found::Warm(function) => Some(function.addr()),
            Found::Not => Some(0),
        }
    }

    #[test]
    fn modules_are_counted_and_belong_to_their_context() {
        let [one, other] = [1 << 40, 2 << 40].map(ContextId);
        enter_modules(one, IMAGE, true, vec![0x1110], kernels(0x11));
        enter_modules(other, IMAGE, false, vec![0x2220, 0x2230], kernels(0x22));
        assert_eq!([add(0x1110), add(0x2220), add(0x2230)], [Some(0x11), Some(0x22), None]);
        assert!(load(one, &[b"other"]).is_none() && load(ContextId(3 << 40), &[IMAGE]).is_none());
        for _ in 0..2 {
            assert_eq!(load(one, &[IMAGE]), Some(handle(0x1110)));
        }
        let take = |module| unload(handle(module));
        assert_eq!([take(0x1110), take(0x1110), take(0x1110)], [Some(true), Some(true), Some(false)]);
        assert_eq!([take(0x2220), take(0x9990)], [Some(false), None]);

        // A later warm-up keeps the handle, and one that has loaded the image again does not.
        enter_modules(other, IMAGE, false, vec![0x2230, 0x2220], kernels(0x23));
        assert_eq!([add(0x2220), add(0x2230)], [Some(0x23), None]);
        enter_modules(other, IMAGE, true, vec![0x2240], kernels(0x24));
        assert_eq!([add(0x2220), add(0x2240)], [None, Some(0x24)]);

        // The driver gives the handle of a destroyed context to another module.
        forget_handle(handle(0x1110));
        assert_eq!(add(0x1110), None);
        forget(other);
        assert_eq!(add(0x2240), None);
    }
}

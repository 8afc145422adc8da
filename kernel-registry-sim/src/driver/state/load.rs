//! Loads and unloads modules, adds libraries, and loads kernels lazily.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use super::deadlock::wait_for_device;
use super::simulator::Locked;
use crate::driver::handles::Handle;
use crate::driver::load::code::{Function, Kernel, Loaded, Module};
use crate::driver::load::image::Image;
use crate::driver::result::{Answer, Code};
use crate::driver::wait::WaitReason;

/// The most bytes of shared memory of a block without an opt-in.
const USUAL_SHARED: u32 = 48 << 10;

impl State {
    /// Loads an image as a module, with its variables but not yet its kernels.
    pub(crate) fn add_module(
        &mut self,
        context: Handle,
        image: Arc<Image>,
        library: Option<Handle>,
    ) -> Answer<Handle> {
        let device = self.sound(context)?.device;
        let variables = image.program.variables().iter();
        let code = image.bytes as u64;
        let bytes = variables.fold(code, |bytes, variable| bytes.saturating_add(variable.size()));
        if bytes > self.free_memory(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let code = Loaded::new(&image.program, &self.memory, context, device)?;
        Ok(self.modules.insert(Module { context, image, code, library, functions: BTreeMap::new() }))
    }

    /// Removes a module with its functions and variables.
    pub(crate) fn remove_module(&mut self, module: Handle) -> Answer {
        self.modules.remove(module)?.code.unload(&self.memory);
        self.functions.retain(|function| function.module != module);
        Ok(())
    }

    /// Returns the function of a module's kernel, without loading it.
    pub(crate) fn function(&mut self, module: Handle, kernel: usize) -> Answer<Handle> {
        let found = self.modules.get(module)?;
        if let Some(function) = found.functions.get(&kernel) {
            return Ok(*function);
        }
        let (context, image) = (found.context, found.image.clone());
        let device = self.context(context)?.device;
        let max_shared = USUAL_SHARED.saturating_sub(image.kernels[kernel].shared);
        let loaded = self.config.eager.then_some(0);
        let attributes = BTreeMap::new();
        let function = self.functions.insert(Function {
            context,
            device,
            module,
            image,
            kernel,
            loaded,
            max_shared,
            attributes,
        });
        self.modules.get_mut(module)?.functions.insert(kernel, function);
        Ok(function)
    }

    /// Returns the handle of a library's kernel, without loading the kernel.
    pub(crate) fn kernel(&mut self, library: Handle, name: &str) -> Answer<Handle> {
        let found = self.libraries.get(library)?;
        let mut images = found.images.values().filter_map(|image| image.as_ref().ok());
        if !images.any(|image| image.find(name).is_some()) {
            return Err(Code::NOT_FOUND);
        }
        if let Some(handle) = found.kernels.get(name) {
            return Ok(*handle);
        }
        let handle = self.kernels.insert(Kernel { library, name: name.to_owned(), set: BTreeMap::new() });
        self.libraries.get_mut(library)?.kernels.insert(name.to_owned(), handle);
        Ok(handle)
    }

    /// Returns a library's module in a context. The module is created on first use, without loading kernels.
    pub(crate) fn module_of(&mut self, library: Handle, context: Handle) -> Answer<Handle> {
        let (id, device) = (self.sound(context)?.id, self.sound(context)?.device);
        let found = self.libraries.get(library)?;
        if let Some(module) = found.modules.get(&id) {
            return Ok(*module);
        }
        let image = found.image(self.devices[device].kind.arch)?.clone();
        let module = self.add_module(context, image, Some(library))?;
        self.libraries.get_mut(library)?.modules.insert(id, module);
        Ok(module)
    }

    /// Returns the function of a library's kernel in a context, without loading it.
    pub(crate) fn function_of(&mut self, kernel: Handle, context: Handle) -> Answer<Handle> {
        let Kernel { library, name, .. } = self.kernels.get(kernel)?.clone();
        let module = self.module_of(library, context)?;
        let kernel = self.modules.get(module)?.image.find(&name).ok_or(Code::NOT_FOUND)?;
        self.function(module, kernel)
    }

    /// Returns whether the kernel's library has no module in the context yet.
    pub(crate) fn is_of_new_library(&self, kernel: Handle, context: Handle) -> bool {
        let library = self.kernels.get(kernel).and_then(|kernel| self.libraries.get(kernel.library));
        let id = self.contexts.get(context).map(|context| context.id);
        matches!((library, id), (Ok(library), Ok(id)) if !library.modules.contains_key(&id))
    }

    /// Loads a function without waiting. The function counts as loaded once the work that now occupies the device is
    /// done.
    pub(crate) fn load_behind(&mut self, handle: Handle) -> Answer {
        let last = self.streams.last;
        let function = self.functions.get(handle)?;
        if function.loaded.is_none() {
            let is_busy = self.streams.is_busy(function.device, last);
            self.functions.get_mut(handle)?.loaded = Some(if is_busy { last } else { 0 });
        }
        Ok(())
    }
}

/// Returns a library's module in a context. With lazy loading, this waits for the device if the context does not have
/// the module yet.
pub(crate) fn module_now(
    mut state: Locked,
    library: Handle,
    context: Handle,
    call: &'static str,
    because: WaitReason,
) -> Answer<(Locked, Handle)> {
    let (id, device) = (state.sound(context)?.id, state.sound(context)?.device);
    if !state.libraries.get(library)?.modules.contains_key(&id) && !state.config.eager {
        state = wait_for_device(state, device, call, because)?;
    }
    let module = state.module_of(library, context)?;
    Ok((state, module))
}

/// Loads a kernel, which may be a library's, and returns its function. With lazy loading, this waits for the device if
/// the context does not have the library yet. Otherwise the function counts as loaded once the work that now occupies
/// the device is done.
pub(crate) fn load(
    mut state: Locked,
    kernel: Handle,
    context: Handle,
    call: &'static str,
) -> Answer<(Locked, Handle)> {
    let function = match state.kernels.get(kernel).map(|kernel| kernel.library) {
        Ok(library) => {
            state = module_now(state, library, context, call, WaitReason::Load)?.0;
            state.function_of(kernel, context)?
        }
        Err(_) => kernel,
    };
    let owner = state.functions.get(function)?.context;
    state.sound(owner)?;
    state.load_behind(function)?;
    Ok((state, function))
}

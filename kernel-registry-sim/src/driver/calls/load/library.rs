//! Defines the functions of libraries and of their kernels.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{attribute, parameter, set_attribute};
use crate::driver::caller::arguments::{Image, In, JitOptions, Name, Out};
use crate::driver::calls::device::device;
use crate::driver::handles::Handle;
use crate::driver::load::code::{Images, Kernel, Library};
use crate::driver::load::compile::{Compiler, Compiling, report_refusal};
use crate::driver::result::{Answer, Code};
use crate::driver::state::current::CurrentContext;
use crate::driver::state::deadlock::wait_for_device;
use crate::driver::state::load::{load as load_kernel, module_now};
use crate::driver::state::simulator::{Locked, begin};
use crate::driver::wait::WaitReason;

fn load(library: &Out<Handle>, bytes: &[u8], options: &JitOptions, call: &'static str) -> Answer {
    drop(begin()?);
    library.ready()?;
    let images = compile_for_all(bytes, options)?;
    let mut state = begin()?;
    // With eager loading the code is copied to the devices now, which waits for them.
    if state.config.eager {
        let devices: BTreeSet<_> = state.contexts.iter().map(|(_, context)| context.device).collect();
        for device in devices {
            state = wait_for_device(state, device, call, WaitReason::Load)?;
        }
    }
    library.set(state.libraries.insert(Library::new(images)))
}

/// Compiles an image for each architecture among the devices. If only some architectures fail, their error is returned
/// when the library is first used on such a device.
fn compile_for_all(bytes: &[u8], options: &JitOptions) -> Answer<Images> {
    let (archs, compiler) = {
        let state = begin()?;
        let archs: BTreeSet<_> = state.devices.iter().map(|device| device.kind.arch).collect();
        (archs, Compiler::new(&state.config, Compiling::Parallel))
    };
    let compiled = archs.into_iter().map(|arch| (arch, compiler.compile(bytes, arch)));
    let images: BTreeMap<_, _> = compiled.collect();
    match images.values().find_map(|image| image.as_ref().err()) {
        Some(refused) if images.values().all(Result::is_err) => Err(report_refusal(refused, options)),
        _ => Ok(images
            .into_iter()
            .map(|(arch, image)| (arch, image.map_err(|refused| refused.code)))
            .collect()),
    }
}

/// Returns a library's module in the current context.
fn module_here(library: Handle, call: &'static str) -> Answer<(Locked, Handle)> {
    module_now(begin()?, library, CurrentContext::get()?, call, WaitReason::Library)
}

/// Loads a library's kernel into the current context, and returns its function.
fn load_here(state: Locked, kernel: Handle, call: &'static str) -> Answer<(Locked, Handle)> {
    state.kernels.get(kernel)?;
    load_kernel(state, kernel, CurrentContext::get()?, call)
}

calls! {
    12000 fn cuLibraryLoadData(
        library: Out<Handle>, image: Image, options: In<u32>, values: In<usize>, count: u32,
        _library_options: In<u32>, _library_values: In<usize>, _library_count: u32,
    ) = {
        let options = JitOptions::get(count, &options, &values, begin()?.config.version)?;
        load(&library, &image.get()?, &options, "cuLibraryLoadData")
    };

    12000 fn cuLibraryUnload(library: Handle) = {
        let mut state = begin()?;
        state.libraries.get(library)?;
        for device in 0..state.devices.len() {
            state = wait_for_device(state, device, "cuLibraryUnload", WaitReason::Unload)?;
        }
        state.libraries.remove(library)?;
        let modules = state.modules.iter().filter(|(_, module)| module.library == Some(library));
        let modules: Vec<_> = modules.map(|(handle, _)| handle).collect();
        for module in modules {
            state.remove_module(module)?;
        }
        state.kernels.retain(|kernel| kernel.library != library);
        Ok(())
    };

    12000 fn cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Name) = {
        let name = name.get()?;
        kernel.set(begin()?.kernel(library, &name)?)
    };

    12000 fn cuLibraryGetModule(module: Out<Handle>, library: Handle) = {
        let (_state, found) = module_here(library, "cuLibraryGetModule")?;
        module.set(found)
    };

    12000 fn cuLibraryGetGlobal(address: Out<usize>, bytes: Out<usize>, library: Handle, name: Name) = {
        let name = name.get()?;
        let (state, module) = module_here(library, "cuLibraryGetGlobal")?;
        let found = state.modules.get(module)?.code.variable(&name).ok_or(Code::NOT_FOUND)?;
        address.set_if_wanted(found.0)?;
        bytes.set_if_wanted(found.1)
    };

    12000 fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) = {
        let (_state, found) = load_here(begin()?, kernel, "cuKernelGetFunction")?;
        function.set(found)
    };

    12000 fn cuKernelGetAttribute(value: Out<i32>, which: u32, kernel: Handle, ordinal: i32) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
        if let Some(set) = state.kernels.get(kernel)?.set.get(&(device, which)) {
            return value.set(*set);
        }
        let arch = state.devices[device].kind.arch;
        let Kernel { library, name, .. } = state.kernels.get(kernel)?;
        let image = state.libraries.get(*library)?.image(arch)?;
        value.set(attribute(image, image.find(name).ok_or(Code::NOT_FOUND)?, arch, which)?)
    };

    12000 fn cuKernelSetAttribute(which: u32, value: i32, kernel: Handle, ordinal: i32) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
                // Unlike `cuKernelGetAttribute`, this call loads the kernel.
        let (mut state, function) = load_here(state, kernel, "cuKernelSetAttribute")?;
        set_attribute(&mut state, function, which, value)?;
        state.kernels.get_mut(kernel)?.set.insert((device, which), value);
        Ok(())
    };

    12040 fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: Out<usize>, size: Out<usize>) = {
        let (state, function) = load_here(begin()?, kernel, "cuKernelGetParamInfo")?;
        parameter(&state, function, index, (&offset, &size))
    };

    12000 fn cuKernelSetCacheConfig(kernel: Handle, _config: u32, ordinal: i32) = {
        let state = begin()?;
        device(&state, ordinal)?;
        load_here(state, kernel, "cuKernelSetCacheConfig").map(drop)
    };
}

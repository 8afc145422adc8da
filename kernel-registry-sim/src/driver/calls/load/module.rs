//! Defines the functions of modules and of their functions.

use std::fs;

use crate::driver::caller::arguments::{Image, In, JitOptions, Name, Out};
use crate::driver::config::device::Device;
use crate::driver::handles::Handle;
use crate::driver::load::code::{Function, attributes};
use crate::driver::load::compile::{Compiler, Compiling, report_refusal};
use crate::driver::load::image;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;
use crate::driver::state::current::CurrentContext;
use crate::driver::state::deadlock::wait_for_device;
use crate::driver::state::simulator::begin;
use crate::driver::wait::WaitReason;

fn load(module: &Out<Handle>, bytes: &[u8], options: &JitOptions, call: &'static str) -> Answer {
    let context = CurrentContext::get()?;
    let (device, arch, compiler) = {
        let mut state = begin()?;
        let device = state.sound(context)?.device;
        (device, state.devices[device].kind.arch, Compiler::new(&state.config, Compiling::Serial))
    };
    module.ready()?;
    let image = compiler.compile(bytes, arch).map_err(|refused| report_refusal(&refused, options))?;
    let mut state = wait_for_device(begin()?, device, call, WaitReason::Load)?;
    module.set(state.add_module(context, image, None)?)
}

/// Returns the function, unless it is a library's kernel or its context has a sticky error.
fn checked(state: &mut State, function: Handle) -> Answer<Handle> {
    let context = state.functions.get(function)?.context;
    state.sound(context).map(|_| function)
}

/// Returns a `CUfunction_attribute` of a kernel.
pub(crate) fn attribute(image: &image::Image, index: usize, arch: u32, which: u32) -> Answer<i32> {
    use attributes::*;
    let kernel = &image.kernels[index];
    // The constant memory of a kernel has the driver's own constants, then the parameters.
    const SYSTEM_CONSTANTS: usize = 528;
    let parameters = kernel.parameters.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
    Ok(match which {
        MAX_THREADS => kernel.max_threads as i32,
        SHARED => kernel.shared as i32,
        CONSTANTS => (SYSTEM_CONSTANTS + parameters) as i32,
        LOCAL => kernel.local as i32,
        REGISTERS => image.registers(index) as i32,
        PTX_VERSION => image.ptx_version as i32,
        BINARY_VERSION => arch as i32,
        MAX_DYNAMIC_SHARED => (48 << 10) - kernel.shared as i32,
        CARVEOUT => -1,
        CACHE_MODE | CLUSTER_MUST_BE_SET | NON_PORTABLE_CLUSTER | CLUSTER_SCHEDULING => 0,
        _ => match CLUSTER.iter().position(|axis| *axis == which) {
            Some(axis) => kernel.cluster.map_or(0, |cluster| cluster[axis] as i32),
            None => return Err(Code::INVALID_VALUE),
        },
    })
}

impl Function {
    fn attribute(&self, arch: u32, which: u32) -> Answer<i32> {
        match self.attributes.get(&which) {
            Some(value) => Ok(*value),
            None if which == attributes::MAX_DYNAMIC_SHARED => Ok(self.max_shared as i32),
            None => attribute(&self.image, self.kernel, arch, which),
        }
    }

    fn set_attribute(&mut self, device: &Device, which: u32, value: i32) -> Answer {
        use attributes::*;
        match which {
            MAX_DYNAMIC_SHARED => {
                let most = device.shared_of_block().saturating_sub(self.image.kernels[self.kernel].shared);
                let bytes = u32::try_from(value).ok().filter(|bytes| *bytes <= most);
                self.max_shared = bytes.ok_or(Code::INVALID_VALUE)?;
            }
            CARVEOUT if (-1..=100).contains(&value) => _ = self.attributes.insert(which, value),
            NON_PORTABLE_CLUSTER | CLUSTER_SCHEDULING => _ = self.attributes.insert(which, value),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

pub(crate) fn set_attribute(state: &mut State, function: Handle, which: u32, value: i32) -> Answer {
    let function = state.functions.get_mut(function)?;
    function.set_attribute(&state.devices[function.device].kind, which, value)
}

/// Fails if a function is neither loaded nor being loaded.
fn check_loaded(state: &State, function: Handle) -> Answer {
    match state.functions.get(function)?.loaded {
        Some(_) => Ok(()),
        None => Err(Code::FUNCTION_NOT_LOADED),
    }
}

/// Writes the offset of a function's parameter among the arguments, and its size.
pub(crate) fn parameter(
    state: &State,
    function: Handle,
    index: usize,
    (offset, size): (&Out<usize>, &Out<usize>),
) -> Answer {
    let function = state.functions.get(function)?;
    let found = function.image.kernels[function.kernel].parameters.get(index).ok_or(Code::INVALID_VALUE)?;
    offset.set(found.0)?;
    size.set_if_wanted(found.1)
}

calls! {
    2000 fn cuModuleLoad(module: Out<Handle>, path: Name) = {
        let bytes = fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        load(&module, &bytes, &JitOptions(Vec::new()), "cuModuleLoad")
    };

    2000 fn cuModuleLoadData(module: Out<Handle>, image: Image) = {
        load(&module, &image.get()?, &JitOptions(Vec::new()), "cuModuleLoadData")
    };

    2010 fn cuModuleLoadDataEx(module: Out<Handle>, image: Image, count: u32, options: In<u32>, values: In<usize>) = {
        let options = JitOptions::get(count, &options, &values, begin()?.config.version)?;
        load(&module, &image.get()?, &options, "cuModuleLoadDataEx")
    };

    2000 fn cuModuleUnload(module: Handle) = {
        let mut state = begin()?;
        let context = state.modules.get(module)?.context;
        if state.modules.get(module)?.library.is_some() {
            return Err(Code::INVALID_HANDLE);
        }
        let device = state.sound(context)?.device;
        state = wait_for_device(state, device, "cuModuleUnload", WaitReason::Unload)?;
        state.remove_module(module)
    };

    2000 fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Name) = {
        let mut state = begin()?;
        let name = name.get()?;
        function.ready()?;
        let context = state.modules.get(module)?.context;
        state.sound(context)?;
        let kernel = state.modules.get(module)?.image.find(&name).ok_or(Code::NOT_FOUND)?;
        let found = state.function(module, kernel)?;
                // This call loads the kernel. If another kernel runs, the call returns, and the first launch waits.
        state.load_behind(found)?;
        function.set(found)
    };

    3020 fn cuModuleGetGlobal_v2(address: Out<usize>, bytes: Out<usize>, module: Handle, name: Name) = {
        let state = begin()?;
        let found = state.modules.get(module)?.code.variable(&name.get()?).ok_or(Code::NOT_FOUND)?;
        address.set_if_wanted(found.0)?;
        bytes.set_if_wanted(found.1)
    };

    12040 fn cuModuleGetFunctionCount(count: Out<u32>, module: Handle) = {
        count.set(begin()?.modules.get(module)?.image.kernels.len() as u32)
    };

    12040 fn cuModuleEnumerateFunctions(functions: Out<Handle>, room: u32, module: Handle) = {
        let mut state = begin()?;
        let kernels = state.modules.get(module)?.image.kernels.len().min(room as usize);
        let found = (0..kernels).map(|kernel| state.function(module, kernel)).collect::<Answer<Vec<_>>>()?;
        functions.set_all(found, kernels)
    };

    12040 fn cuFuncLoad(function: Handle) = {
                // Like `cuModuleGetFunction`, the call returns, and the first launch waits for running kernels.
        let mut state = begin()?;
        let function = checked(&mut state, function)?;
        state.load_behind(function)
    };

    12040 fn cuFuncIsLoaded(loaded: Out<u32>, function: Handle) = {
        let mut state = begin()?;
        let context = state.functions.get(function)?.context;
        state.sound(context)?;
                // A function counts as loaded even while its load still waits for other work.
        loaded.set(state.functions.get(function)?.loaded.is_some().into())
    };

    11000 fn cuFuncGetModule(module: Out<Handle>, function: Handle) = module.set(begin()?.functions.get(function)?.module);

    2020 fn cuFuncGetAttribute(value: Out<i32>, which: u32, function: Handle) = {
        let mut state = begin()?;
        let function = checked(&mut state, function)?;
        let function = state.functions.get(function)?;
        value.set(function.attribute(state.devices[function.device].kind.arch, which)?)
    };

    9000 fn cuFuncSetAttribute(function: Handle, which: u32, value: i32) = {
        let mut state = begin()?;
        let function = checked(&mut state, function)?;
        check_loaded(&state, function)?;
        set_attribute(&mut state, function, which, value)
    };

    12040 fn cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) = {
        let mut state = begin()?;
        let function = checked(&mut state, function)?;
        parameter(&state, function, index, (&offset, &size))
    };

    3000 fn cuFuncSetCacheConfig(function: Handle, _config: u32) = checked(&mut *begin()?, function).map(drop);
}

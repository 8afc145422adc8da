//! Defines the functions about the driver itself: initialisation, version, error texts.

use std::ffi::c_char;

use crate::driver::caller::arguments::Out;
use crate::driver::result::{Code, describe};
use crate::driver::state::simulator::{Simulator, begin};
use crate::driver::state::worker;
use crate::driver::stream::capture::{MODE, Mode};

calls! {
    2000 fn cuInit(flags: u32) = {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        worker::start(Simulator::of_this_process()?)
    };

    2020 fn cuDriverGetVersion(version: Out<i32>) = version.set(Simulator::get().version);

    6000 fn cuGetErrorName(code: Code, text: Out<*const c_char>) = {
        let found = describe(code.0);
        text.set(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    };

    6000 fn cuGetErrorString(code: Code, text: Out<*const c_char>) = {
        let found = describe(code.0);
        text.set(found.map_or(std::ptr::null(), |(_, words)| words.as_ptr()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    };

    11070 fn cuModuleGetLoadingMode(mode: Out<u32>) = {
        const EAGER: u32 = 1;
        const LAZY: u32 = 2;
        mode.set(if begin()?.config.eager { EAGER } else { LAZY })
    };

    10010 fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) = {
        drop(begin()?);
        mode.set(MODE.replace(Mode::from_number(mode.get()?)?) as u32)
    };
}

//! Functions of the driver itself: initialisation, version, addresses of functions, texts of errors.

use std::ffi::c_char;

use super::find;
use crate::driver::abi::{Name, Out};
use crate::driver::capture::{MODE, Mode};
use crate::driver::process::{Simulator, begin};
use crate::driver::result::{Code, words};
use crate::driver::schedule;

calls! {
    2000 fn cuInit(flags: u32) = {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        schedule::start(Simulator::of_this_process()?)
    };

    2020 fn cuDriverGetVersion(version: Out<i32>) = version.set(Simulator::get().version);

    6000 fn cuGetErrorName(code: Code, text: Out<*const c_char>) = {
        let found = words(code.0);
        text.set(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    };

    6000 fn cuGetErrorString(code: Code, text: Out<*const c_char>) = {
        let found = words(code.0);
        text.set(found.map_or(std::ptr::null(), |(_, words)| words.as_ptr()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    };

    11030 fn cuGetProcAddress(name: Name, function: Out<*const ()>, version: i32, _flags: u64) = {
        let newest = Simulator::get().version;
        let found = find(&name.get()?, version.min(newest));
        function.set(found.map_or(std::ptr::null(), |entry| entry.address))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    };

    12000 fn cuGetProcAddress_v2(name: Name, function: Out<*const ()>, version: i32, _flags: u64, status: Out<u32>) = {
        let newest = Simulator::get().version;
        let name = name.get()?;
        let found = find(&name, version.min(newest));
        const FOUND: u32 = 0;
        const NOT_FOUND: u32 = 1;
        const TOO_OLD: u32 = 2;
        let otherwise = if find(&name, newest).is_some() { TOO_OLD } else { NOT_FOUND };
        status.set_if_wanted(found.map_or(otherwise, |_| FOUND))?;
        function.set(found.map_or(std::ptr::null(), |entry| entry.address))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
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

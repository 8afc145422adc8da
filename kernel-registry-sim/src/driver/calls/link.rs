//! The linker, whose result is loaded as an image is: it is the PTX that it was given.

use std::fs;

use super::context::current;
use super::lacking::say_once;
use crate::driver::abi::{In, JitOptions, Name, Out};
use crate::driver::compile::{Compiler, Compiling, tell};
use crate::driver::handles::Handle;
use crate::driver::link::Link;
use crate::driver::result::{Answer, Code};
use crate::driver::state::begin;

/// `CUjitInputType`: machine code, PTX, a fatbin, and what else there is.
const KINDS: u32 = 6;
const PTX: u32 = 1;

fn add(link: Handle, kind: u32, mut bytes: Vec<u8>, options: &JitOptions) -> Answer {
    let (arch, compiler) = {
        let mut state = begin()?;
        state.links.get(link)?;
        let device = state.sound(current()?)?.device;
        (state.devices[device].kind.arch, Compiler::new(&state, Compiling::Together))
    };
    if kind >= KINDS || bytes.is_empty() {
        return Err(Code::INVALID_VALUE);
    }
    // A text may have its end, and a file has all its bytes.
    while kind == PTX && bytes.last() == Some(&0) {
        bytes.pop();
    }
    compiler.compile(&bytes, arch).map_err(|refused| tell(&refused, options))?;
    let mut state = begin()?;
    let link = state.links.get_mut(link)?;
    if link.input.is_some() {
        say_once("linking several images");
        return Err(Code::NOT_SUPPORTED);
    }
    link.input = Some(bytes);
    Ok(())
}

calls! {
    6050 fn cuLinkCreate_v2(count: u32, options: In<u32>, values: In<usize>, link: Out<Handle>) {
        let mut state = begin()?;
        state.sound(current()?)?;
        link.ready()?;
        let options = JitOptions::get(count, &options, &values)?;
        link.set(state.links.insert(Link::new(options)))
    }

    6050 fn cuLinkAddData_v2(
        link: Handle, kind: u32, data: In<u8>, bytes: usize, _name: In<u8>, count: u32, options: In<u32>,
        values: In<usize>,
    ) {
        begin()?.links.get(link)?;
        let options = JitOptions::get(count, &options, &values)?.or(&begin()?.links.get(link)?.options);
        add(link, kind, data.bytes(bytes)?, &options)
    }

    6050 fn cuLinkAddFile_v2(link: Handle, kind: u32, path: Name, count: u32, options: In<u32>, values: In<usize>) {
        begin()?.links.get(link)?;
        let options = JitOptions::get(count, &options, &values)?.or(&begin()?.links.get(link)?.options);
        let bytes = fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        add(link, kind, bytes, &options)
    }

    5050 fn cuLinkComplete(link: Handle, image: Out<*const u8>, bytes: Out<usize>) {
        let mut state = begin()?;
        let link = state.links.get_mut(link)?;
        image.ready()?;
        let output = link.complete();
        image.set(output.as_ptr())?;
        bytes.set_if_wanted(output.len())?;
        Ok(())
    }

    5050 fn cuLinkDestroy(link: Handle) {
        begin()?.links.remove(link).map(drop)
    }
}

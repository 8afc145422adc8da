//! Defines the functions that link images. Only PTX can be linked. The result is the concatenated PTX, instead of
//! machine code.

use std::fs;

use crate::driver::caller;
use crate::driver::caller::arguments::{In, JitOptions, Name, Out};
use crate::driver::handles::Handle;
use crate::driver::load::code::Link;
use crate::driver::load::compile::{Compiler, Compiling, report_refusal};
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::current::CurrentContext;
use crate::driver::state::simulator::begin;

/// `CU_JIT_INPUT_PTX`.
const PTX: u32 = 1;

/// Adds an image to a link, if the image can be compiled.
fn add(link: Handle, kind: u32, image: impl FnOnce() -> Answer<Vec<u8>>) -> Answer {
    let (arch, options, compiler) = {
        let state = begin()?;
        let link = state.links.get(link)?;
        (link.arch, link.options.clone(), Compiler::new(&state.config, Compiling::Parallel))
    };
    if kind != PTX {
        return not_simulated("linking anything but PTX");
    }
    let mut text = image()?;
    text.retain(|byte| *byte != 0);
    compiler.compile(&text, arch).map_err(|refused| report_refusal(&refused, &options))?;
    let mut state = begin()?;
    let link = state.links.get_mut(link)?;
    if link.linked.is_some() {
        return Err(Code::INVALID_VALUE);
    }
    link.texts.extend(text);
    link.texts.push(b'\n');
    Ok(())
}

calls! {
    6050 fn cuLinkCreate_v2(count: u32, options: In<u32>, values: In<usize>, link: Out<Handle>) = {
        let mut state = begin()?;
        let device = state.sound(CurrentContext::get()?)?.device;
        let options = JitOptions::get(count, &options, &values, state.config.version)?;
        link.ready()?;
        let arch = state.devices[device].kind.arch;
        link.set(state.links.insert(Link { arch, options, texts: Vec::new(), linked: None }))
    };

    6050 fn cuLinkAddData_v2(link: Handle, kind: u32, from: usize, bytes: usize, _name: Name, _count: u32, _options: In<u32>, _values: In<usize>) = {
        add(link, kind, || caller::read(from, bytes))
    };

    6050 fn cuLinkAddFile_v2(link: Handle, kind: u32, path: Name, _count: u32, _options: In<u32>, _values: In<usize>) = {
        add(link, kind, || fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND))
    };

    5050 fn cuLinkComplete(link: Handle, image: Out<usize>, bytes: Out<usize>) = {
        let (arch, options, mut texts, compiler) = {
            let state = begin()?;
            let link = state.links.get(link)?;
            (link.arch, link.options.clone(), link.texts.clone(), Compiler::new(&state.config, Compiling::Parallel))
        };
        image.ready()?;
        // Each text was compiled alone, so an error now means that several texts have a name in common. A real linker
        // would keep private names apart.
        if let Err(refused) = compiler.compile(&texts, arch) {
            report_refusal(&refused, &options);
            return not_simulated("linking PTX with names in common");
        }
        texts.push(0);
        let mut state = begin()?;
        let linked = &*state.links.get_mut(link)?.linked.get_or_insert(texts.into_boxed_slice());
        image.set(linked.as_ptr().expose_provenance())?;
        bytes.set_if_wanted(linked.len())
    };

    5050 fn cuLinkDestroy(link: Handle) = begin()?.links.remove(link).map(drop);
}

//! A kernel as the macro understands it: plain data, complete and checked.

use std::rc::Rc;

pub(crate) use kernel_registry_format::{Needs, Pass, StackFrames};
pub(crate) use kernel_registry_image::Scalar;
use proc_macro2::{Ident, TokenStream};
use syn::{Attribute, Type, Visibility};

use crate::block::Block;
use crate::shared::Shared;
use crate::stack::Stack;

pub(crate) struct Kernel {
    /// How the expansion reaches the library: `::kernel_registry` or what `crate = ..` says.
    pub(crate) krate: TokenStream,
    /// The type that stands for the kernel.
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    /// Attributes of the user that go onto the type.
    pub(crate) attrs: Vec<Attribute>,
    /// Those of them that decide whether the kernel is there at all.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) position: Position,
    pub(crate) summary: String,
    pub(crate) min_arch: Option<u32>,
    pub(crate) image: Image,
    /// None for an ordinary kernel.
    pub(crate) generics: Vec<Generic>,
    /// The parameters as declared, where they depend on the generic ones.
    pub(crate) generic_params: Vec<Param>,
    /// One for an ordinary kernel.
    pub(crate) instances: Vec<Instance>,
}

/// A generic parameter.
#[derive(Clone)]
pub(crate) struct Generic {
    pub(crate) ident: Ident,
    /// The type of a constant; none for a type.
    pub(crate) of: Option<Type>,
}

/// What becomes a registered kernel: all of an ordinary one, an instance of a generic one.
pub(crate) struct Instance {
    /// Its generic arguments.
    pub(crate) args: TokenStream,
    /// The same for people, and empty for an ordinary kernel.
    pub(crate) spelled: String,
    /// Name of the entry in the image.
    pub(crate) symbol: String,
    pub(crate) params: Vec<Param>,
    pub(crate) block: Option<Block>,
    pub(crate) shared: Option<Shared>,
    pub(crate) stack: Option<Stack>,
    pub(crate) frames: StackFrames,
    pub(crate) needs: Needs,
}

pub(crate) struct Param {
    pub(crate) ident: Ident,
    /// Its name without `r#`.
    pub(crate) name: String,
    pub(crate) pass: Pass,
    /// The type as written, on one line.
    pub(crate) spelled: String,
    /// The type passed by value, or what the slice or pointer points to.
    pub(crate) element: Type,
    /// What the image says of it, for the compiler to compare.
    pub(crate) expected: Expected,
    /// What to say if that is something else.
    pub(crate) message: String,
}

/// What the Rust type of a parameter, or of its element, has to be.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    /// Anything.
    Nothing,
    /// Nothing is left to say: it is a number type of this size and alignment.
    Known { size: u32 },
    /// The number type that C++ calls so.
    Scalar(Scalar),
    /// A pointer.
    Pointer,
    /// Of this size, and if that is not 0 of this alignment.
    Layout { size: u32, align: u32 },
}

pub(crate) struct Position {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

pub(crate) struct Image {
    /// The path as declared.
    pub(crate) file: String,
    /// None where there is no compiler, and the build goes on without.
    pub(crate) content: Option<Content>,
}

pub(crate) struct Content {
    /// The absolute path, for `include_bytes!`.
    pub(crate) path: String,
    pub(crate) len: u64,
    /// What is in it.
    pub(crate) facts: Rc<kernel_registry_image::Image>,
}

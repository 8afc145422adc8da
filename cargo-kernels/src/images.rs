//! The images of declared kernels: finds them in the binary, compares them with their declarations, and reads their PTX.

pub(crate) mod compare;
pub(crate) mod embedded;
pub(crate) mod ptx;

//! Defines and lists functions of the driver by a macro.

/// A function of the driver.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// The first version of CUDA that has the function, such as 12040.
    pub(crate) since: i32,
    pub(crate) address: *const (),
}

/// Defines `extern "C"` functions and a list of them. Each function begins with the first version of CUDA that has it,
/// and its body is an expression of type [`Answer`](crate::driver::result::Answer).
macro_rules! calls {
    ($($since:literal fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)*) => {
        $(#[cfg_attr(feature = "export", unsafe(no_mangle))]
        extern "C" fn $name($($argument: $type),*) -> $crate::driver::result::Code {
            $crate::driver::hooks::call(stringify!($name), || -> $crate::driver::result::Answer { $body })
        })*
        pub(crate) const ALL: &[$crate::driver::calls::entry::Entry] =
            &[$($crate::driver::calls::entry::Entry { name: stringify!($name), since: $since, address: $name as *const () }),*];
    };
}

//! How a function of the driver is defined and listed.

/// A function of the driver.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// The first version of CUDA that has it, such as 12040.
    pub(crate) since: i32,
    pub(crate) address: *const (),
}

/// Defines `extern "C"` functions and a list of them. Each begins with the first version of CUDA that has it; its body is
/// an [`Answer`](crate::driver::result::Answer).
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

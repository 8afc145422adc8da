//! Errors that read well wherever they are printed.

/// `main` prints the error that it returns by `Debug`, and so do `unwrap` and `expect`: people read that too, so it is the same
/// text. Programs match on the fields.
macro_rules! readable {
    ($($error:ty),+) => {
        $(impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        })+
    };
}

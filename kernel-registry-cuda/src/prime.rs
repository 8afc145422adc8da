//! Lists what the driver sets up in a context at the first launch of a kernel that needs it, with images of
//! kernels whose launch triggers that. The kernels are in `cuda/*.cu`. Each takes one `int`, and does nothing
//! if it's 0.
//!
//! The images have machine code for sm_70, sm_80 and sm_90, and PTX for other architectures. To compile the
//! smallest PTX, the driver needs 10 ms, or 75 ms in the first process after boot.

use core::ffi::CStr;

/// An image of kernels with printf and with assert.
static OUTPUT: &[u8] = include_bytes!("../cuda/output.fatbin");

/// An image with the same kernels and a kernel with malloc. Loading this image allocates the heap.
static SPECIAL: &[u8] = include_bytes!("../cuda/prime.fatbin");

/// An image of a kernel without printf, assert and malloc.
pub static PLAIN: &[u8] = include_bytes!("../cuda/first.fatbin");

/// A set of services that the driver sets up once in a context, such as printf: those that kernels need, or
/// that a context already has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Primed(u8);

impl Primed {
    /// Everything that the driver may set up.
    pub const EVERYTHING: Self = Primed(0b1111);

    /// The state that the driver sets up at any launch, and again at the next launch after a change of the
    /// stack limit.
    pub const LAUNCH: Self = Primed(1);

    /// Returns the needs of kernels with printf, assert or malloc.
    pub fn new(printf: bool, assert: bool, malloc: bool) -> Self {
        Primed(u8::from(printf) << 1 | u8::from(assert) << 2 | u8::from(malloc) << 3)
    }

    /// Returns the union of both sets.
    pub fn or(self, other: Self) -> Self {
        Primed(self.0 | other.0)
    }

    /// Returns the services in this set that aren't in `done`.
    pub fn but_not(self, done: Self) -> Self {
        Primed(self.0 & !done.0)
    }

    /// Returns the image with the kernels that set these up, or `None` if the set is empty.
    pub fn image(self) -> Option<&'static [u8]> {
        match self.0 {
            0 => None,
            1 => Some(PLAIN),
            2..=7 => Some(OUTPUT),
            _ => Some(SPECIAL),
        }
    }

    /// Returns the names of the kernels to launch. Any of them also sets up [`LAUNCH`](Self::LAUNCH).
    pub fn kernels(self) -> impl Iterator<Item = &'static CStr> {
        let wanted = if self == Self::LAUNCH { self.0 } else { self.but_not(Self::LAUNCH).0 };
        let kernels = [c"first", c"prime_printf", c"prime_assert", c"prime_malloc"];
        kernels.into_iter().enumerate().filter(move |(bit, _)| wanted >> bit & 1 != 0).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn printf() -> Primed {
        Primed::LAUNCH.or(Primed::new(true, false, false))
    }

    #[test]
    fn launching_any_kernel_sets_up_the_first_launch() {
        assert_eq!(Primed::default().kernels().next(), None);
        assert!(Primed::LAUNCH.kernels().eq([c"first"]));
        assert!(printf().kernels().eq([c"prime_printf"]));
    }

    #[test]
    fn only_what_is_missing_is_set_up() {
        let rest = Primed::EVERYTHING.but_not(printf());
        assert!(rest.kernels().eq([c"prime_assert", c"prime_malloc"]));
        assert_eq!(printf().but_not(Primed::LAUNCH), Primed::new(true, false, false));
        assert_eq!(Primed::EVERYTHING.but_not(Primed::EVERYTHING), Primed::default());
    }

    #[test]
    fn the_images_have_the_kernels() {
        for needs in [Primed::LAUNCH, printf(), Primed::EVERYTHING] {
            let image = needs.image().unwrap();
            for name in needs.kernels() {
                let entry = format!(".visible .entry {}(", name.to_str().unwrap());
                assert!(image.windows(entry.len()).any(|bytes| bytes == entry.as_bytes()), "{entry}");
            }
        }
        assert_eq!(Primed::default().image(), None);
    }
}

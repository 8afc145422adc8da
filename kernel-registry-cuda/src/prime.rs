//! What the driver sets up in a context at the first launch of a kernel that uses it, and images with kernels that make it do so: `cuda/*.cu`.
//! Each kernel takes one `int`, and does nothing with 0.
//!
//! The images have machine code for sm_70, sm_80 and sm_90, and PTX for others. Compiling the smallest takes the driver 10 ms, and 75 ms in the
//! first process after boot.

use core::ffi::CStr;

/// Kernels that contain printf and assert.
static OUTPUT: &[u8] = include_bytes!("../cuda/output.fatbin");

/// The same, and one that contains malloc. Loading it takes memory for the heap.
static SPECIAL: &[u8] = include_bytes!("../cuda/prime.fatbin");

/// A kernel that contains none of these.
pub static PLAIN: &[u8] = include_bytes!("../cuda/first.fatbin");

/// A set of such set-up, either needed by kernels or done in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Primed(u8);

impl Primed {
    /// All of it.
    pub const EVERYTHING: Self = Primed(0b1111);

    /// What a launch of any kernel sets up. After a change of the stack limit the next launch does so again.
    pub const LAUNCH: Self = Primed(1);

    /// What printf, assert and malloc need, if kernels contain them.
    pub fn new(printf: bool, assert: bool, malloc: bool) -> Self {
        Primed(u8::from(printf) << 1 | u8::from(assert) << 2 | u8::from(malloc) << 3)
    }

    /// What is in either set.
    pub fn or(self, other: Self) -> Self {
        Primed(self.0 | other.0)
    }

    /// What is not in the other set.
    pub fn but_not(self, done: Self) -> Self {
        Primed(self.0 & !done.0)
    }

    /// The image of the kernels that set this up, if there is anything to set up.
    pub fn image(self) -> Option<&'static [u8]> {
        match self.0 {
            0 => None,
            1 => Some(PLAIN),
            2..=7 => Some(OUTPUT),
            _ => Some(SPECIAL),
        }
    }

    /// The names of the kernels to launch. Each of them counts as a launch.
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
    fn each_kernel_counts_as_a_launch() {
        assert_eq!(Primed::default().kernels().next(), None);
        assert!(Primed::LAUNCH.kernels().eq([c"first"]));
        assert!(printf().kernels().eq([c"prime_printf"]));
    }

    #[test]
    fn nothing_is_set_up_twice() {
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

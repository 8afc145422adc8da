//! What an event is about. The hooks write a [`Subject`], and readers get it back: both go through [`Fields`], so a variant's
//! meaning of its numbers and texts is written down once.

use std::fmt;

use super::texts::SharedText;

/// What an event is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "type", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Subject<T = SharedText> {
    /// Nothing but the call.
    #[default]
    Nothing,
    /// A kernel.
    Kernel {
        /// The kernel's symbol.
        symbol: T,
        /// The image it was loaded from, if that's known.
        image: Option<Image<T>>,
    },
    /// An image.
    Image(Image<T>),
    /// A limit of the context.
    Limit {
        /// Which one.
        limit: Limit,
        /// The size asked for; of the stack, the frame that a kernel needs.
        bytes: u64,
        /// The kernel whose launch raises the limit, or nothing if a call does.
        kernel: T,
    },
    /// The event's stream.
    Stream,
    /// An address, or the handle of a driver object.
    Handle {
        /// The address or handle.
        handle: u64,
    },
    /// A function that isn't watched in the version that the program asked for.
    Function {
        /// The name that it was asked for by.
        name: T,
        /// The CUDA version, as the driver encodes it: 12040 is 12.4.
        cuda: u64,
    },
    /// A program that NVRTC compiled, or whose earlier result was returned.
    Program(Program<T>),
    /// The buffers that the driver sets up for kernels which print, assert or allocate.
    Buffers {
        /// The buffer of printf.
        printf: bool,
        /// The buffer of assert.
        assert: bool,
        /// The heap of malloc.
        heap: bool,
    },
    /// Further events of the same kind, which aren't recorded one by one.
    More {
        /// How many.
        count: u64,
    },
    /// All that remains of a preload.
    Rest,
}

/// An image: machine code or PTX with kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Image<T = SharedText> {
    /// What its first bytes say it is.
    pub format: Format,
    /// Its length, or 0 if that isn't known.
    pub bytes: u64,
    /// Where its bytes are from, as a [preload](crate::preload) writes it: an [`Origin`](crate::preload::Origin) or a [`Ptx`](crate::preload::Ptx).
    /// Empty if they are in no file.
    pub origin: T,
    /// The library that loaded it. Empty for a preloaded image, and while it's being loaded.
    pub library: T,
    /// When it was loaded, in nanoseconds since the start.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "loaded_at_ms", serialize_with = "super::model::json::milliseconds")
    )]
    pub loaded_at: u64,
}

/// A program for NVRTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Program<T = SharedText> {
    /// The name that its author gave it, or the first kernel that was asked for.
    pub name: T,
    /// The [key](crate::preload::Preload::compiled) of its result. Empty if the result isn't kept.
    pub key: T,
    /// The architecture that it was compiled for, such as `sm_90`. Empty if no option names one.
    pub architecture: T,
    /// The version of NVRTC: 1305 is 13.5; or 0.
    pub nvrtc: u16,
    /// The length of its text.
    pub text_bytes: u64,
    /// The length of its result, or 0 if the result isn't kept.
    pub result_bytes: u64,
}

macro_rules! numbered {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "&'static str"))]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            const ALL: &[($name, &str)] = &[$(($name::$variant, $word),)*];

            /// Returns the word for this.
            pub const fn as_str(self) -> &'static str {
                Self::ALL[self as usize].1
            }

            fn from_number(number: u16) -> Self {
                Self::ALL.get(usize::from(number)).map_or_else(Self::default, |(this, _)| *this)
            }
        }

        impl From<$name> for &'static str {
            fn from(this: $name) -> Self {
                this.as_str()
            }
        }
    };
}

numbered! {
    /// The format of an image.
    Format {
        /// Bytes that are no image as far as the audit can tell.
        #[default]
        Unknown = "code",
        /// PTX, which the driver compiles.
        Ptx = "PTX",
        /// Machine code that [`kernel-audit bake`](crate::preload::baked_file) made, loaded in place of PTX.
        Baked = "machine code for PTX",
        /// A cubin.
        Cubin = "cubin",
        /// A fatbin.
        Fatbin = "fatbin",
        /// A file that the driver reads.
        File = "file",
        /// A null pointer.
        Null = "null pointer",
        /// A library that isn't loaded in the context yet, although it is loaded in the process.
        Library = "library",
        /// A fatbin whose PTX the driver compiles, because it has no machine code for the device.
        FatbinOfPtx = "fatbin of PTX",
    }
}

numbered! {
    /// A limit that can make a launch wait for the device.
    Limit {
        /// The stack of a thread.
        #[default]
        Stack = "stack",
        /// The buffer of printf.
        Printf = "printf buffer",
        /// The heap of malloc.
        Heap = "heap",
    }
}

impl Format {
    /// Returns whether the driver compiles images of this format.
    pub fn is_compiled(self) -> bool {
        matches!(self, Format::Ptx | Format::FatbinOfPtx)
    }
}

/// A subject as a record stores it. `kind` says which variant the other fields belong to.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<T> {
    pub kind: u16,
    pub code: u16,
    pub numbers: [u64; 2],
    pub texts: [T; 3],
}

const NOTHING: u16 = 0;
const KERNEL: u16 = 1;
const KERNEL_OF_IMAGE: u16 = 2;
const IMAGE: u16 = 3;
const LIMIT: u16 = 4;
const STREAM: u16 = 5;
const HANDLE: u16 = 6;
const FUNCTION: u16 = 7;
const PROGRAM: u16 = 8;
const BUFFERS: u16 = 9;
const MORE: u16 = 10;
const REST: u16 = 11;

impl<T: Copy + Default> Subject<T> {
    #[doc(hidden)]
    pub fn fields(&self) -> Fields<T> {
        let none = T::default();
        let fields = |kind, code, numbers, texts| Fields { kind, code, numbers, texts };
        let of_image = |kind, symbol, image: &Image<T>| {
            let Image { format, bytes, origin, library, loaded_at } = *image;
            fields(kind, format as u16, [bytes, loaded_at], [origin, library, symbol])
        };
        let plain = |kind, number| fields(kind, 0, [number, 0], [none; 3]);
        match *self {
            Subject::Nothing => plain(NOTHING, 0),
            Subject::Kernel { symbol, image: None } => fields(KERNEL, 0, [0, 0], [none, none, symbol]),
            Subject::Kernel { symbol, image: Some(ref image) } => of_image(KERNEL_OF_IMAGE, symbol, image),
            Subject::Image(ref image) => of_image(IMAGE, none, image),
            Subject::Limit { limit, bytes, kernel } => {
                fields(LIMIT, limit as u16, [bytes, 0], [kernel, none, none])
            }
            Subject::Stream => plain(STREAM, 0),
            Subject::Handle { handle } => plain(HANDLE, handle),
            Subject::Function { name, cuda } => fields(FUNCTION, 0, [cuda, 0], [name, none, none]),
            Subject::Program(Program { name, key, architecture, nvrtc, text_bytes, result_bytes }) => {
                fields(PROGRAM, nvrtc, [text_bytes, result_bytes], [name, key, architecture])
            }
            Subject::Buffers { printf, assert, heap } => {
                plain(BUFFERS, u64::from(printf) | u64::from(assert) << 1 | u64::from(heap) << 2)
            }
            Subject::More { count } => plain(MORE, count),
            Subject::Rest => plain(REST, 0),
        }
    }
}

impl<T: Default> Subject<T> {
    pub(crate) fn from_fields(fields: Fields<T>) -> Self {
        let Fields { kind, code, numbers: [number, second], texts: [text, second_text, third_text] } = fields;
        let image = |origin, library| Image {
            format: Format::from_number(code),
            bytes: number,
            origin,
            library,
            loaded_at: second,
        };
        match kind {
            KERNEL => Subject::Kernel { symbol: third_text, image: None },
            KERNEL_OF_IMAGE => Subject::Kernel { symbol: third_text, image: Some(image(text, second_text)) },
            IMAGE => Subject::Image(image(text, second_text)),
            LIMIT => Subject::Limit { limit: Limit::from_number(code), bytes: number, kernel: text },
            STREAM => Subject::Stream,
            HANDLE => Subject::Handle { handle: number },
            FUNCTION => Subject::Function { name: text, cuda: number },
            PROGRAM => Subject::Program(Program {
                name: text,
                key: second_text,
                architecture: third_text,
                nvrtc: code,
                text_bytes: number,
                result_bytes: second,
            }),
            BUFFERS => {
                Subject::Buffers { printf: number & 1 > 0, assert: number & 2 > 0, heap: number & 4 > 0 }
            }
            MORE => Subject::More { count: number },
            REST => Subject::Rest,
            _ => Subject::Nothing,
        }
    }
}

impl<T> Subject<T> {
    /// Returns whether the event is about nothing but its call.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Subject::Nothing)
    }

    /// Returns the symbol of the kernel, if the event is about a kernel.
    pub fn kernel(&self) -> Option<&T> {
        match self {
            Subject::Kernel { symbol, .. } => Some(symbol),
            _ => None,
        }
    }

    /// Returns the image, if the event is about one. The image of a kernel doesn't count.
    pub fn image(&self) -> Option<&Image<T>> {
        match self {
            Subject::Image(image) => Some(image),
            _ => None,
        }
    }

    /// Returns the image of the kernel, or the image that the event is about.
    pub fn any_image(&self) -> Option<&Image<T>> {
        match self {
            Subject::Kernel { image, .. } => image.as_ref(),
            Subject::Image(image) => Some(image),
            _ => None,
        }
    }

    /// Returns the program, if the event is about a compilation by NVRTC.
    pub fn program(&self) -> Option<&Program<T>> {
        match self {
            Subject::Program(program) => Some(program),
            _ => None,
        }
    }
}

impl Subject {
    /// Returns the subject of a kernel, without its image.
    pub fn of_kernel(symbol: &str) -> Self {
        Subject::Kernel { symbol: symbol.into(), image: None }
    }
}

impl<T> Image<T> {
    /// Returns an image that's about to be loaded.
    pub fn unloaded(format: Format, bytes: u64, origin: T) -> Self
    where
        T: Default,
    {
        Image { format, bytes, origin, library: T::default(), loaded_at: 0 }
    }
}

impl Image<&str> {
    /// Returns the same image with texts of its own.
    pub fn to_shared(self) -> Image {
        let Image { format, bytes, origin, library, loaded_at } = self;
        Image { format, bytes, origin: origin.into(), library: library.into(), loaded_at }
    }
}

impl Image {
    /// Returns the same image with borrowed texts.
    pub fn as_ref(&self) -> Image<&str> {
        let Image { format, bytes, origin, library, loaded_at } = self;
        Image { format: *format, bytes: *bytes, origin, library, loaded_at: *loaded_at }
    }
}

/// Writes what the image is: `PTX of 283 bytes`.
impl<T: AsRef<str>> fmt::Display for Image<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format.as_str())?;
        match self.bytes {
            0 => Ok(()),
            bytes => write!(f, " of {bytes} bytes"),
        }
    }
}

/// Writes the subject in a few words, and nothing if there is none. The stream's handle is the event's.
impl<T: AsRef<str>> fmt::Display for Subject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Nothing => Ok(()),
            Subject::Kernel { symbol, .. } => f.write_str(symbol.as_ref()),
            Subject::Image(image) => image.fmt(f),
            Subject::Limit { limit, bytes, .. } => write!(f, "{} of {bytes} bytes", limit.as_str()),
            Subject::Stream => f.write_str("its stream"),
            Subject::Handle { handle } => write!(f, "{handle:#x}"),
            Subject::Function { name, cuda } => {
                write!(f, "{} of CUDA {}.{}", name.as_ref(), cuda / 1000, cuda % 1000 / 10)
            }
            Subject::Program(program) => f.write_str(program.name.as_ref()),
            Subject::Buffers { printf, assert, heap } => {
                let all = [(printf, "printf"), (assert, "assert"), (heap, "malloc")];
                let used: Vec<_> =
                    all.iter().filter(|(is_used, _)| **is_used).map(|(_, word)| *word).collect();
                write!(f, "buffers of {}", used.join(", "))
            }
            Subject::More { count } => write!(f, "{count} more"),
            Subject::Rest => f.write_str("the rest"),
        }
    }
}

/// Writes the compiler and what it compiled for: `NVRTC 13.5 for sm_90, text of 1200 bytes`.
impl<T: AsRef<str>> fmt::Display for Program<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NVRTC")?;
        if self.nvrtc > 0 {
            write!(f, " {}.{}", self.nvrtc / 100, self.nvrtc % 100)?;
        }
        if !self.architecture.as_ref().is_empty() {
            write!(f, " for {}", self.architecture.as_ref())?;
        }
        match self.text_bytes {
            0 => Ok(()),
            bytes => write!(f, ", text of {bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let image = Image {
            format: Format::Fatbin,
            bytes: 7,
            origin: "module 1 7 0x0 /a",
            library: "libdemo.so",
            loaded_at: 3_000_000,
        };
        let program = Program {
            name: "saxpy.cu",
            key: "00",
            architecture: "sm_90",
            nvrtc: 1305,
            text_bytes: 5,
            result_bytes: 6,
        };
        let all = [
            Subject::Nothing,
            Subject::Kernel { symbol: "late", image: None },
            Subject::Kernel { symbol: "late", image: Some(image) },
            Subject::Image(image),
            Subject::Limit { limit: Limit::Heap, bytes: 1 << 40, kernel: "deep" },
            Subject::Stream,
            Subject::Handle { handle: u64::MAX },
            Subject::Function { name: "cuNew", cuda: 13_010 },
            Subject::Program(program),
            Subject::Buffers { printf: true, assert: false, heap: true },
            Subject::More { count: 3 },
            Subject::Rest,
        ];
        for (kind, subject) in (0..).zip(all) {
            assert_eq!(subject.fields().kind, kind);
            assert_eq!(Subject::from_fields(subject.fields()), subject);
        }
        let unknown = Fields { kind: all.len() as u16, code: u16::MAX, ..Subject::Image(image).fields() };
        assert_eq!(Subject::from_fields(unknown), Subject::Nothing);
        let odd = Fields { kind: IMAGE, ..unknown };
        assert_eq!(Subject::from_fields(odd).image().map(|image| image.format), Some(Format::Unknown));
        assert_eq!(image.to_string(), "fatbin of 7 bytes");
        assert_eq!(program.to_string(), "NVRTC 13.5 for sm_90, text of 5 bytes");
    }
}

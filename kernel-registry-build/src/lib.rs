//! Compiles the CUDA sources of a package in its build script.
//!
//! ```no_run
//! // build.rs
//! fn main() {
//!     kernel_registry_build::compile();
//! }
//! ```
//!
//! This compiles every `cuda/**/*.cu`, each to one image that holds all its variants. [`Build`] has options.
//!
//! # Compilers
//!
//! A build uses the first of these that it finds:
//!
//! 1. **nvcc**, in `CUDA_HOME`, `CUDA_PATH`, `PATH`, `/usr/local/cuda`, or the active Python environment
//!    (`nvidia/cu13` in `VIRTUAL_ENV` or `CONDA_PREFIX`). It needs a C++ compiler of the host, to preprocess.
//! 2. **NVRTC**, a library, in the same folders or where the dynamic loader finds it. It needs nothing of the
//!    host, and has none of the host's headers. If it does not know an architecture, there is a warning and
//!    no machine code.
//! 3. **[Committed images](#committed-images)**, made by `cargo kernels prebuild`, while they match the
//!    sources.
//!
//! Both compilers make a fat binary: machine code for each requested architecture, and PTX. For PTX alone,
//! NVRTC writes a text. Committed images are PTX of the lowest architecture.
//!
//! `KERNEL_REGISTRY_COMPILER` chooses: `nvcc`, `nvrtc`, `prebuilt`, or `none` for a build without images. If
//! none of them has an image for a source, a release build fails. Other builds go on with one warning, so
//! that `cargo check`, documentation and editors work anywhere.
//!
//! Cargo watches the compiler, and the variables that name one: `KERNEL_REGISTRY_COMPILER`, `CUDA_HOME` and
//! `CUDA_PATH`. It watches `PATH` and `LD_LIBRARY_PATH` only while an image is missing: they differ between
//! shells and editors, and each change would compile the package again. If you install a first compiler, or
//! choose another by `PATH`, touch build.rs or set `CUDA_HOME`.
//!
//! # Architectures
//!
//! The default is machine code for sm_80 and sm_90, and PTX of compute_75 for all other devices.
//! [`Build::arch`] and [`Build::ptx`] choose others, [`Build::arch_for`] and [`Build::ptx_for`] those of one
//! file. A source can choose its own architectures, in one of its first 20 lines:
//!
//! ```text
//! // kernel-registry: arch=sm_90,sm_100 ptx=compute_90
//! ```
//!
//! For each file the first of these that is given counts: `arch_for` and `ptx_for`, its own line, `arch` and
//! `ptx`, the default.
//!
//! # What is made
//!
//! `$OUT_DIR/kernel-registry/` ([`FOLDER`]) holds the images, and a text file `index` ([`INDEX`]) with a line
//! for each source, sorted, of fields with a tab between them:
//!
//! 1. the source, relative to the package, with slashes: `cuda/blas1.cu`;
//! 2. the file of its image in the same folder: `cuda__blas1.cu.fatbin`, `cuda__blas1.cu.ptx`; or `-`
//!    ([`NO_IMAGE`]);
//! 3. the origin of the image: `nvcc 13.0.88`, `NVRTC 12.0`, `prebuilt`; or why there is no image;
//! 4. and further fields: the types of each `extern "C"` kernel, as far as the source is unambiguous:
//!    `scale(unsigned int, ?, float*)`.
//!
//! Read the names of images from the index rather than guessing them. A file next to each image records its
//! inputs: the image isn't made again while source, headers, options and compiler stay the same. The file
//! `builds` has the options of the build script, for `cargo kernels prebuild` ([`Build::recorded`]).
//!
//! # The device header
//!
//! `#include <kernel_registry.cuh>` works in every source. This is the header for resident kernels; its host
//! side (`Control`, `Queue`) is in kernel-registry-resident. The header comes with this crate, unless a
//! folder of yours has a file of that name. If a new version of this crate changes the header, the sources
//! that include it are compiled again.
//!
//! # Committed images
//!
//! A committed image is used while its bytes and all inputs match `prebuilt/index`. The inputs are the
//! source, the options, and all headers that are included, directly or not; conditions around `#include` are
//! ignored.
//!
//! | changed | what happens |
//! |---|---|
//! | source, options, a header in the package, the image | the image is stale and not used |
//! | a header outside of the package, found by a relative path (`../shared/x.h`) | the same; if the header is missing, the image is used with a warning |
//! | [the device header](#the-device-header), with a new version of this crate | the image is stale and not used, if the source includes the header |
//! | a header in a folder that was given by an absolute path | the image is used with a warning |
//! | a header of the compiler's own toolkit, like `cuda_fp16.h` | nothing: the header came with the compiler that made the image |
//! | a header whose name is computed, like `#include STR(x)` | the change goes unnoticed, and each build warns of that. A macro that expands to a name is followed. |
//!
//! So use paths relative to the package for header folders of the same repository.
//!
//! # Undeclared kernels
//!
//! A kernel of these images that the program doesn't declare is shipped, but neither listed nor warmed. A
//! build script can't detect that, because it runs before declarations are compiled.
//! `cargo kernels check --deny unused` compares the built program with its images, and fails if a kernel
//! isn't declared anywhere.

#![warn(missing_docs)]
// A build script is a whole program, so the examples have `main`.
#![allow(clippy::needless_doctest_main)]

mod arch;
mod builder;
mod choice;
mod compile_source;
mod diagnostics;
mod directives;
mod environment;
mod error;
mod files;
mod find;
mod fingerprint;
mod includes;
mod index;
mod job;
mod linked;
mod nvcc;
mod nvrtc;
mod nvrtc_library;
mod options;
mod parallel;
mod prebuilt;
mod recorded;
mod report;
mod run;
mod source;
mod source_types;
mod wheels;

pub use arch::OLDEST;
pub use builder::Build;
pub use choice::{Available, available};
pub use error::{Error, Result};
pub use find::{toolkit_library, toolkit_program};
pub use kernel_registry_format::index::{FILE as INDEX, FOLDER, NO_IMAGE};
pub use linked::{linked, linked_archive};
pub use prebuilt::{PREBUILT, check_prebuilt, write_prebuilt};
pub use report::{Image, Report};

/// Compiles every `cuda/**/*.cu` of the package, as [`Build::compile`] does.
pub fn compile() {
    Build::new().compile();
}

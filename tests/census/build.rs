//! Compiles `cuda/*.cu`, or uses the images in `prebuilt/` if there is no compiler.

fn main() {
    kernel_registry_build::compile();
}

//! Compiles `cuda/*.cu`, or without a compiler uses the images in `prebuilt/`.

fn main() {
    kernel_registry_build::compile();
}

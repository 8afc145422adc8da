//! Compiles `cuda/*.cu`, or without a CUDA compiler uses the images in `prebuilt/`.

fn main() {
    kernel_registry_build::compile();
}

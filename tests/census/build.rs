//! Compiles `cuda/*.cu`, or takes what is in `prebuilt/`.

fn main() {
    kernel_registry_build::compile();
}

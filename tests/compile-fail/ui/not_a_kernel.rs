use kernel_registry::Kernel;

fn path<K: Kernel>() -> &'static str {
    K::INFO.path()
}

fn main() {
    path::<u32>();
}

fn main() {
    kernel_registry_build::linked();
}

/// y = a*x + y
///
/// In place.
#[allow(dead_code)]
#[allow(dead_code)]
pub struct saxpy {
    #[doc(hidden)]
    __only_a_name: ::core::convert::Infallible,
}
#[allow(deprecated)]
const _: () = {
    #[allow(unused_imports)]
    use ::kernel_registry::__private::block as __block;
    enum __Image {}
    impl ::kernel_registry::__private::ImageSource for __Image {
        const BYTES: &'static [::core::primitive::u8] = ::core::include_bytes!(
            "/package/src/tests/image.ptx"
        );
    }
    const __KERNEL: ::kernel_registry::__private::Kernel<'static> = ::kernel_registry::__private::Kernel {
        path: ::core::concat!(::core::module_path!(), "::saxpy"),
        symbol: "_Z5saxpyjfPKfPf",
        package: "kernel-registry-macros",
        version: "0.1.0",
        file: "<unspecified>",
        line: 1u32,
        column: 1u32,
        summary: "y = a*x + y",
        params: ::kernel_registry::__private::Params::new(
            &[
                ::kernel_registry::__private::param::value::<u32>("n", "u32"),
                ::kernel_registry::__private::param::value::<f32>("a", "f32"),
                ::kernel_registry::__private::param::slice::<f32>("x", "&[f32]"),
                ::kernel_registry::__private::param::slice_mut::<f32>("y", "&mut [f32]"),
            ],
        ),
        min_arch: ::core::option::Option::Some(80u32),
        block: ::core::option::Option::Some(__block([256, 1, 1])),
        shared: ::core::option::Option::None,
        image: ::core::option::Option::Some(::kernel_registry::__private::Image {
            file: "src/tests/image.ptx",
            len: 315u64,
        }),
    };
    #[used]
    #[cfg_attr(
        not(any(windows, target_vendor = "apple", target_family = "wasm")),
        unsafe(link_section = "kernel_registry_v1")
    )]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__kernel_reg_v1"))]
    #[cfg_attr(windows, unsafe(link_section = ".krnl1$b"))]
    static __RECORD: [::core::primitive::u8; ::kernel_registry::__private::encoded_len(
        &__KERNEL,
    )] = ::kernel_registry::__private::encode_kernel(&__KERNEL);
    static __INFO: ::kernel_registry::__private::KernelInfo = ::kernel_registry::__private::info::<
        __Image,
    >(__KERNEL, &__RECORD);
    ::kernel_registry::__private::inventory::submit! {
        ::kernel_registry::__private::Registration(& __INFO)
    }
    ///Kernel `saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32])`, entry `_Z5saxpyjfPKfPf` of `src/tests/image.ptx`.
    impl saxpy {
        /// What is known of this kernel without loading it.
        pub const INFO: &'static ::kernel_registry::__private::KernelInfo = &__INFO;
    }
};

/// The sum of each block.
#[deprecated]
#[allow(dead_code)]
pub struct reduce<T, const BLOCK: u32> {
    #[doc(hidden)]
    __only_a_name: (
        ::core::convert::Infallible,
        ::core::marker::PhantomData<(fn() -> T,)>,
    ),
}
#[allow(deprecated)]
const _: () = ::kernel_registry::__private_0_1::checks::block_at_most(
    [{ A + B }, 1, 1],
    256u32,
    "`reduce<double, 256u>` was compiled for blocks of at most 256 threads",
);
#[allow(deprecated)]
const _: () = {
    ::kernel_registry::__instances! {
        __instances_of_reduce "`{Self}` is not an instance of the kernel `reduce`"
        "its instances are `reduce::<f32, 128>`, `reduce::<f64, { A + B }>`: others are added in `instances(..)` of its declaration"
    }
    impl<T, const BLOCK: u32> ::kernel_registry::Kernel for reduce<T, BLOCK>
    where
        Self: __instances_of_reduce::Instance,
    {
        const INFO: &'static ::kernel_registry::KernelInfo = <Self as __instances_of_reduce::Instance>::INFO;
    }
    ::kernel_registry::__kernel! {
        [impl < T, const BLOCK : u32 > reduce < T, BLOCK > where Self :
        ::kernel_registry::Kernel]
        "A kernel with the instances `reduce::<f32, 128>`, `reduce::<f64, { A + B }>`."
        launch(x : & impl ::kernel_registry::__private_0_1::DevicePtr < T > = slice; out
        : & mut impl ::kernel_registry::__private_0_1::DevicePtrMut < T > = slice_mut; n
        : u32 = value;) register reduce < f32, 128 > : __instances_of_reduce::Instance,
        "::reduce::<f32, 128>"
        b"\x02\x1C\0\0\0_Z6reduceIfLj128EEvPKT_PS0_j\x03\x16\0\0\0kernel-registry-macros\x04\x05\0\0\x000.1.0\x05\r\0\0\0<unspecified>\x06\x08\0\0\0\x01\0\0\0\x01\0\0\0\x07\x16\0\0\0The sum of each block.\x08\x17\0\0\0\x01\x01\0\0\0x\x02\x06\0\0\0&[f32]\x03\x01\0\0\0\x01\x08\x1D\0\0\0\x01\x03\0\0\0out\x02\n\0\0\0&mut [f32]\x03\x01\0\0\0\x02\x08\x14\0\0\0\x01\x01\0\0\0n\x02\x03\0\0\0u32\x03\x01\0\0\0\0\n\x17\0\0\0src/tests/templates.ptx\x0B\x08\0\0\0\xD5\x02\0\0\0\0\0\0\x0E\n\0\0\0compute_60\x13\0\0\0\0"
        276[[4, 4], [4, 4], [4, 4],] 3[128, 1, 1], 4294967295, 4294967295,
        ::core::include_bytes!("/package/src/tests/templates.ptx");
        register reduce < f64, { A + B } > : __instances_of_reduce::Instance,
        "::reduce::<f64, { A + B }>"
        b"\x02\x1C\0\0\0_Z6reduceIdLj256EEvPKT_PS0_j\x03\x16\0\0\0kernel-registry-macros\x04\x05\0\0\x000.1.0\x05\r\0\0\0<unspecified>\x06\x08\0\0\0\x01\0\0\0\x01\0\0\0\x07\x16\0\0\0The sum of each block.\x08\x17\0\0\0\x01\x01\0\0\0x\x02\x06\0\0\0&[f64]\x03\x01\0\0\0\x01\x08\x1D\0\0\0\x01\x03\0\0\0out\x02\n\0\0\0&mut [f64]\x03\x01\0\0\0\x02\x08\x14\0\0\0\x01\x01\0\0\0n\x02\x03\0\0\0u32\x03\x01\0\0\0\0\n\x17\0\0\0src/tests/templates.ptx\x0B\x08\0\0\0\xD5\x02\0\0\0\0\0\0\x0E\n\0\0\0compute_60\x13\0\0\0\0"
        276[[8, 8], [8, 8], [4, 4],] 3[{ A + B }, 1, 1], 4294967295, 4294967295,
        ::core::include_bytes!("/package/src/tests/templates.ptx");
    }
};

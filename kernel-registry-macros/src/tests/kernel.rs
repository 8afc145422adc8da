/// y = a*x + y
///
/// In place.
#[allow(dead_code)]
#[allow(dead_code)]
pub struct saxpy {
    #[doc(hidden)]
    __only_a_name: ::core::convert::Infallible,
}
::kernel_registry::__kernel! {
    [impl saxpy]
    "Kernel `saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32])`, entry `_Z5saxpyjfPKfPf` of `src/tests/image.ptx`."
    launch(n : u32 = value; a : f32 = value; x : & impl
    ::kernel_registry::__private_0_1::DevicePtr < f32 > = slice; y : & mut impl
    ::kernel_registry::__private_0_1::DevicePtrMut < f32 > = slice_mut;) register saxpy :
    ::kernel_registry::Kernel, "::saxpy"
    b"\x02\x0F\0\0\0_Z5saxpyjfPKfPf\x03\x16\0\0\0kernel-registry-macros\x04\x05\0\0\x000.1.0\x05\r\0\0\0<unspecified>\x06\x08\0\0\0\x01\0\0\0\x01\0\0\0\x07\x0B\0\0\0y = a*x + y\x08\x14\0\0\0\x01\x01\0\0\0n\x02\x03\0\0\0u32\x03\x01\0\0\0\0\x08\x14\0\0\0\x01\x01\0\0\0a\x02\x03\0\0\0f32\x03\x01\0\0\0\0\x08\x17\0\0\0\x01\x01\0\0\0x\x02\x06\0\0\0&[f32]\x03\x01\0\0\0\x01\x08\x1B\0\0\0\x01\x01\0\0\0y\x02\n\0\0\0&mut [f32]\x03\x01\0\0\0\x02\t\x04\0\0\0P\0\0\0\n\x13\0\0\0src/tests/image.ptx\x0B\x08\0\0\0u\x03\0\0\0\0\0\0\x0E\n\0\0\0compute_60\x13\0\0\0\0"
    280[[4, 4], [4, 4], [4, 4], [4, 4],] 4[256, 1, 1], 4294967295, 4294967295,
    ::core::include_bytes!("/package/src/tests/image.ptx");
}

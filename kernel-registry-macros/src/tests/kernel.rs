/// y = a*x + y
///
/// In place.
#[allow(dead_code)]
#[allow(dead_code)]
pub struct saxpy {
    #[doc(hidden)]
    __only_a_name: ::core::convert::Infallible,
}
::kernel_registry::__register! {
    ::kernel_registry::Kernel, saxpy, path : "::saxpy" fixed :
    b"\x02\x0F\0\0\0_Z5saxpyjfPKfPf\x03\x16\0\0\0kernel-registry-macros\x04\x05\0\0\x000.1.0\x05\r\0\0\0<unspecified>\x06\x08\0\0\0\x01\0\0\0\x01\0\0\0\x07\x0B\0\0\0y = a*x + y\x08\x14\0\0\0\x01\x01\0\0\0n\x02\x03\0\0\0u32\x03\x01\0\0\0\0\x08\x14\0\0\0\x01\x01\0\0\0a\x02\x03\0\0\0f32\x03\x01\0\0\0\0\x08\x17\0\0\0\x01\x01\0\0\0x\x02\x06\0\0\0&[f32]\x03\x01\0\0\0\x01\x08\x1B\0\0\0\x01\x01\0\0\0y\x02\n\0\0\0&mut [f32]\x03\x01\0\0\0\x02\t\x04\0\0\0P\0\0\0\n\x13\0\0\0src/tests/image.ptx\x0B\x08\0\0\0u\x03\0\0\0\0\0\0\x0E\n\0\0\0compute_60"
    275 params : [[4, 4], [4, 4], [4, 4], [4, 4],] 4 block : ([256, 1, 1]) shared : ()
    stack : () image :
    ::core::include_bytes!("/package/src/tests/image.ptx")
}
///Kernel `saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32])`, entry `_Z5saxpyjfPKfPf` of `src/tests/image.ptx`.
impl saxpy {
    /// What is known of this kernel without loading it.
    pub const INFO: &'static ::kernel_registry::KernelInfo = <Self as ::kernel_registry::Kernel>::INFO;
    /** As many blocks as `n` threads need, with the blocks and the shared memory that the declaration says, else with
 blocks of 256 threads.*/
    #[inline]
    pub fn over(n: ::core::primitive::u32) -> ::kernel_registry::LaunchConfig {
        Self::INFO.over(n)
    }
    /** Launches the kernel on a stream of a context in which it is warm.

 # Safety

 The kernel does with its arguments what its declaration says: it stays within the slices, reads through
 `&[T]` and `*const T` only, and what pointers point to stays until it is done.*/
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn launch(
        stream: &::kernel_registry::__private::CudaStream,
        config: impl ::kernel_registry::Configure,
        n: u32,
        a: f32,
        x: &impl ::kernel_registry::__private::DevicePtr<f32>,
        y: &mut impl ::kernel_registry::__private::DevicePtrMut<f32>,
    ) -> ::core::result::Result<(), ::kernel_registry::LaunchError> {
        unsafe {
            ::kernel_registry::Configure::configure(config, Self::INFO, stream)?
                .submit(
                    &mut [
                        ::kernel_registry::__private::pointer(&n),
                        ::kernel_registry::__private::pointer(&a),
                        ::kernel_registry::__private::pointer(
                            &::kernel_registry::__private::slice::<f32>(x, stream).0,
                        ),
                        ::kernel_registry::__private::pointer(
                            &::kernel_registry::__private::slice_mut::<f32>(y, stream).0,
                        ),
                    ],
                )
        }
    }
}

//! Tests declarations with CUDA's types against an image that names these types. Most of the test is that this file compiles.

use kernel_registry::gpu_kernel;
use kernel_registry::types::*;
use kernel_registry_format::same_layout;
use kernel_registry_image::CudaType;

#[gpu_kernel(image = "tests/images/types.ptx")]
unsafe fn values(
    p0: Char2,
    p1: Char3,
    p2: Char4,
    p3: Uchar2,
    p4: Uchar3,
    p5: Uchar4,
    p6: Short2,
    p7: Short3,
    p8: Short4,
    p9: Ushort2,
    p10: Ushort3,
    p11: Ushort4,
    p12: Int2,
    p13: Int3,
    p14: Int4,
    p15: Uint2,
    p16: Uint3,
    p17: Uint4,
    p18: Long2,
    p19: Long3,
    p20: Long4,
    p21: Ulong2,
    p22: Ulong3,
    p23: Ulong4,
    p24: Float2,
    p25: Float3,
    p26: Float4,
    p27: Double2,
    p28: Double3,
    p29: Double4,
    p30: Uint3,
    p31: E4m3,
    p32: E5m2,
    p33: TensorMap,
);

#[cfg(feature = "half")]
#[gpu_kernel(image = "tests/images/types.ptx")]
unsafe fn halves(a: half::f16, b: Half2, c: half::bf16, d: Bfloat162);

#[gpu_kernel(image = "tests/images/types.ptx")]
unsafe fn elements(a: &[Float4], b: Option<&mut [E5m2]>, c: &[TensorMap]);

#[gpu_kernel(image = "tests/images/types.ptx")]
unsafe fn newer(map: TensorMap);

#[gpu_kernel(image = "tests/images/types.ptx")]
unsafe fn unnamed(map: TensorMap, vector: Float4);

/// The image reader's table is the only source of the sizes in CUDA.
#[test]
fn types_have_the_layouts_that_the_image_reader_knows() {
    fn compare<T: kernel_registry::KernelParam>() {
        let names = T::RUST.cuda_names();
        assert!(!names.is_empty());
        for name in names {
            let there = CudaType::Named((*name).to_owned()).layout().unwrap_or_else(|| panic!("{name}"));
            let here = [size_of::<T>() as u32, align_of::<T>() as u32];
            assert!(same_layout(here, there), "{name}: {here:?} and {there:?}");
        }
    }
    macro_rules! all {
        ($($name:ident)+) => { $(compare::<$name>();)+ };
    }
    all!(Char2 Char3 Char4 Uchar2 Uchar3 Uchar4 Short2 Short3 Short4 Ushort2 Ushort3 Ushort4 Int2 Int3 Int4 Uint2 Uint3 Uint4);
    all!(Long2 Long3 Long4 Ulong2 Ulong3 Ulong4 Float2 Float3 Float4 Double2 Double3 Double4 E4m3 E5m2 TensorMap);
    #[cfg(feature = "half")]
    all!(Half2 Bfloat162);
}

#[test]
fn a_record_has_the_sizes_of_these_types() {
    let sizes = |kernel: &kernel_registry::KernelInfo| -> Vec<_> {
        kernel.params().iter().map(|param| (param.element_size, param.element_align)).collect()
    };
    assert_eq!(values::INFO.params().len(), 34);
    assert_eq!(sizes(elements::INFO), [(16, 16), (1, 1), (128, 64)]);
    assert_eq!(sizes(newer::INFO), [(128, 64)]);
    assert_eq!(sizes(unnamed::INFO), [(128, 64), (16, 16)]);
}

#[test]
fn arrays_and_numbers_convert() {
    assert_eq!(<[u8; 3]>::from(Uchar3::from([1, 2, 3])), [1, 2, 3]);
    assert_eq!(Double2::from([1.0, 2.0]), Double2 { x: 1.0, y: 2.0 });
    assert_eq!(u8::from(E4m3::from(0x7e)), 0x7e);
    assert_eq!(<[u64; 16]>::from(TensorMap::from([7; 16])), [7; 16]);
    assert_eq!(format!("{:?}", Int2::default()), "Int2 { x: 0, y: 0 }");
}

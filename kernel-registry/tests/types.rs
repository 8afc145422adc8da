//! Declarations with CUDA's own types against an image that names them: that they compile is the test.

use kernel_registry::gpu_kernel;
use kernel_registry::types::*;

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

#[test]
fn a_record_has_their_sizes() {
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

//! Which types of numbers a kernel of candle computes with, as its name says.

use candle_core::DType;

/// Names of floating point types in the names of kernels, longer ones first.
const NAMES: [(&str, DType); 6] = [
    ("fp8_e4m3", DType::F8E4M3),
    ("f8_e4m3", DType::F8E4M3),
    ("bf16", DType::BF16),
    ("f16", DType::F16),
    ("f32", DType::F32),
    ("f64", DType::F64),
];

/// Returns whether all floating point types that a kernel's name contains are among these. Names of kernels for integers contain none.
pub(crate) fn is_for(kernel: &str, dtypes: &[DType]) -> bool {
    let mut rest = format!("_{kernel}_");
    NAMES.iter().all(|(name, dtype)| {
        let name = format!("_{name}_");
        let has = rest.contains(&name);
        // Each underscore ends one name and begins the next.
        rest = rest.replace(&name, "__");
        !has || dtypes.contains(dtype)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_chosen_by_the_types_in_their_names() {
        let half = |kernel| is_for(kernel, &[DType::BF16, DType::F32]);
        for kernel in ["badd_bf16", "cast_bf16_f32", "is_u32_bf16", "affine_u8", "dequantize_block_q4_0_f32"]
        {
            assert!(half(kernel), "{kernel}");
        }
        for kernel in
            ["badd_f16", "cast_bf16_f16", "cast_f16_f16", "badd_f64", "badd_f8_e4m3", "uexp_fp8_e4m3"]
        {
            assert!(!half(kernel), "{kernel}");
        }
        assert!(is_for("uexp_fp8_e4m3", &[DType::F8E4M3]));
        assert!(is_for("affine_u8", &[]) && !is_for("affine_f32", &[]));
    }
}

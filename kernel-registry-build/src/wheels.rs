//! Finds the Python wheel with a toolkit header that NVRTC's own wheel lacks.

/// Returns the wheel with this header for a version of CUDA, as an argument of `pip install`. `None` if no
/// known wheel has it.
pub(crate) fn wheel_of(header: &str, (major, minor): (i32, i32)) -> Option<String> {
    let begins = |starts: &[&str]| starts.iter().any(|start| header.starts_with(start));
    // A wheel's name up to CUDA 12, and its name since CUDA 13, as found in the wheels of 12.0, 12.9 and
    // 13.0.
    let (old, new) = if begins(&["crt/"]) {
        ("nvidia-cuda-nvcc", "nvidia-cuda-crt")
    } else if begins(&["cuda/", "cub/", "nv/", "thrust/"]) {
        ("nvidia-cuda-cccl", "nvidia-cuda-cccl")
    } else if begins(&["cooperative_groups", "cuda_", "device_", "math_constants", "mma.h", "vector_"]) {
        ("nvidia-cuda-runtime", "nvidia-cuda-runtime")
    } else {
        return None;
    };
    Some(match major {
        ..=12 => format!("{old}-cu{major}=={major}.{minor}.*"),
        _ => format!("{new}=={major}.{minor}.*"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_in_the_wheels_of_their_version() {
        let of = |header: &str, version| wheel_of(header, version).unwrap_or_default();
        assert_eq!(of("cuda_fp16.h", (12, 0)), "nvidia-cuda-runtime-cu12==12.0.*");
        assert_eq!(of("cooperative_groups.h", (13, 0)), "nvidia-cuda-runtime==13.0.*");
        assert_eq!(of("crt/mma.h", (12, 4)), "nvidia-cuda-nvcc-cu12==12.4.*");
        assert_eq!(of("crt/mma.h", (13, 0)), "nvidia-cuda-crt==13.0.*");
        assert_eq!(of("cuda/std/type_traits", (13, 1)), "nvidia-cuda-cccl==13.1.*");
        assert_eq!(of("vector", (13, 0)), "");
    }
}

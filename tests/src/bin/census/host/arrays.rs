//! Rows for arrays, and for the textures and surfaces that give kernels access to them.

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, MIB, NULL, create, driver, join_errors};
use crate::host::{call, with};
use crate::row::Row;

/// The format of elements that are 32-bit floating point numbers.
const FLOAT: sys::CUarray_format = sys::CUarray_format_enum::CU_AD_FORMAT_FLOAT;
/// The flag of an array that gets its memory later.
const DEFERRED: u32 = 128;
/// The flag of an array that surfaces can write to.
const FOR_SURFACES: u32 = 2;

pub(super) fn array(_: &Bench) -> Done<Handle> {
    let description = FLAT;
    create!(cuArrayCreate_v2(&raw const description))
}

const FLAT: sys::CUDA_ARRAY_DESCRIPTOR =
    sys::CUDA_ARRAY_DESCRIPTOR { Width: 1024, Height: 256, Format: FLOAT, NumChannels: 1 };

fn deep(flags: u32) -> sys::CUDA_ARRAY3D_DESCRIPTOR {
    let (width, height, depth) = (64, 64, 64);
    sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: FLOAT,
        NumChannels: 1,
        Flags: flags,
    }
}

fn array_3d(_: &Bench) -> Done<Handle> {
    let description = deep(FOR_SURFACES);
    create!(cuArray3DCreate_v2(&raw const description))
}

fn mipmapped(_: &Bench) -> Done<Handle> {
    let description = deep(0);
    create!(cuMipmappedArrayCreate(&raw const description, 3_u32))
}

/// Describes an array as a resource, by its kind and its handle.
fn resource(array: Handle) -> sys::CUDA_RESOURCE_DESC {
    let mut resource: sys::CUDA_RESOURCE_DESC = cuda::zero();
    resource.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array.cast();
    resource
}

fn texture(array: Handle) -> Done<u64> {
    let (mut texture, resource, description) = (0, resource(array), cuda::zero::<sys::CUDA_TEXTURE_DESC>());
    driver!(cuTexObjectCreate(&raw mut texture, &raw const resource, &raw const description, NULL))?;
    Ok(texture)
}

fn surface(array: Handle) -> Done<u64> {
    let (mut surface, resource) = (0, resource(array));
    driver!(cuSurfObjectCreate(&raw mut surface, &raw const resource))?;
    Ok(surface)
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        call("cuArrayCreate", |bench| array(bench).map(drop)),
        with("cuArrayDestroy", array, |_, array| driver!(cuArrayDestroy(array))),
        call("cuArray3DCreate", |bench| array_3d(bench).map(drop)),
        with("cuArrayDestroy_3d", array_3d, |_, array| driver!(cuArrayDestroy(array))),
        call("cuMipmappedArrayCreate", |bench| mipmapped(bench).map(drop)),
        with("cuMipmappedArrayDestroy", mipmapped, |_, array| driver!(cuMipmappedArrayDestroy(array))),
        with(
            "array_questions",
            |bench| Ok((array(bench)?, array_3d(bench)?, mipmapped(bench)?)),
            |bench, (flat, cube, levels)| {
                let (mut of_flat, mut of_deep) = (FLAT, deep(0));
                join_errors([
                    driver!(cuArrayGetDescriptor_v2(&raw mut of_flat, flat)),
                    driver!(cuArray3DGetDescriptor_v2(&raw mut of_deep, cube)),
                    create!(cuMipmappedArrayGetLevel(levels, 1_u32)).map(drop),
                    widest(bench),
                ])
            },
        ),
        with(
            "cuArrayGetMemoryRequirements",
            |_| {
                let description = deep(DEFERRED);
                create!(cuArray3DCreate_v2(&raw const description))
            },
            |bench, array: Handle| {
                let mut requirements = [0_u64; 8];
                driver!(cuArrayGetMemoryRequirements(requirements.as_mut_ptr(), array, bench.device()))
            },
        ),
        with(
            "cuMipmappedArrayGetMemoryRequirements",
            |_| {
                let description = deep(DEFERRED);
                create!(cuMipmappedArrayCreate(&raw const description, 3_u32))
            },
            |bench, levels: Handle| {
                let mut requirements = [0_u64; 8];
                driver!(cuMipmappedArrayGetMemoryRequirements(
                    requirements.as_mut_ptr(),
                    levels,
                    bench.device()
                ))
            },
        ),
        with("cuTexObjectCreate", array, |_, array| texture(array).map(drop)),
        with(
            "cuTexObjectDestroy",
            |bench| texture(array(bench)?),
            |_, texture| driver!(cuTexObjectDestroy(texture)),
        ),
        with("cuSurfObjectCreate", array_3d, |_, array| surface(array).map(drop)),
        with(
            "cuSurfObjectDestroy",
            |bench| surface(array_3d(bench)?),
            |_, surface| driver!(cuSurfObjectDestroy(surface)),
        ),
        with(
            "texture_questions",
            |bench| Ok((texture(array(bench)?)?, surface(array_3d(bench)?)?)),
            |_, (texture, surface)| {
                let mut resource: sys::CUDA_RESOURCE_DESC = cuda::zero();
                let mut description: sys::CUDA_TEXTURE_DESC = cuda::zero();
                join_errors([
                    driver!(cuTexObjectGetResourceDesc(&raw mut resource, texture)),
                    driver!(cuTexObjectGetTextureDesc(&raw mut description, texture)),
                    driver!(cuSurfObjectGetResourceDesc(&raw mut resource, surface)),
                ])
            },
        ),
        with(
            "texture_references",
            |bench| Ok((array(bench)?, cuda::alloc(MIB)?)),
            |_, (array, memory)| {
                const OVERRIDES_FORMAT: u32 = 1;
                const FLOATS: i32 = 32;
                let reference: Handle = create!(cuTexRefCreate())?;
                let (mut offset, mut address, mut found, mut flags) = (0_usize, 0_u64, NULL, 0_u32);
                join_errors([
                    driver!(cuTexRefSetArray(reference, array, OVERRIDES_FORMAT)),
                    driver!(cuTexRefSetFormat(reference, FLOATS, 1_i32)),
                    driver!(cuTexRefSetFlags(reference, 1_u32)),
                    driver!(cuTexRefSetFilterMode(reference, 0_u32)),
                    driver!(cuTexRefSetAddressMode(reference, 0_i32, 0_u32)),
                    driver!(cuTexRefSetMaxAnisotropy(reference, 1_u32)),
                    driver!(cuTexRefGetArray(&raw mut found, reference)),
                    driver!(cuTexRefGetFlags(&raw mut flags, reference)),
                    driver!(cuTexRefSetAddress_v2(&raw mut offset, reference, memory, MIB)),
                    driver!(cuTexRefGetAddress_v2(&raw mut address, reference)),
                    driver!(cuTexRefDestroy(reference)),
                ])
            },
        ),
    ]
}

/// Asks for the greatest width of a one-dimensional texture of linear memory.
fn widest(bench: &Bench) -> Done {
    let mut width = 0_usize;
    driver!(cuDeviceGetTexture1DLinearMaxWidth(&raw mut width, FLOAT, 1_u32, bench.device()))
}

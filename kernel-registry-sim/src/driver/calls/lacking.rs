//! Functions of CUDA 13 that are not simulated. They are there, because a program that looks for one of them must not
//! take the driver for an older one; each says once that it is not supported.

use std::sync::PoisonError;

use crate::driver::process::Simulator;
use crate::driver::result::Code;

/// Says on standard error that something is not simulated, unless that was said before.
pub(super) fn say_once(what: &'static str) {
    if Simulator::get().said.lock().unwrap_or_else(PoisonError::into_inner).insert(what) {
        eprintln!("simulated CUDA driver: {what} is not simulated, and returns CUDA_ERROR_NOT_SUPPORTED");
    }
}

/// Functions that do not look at their arguments, by the version of CUDA that has them first.
macro_rules! lacking {
    ($($since:literal: $($name:ident)*;)*) => {
        $($(#[cfg_attr(feature = "export", unsafe(no_mangle))]
        extern "C" fn $name() -> Code {
            $crate::driver::hooks::called(stringify!($name), || {
                Simulator::of_this_process()?;
                say_once(stringify!($name));
                Err(Code::NOT_SUPPORTED)
            })
        })*)*
        pub(super) const ALL: &[super::Entry] =
            &[$($(super::Entry { name: stringify!($name), since: $since, address: $name as *const () },)*)*];
    };
}

lacking! {
    2000: cuArrayDestroy cuCtxAttach cuCtxDetach cuDeviceGetProperties cuFuncSetBlockShape
        cuFuncSetSharedSize cuLaunch cuLaunchGrid cuLaunchGridAsync cuModuleGetTexRef cuParamSetSize
        cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv cuTexRefCreate cuTexRefDestroy
        cuTexRefGetAddressMode cuTexRefGetArray cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat
        cuTexRefSetAddressMode cuTexRefSetArray cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat;
    3000: cuGetExportTable cuGraphicsMapResources cuGraphicsSubResourceGetMappedArray
        cuGraphicsUnmapResources cuGraphicsUnregisterResource cuModuleGetSurfRef cuSurfRefGetArray
        cuSurfRefSetArray;
    3020: cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayCreate_v2 cuArrayGetDescriptor_v2
        cuGraphicsResourceGetMappedPointer_v2 cuMemcpyAtoA_v2 cuMemcpyAtoD_v2 cuMemcpyAtoHAsync_v2
        cuMemcpyAtoH_v2 cuMemcpyDtoA_v2 cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2 cuTexRefGetAddress_v2
        cuTexRefSetAddress_v2;
    4010: cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle
        cuTexRefSetAddress2D_v3;
    5000: cuGraphicsResourceGetMappedMipmappedArray cuMipmappedArrayCreate cuMipmappedArrayDestroy
        cuMipmappedArrayGetLevel cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc
        cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc
        cuTexObjectGetTextureDesc cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode
        cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray
        cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias
        cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray;
    6050: cuGraphicsResourceSetMapFlags_v2;
    8000: cuMemRangeGetAttribute cuMemRangeGetAttributes cuTexRefGetBorderColor cuTexRefSetBorderColor;
    9000: cuLaunchCooperativeKernelMultiDevice;
    10000: cuDestroyExternalMemory cuDestroyExternalSemaphore cuDeviceGetLuid
        cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuImportExternalMemory
        cuImportExternalSemaphore cuSignalExternalSemaphoresAsync cuWaitExternalSemaphoresAsync;
    10020: cuDeviceGetNvSciSyncAttributes cuMemExportToShareableHandle cuMemImportFromShareableHandle;
    11000: cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute
        cuIpcOpenMemHandle_v2;
    11010: cuArrayGetSparseProperties cuDeviceGetTexture1DLinearMaxWidth cuGraphExecChildGraphNodeSetParams
        cuMemMapArrayAsync cuMipmappedArrayGetSparseProperties;
    11020: cuArrayGetPlane cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
        cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
        cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
        cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams
        cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle
        cuMemPoolImportPointer;
    11030: cuFlushGPUDirectRDMAWrites cuGraphDebugDotPrint cuGraphReleaseUserObject cuGraphRetainUserObject
        cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain;
    11040: cuCtxGetExecAffinity cuDeviceGetExecAffinitySupport cuDeviceGetGraphMemAttribute
        cuDeviceSetGraphMemAttribute;
    11060: cuArrayGetMemoryRequirements cuMipmappedArrayGetMemoryRequirements;
    11070: cuGraphAddBatchMemOpNode cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams
        cuGraphExecBatchMemOpNodeSetParams cuMemGetHandleForAddressRange;
    12000: cuLibraryGetManaged cuLibraryGetUnifiedFunction cuTensorMapEncodeIm2col cuTensorMapEncodeTiled
        cuTensorMapReplaceAddress;
    12010: cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute
        cuCoredumpSetAttributeGlobal cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindMem
        cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind;
    12030: cuGraphConditionalHandleCreate;
    12040: cuCtxFromGreenCtx cuCtxGetDevResource cuDevResourceGenerateDesc cuDevSmResourceSplitByCount
        cuDeviceGetDevResource cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification
        cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxRecordEvent
        cuGreenCtxWaitEvent cuStreamGetGreenCtx;
    12050: cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxStreamCreate cuStreamGetCtx_v2;
    12060: cuMemBatchDecompressAsync;
    12080: cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState
        cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock cuMemcpy3DBatchAsync
        cuMemcpyBatchAsync cuTensorMapEncodeIm2colWide;
    12090: cuGreenCtxGetId cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback
        cuLogsUnregisterCallback;
    13000: cuDeviceGetHostAtomicCapabilities cuDeviceGetP2PAtomicCapabilities
        cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemGetDefaultMemPool cuMemGetMemPool
        cuMemPrefetchBatchAsync cuMemSetMemPool cuMemcpy3DBatchAsync_v2 cuMemcpyBatchAsync_v2;
    13010: cuMulticastBindAddr_v2 cuMulticastBindMem_v2;
    13020: cuLaunchHostFunc_v2;
}

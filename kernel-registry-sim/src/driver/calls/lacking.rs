//! Defines the functions that are not simulated. Each reports this once in a thread, and returns
//! `CUDA_ERROR_NOT_SUPPORTED`. The functions exist so that a program that looks for one of them does not take the
//! driver for an older version.

use super::entry::Entry;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::Code;
use crate::driver::state::simulator::Simulator;

/// Returns what the report names as not simulated: the name of the function, or an explanation for the function that
/// only the runtime API calls.
fn lacking(function: &'static str) -> &'static str {
    match function {
        "cuGetExportTable" => {
            "CUDA's runtime API (`cudaMalloc`, `<<<>>>`), which PyTorch, CuPy and cuBLAS use, needs a GPU: \
             `cuGetExportTable`, by which it asks for private functions of NVIDIA's driver,"
        }
        other => other,
    }
}

/// Defines functions that are not simulated, grouped by the first version of CUDA that has them.
macro_rules! lacking {
    ($($since:literal: $($name:ident)*;)*) => {
        $($(#[cfg_attr(feature = "export", unsafe(no_mangle))]
        extern "C" fn $name() -> Code {
            $crate::driver::hooks::call(stringify!($name), || {
                Simulator::of_this_process()?;
                not_simulated(lacking(stringify!($name)))
            })
        })*)*
        pub(crate) const ALL: &[Entry] =
            &[$($(Entry { name: stringify!($name), since: $since, address: $name as *const () },)*)*];
    };
}

lacking! {
    2000: cuArrayDestroy cuCtxAttach cuCtxDetach cuDeviceComputeCapability cuDeviceGetProperties
        cuFuncSetBlockShape cuFuncSetSharedSize cuLaunch cuLaunchGrid cuLaunchGridAsync cuModuleGetTexRef
        cuModuleLoadFatBinary cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv
        cuTexRefCreate cuTexRefDestroy cuTexRefGetAddressMode cuTexRefGetArray cuTexRefGetFilterMode
        cuTexRefGetFlags cuTexRefGetFormat cuTexRefSetAddressMode cuTexRefSetArray cuTexRefSetFilterMode
        cuTexRefSetFlags cuTexRefSetFormat;
    2030: cuMemHostGetFlags;
    3000: cuGetExportTable cuGraphicsMapResources cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources
        cuGraphicsUnregisterResource cuModuleGetSurfRef cuSurfRefGetArray cuSurfRefSetArray;
    3020: cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayCreate_v2 cuArrayGetDescriptor_v2
        cuGraphicsResourceGetMappedPointer_v2 cuMemAllocPitch_v2 cuMemGetAddressRange_v2 cuMemcpy2DAsync_v2
        cuMemcpy2DUnaligned_v2 cuMemcpy2D_v2 cuMemcpy3DAsync_v2 cuMemcpy3D_v2 cuMemcpyAtoA_v2 cuMemcpyAtoD_v2
        cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 cuMemcpyDtoA_v2 cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2
        cuMemsetD16Async cuMemsetD16_v2 cuMemsetD2D16Async cuMemsetD2D16_v2 cuMemsetD2D32Async
        cuMemsetD2D32_v2 cuMemsetD2D8Async cuMemsetD2D8_v2 cuTexRefGetAddress_v2 cuTexRefSetAddress_v2;
    4000: cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuMemcpy cuMemcpy3DPeer cuMemcpy3DPeerAsync
        cuMemcpyAsync cuProfilerInitialize;
    4010: cuDeviceGetByPCIBusId cuDeviceGetPCIBusId cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle
        cuIpcOpenEventHandle cuTexRefSetAddress2D_v3;
    4020: cuCtxGetSharedMemConfig cuCtxSetSharedMemConfig cuFuncSetSharedMemConfig;
    5000: cuGraphicsResourceGetMappedMipmappedArray cuMipmappedArrayCreate cuMipmappedArrayDestroy
        cuMipmappedArrayGetLevel cuStreamAddCallback cuSurfObjectCreate cuSurfObjectDestroy
        cuSurfObjectGetResourceDesc cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc
        cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefGetMaxAnisotropy
        cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
        cuTexRefGetMipmappedArray cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode
        cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray;
    6000: cuPointerSetAttribute;
    6050: cuGraphicsResourceSetMapFlags_v2;
    7000: cuPointerGetAttributes;
    8000: cuDeviceGetP2PAttribute cuMemRangeGetAttribute cuMemRangeGetAttributes cuStreamBatchMemOp
        cuStreamWaitValue32 cuStreamWriteValue32 cuTexRefGetBorderColor cuTexRefSetBorderColor;
    9000: cuLaunchCooperativeKernelMultiDevice cuStreamWaitValue64 cuStreamWriteValue64;
    10000: cuDestroyExternalMemory cuDestroyExternalSemaphore cuDeviceGetLuid
        cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuGraphAddChildGraphNode
        cuGraphAddDependencies cuGraphAddEmptyNode cuGraphAddHostNode cuGraphAddKernelNode
        cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphChildGraphNodeGetGraph cuGraphClone cuGraphCreate
        cuGraphDestroyNode cuGraphGetEdges cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams
        cuGraphHostNodeSetParams cuGraphInstantiate cuGraphKernelNodeGetParams cuGraphKernelNodeSetParams
        cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams
        cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetDependencies
        cuGraphNodeGetDependentNodes cuGraphNodeGetType cuGraphRemoveDependencies cuImportExternalMemory
        cuImportExternalSemaphore cuSignalExternalSemaphoresAsync cuStreamBeginCapture
        cuWaitExternalSemaphoresAsync;
    10010: cuGraphExecKernelNodeSetParams cuStreamGetCaptureInfo;
    10020: cuDeviceGetNvSciSyncAttributes cuGraphExecHostNodeSetParams cuGraphExecMemcpyNodeSetParams
        cuGraphExecMemsetNodeSetParams cuGraphExecUpdate cuMemAddressFree cuMemAddressReserve cuMemCreate
        cuMemExportToShareableHandle cuMemGetAccess cuMemGetAllocationGranularity
        cuMemGetAllocationPropertiesFromHandle cuMemImportFromShareableHandle cuMemMap cuMemRelease
        cuMemSetAccess cuMemUnmap;
    11000: cuCtxResetPersistingL2Cache cuGraphInstantiate_v2 cuGraphKernelNodeCopyAttributes
        cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute cuIpcOpenMemHandle_v2
        cuMemRetainAllocationHandle cuStreamCopyAttributes cuStreamGetAttribute cuStreamSetAttribute;
    11010: cuArrayGetSparseProperties cuDeviceGetTexture1DLinearMaxWidth cuEventRecordWithFlags
        cuGraphAddEventRecordNode cuGraphAddEventWaitNode cuGraphEventRecordNodeGetEvent
        cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
        cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent
        cuMemMapArrayAsync cuMipmappedArrayGetSparseProperties;
    11020: cuArrayGetPlane cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
        cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
        cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
        cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams
        cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolGetAccess
        cuMemPoolImportFromShareableHandle cuMemPoolImportPointer cuMemPoolSetAccess;
    11030: cuFlushGPUDirectRDMAWrites cuGraphDebugDotPrint cuGraphReleaseUserObject cuGraphRetainUserObject
        cuStreamGetCaptureInfo_v2 cuStreamUpdateCaptureDependencies cuUserObjectCreate cuUserObjectRelease
        cuUserObjectRetain;
    11040: cuCtxCreate_v3 cuCtxGetExecAffinity cuDeviceGetExecAffinitySupport cuDeviceGetGraphMemAttribute
        cuDeviceSetGraphMemAttribute cuGraphAddMemAllocNode cuGraphAddMemFreeNode cuGraphMemAllocNodeGetParams
        cuGraphMemFreeNodeGetParams;
    11060: cuArrayGetMemoryRequirements cuGraphNodeGetEnabled cuGraphNodeSetEnabled
        cuMipmappedArrayGetMemoryRequirements;
    11070: cuGraphAddBatchMemOpNode cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams
        cuGraphExecBatchMemOpNodeSetParams cuMemGetHandleForAddressRange cuStreamBatchMemOp_v2
        cuStreamWaitValue64_v2 cuStreamWriteValue64_v2;
    12000: cuGraphAddKernelNode_v2 cuGraphExecGetFlags cuGraphExecKernelNodeSetParams_v2
        cuGraphExecUpdate_v2 cuGraphInstantiateWithParams cuGraphKernelNodeGetParams_v2
        cuGraphKernelNodeSetParams_v2 cuLibraryGetManaged cuLibraryGetUnifiedFunction cuLibraryLoadFromFile
        cuStreamGetId cuTensorMapEncodeIm2col cuTensorMapEncodeTiled cuTensorMapReplaceAddress;
    12010: cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute
        cuCoredumpSetAttributeGlobal cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindMem
        cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind;
    12020: cuGraphAddNode cuGraphExecNodeSetParams cuGraphNodeSetParams;
    12030: cuFuncGetName cuGraphAddDependencies_v2 cuGraphAddNode_v2 cuGraphConditionalHandleCreate
        cuGraphGetEdges_v2 cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes_v2
        cuGraphRemoveDependencies_v2 cuKernelGetName cuStreamBeginCaptureToGraph cuStreamGetCaptureInfo_v3
        cuStreamUpdateCaptureDependencies_v2;
    12040: cuCtxGetDevResource cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification
        cuGreenCtxRecordEvent cuGreenCtxWaitEvent
        cuLibraryEnumerateKernels cuLibraryGetKernelCount;
    12050: cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxStreamCreate cuKernelGetLibrary cuStreamGetCtx_v2;
    12060: cuMemBatchDecompressAsync;
    12080: cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState
        cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock cuMemcpy3DBatchAsync
        cuMemcpyBatchAsync cuStreamGetDevice cuTensorMapEncodeIm2colWide;
    12090: cuGreenCtxGetId cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback
        cuLogsUnregisterCallback;
    13000: cuCtxGetDevice_v2 cuCtxSynchronize_v2 cuDeviceGetHostAtomicCapabilities
        cuDeviceGetP2PAtomicCapabilities cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync
        cuMemGetDefaultMemPool cuMemGetMemPool cuMemPrefetchBatchAsync cuMemSetMemPool cuMemcpy3DBatchAsync_v2
        cuMemcpyBatchAsync_v2;
    13010: cuMulticastBindAddr_v2 cuMulticastBindMem_v2;
    13020: cuLaunchHostFunc_v2;
    13040: cuGraphAddNode_v3 cuGraphNodeSetParams_v2;
}

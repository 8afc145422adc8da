"""Launches a kernel with a frame of 8 KiB beside another kernel. It is loaded before, and the stack is not: its first launch makes it grow.
With `CUDA_MODULE_LOADING=EAGER` it is the same."""

import ctypes
import sys

from spin import Spin, check, context, cuda, kernel, launch, new, ready

# The places that it writes and reads are not known to the compiler, so the frame stays.
LARGE = """.visible .entry large(.param .u64 places) {
.local .align 16 .b8 frame[8192];
.reg .b32 %value; .reg .b64 %places, %to, %from, %frame;
ld.param.u64 %places, [places];
ld.global.u64 %to, [%places];
ld.global.u64 %from, [%places+8];
mov.u64 %frame, frame;
add.u64 %to, %frame, %to;
add.u64 %from, %frame, %from;
st.local.u32 [%to], 1;
ld.local.u32 %value, [%from];
st.global.u32 [%places+16], %value;
ret; }
"""

context()
spin, large = Spin(), kernel(LARGE, "large")
places = new(cuda.cuMemHostAlloc, ctypes.c_size_t(24), 2)
ctypes.memset(places.value, 0, 24)
busy, other = new(cuda.cuStreamCreate, 1), new(cuda.cuStreamCreate, 1)
spin.start(busy)
ready()
launch(large, other, places.value)
check(cuda.cuStreamSynchronize(other))
ran = spin.end()
print("large", "ran" if ran else "waited")
sys.exit(0 if ran else 3)

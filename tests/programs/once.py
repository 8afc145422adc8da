"""Launches one kernel."""
import cuda

cuda.run_new_kernel(cuda.start(), "once")
print("launched")

"""A program for nohup, which goes on after its terminal has hung up."""
import signal
import sys

import cuda

driver = cuda.start()
print("SIGHUP is ignored:", signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
cuda.run_new_kernel(driver, "before")
print("ready", flush=True)
sys.stdin.read()
cuda.run_new_kernel(driver, "after")
print("goes on")

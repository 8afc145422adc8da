"""Runs a command in a terminal of 80 columns, and presses Ctrl-C twice once the command says that this ends it."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

process, terminal = pty.fork()
if process == 0:
    # The command starts only after the terminal has its size.
    sys.stdin.readline()
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
os.write(terminal, b"\n")

seen, pressed, end = b"", 0, time.time() + 100
while time.time() < end:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    if b"Ctrl-C twice" in b" ".join(seen.split()) and pressed < 2:
        os.write(terminal, b"\x03")
        pressed += 1
        time.sleep(0.3)
if time.time() >= end:
    os.kill(process, 9)
_, status = os.waitpid(process, 0)
sys.stdout.write(seen.decode(errors="replace"))
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)

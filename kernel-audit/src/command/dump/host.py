# Runs in cuda-gdb, which has joined a process. Prints the stacks of its threads as JSON, between two marks in cuda-gdb's own output.
import json

import gdb


def text(of):
    try:
        return of()
    except UnicodeError:
        # A name can have any bytes.
        return None


def frames():
    frame = gdb.newest_frame()
    for _ in range(256):
        place = frame.find_sal()
        table = place.symtab
        yield {
            "function": text(frame.name),
            "file": text(table.fullname) if table else None,
            "line": place.line if table else None,
            "library": text(lambda: gdb.solib_name(frame.pc())),
        }
        frame = frame.older()
        if frame is None:
            return


def stack(thread):
    found = []
    try:
        thread.switch()
        found.extend(frames())
    except gdb.error:
        # The rest of the stack can't be read.
        pass
    return {"number": thread.ptid[1], "name": text(lambda: thread.name), "frames": found}


threads = [stack(thread) for thread in gdb.selected_inferior().threads()]
print(f"\n{MARK}{json.dumps(threads)}{MARK}")

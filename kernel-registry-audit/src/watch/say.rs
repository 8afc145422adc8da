//! What the audit says to people, on the standard error output. Kernels and drivers cannot make a terminal do anything with it.

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::ptr;

use kernel_registry_format::{Printable, wrapped};

/// Says a text. Where it cannot be written, to a closed pipe or a full disk, the program goes on all the same.
pub(crate) fn say(text: &str) {
    // In one piece: processes share the output.
    let mut text = format!("kernel-registry-audit: {}", Printable(text));
    if let Some(width) = width() {
        text = wrapped(&text, width);
    }
    text.push('\n');
    without_sigpipe(|| {
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// The characters in a line, if the standard error output is a terminal.
fn width() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: there is room for the answer; the call fails for what is no terminal.
    let is_terminal = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    (is_terminal && size.ws_col > 0).then_some(size.ws_col.into())
}

/// Writes with SIGPIPE blocked in this thread, and takes back the one that the write raises: it would end most programs that are
/// not in Rust or Python.
fn without_sigpipe(write: impl FnOnce()) {
    let mut pipe = MaybeUninit::<libc::sigset_t>::zeroed();
    let (mut pending, mut before) = (pipe, pipe);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: all sets have room, and are filled in before they are read. Zeros are an empty set.
    unsafe {
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::sigpending(pending.as_mut_ptr());
        let was_pending = libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        write();
        if !was_pending {
            libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
}

//! Writes messages to stderr. Control characters from kernels and drivers are escaped.
//!
//! A write never waits long for a reader, and never goes to one of the program's files: the program may have
//! reopened fd 2 as one. Messages that can't be written are sent to the command, or else counted.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel_registry_format::Printable;

use crate::watch::process::{fork, system};
use crate::wrapped::wrapped_for_terminal;
use crate::{environment, variables};

/// How long a message may wait for its reader.
const PATIENCE: Duration = Duration::from_millis(100);

/// Prints a message. If that fails, as for a full pipe or disk, the program goes on regardless.
pub(crate) fn say(text: &str) {
    let text = format!("kernel-audit: {}", Printable(text));
    if !write(&text) && !send(variables::SAID, &text) {
        UNDELIVERED.fetch_add(1, Ordering::Relaxed);
        publish_undelivered();
    }
}

/// Reports that a call has been hanging since this time of the record. The command that runs the program
/// reports it, if there is one, since it knows more. It falls back to `words` if it can't read the record.
pub(crate) fn say_hang(begun: u64, words: &str) {
    let message = format!("{} {begun}\n{words}", std::process::id());
    if !send(variables::HANGS, &message) {
        say(words);
    }
}

/// Tells the command why this process has no record.
pub(crate) fn tell_of_no_record(why: &str) {
    send(variables::NO_RECORD, why);
}

/// Returns whether a command runs the program and receives messages.
pub(crate) fn has_command() -> bool {
    environment::variable(variables::MESSAGES).is_some()
}

/// The number of messages that could neither be written nor sent.
static UNDELIVERED: AtomicU64 = AtomicU64::new(0);

/// The record's counter of such messages, or null.
static COUNTER: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Sets the record's counter of undelivered messages. `None` if there's no record.
pub(crate) fn count_in(counter: Option<&'static AtomicU64>) {
    COUNTER.store(
        counter.map_or(ptr::null_mut(), |counter| ptr::from_ref(counter).cast_mut()),
        Ordering::Release,
    );
    publish_undelivered();
}

fn publish_undelivered() {
    // SAFETY: the pointer is null, or points into a record, which is never unmapped.
    if let Some(counter) = unsafe { COUNTER.load(Ordering::Acquire).as_ref() } {
        counter.store(UNDELIVERED.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Resets the count in a forked child.
pub(crate) fn forked() {
    UNDELIVERED.store(0, Ordering::Relaxed);
    count_in(None);
}

/// Device and inode of an output.
type Identity = (u64, u64);

/// The outputs that messages may be written to.
static OUTPUTS: OnceLock<Vec<Identity>> = OnceLock::new();

/// Remembers stderr, before the program starts and can reopen fd 2.
pub(crate) fn remember_output() {
    fork::once(&OUTPUTS, || status().map(|its| identity(&its)).into_iter().collect());
}

/// Returns the outputs. The command passes them in a variable, since the program may have reopened fd 2 by
/// now. Without a command, returns the current fd 2, if the program may have inherited it.
fn outputs() -> &'static [Identity] {
    let of_command = || {
        let text = environment::variable(variables::OUTPUTS)?.into_string().ok()?;
        let pairs = text.split(' ').filter_map(|pair| pair.split_once(':'));
        Some(pairs.filter_map(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?))).collect())
    };
    let now = || status().filter(|_| is_inherited()).map(|its| identity(&its)).into_iter().collect();
    fork::once::<Vec<_>>(&OUTPUTS, || of_command().unwrap_or_else(now))
}

/// Returns whether fd 2 may be older than the program: `exec` would have closed a descriptor with this flag.
fn is_inherited() -> bool {
    // SAFETY: the call returns flags, or fails.
    let flags = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

fn status() -> Option<libc::stat> {
    system::status(libc::STDERR_FILENO)
}

fn identity(status: &libc::stat) -> Identity {
    (status.st_dev, status.st_ino)
}

/// Writes a line, if fd 2 is one of the outputs. Returns whether all of it was written.
fn write(text: &str) -> bool {
    let Some(status) = status().filter(|its| outputs().contains(&identity(its))) else { return false };
    // In one piece, because processes share the output.
    let mut text = wrapped_for_terminal(text);
    text.push('\n');
    let mut is_written = false;
    without_sigpipe(|| is_written = write_now(&status, text.as_bytes()));
    is_written
}

fn write_now(status: &libc::stat, mut text: &[u8]) -> bool {
    let kind = status.st_mode & libc::S_IFMT;
    let opened = if kind == libc::S_IFIFO || kind == libc::S_IFCHR { open_again() } else { None };
    let descriptor = opened.as_ref().map_or(libc::STDERR_FILENO, OwnedFd::as_raw_fd);
    let begun = Instant::now();
    while !text.is_empty() {
        // A pipe that is ready takes `PIPE_BUF` bytes.
        let part = &text[..text.len().min(libc::PIPE_BUF)];
        // SAFETY: the bytes are those of `part`.
        let written = unsafe {
            match kind {
                _ if !is_ready(descriptor, begun) => -1,
                libc::S_IFSOCK => {
                    libc::send(descriptor, part.as_ptr().cast(), part.len(), libc::MSG_DONTWAIT)
                }
                _ => libc::write(descriptor, part.as_ptr().cast(), part.len()),
            }
        };
        match usize::try_from(written) {
            Ok(written) => text = &text[written..],
            Err(_) => return false,
        }
    }
    true
}

/// Waits until a descriptor is writable. Returns false on timeout.
fn is_ready(descriptor: c_int, begun: Instant) -> bool {
    let rest = PATIENCE.saturating_sub(begun.elapsed()).as_millis() as c_int;
    let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the count is that of the descriptors.
    unsafe { libc::poll(&mut asked, 1, rest) == 1 && asked.revents & libc::POLLOUT != 0 }
}

/// Opens the same pipe or terminal again as non-blocking, because another process can fill it between poll
/// and write. The flag can't be set on fd 2 itself: all processes that share it would get the flag, too.
fn open_again() -> Option<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let descriptor = unsafe { libc::open(c"/proc/self/fd/2".as_ptr(), flags) };
    // SAFETY: the descriptor is new, and has no other owner.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Sends a text to the command that runs the program. Returns whether there is one and it was sent.
fn send(kind: &str, text: &str) -> bool {
    let Some(to) = environment::variable(variables::MESSAGES).and_then(|to| to.into_string().ok()) else {
        return false;
    };
    let Some((name, word)) = to.split_once(' ') else { return false };
    let sent = SocketAddr::from_abstract_name(name).and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(format!("{word}{kind}{text}").as_bytes(), &address)
    });
    sent.is_ok()
}

/// Calls `write` with SIGPIPE blocked in this thread, and consumes the signal that the write may raise. It
/// would end most programs that aren't written in Rust or Python.
fn without_sigpipe(write: impl FnOnce()) {
    let mut pipe = MaybeUninit::<libc::sigset_t>::zeroed();
    let (mut pending, mut before) = (pipe, pipe);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: all sets are initialized before they're read. Zeros are an empty set.
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

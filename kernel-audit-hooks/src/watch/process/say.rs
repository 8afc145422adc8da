//! Writes messages for people to the standard error output. Texts of kernels and drivers in a message cannot make a
//! terminal do anything.
//!
//! Writing never waits long for a reader, and never writes to a file of the program: descriptor 2 can be such a file by
//! now. A message that cannot be written is sent to the command that runs the program, or else counted in the record.

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

/// Says a text to people. Where the text cannot be written, to a full pipe or a full disk, the program goes on all the
/// same.
pub(crate) fn say(text: &str) {
    let text = format!("kernel-audit: {}", Printable(text));
    if !write(&text) && !send(variables::SAID, &text) {
        UNSAID.fetch_add(1, Ordering::Relaxed);
        show_unsaid();
    }
}

/// Says that a call hangs since this time of the record. If a command runs the program, the command says it, because it can name
/// more than this process, and says what it cannot read in the record with these words.
pub(crate) fn say_hang(begun: u64, words: &str) {
    let message = format!("{} {begun}\n{words}", std::process::id());
    if !send(variables::HANGS, &message) {
        say(words);
    }
}

/// Tells the command that this process has no record, and why.
pub(crate) fn tell_of_no_record(why: &str) {
    send(variables::NO_RECORD, why);
}

/// Returns whether a command runs the program, and takes messages.
pub(crate) fn has_command() -> bool {
    environment::variable(variables::MESSAGES).is_some()
}

/// The number of messages that could neither be written nor sent.
static UNSAID: AtomicU64 = AtomicU64::new(0);

/// The counter of such messages in the record, or null.
static COUNTER: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Counts in the record of this process the messages that could neither be written nor sent. `counter` is `None` if
/// there is no record.
pub(crate) fn count_in(counter: Option<&'static AtomicU64>) {
    COUNTER.store(
        counter.map_or(ptr::null_mut(), |counter| ptr::from_ref(counter).cast_mut()),
        Ordering::Release,
    );
    show_unsaid();
}

fn show_unsaid() {
    // SAFETY: the pointer is null, or to a part of a record, which is never unmapped.
    if let Some(counter) = unsafe { COUNTER.load(Ordering::Acquire).as_ref() } {
        counter.store(UNSAID.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Resets the count in a forked child, whose messages are its own.
pub(crate) fn forked() {
    UNSAID.store(0, Ordering::Relaxed);
    count_in(None);
}

/// An output, by its device and its inode.
type Identity = (u64, u64);

/// The outputs that messages may go to.
static OUTPUTS: OnceLock<Vec<Identity>> = OnceLock::new();

/// Remembers the standard error output. The program has not begun yet, so it has not reused descriptor 2.
pub(crate) fn remember_output() {
    fork::once(&OUTPUTS, || status().map(|its| identity(&its)).into_iter().collect());
}

/// Returns the outputs of the command that runs this program: the program may have reused descriptor 2 before it called
/// the driver. If no command names its outputs, returns the current descriptor 2, unless only this program can have
/// opened it.
fn outputs() -> &'static [Identity] {
    let of_command = || {
        let text = environment::variable(variables::OUTPUTS)?.into_string().ok()?;
        let pairs = text.split(' ').filter_map(|pair| pair.split_once(':'));
        Some(pairs.filter_map(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?))).collect())
    };
    let now = || status().filter(|_| is_inherited()).map(|its| identity(&its)).into_iter().collect();
    fork::once::<Vec<_>>(&OUTPUTS, || of_command().unwrap_or_else(now))
}

/// Returns whether descriptor 2 may be older than the program: a descriptor with this flag would have been closed at
/// the program's start.
fn is_inherited() -> bool {
    // SAFETY: the call returns flags, or fails.
    let flags = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Returns the status of descriptor 2.
fn status() -> Option<libc::stat> {
    system::status(libc::STDERR_FILENO)
}

fn identity(status: &libc::stat) -> Identity {
    (status.st_dev, status.st_ino)
}

/// Writes a text and the end of its line, if descriptor 2 is one of the outputs and takes the whole text now.
fn write(text: &str) -> bool {
    let Some(status) = status().filter(|its| outputs().contains(&identity(its))) else { return false };
    // The text is written in one piece, because processes share the output.
    let mut text = wrapped_for_terminal(text);
    text.push('\n');
    let mut is_written = false;
    without_sigpipe(|| is_written = write_now(&status, text.as_bytes()));
    is_written
}

/// Writes without waiting for a reader for long.
fn write_now(status: &libc::stat, mut text: &[u8]) -> bool {
    let kind = status.st_mode & libc::S_IFMT;
    let opened = if kind == libc::S_IFIFO || kind == libc::S_IFCHR { open_again() } else { None };
    let descriptor = opened.as_ref().map_or(libc::STDERR_FILENO, OwnedFd::as_raw_fd);
    let begun = Instant::now();
    while !text.is_empty() {
        // A pipe that is ready takes `PIPE_BUF` bytes.
        let part = &text[..text.len().min(libc::PIPE_BUF)];
        // SAFETY: the bytes are in `part`. A socket is told not to wait.
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

/// Returns whether a descriptor takes bytes before the patience ends.
fn is_ready(descriptor: c_int, begun: Instant) -> bool {
    let rest = PATIENCE.saturating_sub(begun.elapsed()).as_millis() as c_int;
    let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the call is about one descriptor.
    unsafe { libc::poll(&mut asked, 1, rest) == 1 && asked.revents & libc::POLLOUT != 0 }
}

/// Opens the same pipe or terminal once more, so that a write does not wait: another process can fill it after it was
/// polled. Descriptor 2 itself cannot get the flag, because all processes that share descriptor 2 would get the flag,
/// too.
fn open_again() -> Option<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let descriptor = unsafe { libc::open(c"/proc/self/fd/2".as_ptr(), flags) };
    // SAFETY: the descriptor is new, and has no other owner.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Sends a text to the command, if a command runs the program. A variable says where to.
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

/// Calls `write` with SIGPIPE blocked in this thread, and takes back the SIGPIPE that the write raises. The signal
/// would end most programs that are not in Rust or Python.
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

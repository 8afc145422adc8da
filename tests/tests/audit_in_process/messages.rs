//! Tests that messages of the audit wait for no reader, and go to no file of the program.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{ptr, thread};

use kernel_audit::record::Kind;
use kernel_audit::{Audit, report};
use kernel_registry::cudarc::driver::{CudaContext, sys};
use tests::scratch_folder;

use crate::{Outcome, apart, text, watched};

/// Redirects standard error to another descriptor until this value is dropped, so that a failed test can still print.
struct Instead(OwnedFd);

impl Instead {
    fn of(output: BorrowedFd<'_>) -> Self {
        let before = std::io::stderr().as_fd().try_clone_to_owned().expect("it is open");
        // SAFETY: both descriptors are open.
        assert_eq!(unsafe { libc::dup2(output.as_raw_fd(), 2) }, 2);
        Instead(before)
    }
}

impl Drop for Instead {
    fn drop(&mut self) {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(self.0.as_raw_fd(), 2) };
    }
}

/// Gives a stream work for so many milliseconds, and waits for the stream.
fn wait(context: &Arc<CudaContext>, milliseconds: usize) -> Outcome {
    unsafe extern "C" fn sleep(milliseconds: *mut c_void) {
        thread::sleep(Duration::from_millis(milliseconds.addr() as u64));
    }
    let stream = context.new_stream()?;
    let milliseconds = ptr::without_provenance_mut(milliseconds);
    // SAFETY: the function takes its argument as a number, and not as a pointer.
    unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(sleep), milliseconds) }.result()?;
    Ok(stream.synchronize()?)
}

#[test]
fn a_hang_is_recorded_although_nobody_reads() {
    apart("messages::a_hang_is_recorded_although_nobody_reads", &[], || {
        let (_reads, writes) = std::io::pipe()?;
        // SAFETY: the descriptor is open.
        let fill = |flags: i32| unsafe { libc::fcntl(writes.as_raw_fd(), libc::F_SETFL, flags) };
        fill(libc::O_NONBLOCK);
        while (&writes).write(&[0]).is_ok() {}
        fill(0);
        let full = Instead::of(writes.as_fd());
        let context = watched(Audit::new().hang_after(Duration::from_millis(100)))?;
        wait(&context, 800)?;
        let report = report()?;
        drop(full);
        assert!(report.events.iter().any(|event| event.kind == Kind::Hang), "{:?}", report.events);
        assert_eq!(report.unsaid, 1);
        Ok(())
    });
}

#[test]
fn a_file_of_the_program_gets_no_message() {
    let path = scratch_folder().join("data");
    let output = apart("messages::a_file_of_the_program_gets_no_message", &[], || {
        let context = watched(Audit::new().hang_after(Duration::from_millis(100)))?;
        wait(&context, 400)?;
        let data = File::create(&path)?;
        let own = Instead::of(data.as_fd());
        wait(&context, 400)?;
        drop(own);
        assert_eq!((fs::read(&path)?.len(), report()?.unsaid), (0, 1));
        Ok(())
    });
    if let Some(output) = output {
        assert_eq!(text(&output.stderr).matches("HANG").count(), 1, "{}", text(&output.stderr));
    }
}

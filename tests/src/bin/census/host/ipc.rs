//! Rows for memory of another process, and for events that other processes may use. The other process also
//! runs this executable, and ends when its standard input does.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use kernel_registry::cudarc::driver::sys;

use crate::cuda::{self, Done, Failed, Handle, MIB, create, driver};
use crate::host::{row, with};
use crate::row::{Row, attempt};

/// The flags of an event for several processes, which must not measure time.
const INTERPROCESS: u32 = 4 | 2;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        with("cuIpcGetMemHandle", |_| cuda::alloc(MIB), |_, memory| handle_of_memory(memory).map(drop)),
        row("cuIpcOpenMemHandle", |_| {
            let other = Other::start()?;
            attempt(move || other.open_memory().map(drop))
        }),
        row("cuIpcCloseMemHandle", |_| {
            let other = Other::start()?;
            let memory = other.open_memory()?;
            attempt(move || {
                let closed = driver!(cuIpcCloseMemHandle(memory));
                drop(other);
                closed
            })
        }),
        with(
            "cuIpcGetEventHandle",
            |_| create!(cuEventCreate(INTERPROCESS)),
            |_, event: Handle| handle_of_event(event).map(drop),
        ),
    ]
}

/// A handle that another process can open.
type Bytes = [std::ffi::c_char; 64];

fn handle_of_memory(memory: sys::CUdeviceptr) -> Done<Bytes> {
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    driver!(cuIpcGetMemHandle(&raw mut handle, memory))?;
    Ok(handle.reserved)
}

fn handle_of_event(event: Handle) -> Done<Bytes> {
    let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
    driver!(cuIpcGetEventHandle(&raw mut handle, event))?;
    Ok(handle.reserved)
}

/// The other process, which ends when this is dropped.
struct Other {
    handle: Bytes,
    process: Child,
}

impl Other {
    fn start() -> Done<Self> {
        let failed = |error: io::Error| Failed(format!("the other process: {error}"));
        let mut process = Command::new(env::current_exe().map_err(failed)?)
            .arg("--share")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).map_err(failed)?;
        let numbers: Result<Vec<_>, _> = line.split_whitespace().map(str::parse).collect();
        match numbers.ok().and_then(|numbers| numbers.try_into().ok()) {
            Some(handle) => Ok(Other { handle, process }),
            None => Err(Failed(line.trim().to_owned())),
        }
    }

    fn open_memory(&self) -> Done<sys::CUdeviceptr> {
        const WITH_PEERS: u32 = 1;
        let (mut memory, handle) = (0, sys::CUipcMemHandle { reserved: self.handle });
        driver!(cuIpcOpenMemHandle_v2(&raw mut memory, handle, WITH_PEERS))?;
        Ok(memory)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Shares memory with the parent process until standard input ends. Prints the memory's handle, or the error.
pub(crate) fn share() {
    // The shared memory only lives as long as its context, so that is kept.
    let context = kernel_registry::context(0).map_err(|error| Failed(error.to_string()));
    match context.as_ref().map_err(Failed::clone).and_then(|_| handle_of_memory(cuda::alloc(MIB)?)) {
        Ok(bytes) => println!("{}", bytes.map(|byte| byte.to_string()).join(" ")),
        Err(Failed(error)) => println!("{error}"),
    }
    let _ = io::stdout().flush();
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

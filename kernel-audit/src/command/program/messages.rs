//! Receives the messages of processes that cannot write them to the command's output, because they have another output,
//! or because it takes no more.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use kernel_registry_command::terminal;

use super::hangs::Told;
use crate::variables;

/// The receiver of messages: a socket that processes reach whatever their user and their root folder are.
pub(crate) struct Messages {
    socket: UnixDatagram,
    name: String,
    /// The word with which each message begins. Other processes can see the socket's name, but not this word.
    word: String,
    /// A sentence for each process without a record.
    without_record: Vec<String>,
}

/// The largest number of processes without a record that are named.
const MOST: usize = 1000;

impl Messages {
    pub(crate) fn new() -> io::Result<Self> {
        let mut random = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (name, word) = (format!("kernel-audit-{}", hex(&random[..16])), hex(&random[16..]));
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        Ok(Messages { socket, name, word, without_record: Vec::new() })
    }

    /// Returns the variables that tell the program to which outputs it writes messages, and where it sends other
    /// messages.
    pub(crate) fn variables(&self) -> [(&'static str, OsString); 2] {
        let outputs = [identity(io::stdout()), identity(io::stderr())];
        let outputs = outputs.into_iter().flatten().collect::<Vec<_>>().join(" ");
        [
            (variables::OUTPUTS, outputs.into()),
            (variables::MESSAGES, format!("{} {}", self.name, self.word).into()),
        ]
    }

    /// Prints the messages that have arrived, and returns those on hangs.
    pub(super) fn say(&mut self) -> Vec<Told> {
        let mut hangs = Vec::new();
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..length]);
            let Some(message) = text.strip_prefix(&self.word) else { continue };
            if let Some(said) = message.strip_prefix(variables::SAID) {
                terminal::say(said);
            } else if let Some(hang) = message.strip_prefix(variables::HANGS) {
                hangs.extend(Told::read(hang));
            } else if let Some(why) = message.strip_prefix(variables::NO_RECORD)
                && self.without_record.len() < MOST
            {
                self.without_record.push(why.to_owned());
            }
        }
        hangs
    }

    /// Returns a sentence for each process without a record, once the program has ended.
    pub(crate) fn without_record(self) -> Vec<String> {
        self.without_record
    }
}

/// Returns the device and the inode of an output.
fn identity(output: impl AsFd) -> Option<String> {
    let its = File::from(output.as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
    Some(format!("{}:{}", its.dev(), its.ino()))
}

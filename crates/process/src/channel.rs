//! The private line between us and a child, apart from its standard streams.

use rustix::io::ioctl_fionbio;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{OwnedFd, RawFd};

/// Which private line a child gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// None.
    None,
    /// One end of a stream socket, its number in the variable `NODE_CHANNEL_FD`: Node.js's own
    /// channel between parent and child.
    NodeSocket,
    /// Commands on descriptor 3 and events on 4, named by `SPEEDWELL_FDS` (docs/reference/protocol.md).
    Harness,
    /// One pipe from the child, 3, which the named variable tells.
    Pipe(&'static str),
    /// Its standard output, which otherwise is kept in part only.
    Stdout,
}

/// What to do after a line was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Go on listening.
    Wait,
    /// Send these bytes, then go on listening.
    Send(Vec<u8>),
    /// Nothing more is expected: the child has the given time to end by itself.
    Linger(std::time::Duration),
}

/// A standard stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The one who understands what comes over the line.
pub trait Conversation {
    /// Bytes to send as soon as the child is started.
    fn opening(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// A line came, without its line feed.
    fn received(&mut self, line: &[u8]) -> Next;

    /// The child wrote this on a standard stream just now.
    fn wrote(&mut self, _stream: Stream, _bytes: &[u8]) {}

    /// Nothing was heard for a moment: bytes to send all the same, if the patience with an answer is at an end.
    fn waiting(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// The user asked us to stop: what is sent to the child, and how long it then has to end by itself.
    /// Without an answer it is killed.
    fn stopping(&mut self) -> Option<(Vec<u8>, std::time::Duration)> {
        None
    }
}

/// A conversation that has nothing to say and expects nothing.
impl Conversation for () {
    fn received(&mut self, _line: &[u8]) -> Next {
        Next::Wait
    }
}

/// The descriptors of an opened channel.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Where we read.
    pub read: Option<OwnedFd>,
    /// Where we write.
    pub write: Option<OwnedFd>,
    /// Ends of the child, with the number each gets in the child.
    pub child: Vec<(OwnedFd, RawFd)>,
    /// Variables that tell the child about it.
    pub environment: Vec<(&'static str, String)>,
}

impl Channel {
    /// Opens both ends, all close-on-exec; the child's are put in place after the fork.
    pub(super) fn open(self) -> io::Result<Ends> {
        let mut ends = Ends::default();
        match self {
            Channel::None => {}
            Channel::NodeSocket => {
                let (ours, theirs) = socket_pair()?;
                ends.read = Some(ours);
                ends.child.push((theirs, 3));
                ends.environment.push(("NODE_CHANNEL_FD", "3".into()));
                // Node refuses to start under any mode but json and advanced; the former is text.
                ends.environment
                    .push(("NODE_CHANNEL_SERIALIZATION_MODE", "json".into()));
            }
            Channel::Harness => {
                let (commands_out, commands_in) = pipe()?;
                let (events_out, events_in) = pipe()?;
                ends.write = Some(commands_in);
                ends.read = Some(events_out);
                ends.child.push((commands_out, 3));
                ends.child.push((events_in, 4));
                ends.environment.push(("SPEEDWELL_FDS", "3,4".into()));
            }
            Channel::Stdout => {
                let (ours, theirs) = pipe()?;
                ends.read = Some(ours);
                ends.child.push((theirs, 1));
            }
            Channel::Pipe(variable) => {
                let (ours, theirs) = pipe()?;
                ends.read = Some(ours);
                ends.child.push((theirs, 3));
                ends.environment.push((variable, "3".into()));
            }
        }
        for ours in [&ends.read, &ends.write].into_iter().flatten() {
            set_nonblocking(ours)?;
        }
        Ok(ends)
    }
}

/// A pipe: (read end, write end), close-on-exec.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (domain, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    Ok(socketpair(domain, SocketType::STREAM, flags, None)?)
}

/// Reading must never block: one child must not stall the whole session.
pub(super) fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    Ok(ioctl_fionbio(fd, true)?)
}

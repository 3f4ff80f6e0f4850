//! Opens a private channel between us and a child, in addition to the child's standard streams, and
//! defines the trait for conversations over the channel.

use rustix::io::ioctl_fionbio;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{OwnedFd, RawFd};

/// Kind of private channel that a child gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    /// No channel.
    None,
    /// A stream socket, like the one that Node.js uses between parent and child. The variable
    /// `NODE_CHANNEL_FD` holds the descriptor of the child's end.
    NodeSocket,
    /// Two pipes: the child reads commands on descriptor 3 and writes events on descriptor 4. The
    /// variable `SPEEDWELL_FDS` holds both numbers (docs/reference/protocol.md).
    Harness,
    /// One pipe from the child. The child's end is descriptor 3; the environment variable with the
    /// given name holds this number.
    Pipe(&'static str),
    /// The child's stdout. All other kinds capture stdout only in part.
    Stdout,
}

/// What to do after receiving a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Continue listening.
    Wait,
    /// Send these bytes, then continue listening.
    Send(Vec<u8>),
    /// Expect no more data, and give the child this long to end by itself.
    Linger(std::time::Duration),
}

/// A standard stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Our side of the protocol spoken over the private channel.
pub trait ChildConversation {
    /// Returns bytes to send as soon as the child has started.
    fn opening_bytes(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Handles a line, without its newline.
    fn handle_line(&mut self, line: &[u8]) -> NextStep;

    /// Observes output of the child on a standard stream.
    fn observe_output(&mut self, _stream: OutputStream, _bytes: &[u8]) {}

    /// Called each time before we wait for the child. Returns bytes to send if an answer is
    /// overdue.
    fn overdue_bytes(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Called when the user interrupts us. Returns bytes to send to the child, and how long the
    /// child may take to end by itself; `None` kills the child at once. A
    /// [`ServiceProcess`](crate::process::ServiceProcess) gets only the bytes, and is not ended.
    fn stop_request(&mut self) -> Option<(Vec<u8>, std::time::Duration)> {
        None
    }
}

/// A conversation that sends nothing and expects nothing.
impl ChildConversation for () {
    fn handle_line(&mut self, _line: &[u8]) -> NextStep {
        NextStep::Wait
    }
}

/// Descriptors of an opened channel.
#[derive(Debug, Default)]
pub(super) struct ChannelEnds {
    /// Our read end.
    pub read: Option<OwnedFd>,
    /// Our write end.
    pub write: Option<OwnedFd>,
    /// The child's ends, each with its descriptor in the child.
    pub child: Vec<(OwnedFd, RawFd)>,
    /// Variables that describe the channel to the child.
    pub environment: Vec<(&'static str, String)>,
}

impl ChannelKind {
    /// Opens our ends and the child's ends, all close-on-exec. After the fork, the child moves its
    /// ends to their descriptors.
    pub(super) fn open(self) -> io::Result<ChannelEnds> {
        let mut ends = ChannelEnds::default();
        match self {
            ChannelKind::None => {}
            ChannelKind::NodeSocket => {
                let (ours, theirs) = socket_pair()?;
                ends.read = Some(ours);
                ends.child.push((theirs, 3));
                ends.environment.push(("NODE_CHANNEL_FD", "3".into()));
                // Node.js accepts only the modes json and advanced, and only json is a text format.
                ends.environment.push(("NODE_CHANNEL_SERIALIZATION_MODE", "json".into()));
            }
            ChannelKind::Harness => {
                let (commands_out, commands_in) = open_pipe()?;
                let (events_out, events_in) = open_pipe()?;
                ends.write = Some(commands_in);
                ends.read = Some(events_out);
                ends.child.push((commands_out, 3));
                ends.child.push((events_in, 4));
                ends.environment.push(("SPEEDWELL_FDS", "3,4".into()));
            }
            ChannelKind::Stdout => {
                let (ours, theirs) = open_pipe()?;
                ends.read = Some(ours);
                ends.child.push((theirs, 1));
            }
            ChannelKind::Pipe(variable) => {
                let (ours, theirs) = open_pipe()?;
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

/// Opens a pipe as (read end, write end), close-on-exec.
pub(super) fn open_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (domain, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    Ok(socketpair(domain, SocketType::STREAM, flags, None)?)
}

/// Reads must never block: one child must not stall the whole session.
pub(super) fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    Ok(ioctl_fionbio(fd, true)?)
}

//! The harness for commands of a shell: this very program, started with a hidden command, speaks the protocol.
//!
//! An iteration is a process. A command without anything that only a shell understands is started directly;
//! otherwise the time that the shell itself takes is measured and taken out of each execution. Start at [`serve`].

mod crew;
mod order;
mod runs;
mod session;
mod times;
mod worker;

pub use session::serve;

/// The hidden command under which this program is a harness.
pub const COMMAND: &str = "harness-sh";

//! The harness for commands of a shell: this very program, started with a hidden command, speaks the protocol.
//!
//! An iteration is a process. A command without anything that only a shell understands is started directly, unless
//! it is compared with one that needs a shell. What the shell itself takes is measured and reported beside the
//! times of executions, which contain it: taken out of them, a command that takes no longer than the shell would have
//! times of zero and below, which nothing can be compared with. Start at [`serve`].

mod crew;
mod order;
mod runs;
mod session;
mod times;
mod worker;

pub use order::needs_shell;
pub use session::serve;

/// The hidden command under which this program is a harness.
pub const COMMAND: &str = "harness-sh";

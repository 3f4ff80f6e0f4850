//! The user's wish to stop: Ctrl-C, or a polite kill of ourselves.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn flag() -> &'static Arc<AtomicBool> {
    REQUESTED.get_or_init(Arc::default)
}

/// From now on SIGINT, SIGTERM and SIGHUP set [`interrupted`] instead of ending us at once; a
/// second one, while the first is being honoured, ends us with status 130.
///
/// # Errors
/// The handlers could not be installed.
pub fn on_interrupt() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, flag().clone())?;
        signal_hook::flag::register(signal, flag().clone())?;
    }
    Ok(())
}

/// Whether the user wants us to stop.
pub fn interrupted() -> bool {
    flag().load(Ordering::Relaxed)
}

/// The flag behind [`interrupted`], for loops that look at it themselves.
pub fn interrupt_flag() -> &'static AtomicBool {
    flag()
}

/// Forgets a wish that has been honoured.
pub fn forget_interrupt() {
    flag().store(false, Ordering::Relaxed);
}

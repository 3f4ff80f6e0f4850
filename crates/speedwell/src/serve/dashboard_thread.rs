//! Serves a dashboard while a command measures (`--dashboard`), and then until a minute has passed
//! without a viewer.

use super::ready_server::ReadyServer;
use crate::options::{DashboardArgs, DatabaseArgs};
use crate::status;
use speedwell_machine::process;
use speedwell_server::dashboard::SiteState;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the dashboard stays up after the last viewer has left.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Poll interval for viewers, a pressed key and interrupts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A dashboard served by its own thread.
pub struct DashboardThread {
    site: Arc<SiteState>,
    stopper: speedwell_server::http::ServerStopper,
    thread: Option<JoinHandle<()>>,
}

impl DashboardThread {
    /// Serves the store at a path to users of this machine.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or no port is free.
    pub fn start(path: &Path) -> anyhow::Result<DashboardThread> {
        let args = DashboardArgs {
            store: DatabaseArgs { db: Some(path.to_owned()) },
            ..DashboardArgs::default()
        };
        let ready = ReadyServer::from_args(&args)?;
        ready.announce_url(false, "while measuring");
        let ReadyServer { server, site, stopper, .. } = ready;
        let thread = std::thread::spawn(move || {
            if let Err(error) = server.run() {
                status::print_warning(&format!("The dashboard stopped: {error}."));
            }
        });
        Ok(DashboardThread { site, stopper, thread: Some(thread) })
    }

    /// Keeps serving until the user presses Enter or Ctrl-C, or until a minute has passed without a
    /// viewer. Returns immediately if there is no terminal and no one has opened the dashboard.
    pub fn wait_for_viewers(self) {
        let has_terminal = std::io::stdin().is_terminal();
        if !has_terminal && !self.site.has_responded() {
            return;
        }
        status::print_note(
            "the dashboard stays up until you press Enter, or until a minute after the last viewer leaves",
        );
        let has_ended = Arc::new(AtomicBool::new(false));
        if has_terminal {
            let has_ended = has_ended.clone();
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_line(&mut String::new());
                has_ended.store(true, Ordering::Relaxed);
            });
        }
        let mut last_seen = Instant::now();
        while !has_ended.load(Ordering::Relaxed)
            && !process::is_interrupt_requested()
            && last_seen.elapsed() < IDLE_TIMEOUT
        {
            if self.site.count_viewers() > 0 {
                last_seen = Instant::now();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for DashboardThread {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

//! The dashboard of a command that measures (`--dashboard`): it starts with the command, and stops
//! some time after the last viewer has left.

use super::served::ReadyServer;
use crate::options::{DashboardArgs, DatabaseArgs};
use crate::status;
use speedwell_process as process;
use speedwell_web::SiteState;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the dashboard stays up after the last viewer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How soon a viewer, a pressed key or an interrupt is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A dashboard served by its own thread.
pub struct DashboardThread {
    site: Arc<SiteState>,
    stopper: speedwell_serve::ServerStopper,
    serving: Option<JoinHandle<()>>,
}

impl DashboardThread {
    /// Serves the store at a path to users of this machine.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or no port is free.
    pub fn start(path: &Path) -> anyhow::Result<DashboardThread> {
        let args = DashboardArgs {
            store: DatabaseArgs {
                db: Some(path.to_owned()),
            },
            ..DashboardArgs::default()
        };
        let ready = ReadyServer::from_args(&args)?;
        ready.announce_url(false, "while measuring");
        let ReadyServer {
            server,
            site,
            stopper,
            ..
        } = ready;
        let serving = std::thread::spawn(move || {
            if let Err(error) = server.run() {
                status::print_warning(&format!("The dashboard stopped: {error}."));
            }
        });
        Ok(DashboardThread {
            site,
            stopper,
            serving: Some(serving),
        })
    }

    /// Keeps serving until Enter or Ctrl-C, or for a minute after the last viewer. Without a
    /// terminal and without viewers, it returns immediately.
    pub fn wait_for_viewers(self) {
        let is_attended = std::io::stdin().is_terminal();
        if !is_attended && !self.site.has_responded() {
            return;
        }
        status::print_note(
            "the dashboard stays up until you press Enter, or for a minute after the last viewer left",
        );
        let is_over = Arc::new(AtomicBool::new(false));
        if is_attended {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_line(&mut String::new());
                is_over.store(true, Ordering::Relaxed);
            });
        }
        let mut seen = Instant::now();
        while !is_over.load(Ordering::Relaxed)
            && !process::is_interrupt_requested()
            && seen.elapsed() < IDLE_TIMEOUT
        {
            if self.site.count_viewers() > 0 {
                seen = Instant::now();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for DashboardThread {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

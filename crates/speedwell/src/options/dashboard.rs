//! Where the dashboard is served, and of which store.

use clap::Args;
use speedwell_results::store::Store;
use std::path::PathBuf;

/// Options of the dashboard.
#[derive(Debug, Clone, Default, Args)]
pub struct DashboardArgs {
    /// The port on this machine's own addresses [default: the first free one from 7600 to 7609]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Open the dashboard in a browser
    #[arg(long)]
    pub open: bool,
    /// The database [default: .speedwell/results.db of the project, else of the user]
    #[arg(
        long,
        value_name = "FILE",
        env = "SPEEDWELL_DB",
        hide_env_values = true,
        help_heading = "Store"
    )]
    pub db: Option<PathBuf>,
}

impl DashboardArgs {
    /// Where the database is, or would be.
    ///
    /// # Errors
    /// There is no current folder.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        Ok(Store::locate(self.db.as_deref(), &std::env::current_dir()?))
    }

    /// The ports that are tried, from the first to the last; 0 is any free one.
    pub fn ports(&self) -> (u16, u16) {
        self.port.map_or((7600, 7609), |port| (port, port))
    }
}

//! Parameter studies.

use clap::Args;

/// Study options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// Study how the metric depends on this parameter
    #[arg(long, value_name = "NAME")]
    pub x_axis: Option<String>,
    /// One line for each value of this parameter, or 'variant'
    #[arg(long, value_name = "NAME", requires = "x_axis")]
    pub by: Option<String>,
    /// Logarithmic x axis
    #[arg(long, requires = "x_axis")]
    pub log: bool,
}

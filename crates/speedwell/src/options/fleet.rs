//! Defines the options that select machines to measure on, or to send load from.

use anyhow::Context;
use clap::Args;
use speedwell_config::experiment::RolePlacement;
use speedwell_config::fleet::{FLEET_FILE_NAME, FleetFile, MachineSelector};
use speedwell_engine::{EventListener, HeldMachines};
use speedwell_model::MachinePlacement;
use speedwell_remote::fleet::FleetRequest;
use speedwell_remote::roles::prepare_machines;
use std::path::{Path, PathBuf};

/// Fleet options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Fleet")]
pub struct FleetArgs {
    /// Measure on machines of 'fleet.toml' with these labels
    ///
    /// Combine names and labels with '&', '|', '!' and parentheses.
    #[arg(long, value_name = "LABELS", conflicts_with_all = ["list", "test", "resume"])]
    pub machines: Option<String>,
    /// Use N of these machines [default: all available]
    #[arg(long, value_name = "N", value_parser = super::parse::count, requires = "machines")]
    pub machine_count: Option<u32>,
    /// Run every case on every machine [default: each case on one]
    ///
    /// The number of runs is then fixed.
    #[arg(long, requires = "machines")]
    pub on_each: bool,
    /// Start the workers, print the session and return
    ///
    /// 'speedwell fleet collect' waits for the results and reports them.
    #[arg(long, requires = "machines", conflicts_with_all = ["no_save", "push"])]
    pub detach: bool,
}

impl FleetArgs {
    /// Returns the selected machines, if any.
    ///
    /// # Errors
    /// Fails if there is no fleet, its file cannot be read, or the labels are invalid.
    pub fn fleet_request(&self) -> anyhow::Result<Option<FleetRequest>> {
        let selected = select_machines("--machines", self.machines.as_deref(), self.machine_count)?;
        Ok(selected.map(|request| FleetRequest {
            on_each_machine: self.on_each,
            detach: self.detach,
            ..request
        }))
    }
}

/// Options that select the machines to send load from.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Fleet")]
pub struct FleetGeneratorArgs {
    /// Send the load from machines of 'fleet.toml' with these labels
    ///
    /// Combine names and labels with '&', '|', '!' and parentheses.
    #[arg(long, value_name = "LABELS")]
    pub generators: Option<String>,
    /// Use N of these machines [default: all available]
    #[arg(long, value_name = "N", value_parser = super::parse::count, requires = "generators")]
    pub generator_count: Option<u32>,
}

impl FleetGeneratorArgs {
    /// Returns the selected machines, if any.
    ///
    /// # Errors
    /// Fails if there is no fleet, its file cannot be read, or the labels are invalid.
    pub fn fleet_request(&self) -> anyhow::Result<Option<FleetRequest>> {
        select_machines("--generators", self.generators.as_deref(), self.generator_count)
    }
}

/// Returns the machines of the fleet with the labels that an option names, if it is given.
fn select_machines(
    option: &str,
    labels: Option<&str>,
    count: Option<u32>,
) -> anyhow::Result<Option<FleetRequest>> {
    let Some(labels) = labels else { return Ok(None) };
    let selector: MachineSelector =
        labels.parse().with_context(|| format!("in {option} '{labels}'"))?;
    fleet_request(Some(selector), count).map(Some)
}

/// Requests this number of machines of the fleet with these labels. A resumed session, for which
/// there are no labels, uses its own machines.
///
/// # Errors
/// Fails if there is no fleet, or its file cannot be read.
pub fn fleet_request(
    labels: Option<MachineSelector>,
    machines: Option<u32>,
) -> anyhow::Result<FleetRequest> {
    let file = find_fleet_file()?;
    Ok(FleetRequest { file, labels, machines, on_each_machine: false, detach: false })
}

/// Acquires machines for the roles of an experiment (target, services and load); see
/// [`PlaceRoles`](speedwell_engine::PlaceRoles).
pub fn place_roles(
    roles: &RolePlacement,
    root: &Path,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<(MachinePlacement, HeldMachines)> {
    let (placement, lease) = prepare_machines(roles, root, &find_fleet_file()?, listener)?;
    Ok((placement, Box::new(lease)))
}

/// Reads the project's fleet file or, if there is none, the user's fleet file.
///
/// # Errors
/// Fails if there is no fleet file, or the file is invalid.
pub fn find_fleet_file() -> anyhow::Result<FleetFile> {
    let current_folder = std::env::current_dir().context("cannot find the current folder")?;
    let config_folder = config_folder();
    FleetFile::find(&current_folder, config_folder.as_deref())?.with_context(|| {
        let user_file = config_folder.unwrap_or_else(|| "~/.config/speedwell".into()).join(FLEET_FILE_NAME);
        format!(
            "found no '{FLEET_FILE_NAME}', which names the machines, in this project or your configuration\nhint: write {FLEET_FILE_NAME} here, or {}:\n  \
             engine = \"ssh\"\n  [[machine]]\n  name = \"lab-1\"",
            user_file.display()
        )
    })
}

/// Returns the user's configuration folder. Ignores relative paths, as the XDG base directory
/// specification requires.
fn config_folder() -> Option<PathBuf> {
    let absolute_path =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute_path("XDG_CONFIG_HOME")
        .or_else(|| absolute_path("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("speedwell"))
}

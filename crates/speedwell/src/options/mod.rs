//! Declares each group of options once. Commands flatten the groups into their own options, so that
//! an option means the same everywhere.

mod comparison;
mod eval;
mod fleet;
mod load;
#[cfg(test)]
mod load_args_tests;
mod output;
pub mod parse;
mod run;
mod store;

#[cfg(feature = "serve")]
pub use comparison::default_threshold;
pub use comparison::{ComparisonArgs, MetricArgs, SeriesArgs};
pub use eval::{
    CommandArgs, EvalArgs, ParameterArgs, SnippetArgs, join_lines, language, language_alias,
    read_snippets,
};
pub use fleet::{FleetArgs, FleetGeneratorArgs, find_fleet_file as fleet_file, fleet_request};
pub use load::{
    Concurrency, LoadArgs, LoadMode, LoadRequest, RateChoice, SearchArgs, load_mode, plan_turns,
};
pub use output::{OutputArgs, check_outputs, is_for_people};
pub use run::{
    LayoutArgs, MeasureTask, ResultArgs, RevisionMeasuringArgs, RevisionProgramArgs, RunArgs,
    SelectionArgs, StudyArgs, VariantArgs, plan_request,
};
pub use speedwell_analysis::gate::FailOn;
pub use store::{DashboardArgs, MachineArgs, OriginArgs, PushTarget, StoreArgs, read_token_file};
#[cfg(feature = "serve")]
pub use store::{DatabaseArgs, LogFormat, mark_known};

use clap::{Arg, Command};

/// Hides the argument if it is one of `ids`. A command that shares groups of options with others
/// hides those that mean nothing there.
pub fn hide_unused(arg: Arg, ids: &str) -> Arg {
    let is_unused = ids.split(' ').any(|id| arg.get_id().as_str() == id);
    if is_unused { arg.hide(true) } else { arg }
}

/// Whether the option has this long name or alias.
pub fn has_name(option: &Arg, name: &str) -> bool {
    option.get_long() == Some(name) || option.get_all_aliases().unwrap_or_default().contains(&name)
}

/// Returns the long names of the options that are not hidden.
pub fn visible_options(command: &Command) -> Vec<String> {
    let visible = command.get_arguments().filter(|option| !option.is_hide_set());
    visible.filter_map(|option| option.get_long().map(str::to_owned)).collect()
}

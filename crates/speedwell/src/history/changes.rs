//! `speedwell history changes`: what changed, since when, and how sure that is; and the gate over time.

use crate::Status;
use crate::options::{FailOn, OutputArgs, SeriesArgs, StoreArgs};
use anyhow::ensure;
use clap::Args;
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_measure::history::{history, position};
use speedwell_model::{Change, ChangeState};
use speedwell_report::{self as report, Subject};

/// List what changed along a line of revisions, since when, and how sure that is
#[derive(Debug, Args)]
pub struct ChangesArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Only changes after this revision or session: v1.4, @rev:v1.4, @base
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// Only changes that nobody has judged and nothing has refuted
    #[arg(long)]
    open: bool,
    /// Exit with status 1 if an open change is worse, or is suspected to be; with 2 if no series could be searched
    #[arg(long, value_name = "WHEN", default_value = "never")]
    fail_on: FailOn,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Lists.
///
/// # Errors
/// The store cannot be read, there is no such branch or revision, or nothing could be searched for a gate.
pub fn run(args: ChangesArgs) -> anyhow::Result<Status> {
    args.output.check(Subject::Changes)?;
    let mut store = args.store.open_to_derive()?;
    let history = history(&mut store, &args.series.request()?)?;
    let since = match &args.since {
        Some(word) => Some(position(&store, &history.line, word)?),
        None => None,
    };
    let is_shown = |series: &SeriesTrend, change: &Change| {
        let is_new = since.is_none_or(|since| {
            series
                .trend
                .position(&change.after)
                .is_none_or(|at| at > since)
        });
        is_new && (!args.open || change.is_open())
    };
    let document = report::changes(&history, &is_shown, &args.output.settings());
    args.output.print(&document)?;
    judge(&history, &is_shown, args.fail_on)
}

/// The gate over time.
fn judge(
    history: &History,
    is_shown: &dyn Fn(&SeriesTrend, &Change) -> bool,
    fail_on: FailOn,
) -> anyhow::Result<Status> {
    if fail_on == FailOn::Never {
        return Ok(Status::DONE);
    }
    ensure!(
        history
            .series
            .iter()
            .any(|series| series.trend.is_searched()),
        "nothing could be compared: no series has points enough\nhint: speedwell compare --old rev:@base --new rev:HEAD \
         compares two revisions at once"
    );
    let is_refused = |series: &SeriesTrend, change: &Change| {
        let is_counted = change.state != ChangeState::Suspected || fail_on == FailOn::Unclear;
        let verdict = series.verdict(change, history.threshold);
        is_shown(series, change) && change.is_open() && is_counted && fail_on.refuses(verdict)
    };
    let mut all = history.series.iter();
    let refused = all.any(|series| {
        series
            .trend
            .changes
            .iter()
            .any(|change| is_refused(series, change))
    });
    Ok(if refused { Status::NO } else { Status::DONE })
}

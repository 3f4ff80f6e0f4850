//! `speedwell serve`: the dashboard over the store, until Ctrl-C.
//!
//! Decides where it is served and how its pages find what commands find. Pages are in `web`, safety is in `serve`.

use super::Status;
use super::options::DashboardArgs;
use clap::Args;

/// Show the sessions of the store, their comparisons and their history in a browser
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell serve
  speedwell serve --open
  speedwell serve --port 8000 --db results.db")]
pub struct ServeArgs {
    #[command(flatten)]
    dashboard: DashboardArgs,
}

/// Serves until it is interrupted, which is how it is meant to end.
///
/// # Errors
/// The store cannot be read, or no port is free.
#[cfg(feature = "serve")]
pub fn run(args: &ServeArgs) -> anyhow::Result<Status> {
    served::run(&args.dashboard)
}

/// Says that this program has no dashboard.
///
/// # Errors
/// Always.
#[cfg(not(feature = "serve"))]
pub fn run(args: &ServeArgs) -> anyhow::Result<Status> {
    let _ = (&args.dashboard, super::status::note);
    anyhow::bail!(
        "this speedwell was built without the dashboard\nhint: cargo install speedwell --features serve"
    )
}

#[cfg(feature = "serve")]
mod served {
    use crate::options::{ComparisonArgs, DashboardArgs, usual_threshold};
    use crate::{Status, operand, source, status};
    use anyhow::{Context, anyhow, ensure};
    use clap::{Args, FromArgMatches};
    use regex::Regex;
    use speedwell_analysis::Settings;
    use speedwell_analysis::history::History;
    use speedwell_harness::plan::Plan;
    use speedwell_measure::history::{HistoryRequest, history};
    use speedwell_measure::reference;
    use speedwell_process as process;
    use speedwell_report::html::Assets as AssetAddresses;
    use speedwell_results::store::Store;
    use speedwell_serve::assets::Assets;
    use speedwell_serve::{Address, Listen, Options, Server, Stopper};
    use speedwell_web::{Course, Lookups, Planned, Site, Source, assets, router};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::time::Duration;

    /// How soon an interruption is noticed.
    const NOTICED: Duration = Duration::from_millis(100);

    /// How pages find what commands find.
    const LOOKUPS: Lookups = Lookups {
        session: |store, word| Ok(reference::find(store, word)?.number),
        sources,
        settings,
        planned,
        history: course,
    };

    pub fn run(args: &DashboardArgs) -> anyhow::Result<Status> {
        let path = args.path()?;
        ensure!(
            !path.to_string_lossy().starts_with("postgres"),
            "the dashboard reads a file, not a server of PostgreSQL\nhint: 'speedwell report' and 'speedwell history' read one"
        );
        if path.is_file() {
            // What is wrong with it is said now, not on every page; an old one is brought up to date.
            Store::open_to_read(&path)?;
        }
        let stopper = Stopper::new();
        let files = Assets::new(
            "/static/",
            assets().map(|(name, text)| (name, text.as_bytes())),
        );
        let site = Site::new(&path, LOOKUPS, addresses(&files)?, &stopper)?;
        let router = router(Arc::new(site)).merge(files.router());
        let (first, last) = args.ports();
        let options = Options {
            listen: vec![Listen::Loopback { first, last }],
            stopper: stopper.clone(),
            ..Options::default()
        };
        let server = Server::bind(options, router)
            .map_err(|error| anyhow!("{error}\nhint: choose another port with --port PORT"))?;
        let url = server
            .addresses()
            .iter()
            .find_map(|address| match address {
                Address::Tcp(address) => Some(format!("http://{address}/")),
                Address::Unix(_) => None,
            })
            .context("the server has no address")?;
        status::note(&format!(
            "the dashboard of '{}' is at {url} until Ctrl-C",
            path.display()
        ));
        if args.open {
            open(&url);
        }
        process::on_interrupt()?;
        std::thread::spawn(move || {
            while !process::interrupted() {
                std::thread::sleep(NOTICED);
            }
            stopper.stop();
        });
        server.run()?;
        Ok(Status::DONE)
    }

    fn addresses(files: &Assets) -> anyhow::Result<AssetAddresses> {
        let [style, early_script, script] = assets().map(|(name, _)| files.path(name));
        let known = |path: Option<&str>| {
            let path = path.context("a file of the pages has no address")?;
            anyhow::Ok(path.to_owned())
        };
        Ok(AssetAddresses {
            style: known(style)?,
            early_script: known(early_script)?,
            script: known(script)?,
        })
    }

    /// Opens an address in the browser of the user, whichever that is.
    fn open(url: &str) {
        let begun = Command::new("xdg-open")
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if begun.is_err() {
            status::warn(&format!(
                "No browser could be opened, because there is no xdg-open; the address is {url}."
            ));
        }
    }

    fn sources(store: &Store, words: &[String]) -> anyhow::Result<Vec<Source>> {
        let operands = operand::parse_stored(words)?;
        let sources = source::read_stored(&operands, store)?;
        let named = sources.into_iter().map(|(source, taken_for)| Source {
            label: source.label,
            session: source.session,
            variant: source.variant,
            taken_for,
        });
        Ok(named.collect())
    }

    /// The settings that options of these names make, read as on the command line.
    fn settings(options: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let words = options
            .iter()
            .map(|(name, value)| format!("--{name}={value}"));
        let grammar = clap::Command::new("compare").no_binary_name(true);
        let read = ComparisonArgs::augment_args(grammar).try_get_matches_from(words);
        let read = read.and_then(|matches| ComparisonArgs::from_arg_matches(&matches));
        let args = read.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow!("{}", first.trim_start_matches("error: "))
        })?;
        Ok(args.settings(&[], None))
    }

    fn course(path: &Path, course: &Course) -> anyhow::Result<History> {
        let mut store = Store::open_to_derive(path)?;
        let exactly = |case: &String| Regex::new(&format!("^{}$", regex::escape(case)));
        let request = HistoryRequest {
            branch: course.branch.clone(),
            filters: course.case.iter().map(exactly).collect::<Result<_, _>>()?,
            metrics: course.metrics.clone(),
            threshold: usual_threshold()?,
            whole_course: course.is_whole,
            ..HistoryRequest::default()
        };
        history(&mut store, &request)
    }

    fn planned(store: &Store, number: i64) -> anyhow::Result<Planned> {
        let Some(text) = store.plan(number)? else {
            return Ok(Planned::default());
        };
        // A plan of another version is not known; what was measured of it is.
        let Ok(plan) = serde_json::from_str::<Plan>(&text) else {
            return Ok(Planned::default());
        };
        Ok(Planned {
            slots: if plan.is_search {
                0
            } else {
                plan.slots().len()
            },
            timeout_ms: plan.sampling.timeout_ms,
        })
    }
}

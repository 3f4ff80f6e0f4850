//! Posts comments on pull requests. Each pull request has one comment and a commit status, and this
//! module updates both after a session of the pull request is pushed.
//!
//! `speedwell serve forge` (`settings.rs`) sets the repository whose pull requests get comments.
//! Only the server's command line can change this setting, not a page or a session. Pending updates
//! are in the store, so a restarted server continues with them. Updates are retried while the forge
//! is unreachable. `comment.rs` decides on the text. Posting starts at [`spawn_commenter`].

use crate::comment::{self, PullAnswer};
use crate::serve::lookups::{LOOKUPS, compare_sources, parse_comparison};
use crate::status;
use anyhow::{Context, Result, anyhow, bail, ensure};
use speedwell_analysis as analysis;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::{CodeOrigin, Session, short_revision};
use speedwell_server::clients::SecretToken;
use speedwell_server::clients::forge::{
    CommentOutcome, CommitState, CommitStatus, Error, ForgeClient, ParsePullRequestError,
    PullRequestRef, PullUpdate, ResultStamp,
};
use speedwell_server::dashboard::{ComparisonSource, SiteState};
use speedwell_server::http::ServerStopper;
use speedwell_store::{CommentJob, CommentState, ForgeSetting, SessionFilter, Store};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the comparison options as pairs of name and value.
pub fn options_of(setting: &ForgeSetting) -> Vec<(&str, &str)> {
    setting.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Parses a pull request of a repository.
///
/// # Errors
/// Fails if the repository is not valid, or its server would receive the token unencrypted.
pub fn parse_pull_request(repository: &str, pull: &str) -> Result<PullRequestRef> {
    format!("{repository}#{pull}").parse::<PullRequestRef>().map_err(|error| match error {
        ParsePullRequestError::InvalidForm(_) => anyhow!(
            "cannot parse repository '{repository}'\n\
            hint: write it as github:OWNER/NAME, gitlab:GROUP/NAME or gitea:https://HOST/OWNER/NAME"
        ),
        ParsePullRequestError::Unencrypted(_) => error.into(),
    })
}

/// Reads the token from a file that is readable only by its owner.
///
/// # Errors
/// Fails if the file cannot be read, is empty, or is readable by others.
pub fn read_token(file: &Path) -> Result<SecretToken> {
    let displayed_file = file.display();
    let metadata = fs::metadata(file)
        .with_context(|| format!("cannot read the token in '{displayed_file}'"))?;
    ensure!(
        metadata.permissions().mode() & 0o077 == 0,
        "the token in '{displayed_file}' can be read by others\nhint: chmod 600 '{displayed_file}'"
    );
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the token in '{displayed_file}'"))?;
    ensure!(!text.trim().is_empty(), "'{displayed_file}' contains no token");
    Ok(SecretToken::new(text))
}

/// How often to check whether sessions were pushed to this server.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often to look for sessions received by other servers, and for updates to retry.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Delay after the first failed attempt; doubled each time.
const MIN_RETRY_DELAY_MS: i64 = 60_000;
const MAX_RETRY_DELAY_MS: i64 = 3_600_000;
/// Maximum number of sessions that are read for one pull request or for one base revision.
const MAX_SESSIONS: usize = 200;

/// Starts a thread that posts pending updates until the server stops. Links to the server begin
/// with `public_url`; without it, comments have no such links.
pub fn spawn_commenter(site: Arc<SiteState>, stopper: ServerStopper, public_url: Option<String>) {
    std::thread::spawn(move || {
        let mut last_count = 0;
        let mut last_checked_at: Option<Instant> = None;
        while !stopper.is_stopped() {
            let count = site.upload_count();
            if count != last_count
                || last_checked_at.is_none_or(|checked_at| checked_at.elapsed() >= CHECK_INTERVAL)
            {
                last_count = count;
                post_all(&site, public_url.as_deref());
                last_checked_at = Some(Instant::now());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    });
}

/// Posts the pending updates of all projects. Does not report a store that cannot be read, because
/// the project's pages show the failure.
fn post_all(site: &SiteState, public_url: Option<&str>) {
    for (project, _) in site.list_projects().unwrap_or_default() {
        let setting = project.exists().then(|| {
            project.with_reader(|store| {
                let is_due = store.has_due_comments(unix_time_ms())?;
                Ok(store.forge_setting()?.filter(|_| is_due))
            })
        });
        let Some(Ok(Some(setting))) = setting else { continue };
        let link = public_url.map(|url| format!("{}/{}", url.trim_end_matches('/'), project.name));
        let poster = CommentPoster { site, project: &project.name, setting: &setting, link };
        if let Err(error) = poster.post_pending(&project.path) {
            status::print_warning(&format!(
                "Cannot comment for project '{}': {error:#}.",
                project.name
            ));
        }
    }
}

struct CommentPoster<'a> {
    site: &'a SiteState,
    project: &'a str,
    setting: &'a ForgeSetting,
    link: Option<String>,
}

impl CommentPoster<'_> {
    fn post_pending(&self, path: &Path) -> Result<()> {
        let mut store = Store::open(path)?;
        while let Some(job) = store.claim_comment(unix_time_ms())? {
            let result_of_post = self.post_update(&mut store, &job);
            let failure = result_of_post.as_ref().err().map(|error| format!("{error:#}"));
            let result = failure.unwrap_or_else(|| "done".to_owned());
            let pull = format!("{}#{}", self.setting.repository, job.pull);
            self.site.record_server_action(self.project, "comment", &pull, &result);
            if result_of_post.is_err() {
                status::print_warning(&format!("Cannot comment on {pull}: {result}."));
            }
            store.finish_comment(&job_after_attempt(job, result_of_post.err()))?;
        }
        Ok(())
    }

    fn post_update(&self, store: &mut Store, job: &CommentJob) -> Result<()> {
        let pull_request = parse_pull_request(&self.setting.repository, &job.pull)?;
        let token = read_token(Path::new(&self.setting.token_file))?;
        let client = ForgeClient::new(pull_request.clone(), token);
        let answer = job.session.map(|number| self.build_answer(store, job, number)).transpose()?;
        let marker = format!("speedwell:{}:{}", self.project, self.setting.check);
        let update = PullUpdate {
            comment: answer.as_ref().map(|answer| answer.comment_text(marker)),
            status: Some(self.commit_status(job, answer.as_ref())),
        };
        let parents = revision_parents(store, &job.pull)?;
        let outcome =
            client.post_update(&update, &|first, second| order_revisions(&parents, first, second));
        if let (Some(answer), Some(Ok(CommentOutcome::Created(_) | CommentOutcome::Edited(_)))) =
            (&answer, &outcome.comment)
        {
            store.store_comment(&answer.posted_comment(&pull_request))?;
        }
        let failure = outcome.into_failures().into_iter().next();
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn page_url(&self, job: &CommentJob) -> Option<String> {
        let link = self.link.as_ref()?;
        Some(format!("{link}/pulls/{}", job.pull))
    }

    fn commit_status(&self, job: &CommentJob, answer: Option<&PullAnswer>) -> CommitStatus {
        let pending = (CommitState::Pending, "measured; the results are arriving");
        let (state, description) =
            answer.map_or(pending, |answer| (answer.state, answer.description.as_str()));
        CommitStatus {
            revision: job.revision.clone(),
            context: format!("speedwell/{}", self.setting.check),
            state,
            description: description.to_owned(),
            at_unix_ms: answer.map(|answer| answer.stamp.at_unix_ms),
            link: self.page_url(job),
        }
    }

    /// Builds the text: the comparison of a session with its base, or why there is none.
    fn build_answer(&self, store: &mut Store, job: &CommentJob, number: i64) -> Result<PullAnswer> {
        let started_unix_ms = store.load_session_without_runs(number)?.started_unix_ms;
        let compared = parse_comparison(&options_of(self.setting)).and_then(|comparison| {
            let sources = comparison_sources(store, number)?;
            compare_sources(store, &sources, &comparison)
        });
        let mut answer = compared.unwrap_or_else(comment::not_compared);
        // The update gets a stamp even if nothing could be compared, because stamps decide which
        // update is newer. The update for the later revision is newer. If the order of the
        // revisions is unknown, the update for the later session is newer.
        answer.stamp = ResultStamp {
            revision: job.revision.clone(),
            at_unix_ms: comment::measured_at(started_unix_ms),
        };
        if let Some(page) = self.page_url(job) {
            answer.body.push_str(&comment::small_link("all figures", &page));
        }
        Ok(answer)
    }
}

/// Returns the sources to compare. If the session has several variants, its variants are compared.
/// Otherwise, the session is compared with the newest session of the base revision on the same
/// machine.
fn comparison_sources(store: &mut Store, number: i64) -> Result<Vec<ComparisonSource>> {
    let session = store.load_session_without_runs(number)?;
    if session.variants.len() > 1 {
        return (LOOKUPS.sources)(store, &[format!("@{number}")]);
    }
    let base = base_session(store, &session)?;
    let base_origin = store.find_overview(base)?.and_then(|session| session.origin);
    let [old, new] = [base_origin.as_ref(), session.origin.as_ref()]
        .map(|origin| origin.map_or("?", CodeOrigin::short));
    let mut sources = (LOOKUPS.sources)(store, &[format!("@{base}"), format!("@{number}")])?;
    if let [first, second] = &mut sources[..]
        && old != new
    {
        first.label = old.to_owned();
        second.label = new.to_owned();
    }
    Ok(sources)
}

/// Returns the number of a session that measured the base revision on the same machine.
fn base_session(store: &mut Store, session: &Session) -> Result<i64> {
    let base = session.origin.as_ref().and_then(|origin| origin.base.clone());
    let Some(base) = base else {
        bail!("the session does not record its base revision");
    };
    let number = session.number.context("the session has no number")?;
    if store.session_machine(number)?.is_none() {
        // The server that received the session has not computed its history points yet.
        store.store_points(number, &analysis::session_points(session))?;
    }
    let filter = SessionFilter {
        machine: Some(store.session_machine(number)?.context("nothing was measured")?),
        revision: Some(base.clone()),
        ..SessionFilter::default()
    };
    let sessions = store.select_sessions(&filter, MAX_SESSIONS)?;
    // Prefer sessions that belong to no pull request, because the sessions of a pull request may
    // have been measured with other options.
    let candidates = sessions.iter().filter(|session| session.runs > 0 && session.number != number);
    let newest = candidates
        .clone()
        .find(|session| (session.origin.as_ref()).is_some_and(|origin| origin.pull.is_none()))
        .or_else(|| candidates.clone().next())
        .with_context(|| {
            format!("base {} was not measured on the same machine", short_revision(&base))
        })?;
    Ok(newest.number)
}

fn revision_parents(store: &Store, pull: &str) -> Result<HashMap<String, Vec<String>>> {
    let filter = SessionFilter { pull: Some(pull.to_owned()), ..SessionFilter::default() };
    let sessions = store.select_sessions(&filter, MAX_SESSIONS)?;
    let origins = sessions.into_iter().filter_map(|session| session.origin);
    Ok(origins.map(|origin| (origin.revision, origin.parents)).collect())
}

/// Orders two revisions, if sessions show that one is an ancestor of the other.
fn order_revisions(
    parents: &HashMap<String, Vec<String>>,
    first: &str,
    second: &str,
) -> Option<Ordering> {
    let leads_to = |start: &str, target: &str| {
        let mut pending = vec![start];
        let mut visited: HashSet<&str> = HashSet::new();
        while let Some(revision) = pending.pop() {
            if revision == target {
                return true;
            }
            if visited.insert(revision) {
                let parents_of_revision = parents.get(revision).into_iter().flatten();
                pending.extend(parents_of_revision.map(String::as_str));
            }
        }
        false
    };
    match (leads_to(first, second), leads_to(second, first)) {
        (true, true) => Some(Ordering::Equal),
        (true, false) => Some(Ordering::Greater),
        (false, true) => Some(Ordering::Less),
        (false, false) => None,
    }
}

/// Returns the job with the outcome of an attempt. If the forge was unreachable, the job is due
/// again after a delay. The delay doubles with each attempt. After any other failure, only a new
/// session or `serve forge set` causes a retry.
fn job_after_attempt(job: CommentJob, failure: Option<anyhow::Error>) -> CommentJob {
    let Some(failure) = failure else {
        return CommentJob { state: CommentState::Posted, reason: None, ..job };
    };
    let is_temporary = matches!(failure.downcast_ref::<Error>(), Some(Error::Unreachable { .. }));
    let delay_ms = MIN_RETRY_DELAY_MS.saturating_mul(1 << job.attempts.min(10));
    CommentJob {
        state: if is_temporary { CommentState::Waiting } else { CommentState::Refused },
        attempts: job.attempts + 1,
        next_unix_ms: unix_time_ms() + delay_ms.min(MAX_RETRY_DELAY_MS),
        reason: Some(format!("{failure:#}").replace("\nhint: ", "; ")),
        ..job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_by_their_recorded_parents() {
        let parents: HashMap<String, Vec<String>> = [("c", "b"), ("b", "a")]
            .map(|(revision, parent)| (revision.to_owned(), vec![parent.to_owned()]))
            .into();
        assert_eq!(order_revisions(&parents, "c", "a"), Some(Ordering::Greater));
        assert_eq!(order_revisions(&parents, "b", "c"), Some(Ordering::Less));
        assert_eq!(order_revisions(&parents, "b", "b"), Some(Ordering::Equal));
        assert_eq!(order_revisions(&parents, "x", "a"), None, "another line of work");
    }

    #[test]
    fn an_unreachable_forge_is_retried_and_a_refusal_is_final() {
        let job = CommentJob {
            pull: "12".into(),
            revision: "a".into(),
            session: Some(1),
            attempts: 0,
            next_unix_ms: 0,
            state: CommentState::Waiting,
            reason: None,
        };
        let unreachable = Error::Unreachable {
            pull_request: "o/n#12".into(),
            action: "write a comment",
            reason: "status 502".into(),
        };
        let retried = job_after_attempt(job.clone(), Some(unreachable.into()));
        assert_eq!((retried.state, retried.attempts), (CommentState::Waiting, 1));
        assert!(retried.next_unix_ms > unix_time_ms());
        let refused = job_after_attempt(job.clone(), Some(anyhow::anyhow!("no token")));
        assert_eq!(refused.state, CommentState::Refused);
        assert_eq!(job_after_attempt(job, None).state, CommentState::Posted);
    }
}

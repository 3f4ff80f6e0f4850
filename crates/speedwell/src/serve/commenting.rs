//! Comments on pull requests: one comment and one commit status each, after a session of it was
//! pushed.
//!
//! Pending updates are in the store, so a server that is killed continues where it was, and updates
//! are retried while the forge is unreachable. `pull_answer.rs` decides on the text. Start at
//! [`keep_saying`].

use super::forge::{options_of, place, token};
use super::lookups::{LOOKUPS, compared, comparison};
use crate::pull_answer::{self, Answer};
use crate::status;
use anyhow::{Context, bail};
use speedwell_analysis as analysis;
use speedwell_forge::{Client, Error, Posted, PullUpdate, Stamp, State, Status, Text};
use speedwell_model::{Origin, Session, short_revision};
use speedwell_process::unix_ms;
use speedwell_results::store::{
    CommentJob, ForgeSetting, PostedComment, Said, SessionFilter, Store,
};
use speedwell_serve::Stopper;
use speedwell_web::{Site, Source};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How soon a pushed session is noticed.
const NOTICED: Duration = Duration::from_millis(100);
/// How often to look for sessions received by other servers, and for updates to retry.
const LOOKED: Duration = Duration::from_secs(5);
/// Delay after the first failed attempt; doubled each time.
const FIRST_WAIT_MS: i64 = 60_000;
const LONGEST_WAIT_MS: i64 = 3_600_000;
/// Sessions of a pull request from which the order of its revisions is derived.
const SESSIONS: usize = 200;

/// Posts pending updates until the server stops. Links use the public URL.
pub fn keep_saying(site: Arc<Site>, stopper: Stopper, public_url: Option<String>) {
    std::thread::spawn(move || {
        let mut seen = 0;
        let mut looked: Option<Instant> = None;
        while !stopper.is_stopped() {
            let arrived = site.arrived();
            if arrived != seen || looked.is_none_or(|last| last.elapsed() >= LOOKED) {
                seen = arrived;
                say_all(&site, public_url.as_deref());
                looked = Some(Instant::now());
            }
            std::thread::sleep(NOTICED);
        }
    });
}

/// Posts the pending updates of all projects. Store failures are retried, and their pages report
/// them.
fn say_all(site: &Site, public_url: Option<&str>) {
    for (project, _) in site.projects().unwrap_or_default() {
        let setting = project.exists().then(|| {
            project.read(|store| {
                let is_owed = store.owes_comments(unix_ms())?;
                Ok(store.forge()?.filter(|_| is_owed))
            })
        });
        let Some(Ok(Some(setting))) = setting else {
            continue;
        };
        let link = public_url.map(|url| format!("{}/{}", url.trim_end_matches('/'), project.name));
        let teller = Teller {
            site,
            project: &project.name,
            setting: &setting,
            link,
        };
        if let Err(why) = teller.say_what_is_owed(project.path()) {
            status::warn(&format!("Comments of '{}': {why:#}.", project.name));
        }
    }
}

/// Posts the updates of one project.
struct Teller<'a> {
    site: &'a Site,
    project: &'a str,
    setting: &'a ForgeSetting,
    link: Option<String>,
}

impl Teller<'_> {
    fn say_what_is_owed(&self, path: &Path) -> anyhow::Result<()> {
        let mut store = Store::open(path)?;
        while let Some(job) = store.claim_comment(unix_ms())? {
            let done = self.say(&mut store, &job);
            let result = match &done {
                Ok(()) => "done".to_owned(),
                Err(why) => format!("{why:#}"),
            };
            let pull = format!("{}#{}", self.setting.repository, job.pull);
            self.site.note_own(self.project, "comment", &pull, &result);
            if done.is_err() {
                status::warn(&format!("No comment on {pull}: {result}."));
            }
            store.settle_comment(&settled(job, done.err()))?;
        }
        Ok(())
    }

    /// Posts one update.
    fn say(&self, store: &mut Store, job: &CommentJob) -> anyhow::Result<()> {
        let place = place(&self.setting.repository, &job.pull)?;
        let token = token(Path::new(&self.setting.token_file))?;
        let client = Client::new(place.clone(), token);
        let answer = match job.session {
            Some(number) => Some(self.answer(store, job, number)?),
            None => None,
        };
        let comment = answer.as_ref().map(|answer| Text {
            marker: format!("speedwell:{}:{}", self.project, self.setting.check),
            stamp: answer.stamp.clone(),
            body: answer.body.clone(),
        });
        let update = PullUpdate {
            comment,
            status: Some(self.status(job, answer.as_ref())),
        };
        let known = parents(store, &job.pull)?;
        let outcome = client.post(&update, &|one, other| order(&known, one, other));
        let posted = &outcome.comment;
        let is_new = matches!(posted, Some(Ok(Posted::Created(_) | Posted::Edited(_))));
        if let Some(answer) = answer.filter(|_| is_new) {
            store.keep_comment(&PostedComment {
                forge: place.forge.to_string(),
                repository: place.repository.clone(),
                pull: job.pull.clone(),
                revision: job.revision.clone(),
                posted_unix_ms: unix_ms(),
                text: answer.body,
            })?;
        }
        match outcome.into_failures().into_iter().next() {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn page(&self, job: &CommentJob) -> Option<String> {
        let link = self.link.as_ref()?;
        Some(format!("{link}/pulls/{}", job.pull))
    }

    fn status(&self, job: &CommentJob, answer: Option<&Answer>) -> Status {
        let arriving = "measured; the results are arriving";
        Status {
            revision: job.revision.clone(),
            context: format!("speedwell/{}", self.setting.check),
            state: answer.map_or(State::Pending, |answer| answer.state),
            description: answer
                .map_or(arriving, |answer| &answer.description)
                .to_owned(),
            at_unix_ms: answer.map(|answer| answer.stamp.at_unix_ms),
            link: self.page(job),
        }
    }

    /// Builds the text: the comparison of a session with its base, or why there is none.
    fn answer(&self, store: &mut Store, job: &CommentJob, number: i64) -> anyhow::Result<Answer> {
        let started_unix_ms = store.session_without_runs(number)?.started_unix_ms;
        let options = options_of(self.setting);
        let compared = comparison(&options).and_then(|comparison| {
            let found = sources(store, number)?;
            compared(store, &found, &comparison)
        });
        let mut answer = compared.unwrap_or_else(pull_answer::not_compared);
        // Set even if nothing could be compared: the newer update is the one measured later.
        answer.stamp = Stamp {
            revision: job.revision.clone(),
            at_unix_ms: pull_answer::measured_at(started_unix_ms),
        };
        if let Some(page) = self.page(job) {
            let line = pull_answer::leads_to("all figures", &page);
            answer.body.push_str(&line);
        }
        Ok(answer)
    }
}

/// Returns the sources to compare: the variants of the session, or the newest session of its base
/// on the same machine and this one.
fn sources(store: &mut Store, number: i64) -> anyhow::Result<Vec<Source>> {
    let session = store.session_without_runs(number)?;
    if session.variants.len() > 1 {
        return (LOOKUPS.sources)(store, &[format!("@{number}")]);
    }
    let base = base(store, &session)?;
    let other = store.overview(base)?.and_then(|session| session.origin);
    let [old, new] =
        [other.as_ref(), session.origin.as_ref()].map(|origin| origin.map_or("?", Origin::short));
    let mut found = (LOOKUPS.sources)(store, &[format!("@{base}"), format!("@{number}")])?;
    if let [first, second] = &mut found[..]
        && old != new
    {
        first.label = old.to_owned();
        second.label = new.to_owned();
    }
    Ok(found)
}

/// Returns the newest session of the base revision from the same machine.
fn base(store: &mut Store, session: &Session) -> anyhow::Result<i64> {
    let base = session
        .origin
        .as_ref()
        .and_then(|origin| origin.base.clone());
    let Some(base) = base else {
        bail!("the session does not say which revision it is based on");
    };
    let number = session.number.context("the session has no number")?;
    if store.machine_of(number)?.is_none() {
        // The server that received the session has not computed its points yet.
        store.keep_points(number, &analysis::points(session))?;
    }
    let filter = SessionFilter {
        machine: Some(store.machine_of(number)?.context("nothing was measured")?),
        revision: Some(base.clone()),
        ..SessionFilter::default()
    };
    let measured = store.selected(&filter, SESSIONS)?;
    // A session that belongs to a pull request itself may have been measured with other options.
    let whole = measured
        .iter()
        .filter(|one| one.runs > 0 && one.number != number);
    let found = whole
        .clone()
        .find(|one| (one.origin.as_ref()).is_some_and(|origin| origin.pull.is_none()));
    let found = found.or_else(|| whole.clone().next());
    let found = found.with_context(|| {
        format!(
            "base {} was not measured on this machine",
            short_revision(&base)
        )
    })?;
    Ok(found.number)
}

/// Returns the parents of each revision of a pull request.
fn parents(store: &Store, pull: &str) -> anyhow::Result<HashMap<String, Vec<String>>> {
    let filter = SessionFilter {
        pull: Some(pull.to_owned()),
        ..SessionFilter::default()
    };
    let sessions = store.selected(&filter, SESSIONS)?;
    let origins = sessions.into_iter().filter_map(|session| session.origin);
    Ok(origins
        .map(|origin| (origin.revision, origin.parents))
        .collect())
}

/// Orders two revisions, if sessions show that one is an ancestor of the other.
fn order(parents: &HashMap<String, Vec<String>>, one: &str, other: &str) -> Option<Ordering> {
    let leads_to = |from: &str, to: &str| {
        let mut waiting = vec![from];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(revision) = waiting.pop() {
            if revision == to {
                return true;
            }
            if !seen.contains(&revision) {
                seen.push(revision);
                let own = parents.get(revision).into_iter().flatten();
                waiting.extend(own.map(String::as_str));
            }
        }
        false
    };
    match (leads_to(one, other), leads_to(other, one)) {
        (true, true) => Some(Ordering::Equal),
        (true, false) => Some(Ordering::Greater),
        (false, true) => Some(Ordering::Less),
        (false, false) => None,
    }
}

/// Returns the job after an attempt. Retries with exponential backoff if the forge was unreachable.
/// A rejected update is only retried after a new session or `serve forge set`.
fn settled(job: CommentJob, failure: Option<anyhow::Error>) -> CommentJob {
    let Some(failure) = failure else {
        return CommentJob {
            state: Said::Said,
            reason: None,
            ..job
        };
    };
    let forge = failure.downcast_ref::<Error>();
    let is_passing = matches!(forge, Some(Error::Unreachable { .. }));
    let wait = FIRST_WAIT_MS.saturating_mul(1 << job.attempts.min(10));
    CommentJob {
        state: if is_passing {
            Said::Waiting
        } else {
            Said::Refused
        },
        attempts: job.attempts + 1,
        next_unix_ms: unix_ms() + wait.min(LONGEST_WAIT_MS),
        reason: Some(format!("{failure:#}").replace("\nhint: ", "; ")),
        ..job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_tell_which_revision_follows_which() {
        let known: HashMap<String, Vec<String>> = [("c", "b"), ("b", "a")]
            .map(|(one, parent)| (one.to_owned(), vec![parent.to_owned()]))
            .into();
        assert_eq!(order(&known, "c", "a"), Some(Ordering::Greater));
        assert_eq!(order(&known, "b", "c"), Some(Ordering::Less));
        assert_eq!(order(&known, "b", "b"), Some(Ordering::Equal));
        assert_eq!(order(&known, "x", "a"), None, "another line of work");
    }

    #[test]
    fn a_forge_that_is_away_is_asked_again_and_one_that_refuses_is_not() {
        let job = CommentJob {
            pull: "12".into(),
            revision: "a".into(),
            session: Some(1),
            attempts: 0,
            next_unix_ms: 0,
            state: Said::Waiting,
            reason: None,
        };
        let away = Error::Unreachable {
            place: "o/n#12".into(),
            what: "write a comment",
            reason: "status 502".into(),
        };
        let again = settled(job.clone(), Some(away.into()));
        assert_eq!((again.state, again.attempts), (Said::Waiting, 1));
        assert!(again.next_unix_ms > unix_ms());
        let refused = settled(job.clone(), Some(anyhow::anyhow!("no token")));
        assert_eq!(refused.state, Said::Refused);
        assert_eq!(settled(job, None).state, Said::Said);
    }
}

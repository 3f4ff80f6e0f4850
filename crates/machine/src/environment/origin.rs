//! Determines which revision and branch are measured. The user's options take precedence over the
//! variables of a CI job. These variables take precedence over the repository of the folder. Start
//! at [`find_origin`].

use crate::environment::git::GitRepository;
use anyhow::Context;
use speedwell_model::{CodeOrigin, OriginRequest, OriginSource, Revision};
use std::path::Path;
use std::time::Duration;

/// Total time limit for git. If git takes longer, the session may have no revision.
const GIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the origin of the code in `folder`; `None` if unknown.
pub fn find_origin(folder: &Path, request: &OriginRequest) -> Option<CodeOrigin> {
    resolve_origin(
        &GitRepository::for_folder(folder, GIT_TIMEOUT),
        read_ci_job(&env_variable),
        request,
    )
}

/// The point at which `HEAD` forked from the branch into which it will be merged.
pub struct BranchFork {
    /// The branch, as git names it.
    pub target: String,
    /// ID of the last common commit.
    pub id: String,
}

/// Returns the merge base of `HEAD` and `branch`. If `branch` is `None`, uses the branch into which
/// a CI job will merge its pull request, or else the default branch of the remote repository.
///
/// # Errors
/// Fails if there is no such branch or no common commit, as in a shallow clone.
pub fn find_fork(git: &GitRepository, branch: Option<&str>) -> anyhow::Result<BranchFork> {
    let word = branch.map_or_else(|| "@base".to_owned(), |branch| format!("@base:{branch}"));
    let ci_branch = read_ci_job(&env_variable).target;
    let name = branch.or(ci_branch.as_deref());
    let target = git.target_branch(name).with_context(|| match name {
        Some(name) => missing_branch_message(git, name),
        None => format!(
            "cannot resolve '{word}': the branch that the current branch will be merged into is unknown\nhint: name \
             it, for example @base:main"
        ),
    })?;
    let target = target.reference;
    let id = git.merge_base(&target, "HEAD").with_context(|| {
        format!(
            "'{word}': HEAD and '{target}' have no common commit in this clone\nhint: run 'git \
             fetch --unshallow' if the clone is shallow"
        )
    })?;
    Ok(BranchFork { target, id })
}

/// Explains that a branch is missing, and how to fetch it if there is a remote repository.
fn missing_branch_message(git: &GitRepository, name: &str) -> String {
    let hint = match git.try_git_output(&["remote", "get-url", "origin"]) {
        Some(_) => {
            let unshallow = if git.is_shallow() { "--unshallow " } else { "" };
            format!("git fetch {unshallow}origin {name}:refs/remotes/origin/{name}")
        }
        None => "'git branch' lists all branches".to_owned(),
    };
    format!("no branch '{name}' here\nhint: {hint}")
}

/// Reads an environment variable. An empty variable counts as unset, because scripts use empty
/// strings to omit variables.
pub fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Information from CI variables.
#[derive(Debug, Default, PartialEq)]
struct CiJob {
    revision: Option<String>,
    /// Whether the revision is a trial merge of a pull request. The second parent of such a merge
    /// is the user's commit.
    is_trial_merge: bool,
    branch: Option<String>,
    target: Option<String>,
    pull: Option<String>,
    url: Option<String>,
}

/// Reads the variables of GitHub Actions or GitLab.
fn read_ci_job(variable: &dyn Fn(&str) -> Option<String>) -> CiJob {
    if variable("GITHUB_ACTIONS").is_some() {
        let pull = variable("GITHUB_REF")
            .and_then(|name| Some(name.strip_prefix("refs/pull/")?.split('/').next()?.to_owned()));
        let url = || {
            let [server, repository, run] =
                ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"].map(variable);
            Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
        };
        return CiJob {
            revision: variable("GITHUB_SHA"),
            is_trial_merge: pull.is_some(),
            branch: variable("GITHUB_HEAD_REF").or_else(|| variable("GITHUB_REF_NAME")),
            target: variable("GITHUB_BASE_REF"),
            pull,
            url: url(),
        };
    }
    if variable("GITLAB_CI").is_some() {
        return CiJob {
            revision: variable("CI_COMMIT_SHA"),
            is_trial_merge: false,
            branch: variable("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")
                .or_else(|| variable("CI_COMMIT_REF_NAME")),
            target: variable("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
            pull: variable("CI_MERGE_REQUEST_IID"),
            url: variable("CI_JOB_URL"),
        };
    }
    CiJob::default()
}

fn resolve_origin(git: &GitRepository, job: CiJob, request: &OriginRequest) -> Option<CodeOrigin> {
    let (requested, source) = match (&request.revision, &job.revision) {
        (Some(revision), _) => (revision.clone(), OriginSource::Option),
        (None, Some(revision)) => (revision.clone(), OriginSource::Ci),
        (None, None) => ("HEAD".to_owned(), OriginSource::Git),
    };
    let commit = commit_origin(git, &requested).map(|origin| match origin.parents.get(1) {
        Some(second) if source == OriginSource::Ci && job.is_trial_merge => {
            commit_origin(git, second).unwrap_or(origin)
        }
        _ => origin,
    });
    if commit.is_none() && source == OriginSource::Git {
        return None;
    }
    let is_head = |origin: &CodeOrigin| {
        git.try_git_output(&["rev-parse", "HEAD"]).as_ref() == Some(&origin.revision)
    };
    let is_measured_here = source == OriginSource::Git || commit.as_ref().is_some_and(is_head);
    let branch = request.branch.clone().or(job.branch).or_else(|| {
        let current = || git.try_git_output(&["symbolic-ref", "--short", "-q", "HEAD"]);
        is_measured_here.then(current).flatten()
    });
    let origin = commit.unwrap_or(CodeOrigin { revision: requested, ..CodeOrigin::default() });
    Some(CodeOrigin {
        base: git.target_branch(job.target.as_deref()).and_then(|target| {
            let is_tip = target.id == origin.revision;
            if is_tip { Some(target.id) } else { git.merge_base(&target.id, &origin.revision) }
        }),
        dirty: is_measured_here.then(|| git.uncommitted_digest()).flatten(),
        branch,
        pull: job.pull,
        job_url: job.url,
        source,
        ..origin
    })
}

/// Returns an origin with the ID, tree, parents, time, subject and author of a commit.
fn commit_origin(git: &GitRepository, revision: &str) -> Option<CodeOrigin> {
    let (details, author) = git.commit_details(revision)?;
    let Revision { id, tree, parents, committed_unix_ms, subject } = details;
    Some(CodeOrigin {
        author,
        revision: id,
        tree,
        parents,
        committed_unix_ms,
        subject,
        ..CodeOrigin::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeRepo;
    use std::collections::BTreeMap;
    use tempfile::TempDir;

    /// A repository with two commits on `main`; `None` without git.
    fn repository() -> Option<(TempDir, FakeRepo)> {
        let folder = tempfile::tempdir().unwrap();
        let history = FakeRepo::init(folder.path())?;
        for number in ["one", "two"] {
            history.write_file("file", number);
            history.commit_all(&format!("commit {number}\n\nmore"));
        }
        Some((folder, history))
    }

    fn found_in(folder: &Path, job: CiJob, request: &OriginRequest) -> Option<CodeOrigin> {
        let patient = GitRepository::for_folder(folder, Duration::from_secs(60));
        resolve_origin(&patient, job, request)
    }

    #[test]
    fn a_repository_tells_its_commit_and_branch() {
        let Some((_folder, history)) = repository() else { return };
        let origin =
            found_in(history.folder(), CiJob::default(), &OriginRequest::default()).unwrap();
        assert_eq!(origin.revision, history.commit_id("HEAD"));
        assert_eq!(origin.parents, [history.commit_id("HEAD~1")]);
        assert_eq!(origin.subject.as_deref(), Some("commit two"));
        assert_eq!(origin.branch.as_deref(), Some("main"));
        assert_eq!(origin.dirty, None);
        // Without a remote, the target is a branch with a usual name. Here, this is `main`, the
        // current branch.
        assert_eq!(origin.base, history.commit_id("HEAD").into());

        history.write_file("file", "three");
        let dirty =
            || found_in(history.folder(), CiJob::default(), &OriginRequest::default())?.dirty;
        let three = dirty().unwrap();
        history.write_file("file", "four");
        assert_ne!(dirty(), Some(three));
    }

    #[test]
    fn a_revision_given_by_the_user_need_not_be_in_the_repository() {
        let Some((_folder, history)) = repository() else { return };
        let request = |revision: &str| OriginRequest {
            revision: Some(revision.to_owned()),
            branch: Some("release".to_owned()),
        };
        let first = found_in(history.folder(), CiJob::default(), &request("HEAD~1")).unwrap();
        assert_eq!(first.subject.as_deref(), Some("commit one"));
        assert_eq!(first.branch.as_deref(), Some("release"));
        for unknown in ["v7 of the supplier", "--all"] {
            let origin = found_in(history.folder(), CiJob::default(), &request(unknown)).unwrap();
            assert_eq!((origin.revision.as_str(), origin.tree), (unknown, None));
            assert_eq!(origin.source, OriginSource::Option);
        }
    }

    #[test]
    fn there_is_no_origin_without_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(found_in(folder.path(), CiJob::default(), &OriginRequest::default()), None);
    }

    fn job_of(variables: &[(&str, &str)]) -> CiJob {
        let known: BTreeMap<&str, &str> = variables.iter().copied().collect();
        read_ci_job(&|name| known.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn a_pull_request_is_measured_at_its_own_head() {
        let Some((_folder, history)) = repository() else { return };
        let main = history.commit_id("HEAD");
        history.check_out("HEAD~1").create_branch("fast");
        let head = history.commit_all("faster");
        history.run_git(&["update-ref", "refs/remotes/origin/main", &main]);
        let git = GitRepository::for_folder(history.folder(), Duration::from_secs(60));
        let target = || git.target_branch(None).map(|branch| branch.reference);
        assert_eq!(target().as_deref(), Some("refs/remotes/origin/main"));
        history.run_git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/fast"]);
        assert_eq!(target().as_deref(), Some("refs/heads/fast"), "what the remote names");
        assert_eq!(git.target_branch(Some("fa*")).map(|branch| branch.id), None);
        let merge = history.check_out("main").merge_branch("fast", "trial");
        let of_job = job_of(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SHA", &merge),
            ("GITHUB_REF", "refs/pull/37/merge"),
            ("GITHUB_HEAD_REF", "fast"),
            ("GITHUB_BASE_REF", "main"),
            ("GITHUB_SERVER_URL", "https://example.org"),
            ("GITHUB_REPOSITORY", "a/b"),
            ("GITHUB_RUN_ID", "5"),
        ]);
        let origin = found_in(history.folder(), of_job, &OriginRequest::default()).unwrap();
        assert_eq!((origin.revision, origin.source), (head, OriginSource::Ci));
        assert_eq!(origin.base, Some(history.commit_id("main~1~1")));
        assert_eq!(origin.branch.as_deref(), Some("fast"));
        assert_eq!(origin.pull.as_deref(), Some("37"));
        assert_eq!(origin.job_url.as_deref(), Some("https://example.org/a/b/actions/runs/5"));
    }

    #[test]
    fn a_merge_request_names_its_branches() {
        let found = job_of(&[
            ("GITLAB_CI", "true"),
            ("CI_COMMIT_SHA", "abc"),
            ("CI_COMMIT_REF_NAME", "refs/x"),
            ("CI_MERGE_REQUEST_IID", "9"),
            ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "fast"),
            ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
        ]);
        assert_eq!(found.branch.as_deref(), Some("fast"));
        assert_eq!(found.target.as_deref(), Some("main"));
        assert_eq!((found.pull.as_deref(), found.is_trial_merge), (Some("9"), false));
        assert_eq!(job_of(&[]), CiJob::default());
    }
}

//! Authentication and permissions of requests: by a token in the request, by a login, or
//! anonymously.
//!
//! Reading may be open to everyone on this machine, and each project may be public; everything else
//! requires a permission. Callers without permission for a project learn nothing about it, not even
//! whether it exists. Start at [`caller`].

use crate::site::{Site, unix_ms};
use axum::http::{HeaderMap, StatusCode};
use speedwell_results::store::{Scope, StoredToken};
use speedwell_serve::cookie::{LoginKey, Logins};
use speedwell_serve::failures::Failures;
use speedwell_serve::token::{Digest, Presented, Token, bearer};
use speedwell_serve::{Client, Refusal};
use std::net::IpAddr;
use std::time::Instant;

/// Access rules of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Whether everyone who can reach it may read.
    pub reads_freely: bool,
    /// Whether a key is printed at startup that grants full access.
    pub has_key: bool,
    /// Whether all its connections are protected by TLS.
    pub has_tls: bool,
}

/// Permission that an action requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// None.
    Nothing,
    /// Reading the project.
    Read,
    /// Pushing to the project, or reading it.
    PushOrRead,
    /// Pushing to the project.
    Push,
    /// Judging changes of the project.
    Judge,
    /// Full access.
    Admin,
}

/// Logins and failed attempts.
#[derive(Debug)]
pub struct Access {
    rules: Rules,
    key: Option<LoginKey>,
    pub(crate) logins: Logins<Caller>,
    pub(crate) failures: Failures,
    /// Limits audit entries for tokens that have expired or were revoked.
    ended: Failures,
}

impl Access {
    /// Creates an access state without logins.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn new(rules: Rules) -> anyhow::Result<Access> {
        // Servers on several ports of one host share their cookies.
        let name = if rules.has_tls {
            "speedwell".to_owned()
        } else {
            format!("speedwell-{}", std::process::id())
        };
        Ok(Access {
            rules,
            key: rules.has_key.then(LoginKey::new).transpose()?,
            logins: Logins::new(name),
            failures: Failures::default(),
            ended: Failures::default(),
        })
    }

    /// Returns the key to print at startup; it works once.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(LoginKey::expose)
    }

    /// Whether a login permits something that anonymous callers may not do.
    pub fn is_asked_for(&self) -> bool {
        self.key.is_some() || !self.rules.reads_freely
    }

    /// Redeems the startup key; false if it is wrong or has been used before.
    pub(crate) fn redeem(&self, presented: &str) -> bool {
        self.key.as_ref().is_some_and(|key| key.redeem(presented))
    }
}

/// The caller of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of the token, `start key`, or empty.
    pub name: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Address that the request comes from.
    pub address: Option<IpAddr>,
    /// Restricts pushes to sessions of these branches.
    pub branches: Option<Vec<String>>,
    /// Restricts pushes to sessions of these machines.
    pub machines: Option<Vec<String>>,
    scopes: Vec<Scope>,
    /// Restricts the scopes to this project.
    project: Option<String>,
    /// What everyone may read.
    public: Public,
}

/// Projects that everyone may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Public {
    #[default]
    Nothing,
    These(Vec<String>),
    Everything,
}

impl Caller {
    /// Creates the caller that used the startup key.
    pub(crate) fn with_key() -> Caller {
        Caller {
            name: "start key".into(),
            scopes: vec![Scope::Admin],
            ..Caller::default()
        }
    }

    fn with_token(token: StoredToken) -> Caller {
        Caller {
            name: token.name,
            token: Some(token.id),
            address: None,
            branches: token.branches,
            machines: token.machines,
            scopes: token.scopes,
            project: token.project,
            public: Public::Nothing,
        }
    }

    /// Whether the caller is authenticated.
    pub fn is_known(&self) -> bool {
        !self.name.is_empty() || self.token.is_some()
    }

    /// Key for the limit on expensive requests; anonymous callers share one per address.
    pub(crate) fn shares_as(&self, client: &Client) -> String {
        match (&self.token, client.address) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Key that separates the cached pages of different callers.
    pub(crate) fn kept_as(&self) -> String {
        format!(
            "{}\n{}",
            self.token.as_deref().unwrap_or_default(),
            self.name
        )
    }

    /// Whether the caller may do this, in a project or on the whole server.
    pub fn may(&self, need: Need, project: Option<&str>) -> bool {
        let is_public = match (&self.public, project) {
            (Public::Everything, _) => true,
            (Public::These(names), Some(name)) => names.iter().any(|known| known == name),
            _ => false,
        };
        let wanted: &[Scope] = match need {
            Need::Nothing => return true,
            Need::Read | Need::PushOrRead if is_public => return true,
            Need::Read | Need::PushOrRead => &[Scope::Read, Scope::Push, Scope::Judge],
            Need::Push => &[Scope::Push],
            Need::Judge => &[Scope::Judge],
            Need::Admin => &[],
        };
        let is_here = match (&self.project, project) {
            (None, _) => true,
            (Some(own), Some(name)) => own == name,
            (Some(_), None) => false,
        };
        let has = |scope: &Scope| *scope == Scope::Admin || wanted.contains(scope);
        is_here && self.scopes.iter().any(has)
    }

    /// Whether the caller may read a project.
    pub fn may_read(&self, project: &str) -> bool {
        self.may(Need::Read, Some(project))
    }

    /// Returns an error unless the caller may do this. The error does not depend on whether the
    /// project exists.
    ///
    /// # Errors
    /// 401 for anonymous callers, else 403.
    pub fn ensure_may(&self, need: Need, project: Option<&str>) -> Result<(), Refusal> {
        if self.may(need, project) {
            return Ok(());
        }
        let what = match (need, project) {
            (Need::Push, Some(project)) => format!("pushing to '{project}'"),
            (Need::Judge, Some(project)) => format!("judging changes of '{project}'"),
            (_, Some(project)) => format!("reading '{project}'"),
            (_, None) => "this".to_owned(),
        };
        Err(if self.is_known() {
            let words = format!("{what} is not among what '{}' may do", self.name);
            Refusal::new(StatusCode::FORBIDDEN, words)
                .hint("another token may: speedwell serve token add")
        } else {
            let words = format!("{what} takes a token that allows it");
            Refusal::new(StatusCode::UNAUTHORIZED, words)
                .hint("send Authorization: Bearer TOKEN, or log in at /login")
        })
    }
}

/// Identifies the caller of a request. Queries the database.
///
/// # Errors
/// 401 for an invalid token, 429 after too many of them, 503 and the like if the store cannot be
/// read.
pub fn caller(site: &Site, headers: &HeaderMap, client: &Client) -> Result<Caller, Refusal> {
    let known = match bearer(headers) {
        Presented::None => by_login(site, headers, client)?,
        Presented::Malformed => return Err(failed(site, client, None)),
        Presented::Token(token) => Some(by_token(site, client, &token)?),
    };
    if known.is_some() {
        client.note_login();
    }
    let caller = known.unwrap_or_default();
    Ok(Caller {
        address: client.address,
        public: public(site)?,
        ..caller
    })
}

/// Returns what everyone may read.
fn public(site: &Site) -> Result<Public, Refusal> {
    if site.access.rules.reads_freely {
        return Ok(Public::Everything);
    }
    let projects = site.projects().map_err(unreadable)?;
    let public = projects.into_iter().filter(|(_, is_public)| *is_public);
    Ok(Public::These(
        public.map(|(project, _)| project.name.clone()).collect(),
    ))
}

/// Identifies the caller by its login, unless its token has expired or was revoked since.
fn by_login(site: &Site, headers: &HeaderMap, client: &Client) -> Result<Option<Caller>, Refusal> {
    let found = site
        .access
        .logins
        .find(headers, client.secure, Instant::now());
    let Some(id) = found.as_ref().and_then(|caller| caller.token.clone()) else {
        return Ok(found);
    };
    match stored(site, &id)? {
        Some(token) => Ok(Some(Caller::with_token(token))),
        None => {
            let is_ended = |known: &Caller| known.token.as_ref() == Some(&id);
            site.access.logins.end_all(is_ended);
            Ok(None)
        }
    }
}

/// Identifies the caller by its token. Wrong and unknown tokens take the same code path.
///
/// # Errors
/// As for [`caller`].
pub(crate) fn by_token(site: &Site, client: &Client, token: &Token) -> Result<Caller, Refusal> {
    let may_try = site.access.failures.check(client.address, Instant::now());
    may_try?;
    let presented = token.digest();
    let found = site
        .first
        .read(|store| Ok(store.token_of(token.id(), presented.as_bytes())?));
    let stored = match found.map_err(unreadable)? {
        // The digest is that of the presented token.
        Some(token) if !token.is_valid(unix_ms()) => {
            return Err(ended(site, client, &token));
        }
        stored => stored,
    };
    let digest = stored.as_ref().and_then(|stored| {
        let bytes = stored.digest.as_slice().try_into().ok()?;
        Some(Digest::from_bytes(bytes))
    });
    match (token.is(digest.as_ref()), stored) {
        (true, Some(stored)) => {
            note_use(site, &stored);
            Ok(Caller::with_token(stored))
        }
        _ => Err(failed(site, client, Some(token))),
    }
}

/// Rejects a token that was revoked or has expired. Whoever has its secret is not guessing, so it
/// does not count as a failure: a forgotten job must not lock out everyone else at its address.
fn ended(site: &Site, client: &Client, token: &StoredToken) -> Refusal {
    let now = Instant::now();
    // Limits the audit entries, which would otherwise grow with each attempt.
    if site.access.ended.check(client.address, now).is_ok() {
        site.access.ended.add(client.address, now);
        note_refused(site, client, &token.id);
    }
    no_token()
}

/// Returns the stored token of this id if it is valid.
fn stored(site: &Site, id: &str) -> Result<Option<StoredToken>, Refusal> {
    let found = site.first.read(|store| Ok(store.token(id)?));
    let found = found.map_err(unreadable)?;
    Ok(found.filter(|token| token.is_valid(unix_ms())))
}

fn note_use(site: &Site, token: &StoredToken) {
    const HOUR_MS: i64 = 3_600_000;
    let now = unix_ms();
    if token.used_unix_ms.is_none_or(|used| now - used >= HOUR_MS) {
        // Failing to record the use is no reason to reject the token.
        let _ = site.write(|store| store.note_use(token, now));
    }
}

/// Counts and records a failed login; returns the same error whatever was wrong.
pub(crate) fn failed(site: &Site, client: &Client, token: Option<&Token>) -> Refusal {
    let now = Instant::now();
    if let Err(refusal) = site.access.failures.check(client.address, now) {
        return refusal;
    }
    site.access.failures.add(client.address, now);
    note_refused(site, client, token.map_or("", |token| token.id()));
    no_token()
}

fn note_refused(site: &Site, client: &Client, subject: &str) {
    let nobody = Caller {
        address: client.address,
        ..Caller::default()
    };
    site.note(&nobody, None, "login", subject, "refused");
}

fn no_token() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "this is no token of this server, or it has expired or was revoked",
    )
    .hint("speedwell serve token list shows those that there are")
}

fn unreadable(refusal: crate::refusal::Refusal) -> Refusal {
    let seconds = refusal.retry_after_s();
    let refusal = Refusal::new(refusal.status, refusal.words);
    match seconds {
        Some(seconds) => refusal.retry_after(seconds),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(scopes: &[Scope], project: Option<&str>) -> Caller {
        Caller {
            name: "t".into(),
            scopes: scopes.to_vec(),
            project: project.map(str::to_owned),
            ..Caller::default()
        }
    }

    #[test]
    fn a_right_holds_in_its_project_and_for_its_deed_alone() {
        use Need::{Admin, Judge, Push, Read};
        let all = [Read, Push, Judge, Admin];
        for (scopes, allowed) in [
            (&[Scope::Read][..], &[Read][..]),
            (&[Scope::Push], &[Read, Push]),
            (&[Scope::Judge], &[Read, Judge]),
            (&[Scope::Admin], &all),
            (&[], &[]),
        ] {
            for need in all {
                let is_allowed = allowed.contains(&need);
                let bound = caller(scopes, Some("core"));
                assert_eq!(
                    bound.may(need, Some("core")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
                assert!(!bound.may(need, Some("other")), "{scopes:?} {need:?}");
                assert!(
                    !bound.may(need, None),
                    "the whole server is more than a project"
                );
                let free = caller(scopes, None);
                assert_eq!(
                    free.may(need, Some("other")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_public_is_read_and_no_more() {
        let nobody = Caller {
            public: Public::These(vec!["open".into()]),
            ..Caller::default()
        };
        assert!(nobody.may_read("open") && !nobody.may_read("core"));
        let refused = nobody.ensure_may(Need::Push, Some("open")).unwrap_err();
        assert_eq!(refused.status, 401);
        let known = caller(&[Scope::Read], Some("core"));
        let refused = |project: &str| known.ensure_may(Need::Read, Some(project)).unwrap_err();
        assert_eq!(refused("there").status, 403);
        let words = |project: &str| refused(project).what.replace(project, "P");
        assert_eq!(
            words("there"),
            words("not-there"),
            "nothing is learnt of a project"
        );
    }
}

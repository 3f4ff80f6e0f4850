//! Who asks, and what they may do: by a token in the request, by a login, or as anybody.
//!
//! Reading may be free on this machine, and each project may be public; everything else takes a right. Whoever has no right
//! to a project learns nothing of it, not even whether it exists. Start at [`caller`].

use crate::site::{Site, unix_ms};
use axum::http::{HeaderMap, StatusCode};
use speedwell_results::store::{Scope, StoredToken};
use speedwell_serve::cookie::{LoginKey, Logins};
use speedwell_serve::failures::Failures;
use speedwell_serve::token::{Digest, Presented, Token, bearer};
use speedwell_serve::{Client, Refusal};
use std::net::IpAddr;
use std::time::Instant;

/// How a server is protected.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Whether everybody who can reach it may read.
    pub reads_freely: bool,
    /// Whether a key is printed at the start, with which one may do everything.
    pub has_key: bool,
    /// Whether TLS protects all ways to it.
    pub has_tls: bool,
}

/// What it takes to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// To read the project.
    Read,
    /// To push to the project, or to read it.
    PushOrRead,
    /// To push to the project.
    Push,
    /// To judge changes of the project.
    Judge,
    /// Everything.
    Admin,
}

/// Logins, and those who failed to log in.
#[derive(Debug)]
pub struct Access {
    rules: Rules,
    key: Option<LoginKey>,
    pub(crate) logins: Logins<Caller>,
    pub(crate) failures: Failures,
    /// Those who came with a token that has ended.
    ended: Failures,
}

impl Access {
    /// Nobody has logged in yet.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(rules: Rules) -> anyhow::Result<Access> {
        // Servers at several ports of one host share their cookies.
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

    /// The key to be printed at the start; it works once.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(LoginKey::expose)
    }

    /// Whether logging in allows something that anybody may not.
    pub fn is_asked_for(&self) -> bool {
        self.key.is_some() || !self.rules.reads_freely
    }

    /// Whether this is the key, for the first time.
    pub(crate) fn redeem(&self, presented: &str) -> bool {
        self.key.as_ref().is_some_and(|key| key.redeem(presented))
    }
}

/// Whoever asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of the token, `start key`, or nothing.
    pub name: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Where the request comes from.
    pub address: Option<IpAddr>,
    /// The only branches whose sessions may be pushed.
    pub branches: Option<Vec<String>>,
    /// The only machines whose sessions may be pushed.
    pub machines: Option<Vec<String>>,
    scopes: Vec<Scope>,
    /// The only project in which they hold.
    project: Option<String>,
    /// What everybody may read.
    public: Public,
}

/// What everybody may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Public {
    #[default]
    Nothing,
    These(Vec<String>),
    Everything,
}

impl Caller {
    /// Whoever came with the key of the start.
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

    /// Whether it is known who asks.
    pub fn is_known(&self) -> bool {
        !self.name.is_empty() || self.token.is_some()
    }

    /// Who it is that does much at once: whoever is not known, by the address.
    pub(crate) fn shares_as(&self, client: &Client) -> String {
        match (&self.token, client.address) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Whose pages may be kept for whom.
    pub(crate) fn kept_as(&self) -> String {
        format!(
            "{}\n{}",
            self.token.as_deref().unwrap_or_default(),
            self.name
        )
    }

    /// Whether this may be done, in a project or to the whole server.
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

    /// Whether a project may be read.
    pub fn may_read(&self, project: &str) -> bool {
        self.may(Need::Read, Some(project))
    }

    /// Refuses what may not be done. It is the same whether the project exists.
    ///
    /// # Errors
    /// 401 where it is not known who asks, else 403.
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

/// Who sends a request. It asks the database.
///
/// # Errors
/// 401 for a token that is none, 429 after too many of them, 503 and the like where the store cannot be read.
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

/// What everybody may read.
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

/// Whoever has logged in before, unless the token has ended meanwhile.
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

/// Whoever this token belongs to. One that is wrong and one that is unknown take the same way.
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
        // The digest is the one of the token that was presented.
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

/// Refuses a token that was revoked or has expired. Whoever has its secret does not guess, so it does not count as a failure: a
/// job that was forgotten must not lock out everybody else at its address.
fn ended(site: &Site, client: &Client, token: &StoredToken) -> Refusal {
    let now = Instant::now();
    // The audit does not grow with each try.
    if site.access.ended.check(client.address, now).is_ok() {
        site.access.ended.add(client.address, now);
        note_refused(site, client, &token.id);
    }
    no_token()
}

/// The token of an id, if it is one now.
fn stored(site: &Site, id: &str) -> Result<Option<StoredToken>, Refusal> {
    let found = site.first.read(|store| Ok(store.token(id)?));
    let found = found.map_err(unreadable)?;
    Ok(found.filter(|token| token.is_valid(unix_ms())))
}

fn note_use(site: &Site, token: &StoredToken) {
    const HOUR_MS: i64 = 3_600_000;
    let now = unix_ms();
    if token.used_unix_ms.is_none_or(|used| now - used >= HOUR_MS) {
        // A use that is not noted is no reason to refuse it.
        let _ = site.write(|store| store.note_use(token, now));
    }
}

/// A login that failed: counted, noted and refused, with the same words whatever was wrong.
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

//! Identifies callers by a token in the request, by a login, or as anonymous. Also checks
//! permissions.
//!
//! Reading may be open to everyone who can reach the server, and each project may be public.
//! Everything else requires a permission. Callers without permission for a project learn nothing
//! about it, not even whether it exists. Start at [`identify_caller`].

use crate::dashboard::site::{SiteState, unix_ms};
use crate::http::cookie::{LoginKey, LoginStore};
use crate::http::login_limiter::FailureLimiter;
use crate::http::token::{AccessToken, PresentedToken, SecretDigest, bearer_token};
use crate::http::{ClientInfo, HttpError};
use axum::http::{HeaderMap, StatusCode};
use speedwell_model::stored::{StoredToken, TokenScope};
use std::net::IpAddr;
use std::time::Instant;

/// Access rules of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessRules {
    /// Whether everyone who can reach the server may read.
    pub allows_anonymous_reads: bool,
    /// Whether a key that grants full access is printed at startup.
    pub has_key: bool,
    /// Whether all connections to the server are protected by TLS.
    pub has_tls: bool,
}

/// Permission that an action requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredPermission {
    /// None.
    Nothing,
    /// Reading the project.
    Read,
    /// Pushing to the project, or reading it.
    PushOrRead,
    /// Pushing to the project.
    Push,
    /// Triaging changes of the project.
    Triage,
    /// Full access.
    Admin,
}

/// Logins and failed attempts.
#[derive(Debug)]
pub struct SiteAccess {
    rules: AccessRules,
    key: Option<LoginKey>,
    pub(crate) logins: LoginStore<CallerIdentity>,
    pub(crate) failures: FailureLimiter,
    /// Limits audit entries for tokens that are expired or revoked.
    expired_tokens: FailureLimiter,
}

impl SiteAccess {
    /// Creates an access state without logins.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    pub fn new(rules: AccessRules) -> anyhow::Result<SiteAccess> {
        // Browsers send a cookie to all ports of a host, so each server needs its own cookie name.
        let name = if rules.has_tls {
            "speedwell".to_owned()
        } else {
            format!("speedwell-{}", std::process::id())
        };
        Ok(SiteAccess {
            rules,
            key: rules.has_key.then(LoginKey::new).transpose()?,
            logins: LoginStore::new(name),
            failures: FailureLimiter::default(),
            expired_tokens: FailureLimiter::default(),
        })
    }

    /// Returns the key to print at startup. The key works once.
    pub fn startup_key(&self) -> Option<&str> {
        self.key.as_ref().map(LoginKey::expose)
    }

    /// Whether pages offer a login. They do if there is a startup key, or if anonymous callers may
    /// not read everything.
    pub fn offers_login(&self) -> bool {
        self.key.is_some() || !self.rules.allows_anonymous_reads
    }

    /// Redeems the startup key. Returns `false` if the key is wrong or has been used before.
    pub(crate) fn redeem(&self, presented: &str) -> bool {
        self.key.as_ref().is_some_and(|key| key.redeem(presented))
    }
}

/// The caller of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The name of the token, `start key` for the startup key, or empty for an anonymous caller.
    pub name: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// Restricts pushes to sessions of these branches.
    pub branches: Option<Vec<String>>,
    /// Restricts pushes to sessions of these machines.
    pub machines: Option<Vec<String>>,
    scopes: Vec<TokenScope>,
    /// Restricts the scopes to this project.
    project: Option<String>,
    /// What everyone may read.
    public: PublicAccess,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum PublicAccess {
    #[default]
    Nothing,
    Projects(Vec<String>),
    Everything,
}

impl CallerIdentity {
    /// Creates a caller that used the startup key.
    pub(crate) fn with_key() -> CallerIdentity {
        CallerIdentity {
            name: "start key".into(),
            scopes: vec![TokenScope::Admin],
            ..CallerIdentity::default()
        }
    }

    fn with_token(token: StoredToken) -> CallerIdentity {
        CallerIdentity {
            name: token.name,
            token: Some(token.id),
            address: None,
            branches: token.branches,
            machines: token.machines,
            scopes: token.scopes,
            project: token.project,
            public: PublicAccess::Nothing,
        }
    }

    /// Whether the caller is authenticated.
    pub fn is_authenticated(&self) -> bool {
        !self.name.is_empty() || self.token.is_some()
    }

    /// Returns the key for limiting expensive requests. Callers without a token share a key if they
    /// have the same address.
    pub(crate) fn limiter_key(&self, client: &ClientInfo) -> String {
        match (&self.token, client.address) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Returns the key that separates the cached pages of different callers.
    pub(crate) fn cache_key(&self) -> String {
        format!("{}\n{}", self.token.as_deref().unwrap_or_default(), self.name)
    }

    /// Whether the caller has this permission in a project, or on the whole server.
    pub fn is_permitted(&self, permission: RequiredPermission, project: Option<&str>) -> bool {
        let is_public = match (&self.public, project) {
            (PublicAccess::Everything, _) => true,
            (PublicAccess::Projects(names), Some(name)) => {
                names.iter().any(|public| public == name)
            }
            _ => false,
        };
        let sufficient_scopes: &[TokenScope] = match permission {
            RequiredPermission::Nothing => return true,
            RequiredPermission::Read | RequiredPermission::PushOrRead if is_public => return true,
            RequiredPermission::Read | RequiredPermission::PushOrRead => {
                &[TokenScope::Read, TokenScope::Push, TokenScope::Triage]
            }
            RequiredPermission::Push => &[TokenScope::Push],
            RequiredPermission::Triage => &[TokenScope::Triage],
            RequiredPermission::Admin => &[],
        };
        let is_in_scope = match (&self.project, project) {
            (None, _) => true,
            (Some(bound_project), Some(name)) => bound_project == name,
            (Some(_), None) => false,
        };
        let has =
            |scope: &TokenScope| *scope == TokenScope::Admin || sufficient_scopes.contains(scope);
        is_in_scope && self.scopes.iter().any(has)
    }

    /// Whether the caller may read a project.
    pub fn can_read(&self, project: &str) -> bool {
        self.is_permitted(RequiredPermission::Read, Some(project))
    }

    /// Returns an error unless the caller has this permission. The error does not depend on whether
    /// the project exists.
    ///
    /// # Errors
    /// Returns 401 for anonymous callers, otherwise 403.
    pub fn ensure_permitted(
        &self,
        permission: RequiredPermission,
        project: Option<&str>,
    ) -> Result<(), HttpError> {
        if self.is_permitted(permission, project) {
            return Ok(());
        }
        let action = match (permission, project) {
            (RequiredPermission::Push, Some(project)) => format!("push to '{project}'"),
            (RequiredPermission::Triage, Some(project)) => format!("triage changes of '{project}'"),
            (RequiredPermission::Admin, Some(project)) => format!("administer '{project}'"),
            (_, Some(project)) => format!("read '{project}'"),
            (_, None) => "do this".to_owned(),
        };
        Err(if self.is_authenticated() {
            let message = format!("'{}' is not allowed to {action}", self.name);
            HttpError::new(StatusCode::FORBIDDEN, message)
                .with_hint("create a token with this permission: speedwell serve token add")
        } else {
            let message = format!("a token is required to {action}");
            HttpError::new(StatusCode::UNAUTHORIZED, message)
                .with_hint("send Authorization: Bearer TOKEN, or log in at /login")
        })
    }
}

/// Identifies the caller of a request. Queries the database.
///
/// # Errors
/// Returns 401 for an invalid token, 429 after too many invalid tokens, and a status such as 503 if
/// the store cannot be read.
pub fn identify_caller(
    site: &SiteState,
    headers: &HeaderMap,
    client: &ClientInfo,
) -> Result<CallerIdentity, HttpError> {
    let identified = match bearer_token(headers) {
        PresentedToken::None => caller_by_login(site, headers, client)?,
        PresentedToken::Malformed => return Err(failed_login_error(site, client, None)),
        PresentedToken::Token(token) => Some(caller_by_token(site, client, &token)?),
    };
    if identified.is_some() {
        client.record_login();
    }
    let caller = identified.unwrap_or_default();
    Ok(CallerIdentity { address: client.address, public: public_access(site)?, ..caller })
}

/// Returns what everyone may read.
fn public_access(site: &SiteState) -> Result<PublicAccess, HttpError> {
    if site.access.rules.allows_anonymous_reads {
        return Ok(PublicAccess::Everything);
    }
    let projects = site.list_projects().map_err(store_error)?;
    let public = projects.into_iter().filter(|(_, is_public)| *is_public);
    Ok(PublicAccess::Projects(public.map(|(project, _)| project.name.clone()).collect()))
}

/// Identifies the caller by its login. A token that has since expired or been revoked does not
/// count.
fn caller_by_login(
    site: &SiteState,
    headers: &HeaderMap,
    client: &ClientInfo,
) -> Result<Option<CallerIdentity>, HttpError> {
    let login = site.access.logins.find_login(headers, client.secure, Instant::now());
    let Some(id) = login.as_ref().and_then(|caller| caller.token.clone()) else {
        return Ok(login);
    };
    match find_valid_token(site, &id)? {
        Some(token) => Ok(Some(CallerIdentity::with_token(token))),
        None => {
            let is_ended = |login: &CallerIdentity| login.token.as_ref() == Some(&id);
            site.access.logins.end_matching(is_ended);
            Ok(None)
        }
    }
}

/// Identifies the caller by its token. Wrong and unknown tokens take the same code path.
///
/// # Errors
/// Fails under the same conditions as [`identify_caller`].
pub(crate) fn caller_by_token(
    site: &SiteState,
    client: &ClientInfo,
    token: &AccessToken,
) -> Result<CallerIdentity, HttpError> {
    let allowed = site.access.failures.check_address(client.address, Instant::now());
    allowed?;
    let presented = token.digest();
    let found = site
        .first
        .with_reader(|store| Ok(store.find_token_with_digest(token.id(), presented.as_bytes())?));
    let stored = match found.map_err(store_error)? {
        // The token was found by the digest of the presented token, so the caller has the secret.
        Some(token) if !token.is_valid(unix_ms()) => {
            return Err(expired_token_error(site, client, &token));
        }
        stored => stored,
    };
    let digest = stored.as_ref().and_then(|stored| {
        let bytes = stored.digest.as_slice().try_into().ok()?;
        Some(SecretDigest::from_bytes(bytes))
    });
    match (token.matches_digest(digest.as_ref()), stored) {
        (true, Some(stored)) => {
            record_use(site, &stored);
            Ok(CallerIdentity::with_token(stored))
        }
        _ => Err(failed_login_error(site, client, Some(token))),
    }
}

/// Rejects a token that was revoked or has expired. A caller that knows the secret is not guessing,
/// so the attempt does not count as a failure: a forgotten job must not lock out everyone else at
/// its address.
fn expired_token_error(site: &SiteState, client: &ClientInfo, token: &StoredToken) -> HttpError {
    let now = Instant::now();
    // Limit the audit entries: otherwise, each attempt would add one.
    if site.access.expired_tokens.check_address(client.address, now).is_ok() {
        site.access.expired_tokens.record_failure(client.address, now);
        record_failed_login(site, client, &token.id);
    }
    invalid_token_error()
}

/// Returns the stored token with this id if it is valid.
fn find_valid_token(site: &SiteState, id: &str) -> Result<Option<StoredToken>, HttpError> {
    let stored = site.first.with_reader(|store| Ok(store.find_token(id)?)).map_err(store_error)?;
    Ok(stored.filter(|token| token.is_valid(unix_ms())))
}

fn record_use(site: &SiteState, token: &StoredToken) {
    const HOUR_MS: i64 = 3_600_000;
    let now = unix_ms();
    if token.used_unix_ms.is_none_or(|used| now - used >= HOUR_MS) {
        // Accept the token even if its use cannot be recorded.
        let _ = site.with_writer(|store| store.record_token_use(token, now));
    }
}

/// Counts and records a failed login. The error does not say what was wrong, except that the
/// address has failed too often.
pub(crate) fn failed_login_error(
    site: &SiteState,
    client: &ClientInfo,
    token: Option<&AccessToken>,
) -> HttpError {
    let now = Instant::now();
    if let Err(error) = site.access.failures.check_address(client.address, now) {
        return error;
    }
    site.access.failures.record_failure(client.address, now);
    record_failed_login(site, client, token.map_or("", |token| token.id()));
    invalid_token_error()
}

fn record_failed_login(site: &SiteState, client: &ClientInfo, subject: &str) {
    let caller = CallerIdentity { address: client.address, ..CallerIdentity::default() };
    site.record_action(&caller, None, "login", subject, "refused");
}

fn invalid_token_error() -> HttpError {
    HttpError::new(
        StatusCode::UNAUTHORIZED,
        "invalid token or key: unknown, expired, revoked or already used",
    )
    .with_hint("speedwell serve token list shows all tokens")
}

fn store_error(error: crate::dashboard::page_error::PageError) -> HttpError {
    let seconds = error.retry_after_s();
    let error = HttpError::new(error.status, error.message);
    match seconds {
        Some(seconds) => error.with_retry_after(seconds),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(scopes: &[TokenScope], project: Option<&str>) -> CallerIdentity {
        CallerIdentity {
            name: "t".into(),
            scopes: scopes.to_vec(),
            project: project.map(str::to_owned),
            ..CallerIdentity::default()
        }
    }

    #[test]
    fn a_permission_holds_only_in_its_project_and_for_its_action() {
        use RequiredPermission::{Admin, Push, Read, Triage};
        let all = [Read, Push, Triage, Admin];
        for (scopes, allowed) in [
            (&[TokenScope::Read][..], &[Read][..]),
            (&[TokenScope::Push], &[Read, Push]),
            (&[TokenScope::Triage], &[Read, Triage]),
            (&[TokenScope::Admin], &all),
            (&[], &[]),
        ] {
            for need in all {
                let is_allowed = allowed.contains(&need);
                let bound = caller(scopes, Some("core"));
                assert_eq!(
                    bound.is_permitted(need, Some("core")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
                assert!(!bound.is_permitted(need, Some("other")), "{scopes:?} {need:?}");
                assert!(!bound.is_permitted(need, None), "the whole server is more than a project");
                let free = caller(scopes, None);
                assert_eq!(
                    free.is_permitted(need, Some("other")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_public_is_read_and_no_more() {
        let nobody = CallerIdentity {
            public: PublicAccess::Projects(vec!["open".into()]),
            ..CallerIdentity::default()
        };
        assert!(nobody.can_read("open") && !nobody.can_read("core"));
        let refused = nobody.ensure_permitted(RequiredPermission::Push, Some("open")).unwrap_err();
        assert_eq!(refused.status, 401);
        let known = caller(&[TokenScope::Read], Some("core"));
        let refused = |project: &str| {
            known.ensure_permitted(RequiredPermission::Read, Some(project)).unwrap_err()
        };
        assert_eq!(refused("there").status, 403);
        let message = |project: &str| refused(project).message.replace(project, "P");
        assert_eq!(message("there"), message("not-there"), "nothing is learnt of a project");
    }
}

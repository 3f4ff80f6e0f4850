//! Defines the access rules of a site, and its callers and their permissions.
//!
//! Reading may be open to everyone who can reach the server, and each project may be public.
//! Everything else requires a permission ([`CallerIdentity::ensure_permitted`]). Callers without
//! permission for a project learn nothing about it, not even whether it exists.

use crate::http::cookie::{LoginKey, LoginStore};
use crate::http::token::FailureLimiter;
use crate::http::{ClientInfo, HttpError};
use axum::http::StatusCode;
use speedwell_model::stored::{StoredToken, TokenScope};
use std::net::IpAddr;

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
    /// Pushing to the project.
    Push,
    /// Triaging changes of the project.
    Triage,
    /// Full access.
    Admin,
}

/// The access rules and startup key of a server, its current logins, and recent failed attempts.
#[derive(Debug)]
pub struct SiteAccess {
    pub(super) rules: AccessRules,
    pub(super) key: Option<LoginKey>,
    pub(super) logins: LoginStore<CallerIdentity>,
    pub(super) failures: FailureLimiter,
    /// Limits audit entries for tokens that are expired or revoked.
    pub(super) expired_tokens: FailureLimiter,
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
    pub(super) scopes: Vec<TokenScope>,
    /// Restricts the scopes to this project.
    pub(super) project: Option<String>,
    /// What everyone may read.
    pub(super) public: PublicAccess,
}

/// What everyone may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PublicAccess {
    #[default]
    Nothing,
    /// The projects with these names.
    Projects(Vec<String>),
    Everything,
}

impl CallerIdentity {
    /// Creates a caller that sent a token, or logged in with one.
    pub(super) fn with_token(token: StoredToken) -> CallerIdentity {
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
    pub(super) fn limiter_key(&self, client: &ClientInfo) -> String {
        match (&self.token, client.address) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Returns the key that separates the cached pages of different callers.
    pub(super) fn cache_key(&self) -> String {
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
            RequiredPermission::Read if is_public => return true,
            RequiredPermission::Read => &[TokenScope::Read, TokenScope::Push, TokenScope::Triage],
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
    fn public_projects_can_be_read_but_not_changed_without_a_token() {
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
        assert_eq!(message("there"), message("not-there"), "the error reveals nothing");
    }
}

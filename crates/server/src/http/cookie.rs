//! Manages browser logins: the session cookie, the data of each login, and the key for a first
//! login. Scripts cannot read the cookie, and requests from other sites do not carry it. The key is
//! printed at startup and works once.
//!
//! The data is stored on the server, not in the cookie, so ending a login takes effect immediately.

use crate::http::token::{SecretDigest, SecretText};
use crate::http::{Error, lock};
use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HeaderValue};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time after which a login ends.
const LOGIN_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Maximum number of logins. Another login replaces the login that expires first.
const MAX_LOGINS: usize = 10_000;

/// Active logins, each with data of the application.
///
/// ```
/// use axum::http::{HeaderMap, header::COOKIE};
/// use speedwell_server::http::cookie::LoginStore;
/// use std::time::Instant;
///
/// let logins = LoginStore::new("speedwell");
/// let now = Instant::now();
/// let cookie = logins.start_login("ada", true, now)?;  // as the value of Set-Cookie
/// let text = cookie.to_str().unwrap();
/// assert!(text.starts_with("__Host-speedwell=") && text.contains("; HttpOnly"));
///
/// let sent = text.split(';').next().unwrap().parse().unwrap();
/// assert_eq!(logins.find_login(&HeaderMap::from_iter([(COOKIE, sent)]), true, now), Some("ada"));
/// # Ok::<(), speedwell_server::http::Error>(())
/// ```
#[derive(Debug)]
pub struct LoginStore<T> {
    name: String,
    /// The data and the end of each login, by the digest of its secret. The timing of a lookup thus reveals nothing about
    /// other secrets.
    by_digest: Mutex<HashMap<[u8; 32], (T, Instant)>>,
}

impl<T: Clone> LoginStore<T> {
    /// Creates a store for logins that last twelve hours. `name` must be a valid cookie name.
    /// Browsers send a host's cookies to all ports of that host, so without TLS each server on a
    /// host needs a name of its own.
    pub fn new(name: impl Into<String>) -> LoginStore<T> {
        LoginStore { name: name.into(), by_digest: Mutex::default() }
    }

    /// Starts a login and returns the value of `Set-Cookie`. `secure` is
    /// [`crate::http::ClientInfo::secure`].
    ///
    /// # Errors
    /// Fails if the system has no random bytes, or the name is not a valid cookie name.
    pub fn start_login(&self, data: T, secure: bool, now: Instant) -> Result<HeaderValue, Error> {
        let secret = SecretText::random::<32>()?;
        let mut logins = lock(&self.by_digest);
        logins.retain(|_, (_, expires_at)| *expires_at > now);
        if logins.len() >= MAX_LOGINS
            && let Some(oldest) = logins.iter().min_by_key(|(_, (_, expires_at))| *expires_at)
        {
            let oldest = *oldest.0;
            logins.remove(&oldest);
        }
        logins.insert(*secret.digest().as_bytes(), (data, now + LOGIN_LIFETIME));
        self.set_cookie(secret.expose(), secure, LOGIN_LIFETIME.as_secs())
    }

    /// Returns the data of the login that the cookie belongs to, unless the login has expired.
    pub fn find_login(&self, headers: &HeaderMap, secure: bool, now: Instant) -> Option<T> {
        let digest = self.cookie_digest(headers, secure)?;
        let logins = lock(&self.by_digest);
        let (data, expires_at) = logins.get(digest.as_bytes())?;
        (*expires_at > now).then(|| data.clone())
    }

    /// Ends the login that the cookie belongs to. Returns the `Set-Cookie` value that removes the
    /// cookie.
    ///
    /// # Errors
    /// Fails if the name is not a valid cookie name.
    pub fn end_login(&self, headers: &HeaderMap, secure: bool) -> Result<HeaderValue, Error> {
        if let Some(digest) = self.cookie_digest(headers, secure) {
            let mut logins = lock(&self.by_digest);
            logins.remove(digest.as_bytes());
        }
        self.set_cookie("", secure, 0)
    }

    /// Ends all logins that match the predicate, for example because their token was revoked.
    pub fn end_matching(&self, should_end: impl Fn(&T) -> bool) {
        let mut logins = lock(&self.by_digest);
        logins.retain(|_, (data, _)| !should_end(data));
    }

    /// Returns the cookie name. With TLS, the name has a prefix that makes browsers insist on
    /// `Secure`, `Path=/` and no `Domain` (RFC 6265bis, 4.1.3.2). Without TLS, browsers would
    /// reject the prefix.
    fn cookie_name(&self, secure: bool) -> String {
        let prefix = if secure { "__Host-" } else { "" };
        format!("{prefix}{}", self.name)
    }

    fn set_cookie(&self, value: &str, secure: bool, max_age_s: u64) -> Result<HeaderValue, Error> {
        let name = self.cookie_name(secure);
        let secure = if secure { "; Secure" } else { "" };
        let cookie = format!(
            "{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}"
        );
        let mut value =
            HeaderValue::try_from(cookie).map_err(|_| Error::CookieName(self.name.clone()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the digest of the request's cookie. Returns `None` if there is not exactly one
    /// cookie of this name.
    fn cookie_digest(&self, headers: &HeaderMap, secure: bool) -> Option<SecretDigest> {
        let name = self.cookie_name(secure);
        let headers_sent = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        let pairs = headers_sent
            .flat_map(|header| header.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let mut matching = pairs.filter(|(pair_name, _)| *pair_name == name);
        let (_, value) = matching.next()?;
        matching.next().is_none().then(|| SecretDigest::of_text(value))
    }
}

/// Single-use login key, printed at startup.
#[derive(Debug)]
pub struct LoginKey {
    text: SecretText,
    is_unused: AtomicBool,
}

impl LoginKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    #[allow(clippy::new_without_default, reason = "it may fail")]
    pub fn new() -> Result<LoginKey, Error> {
        Ok(LoginKey { text: SecretText::random::<32>()?, is_unused: AtomicBool::new(true) })
    }

    /// Returns the key, for printing.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }

    /// Redeems the key. Returns false if `presented` is not the key, or the key has been used.
    pub fn redeem(&self, presented: &str) -> bool {
        let is_match = SecretDigest::of_text(presented) == self.text.digest();
        is_match && self.is_unused.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie_header(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(COOKIE, pair.parse().unwrap())])
    }

    #[test]
    fn a_cookie_is_hidden_from_scripts_and_secure_if_there_is_tls() {
        let logins = LoginStore::new("speedwell");
        let now = Instant::now();
        let with_tls = logins.start_login(1, true, now).unwrap();
        let text = with_tls.to_str().unwrap();
        assert!(text.starts_with("__Host-speedwell="));
        assert!(text.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"));
        let without = logins.start_login(2, false, now).unwrap();
        let text = without.to_str().unwrap();
        assert!(text.starts_with("speedwell="));
        assert!(text.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"));
        assert_eq!(
            logins.find_login(&cookie_header(&without), true, now),
            None,
            "a cookie that TLS does not protect"
        );
        assert_eq!(logins.find_login(&cookie_header(&without), false, now), Some(2));
    }

    #[test]
    fn a_login_ends_by_expiry_by_logout_or_with_its_token() {
        let logins = LoginStore::new("speedwell");
        let now = Instant::now();
        let later = now + Duration::from_secs(12 * 3600);
        let cookies: Vec<_> =
            ["a", "b", "c"].map(|who| logins.start_login(who, true, now).unwrap()).into();
        assert_eq!(logins.find_login(&cookie_header(&cookies[0]), true, later), None);
        logins.end_login(&cookie_header(&cookies[1]), true).unwrap();
        assert_eq!(logins.find_login(&cookie_header(&cookies[1]), true, now), None);
        logins.end_matching(|who| *who == "c");
        assert_eq!(logins.find_login(&cookie_header(&cookies[2]), true, now), None);
        assert_eq!(logins.find_login(&cookie_header(&cookies[0]), true, now), Some("a"));
    }

    #[test]
    fn a_login_cookie_is_found_among_others_but_refused_if_duplicated() {
        let logins = LoginStore::new("speedwell");
        let now = Instant::now();
        let cookie = logins.start_login((), false, now).unwrap();
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        let with = |text: String| HeaderMap::from_iter([(COOKIE, text.parse().unwrap())]);
        assert_eq!(logins.find_login(&with(format!("a=b; {pair};c=d")), false, now), Some(()));
        assert_eq!(logins.find_login(&with(format!("{pair}; speedwell=x")), false, now), None);
        assert_eq!(logins.find_login(&with("speedwell=x".to_owned()), false, now), None);
    }

    #[test]
    fn the_start_key_works_once() {
        let key = LoginKey::new().unwrap();
        assert!(!key.redeem(""));
        assert!(!key.redeem("wrong"));
        let text = key.expose().to_owned();
        assert!(key.redeem(&text));
        assert!(!key.redeem(&text));
    }
}

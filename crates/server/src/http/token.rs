//! Creates, parses and checks access tokens: long secrets that programs send with each request. The
//! server stores only a digest of each token. Limits the rate of failed logins from each address.
//!
//! A token consists of `spw_`, an id of 12 characters, 32 random bytes as 43 characters of
//! base64url, and a checksum of 6 characters. Prefix and checksum let secret scanners detect a
//! leaked token offline, and let the server reject a mistyped token without a store lookup.
//!
//! Once an address has reached the limit, its logins are rejected without checking the credentials.
//! Otherwise, an attacker could go on guessing. Memory is bounded, whatever the number of
//! addresses. The usual rate-limiting middleware counts requests, not failures, and would slow down
//! a team behind one address.

use crate::http::client::{address_group, single_value};
use crate::http::{Error, HttpError, lock};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Crc;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// Prefix of every token.
pub const TOKEN_PREFIX: &str = "spw_";
const ID_LENGTH: usize = 12;
const SECRET_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;
const TOKEN_LENGTH: usize = TOKEN_PREFIX.len() + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH;

/// Alphabet of ids. It omits characters that are easily confused.
const ID_LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
const CHECKSUM_LETTERS: &[u8; 62] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Secret string. It has no `Display`, and its `Debug` hides the text.
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    /// Generates random bytes, encoded as base64url.
    ///
    /// # Errors
    /// Fails if the system cannot provide random bytes.
    pub fn random<const BYTES: usize>() -> Result<SecretText, Error> {
        Ok(SecretText(URL_SAFE_NO_PAD.encode(random_bytes::<BYTES>()?)))
    }

    /// Returns the string, to show it once or send it to its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the digest, which is safe to store.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of_text(&self.0)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// SHA-256 of a secret. A slow hash is not needed, because the secrets are 32 random bytes, which
/// cannot be guessed.
#[derive(Debug, Clone, Copy, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Computes the digest of a string.
    pub fn of_text(text: &str) -> SecretDigest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        SecretDigest(bytes)
    }

    /// Wraps a stored digest.
    pub fn from_bytes(bytes: [u8; 32]) -> SecretDigest {
        SecretDigest(bytes)
    }

    /// Returns the bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for SecretDigest {
    /// Compares in constant time.
    fn eq(&self, other: &SecretDigest) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// Well-formed token: prefix, length and checksum are right. Only the store knows whether it is
/// valid.
///
/// ```
/// use speedwell_server::http::token::AccessToken;
///
/// let token = AccessToken::new()?;
/// let (id, digest) = (token.id().to_owned(), token.digest());  // stored; the token itself is shown once
/// let shown = token.expose().to_owned();
///
/// let presented = AccessToken::parse(&shown).unwrap();
/// assert_eq!(presented.id(), id);
/// assert!(presented.matches_digest(Some(&digest)));
/// # Ok::<(), speedwell_server::http::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AccessToken(SecretText);

impl AccessToken {
    /// Generates a token.
    ///
    /// # Errors
    /// Fails if the system cannot provide random bytes.
    #[allow(clippy::new_without_default, reason = "it may fail")]
    pub fn new() -> Result<AccessToken, Error> {
        let mut text = TOKEN_PREFIX.to_owned();
        for byte in random_bytes::<ID_LENGTH>()? {
            text.push(char::from(ID_LETTERS[usize::from(byte) % ID_LETTERS.len()]));
        }
        text.push_str(&URL_SAFE_NO_PAD.encode(random_bytes::<32>()?));
        let checksum = token_checksum(&text);
        text.push_str(&checksum);
        Ok(AccessToken(SecretText(text)))
    }

    /// Parses a token. Returns `None` if the prefix, the length or the checksum is wrong.
    pub fn parse(text: &str) -> Option<AccessToken> {
        let has_form =
            text.len() == TOKEN_LENGTH && text.is_ascii() && text.starts_with(TOKEN_PREFIX);
        let (body, checksum) = text.split_at_checked(TOKEN_LENGTH - CHECKSUM_LENGTH)?;
        (has_form && token_checksum(body) == checksum)
            .then(|| AccessToken(SecretText(text.to_owned())))
    }

    /// Returns the id, which serves to look up the token and is not secret.
    pub fn id(&self) -> &str {
        &self.0.0[TOKEN_PREFIX.len()..TOKEN_PREFIX.len() + ID_LENGTH]
    }

    /// Returns the digest to store.
    pub fn digest(&self) -> SecretDigest {
        self.0.digest()
    }

    /// Returns the token itself, to show it once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Whether this token has the digest stored under its id. `stored` is `None` for an unknown id;
    /// the comparison takes the same time even then.
    pub fn matches_digest(&self, stored: Option<&SecretDigest>) -> bool {
        let own_digest = self.digest();
        let stored_digest = stored.copied().unwrap_or(SecretDigest([0; 32]));
        (own_digest == stored_digest) & stored.is_some()
    }
}

/// Token that a request presents.
#[derive(Debug, Clone)]
pub enum PresentedToken {
    /// No token.
    None,
    /// A malformed token, which counts as a failed login.
    Malformed,
    /// A token to look up.
    Token(AccessToken),
}

/// Reads the token of `Authorization: Bearer TOKEN` (RFC 6750).
pub fn bearer_token(headers: &HeaderMap) -> PresentedToken {
    if !headers.contains_key(AUTHORIZATION) {
        return PresentedToken::None;
    }
    let value = single_value(headers, &AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| AccessToken::parse(token.trim()))?
    });
    token.map_or(PresentedToken::Malformed, PresentedToken::Token)
}

/// Returns the CRC-32 of the text in base 62. GitHub's tokens use the same kind of checksum.
fn token_checksum(text: &str) -> String {
    let mut crc = Crc::new();
    crc.update(text.as_bytes());
    let mut remainder = crc.sum() as usize;
    let mut digits = [0; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = CHECKSUM_LETTERS[remainder % CHECKSUM_LETTERS.len()];
        remainder /= CHECKSUM_LETTERS.len();
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}

const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of failures of an address within [`FAILURE_WINDOW`].
const MAX_FAILURES: usize = 10;
/// Maximum number of tracked addresses. When another address would exceed it, the address that has
/// gone longest without a failure is dropped.
const MAX_ADDRESSES: usize = 4096;

/// Counts failures per address. Each address may fail ten times per minute.
///
/// ```
/// use speedwell_server::http::token::FailureLimiter;
/// use std::time::Instant;
///
/// let (failures, address, now) = (FailureLimiter::default(), "203.0.113.7".parse().ok(), Instant::now());
/// for _ in 0..10 {
///     assert!(failures.check_address(address, now).is_ok());
///     failures.record_failure(address, now);
/// }
/// assert_eq!(failures.check_address(address, now).unwrap_err().status, 429);
/// ```
#[derive(Debug, Default)]
pub struct FailureLimiter {
    by_address: Mutex<HashMap<IpAddr, VecDeque<Instant>>>,
}

impl FailureLimiter {
    /// Checks that this address may try to log in. `None` stands for clients on a Unix socket.
    ///
    /// # Errors
    /// Fails with status 429 if the address has reached its limit. The client must then wait until
    /// the oldest counted failure is a minute old.
    pub fn check_address(&self, address: Option<IpAddr>, now: Instant) -> Result<(), HttpError> {
        let by_address = lock(&self.by_address);
        let Some(times) = by_address.get(&address_key(address)) else {
            return Ok(());
        };
        let is_recent = |time: &&Instant| now.saturating_duration_since(**time) < FAILURE_WINDOW;
        let recent: Vec<&Instant> = times.iter().filter(is_recent).collect();
        match recent.first() {
            Some(first) if recent.len() >= MAX_FAILURES => {
                let remaining = FAILURE_WINDOW - now.saturating_duration_since(**first);
                let message = "too many failed logins from this address";
                Err(HttpError::new(StatusCode::TOO_MANY_REQUESTS, message)
                    .with_retry_after(remaining.as_secs() + 1))
            }
            _ => Ok(()),
        }
    }

    /// Records a failure.
    pub fn record_failure(&self, address: Option<IpAddr>, now: Instant) {
        let mut by_address = lock(&self.by_address);
        let key = address_key(address);
        if by_address.len() >= MAX_ADDRESSES && !by_address.contains_key(&key) {
            let oldest = by_address.iter().min_by_key(|(_, times)| times.back().copied());
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                by_address.remove(&oldest);
            }
        }
        let times = by_address.entry(key).or_default();
        times.push_back(now);
        while times.len() > MAX_FAILURES {
            times.pop_front();
        }
    }
}

fn address_key(address: Option<IpAddr>) -> IpAddr {
    address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address_group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};
    use std::collections::HashSet;

    #[test]
    fn every_token_is_read_back_and_no_two_are_alike() {
        let mut seen = HashSet::new();
        for _ in 0..2000 {
            let token = AccessToken::new().unwrap();
            assert_eq!(token.expose().len(), TOKEN_LENGTH);
            let read = AccessToken::parse(token.expose()).unwrap();
            assert_eq!(read.id(), token.id());
            assert!(read.matches_digest(Some(&token.digest())));
            assert!(!read.matches_digest(None));
            assert!(seen.insert(token.expose().to_owned()));
        }
    }

    #[test]
    fn a_token_with_any_one_character_changed_is_invalid() {
        let token = AccessToken::new().unwrap().expose().to_owned();
        for at in 0..token.len() {
            for letter in
                (0..128_u8).map(char::from).filter(|letter| !token[at..].starts_with(*letter))
            {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &letter.to_string());
                assert!(AccessToken::parse(&changed).is_none(), "{at} {letter:?}");
            }
        }
    }

    #[test]
    fn random_text_is_never_a_token() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
        for _ in 0..20_000 {
            let length = random.next_u32() as usize % 80;
            let mut bytes: Vec<u8> = (0..length).map(|_| random.next_u32() as u8).collect();
            if random.next_u32() % 2 == 0 {
                bytes.splice(0..0, *b"spw_");
            }
            assert!(AccessToken::parse(&String::from_utf8_lossy(&bytes)).is_none());
        }
        // Each text is as long as a token and contains a multi-byte character. This character takes
        // every position, including those that straddle two parts of a token.
        for at in 0..TOKEN_LENGTH - 1 {
            let text = format!("{}\u{e9}{}", "x".repeat(at), "x".repeat(TOKEN_LENGTH - 2 - at));
            assert!(AccessToken::parse(&text).is_none());
        }
    }

    #[test]
    fn debug_output_never_contains_a_secret() {
        let token = AccessToken::new().unwrap();
        assert_eq!(format!("{token:?}"), "AccessToken(Secret(..))");
        assert_eq!(format!("{:?}", PresentedToken::Token(token)), "Token(AccessToken(Secret(..)))");
    }

    #[test]
    fn the_authorization_header_must_be_a_single_valid_bearer_token() {
        let token = AccessToken::new().unwrap();
        let header = |value: &str| (AUTHORIZATION, value.parse().unwrap());
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let (name, value) = header(value);
                headers.append(name, value);
            }
            bearer_token(&headers)
        };
        let right = format!("Bearer {}", token.expose());
        assert!(matches!(with(&[&right]), PresentedToken::Token(_)));
        assert!(matches!(with(&[&right.replace("Bearer", "bearer")]), PresentedToken::Token(_)));
        assert!(matches!(with(&[]), PresentedToken::None));
        for wrong in [&["Bearer x"][..], &["Basic eDp5"], &[""], &[&right, &right]] {
            assert!(matches!(with(wrong), PresentedToken::Malformed), "{wrong:?}");
        }
    }

    /// Known value: CRC-32 of "123456789" is cbf43926 (ITU-T V.42).
    #[test]
    fn the_checksum_is_crc_32() {
        let value = token_checksum("123456789").bytes().fold(0_u64, |value, letter| {
            let digit = CHECKSUM_LETTERS.iter().position(|known| *known == letter).unwrap();
            value * 62 + digit as u64
        });
        assert_eq!(value, 0xcbf4_3926);
    }

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn an_address_is_limited_to_ten_guesses_a_minute() {
        let failures = FailureLimiter::default();
        let start = Instant::now();
        let mut tried = 0;
        for guess in 0..10_000 {
            // All 10,000 guesses together take ten minutes.
            let now = start + Duration::from_millis(60) * guess;
            if failures.check_address(address(1), now).is_ok() {
                tried += 1;
                failures.record_failure(address(1), now);
            }
        }
        assert_eq!(tried, 100);
        assert!(failures.check_address(address(2), start).is_ok());
    }

    #[test]
    fn the_refusal_says_when_to_try_again() {
        let failures = FailureLimiter::default();
        let start = Instant::now();
        failures.record_failure(None, start);
        for _ in 1..MAX_FAILURES {
            failures.record_failure(None, start + Duration::from_secs(20));
        }
        let refusal = failures.check_address(None, start + Duration::from_secs(30)).unwrap_err();
        assert_eq!(refusal.retry_after_s, Some(31));
        assert!(failures.check_address(None, start + Duration::from_secs(61)).is_ok());
    }

    #[test]
    fn the_number_of_remembered_addresses_is_limited() {
        let failures = FailureLimiter::default();
        let start = Instant::now();
        for number in 0..MAX_ADDRESSES as u32 + 500 {
            failures
                .record_failure(address(number), start + Duration::from_micros(u64::from(number)));
        }
        let by_address = failures.by_address.lock().unwrap();
        assert_eq!(by_address.len(), MAX_ADDRESSES);
        assert!(!by_address.contains_key(&address(0).unwrap()));
    }
}

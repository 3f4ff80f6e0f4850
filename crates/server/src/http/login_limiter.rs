//! Limits the rate of failed logins from each address.
//!
//! Once an address has reached the limit, its logins are rejected without checking the credentials.
//! Otherwise, an attacker could go on guessing. Memory is bounded, whatever the number of
//! addresses. The usual rate-limiting middleware counts requests, not failures, and would slow down
//! a team behind one address.

use crate::http::http_error::HttpError;
use crate::http::options::address_group;
use axum::http::StatusCode;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of tracked addresses. Beyond it, the address whose most recent failure is the
/// oldest is dropped.
const MAX_ADDRESSES: usize = 4096;

/// Counts failures per address.
///
/// ```
/// use speedwell_server::http::login_limiter::FailureLimiter;
/// use std::time::Instant;
///
/// let (failures, address, now) = (FailureLimiter::default(), "203.0.113.7".parse().ok(), Instant::now());
/// for _ in 0..10 {
///     assert!(failures.check_address(address, now).is_ok());
///     failures.record_failure(address, now);
/// }
/// assert_eq!(failures.check_address(address, now).unwrap_err().status, 429);
/// ```
#[derive(Debug)]
pub struct FailureLimiter {
    per_minute: usize,
    by_address: Mutex<HashMap<IpAddr, VecDeque<Instant>>>,
}

impl Default for FailureLimiter {
    /// Allows each address ten failures per minute.
    fn default() -> FailureLimiter {
        FailureLimiter::new(10)
    }
}

impl FailureLimiter {
    /// Allows each address `per_minute` failures per minute.
    pub fn new(per_minute: usize) -> FailureLimiter {
        FailureLimiter { per_minute: per_minute.max(1), by_address: Mutex::default() }
    }

    /// Checks that this address may try to log in. `None` stands for clients on a Unix socket.
    ///
    /// # Errors
    /// Fails with status 429 if the address has reached its limit. The client must then wait until
    /// the oldest counted failure is a minute old.
    pub fn check_address(&self, address: Option<IpAddr>, now: Instant) -> Result<(), HttpError> {
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(times) = by_address.get(&address_key(address)) else {
            return Ok(());
        };
        let recent =
            times.iter().filter(|time| now.saturating_duration_since(**time) < FAILURE_WINDOW);
        let recent: Vec<&Instant> = recent.collect();
        match recent.first() {
            Some(first) if recent.len() >= self.per_minute => {
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
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let key = address_key(address);
        if by_address.len() >= MAX_ADDRESSES && !by_address.contains_key(&key) {
            let oldest = by_address.iter().min_by_key(|(_, times)| times.back().copied());
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                by_address.remove(&oldest);
            }
        }
        let times = by_address.entry(key).or_default();
        times.push_back(now);
        while times.len() > self.per_minute {
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
        let failures = FailureLimiter::new(2);
        let start = Instant::now();
        failures.record_failure(None, start);
        failures.record_failure(None, start + Duration::from_secs(20));
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

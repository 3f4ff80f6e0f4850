//! A set of processors, as in `--pin 0,2-4`.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Processors that a measured process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(Vec<usize>);

/// Why a text is not a set of processors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list of processors such as '0', '0-2' or '0,2-4'")]
pub struct CpuSetError(String);

impl CpuSet {
    /// The processors, ascending, each once.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// Those that this thread may use.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn usable() -> std::io::Result<CpuSet> {
        let all = 0..libc::CPU_SETSIZE as usize;
        // SAFETY: cpu_set_t is a plain array of integers; the kernel fills in at most its size, and CPU_ISSET is
        // asked about no number beyond it.
        unsafe {
            let mut mask: libc::cpu_set_t = std::mem::zeroed();
            match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut mask) {
                0 => Ok(all.filter(|cpu| libc::CPU_ISSET(*cpu, &mask)).collect()),
                _ => Err(std::io::Error::last_os_error()),
            }
        }
    }

    /// Binds this thread, and all threads and processes that it starts from now on.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn bind(&self) -> std::io::Result<()> {
        let mask = self.mask();
        // SAFETY: the mask lives until the call returns.
        match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &mask) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// The kernel's form of the set.
    pub(super) fn mask(&self) -> libc::cpu_set_t {
        // SAFETY: cpu_set_t is a plain array of integers, for which all zeroes is the empty set;
        // FromStr keeps every number below CPU_SETSIZE, so CPU_SET stays inside it.
        unsafe {
            let mut mask: libc::cpu_set_t = std::mem::zeroed();
            for &cpu in &self.0 {
                libc::CPU_SET(cpu, &mut mask);
            }
            mask
        }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuSet(cpus)
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        let wrong = || CpuSetError(text.to_owned());
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| wrong())?;
            let last: usize = last.parse().map_err(|_| wrong())?;
            if first > last || last >= libc::CPU_SETSIZE as usize {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        Ok(cpus.into_iter().collect())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;
    fn try_from(text: String) -> Result<CpuSet, CpuSetError> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        let words: Vec<String> = set.0.iter().map(usize::to_string).collect();
        words.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_to_some_of_the_processors_it_may_use() {
        let usable = CpuSet::usable().unwrap();
        let last: CpuSet = usable.cpus().last().copied().into_iter().collect();
        let bound = std::thread::spawn(move || {
            last.bind().unwrap();
            (CpuSet::usable().unwrap(), last)
        });
        let (now, wanted) = bound.join().unwrap();
        assert_eq!(now, wanted);
        assert_eq!(CpuSet::usable().unwrap(), usable, "other threads are not");
    }

    #[test]
    fn lists_and_ranges_are_read_and_words_refused() {
        assert_eq!("0,2-4,3".parse::<CpuSet>().unwrap().cpus(), [0, 2, 3, 4]);
        for wrong in ["", "a", "3-1", "1,", "-1", "99999"] {
            assert!(wrong.parse::<CpuSet>().is_err(), "{wrong}");
        }
    }
}

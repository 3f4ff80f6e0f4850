//! Which process this is, so that another one can tell later whether it still lives.

use std::fs;

/// A process, unmistakable on its machine: numbers of processes are used again, but not with the same start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The machine, where it has an identity (machine-id(5)).
    pub machine: Option<String>,
    /// The kernel's life that it belongs to (random(4), `boot_id`).
    pub boot: Option<String>,
    /// The numbering that its number belongs to (pid_namespaces(7)).
    pub numbering: Option<String>,
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since the machine did.
    pub started_ticks: Option<i64>,
}

impl Identity {
    /// This process.
    pub fn own() -> Identity {
        let line = |file: &str| Some(fs::read_to_string(file).ok()?.trim().to_owned());
        let numbering = fs::read_link("/proc/self/ns/pid").ok();
        let pid = std::process::id() as i32;
        Identity {
            machine: line("/etc/machine-id").filter(|id| !id.is_empty()),
            boot: line("/proc/sys/kernel/random/boot_id"),
            numbering: numbering.map(|link| link.to_string_lossy().into_owned()),
            pid,
            started_ticks: start_of(pid),
        }
    }

    /// Whether it has ended; `None` if that cannot be known here, because it belongs to another machine or to a
    /// container.
    pub fn has_ended(&self) -> Option<bool> {
        self.has_ended_for(&Identity::own())
    }

    fn has_ended_for(&self, viewer: &Identity) -> Option<bool> {
        let same =
            |one: &Option<String>, other: &Option<String>| Some(one.as_ref()? == other.as_ref()?);
        if !same(&self.boot, &viewer.boot)? {
            // A kernel that has ended took its processes along; another machine's is unknown.
            return same(&self.machine, &viewer.machine)?.then_some(true);
        }
        if !same(&self.numbering, &viewer.numbering)? {
            return None;
        }
        Some(self.started_ticks.is_none() || start_of(self.pid) != self.started_ticks)
    }
}

/// When a living process started (proc_pid_stat(5), field 22). Its name, in brackets, may contain anything.
fn start_of(pid: i32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let has_ended = matches!(fields.first(), Some(&"Z" | &"X"));
    fields.get(19)?.parse().ok().filter(|_| !has_ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends_and_its_number_alone_says_nothing() {
        let own = Identity::own();
        assert_eq!(own.has_ended(), Some(false));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let of_child = Identity {
            pid,
            started_ticks: start_of(pid),
            ..own.clone()
        };
        assert_eq!(of_child.has_ended(), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_child.has_ended(), Some(true));
        let reused = Identity {
            started_ticks: own.started_ticks.map(|ticks| ticks - 1),
            ..own
        };
        assert_eq!(reused.has_ended(), Some(true));
    }

    #[test]
    fn of_other_machines_and_containers_nothing_is_known() {
        let own = Identity {
            machine: Some("m".into()),
            ..Identity::own()
        };
        let other = |change: fn(&mut Identity)| {
            let mut other = own.clone();
            change(&mut other);
            other.has_ended_for(&own)
        };
        assert_eq!(other(|one| one.boot = Some("earlier".into())), Some(true));
        assert_eq!(
            other(|one| (one.boot, one.machine) = (Some("other".into()), Some("n".into()))),
            None
        );
        assert_eq!(other(|one| one.numbering = Some("pid:[1]".into())), None);
        assert_eq!(other(|one| one.boot = None), None);
    }
}

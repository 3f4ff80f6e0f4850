//! Identifies machines. An identity survives a reboot or a change of host name, and differs between
//! machines. Start at [`MachineIdentity::of_this_machine`].

use super::bundle::encode_hex;
use ring::digest;
use serde::{Deserialize, Serialize};
use speedwell_machine::environment;
use speedwell_model::Environment;
use std::fs;
use std::path::Path;

/// The machine ID must not be exposed (machine-id(5)). It is hashed with this prefix, and the hash
/// is useless for other applications.
const SALT: &str = "speedwell-machine";
const DIGITS: usize = 16;

/// Identity of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// 16 hexadecimal digits.
    pub id: String,
    /// Host name.
    pub host: String,
    /// Processor model and count, memory in GiB and architecture. The analysis treats machines of
    /// the same class as a sample of all such machines.
    pub class: String,
    /// Warning if the identity may change or be shared with another machine.
    pub warning: Option<String>,
}

impl MachineIdentity {
    /// Identifies this machine, and captures its environment.
    pub fn of_this_machine() -> (MachineIdentity, Environment) {
        let environment = environment::capture_environment(&[]);
        (MachineIdentity::from_environment(Path::new("/"), &environment), environment)
    }

    /// Identifies a machine by its environment and by the files below `root` (normally `/`).
    fn from_environment(root: &Path, environment: &Environment) -> MachineIdentity {
        let read = |file: &str| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            let number = text.trim().to_ascii_lowercase();
            let is_number =
                number.len() >= DIGITS && number.bytes().any(|byte| byte != b'0' && byte != b'-');
            is_number.then_some(number)
        };
        let host = environment.host.clone().unwrap_or_else(|| "unknown".to_owned());
        let machine_number =
            read("etc/machine-id").or_else(|| read("sys/class/dmi/id/product_uuid"));
        let warning = machine_number.is_none().then(|| {
            "The machine has no machine-id(5): it is identified by its host name.".to_owned()
        });
        MachineIdentity {
            id: hash_id(machine_number.as_deref().unwrap_or(&host)),
            class: machine_class(environment),
            host,
            warning,
        }
    }
}

fn hash_id(number: &str) -> String {
    let salted = [SALT, number].concat();
    let digest = digest::digest(&digest::SHA256, salted.as_bytes());
    encode_hex(digest.as_ref())[..DIGITS].to_owned()
}

/// Joins the known facts, as in `AMD EPYC 7B13, 2 processors, 24 GiB, x86_64`.
fn machine_class(environment: &Environment) -> String {
    const GIB: u64 = 1 << 30;
    let cpus = environment.cpus.map(|cpus| match cpus {
        1 => "1 processor".to_owned(),
        _ => format!("{cpus} processors"),
    });
    // Round, because the memory reserved by firmware and kernel varies a little between boots.
    let memory = environment.memory_bytes.map(|bytes| format!("{} GiB", (bytes + GIB / 2) / GIB));
    let parts = [environment.cpu.clone(), cpus, memory, Some(std::env::consts::ARCH.to_owned())];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(host: &str) -> Environment {
        Environment {
            host: Some(host.to_owned()),
            cpu: Some("EPYC".to_owned()),
            cpus: Some(2),
            memory_bytes: Some(24_680_000_000),
            ..Environment::default()
        }
    }

    fn identity(files: &[(&str, &str)], host: &str) -> MachineIdentity {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        MachineIdentity::from_environment(root.path(), &environment(host))
    }

    #[test]
    fn a_machine_id_survives_renaming_and_does_not_reveal_its_source() {
        let number = "0123456789abcdef0123456789abcdef";
        let one = identity(&[("etc/machine-id", &format!("{number}\n"))], "a");
        let renamed = identity(&[("etc/machine-id", number)], "b");
        assert_eq!(one.id, renamed.id);
        // printf speedwell-machine0123456789abcdef0123456789abcdef | sha256sum
        assert_eq!(one.id, "838c5430ab4b505d");
        assert!(!number.contains(&one.id) && one.warning.is_none());
        assert_eq!(one.class, format!("EPYC, 2 processors, 23 GiB, {}", std::env::consts::ARCH));
        let other = identity(&[("etc/machine-id", "0123456789abcdef0123456789abcdee")], "a");
        assert_ne!(one.id, other.id);
    }

    #[test]
    fn firmware_or_host_name_identifies_a_machine_without_a_machine_id() {
        let uuid = ("sys/class/dmi/id/product_uuid", "4C4C4544-0042-3510-8052-B4C04F564433\n");
        let firmware = identity(&[("etc/machine-id", ""), uuid], "a");
        assert_eq!(firmware.warning, identity(&[uuid], "b").warning);
        assert_eq!(firmware.id, identity(&[uuid], "b").id);
        // Some firmware reports only zeros.
        let zeros = ("sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-000000000000");
        let host = identity(&[zeros], "a");
        assert_eq!(host.id, identity(&[], "a").id);
        assert_ne!(host.id, identity(&[], "b").id);
        assert!(
            host.warning.is_some_and(|warning| warning.contains("identified by its host name"))
        );
    }
}

//! Checks of the programs that benchmarks in other languages and foreign load generators need.

use super::{Check, State};
use crate::programs::find;
use crate::tree::Tree;
use crate::version::program_version;
use std::ffi::OsStr;
use std::thread;

/// Programs looked for, and what to install for them on Debian and its relatives.
const KNOWN: &[(&str, &str)] = &[
    ("node", "sudo apt install nodejs"),
    ("npm", "sudo apt install npm"),
    ("python3", "sudo apt install python3"),
    ("go", "sudo apt install golang-go"),
    ("java", "sudo apt install default-jdk-headless"),
    ("rustc", "sudo apt install rustc"),
    ("cargo", "sudo apt install cargo"),
    ("gcc", "sudo apt install gcc"),
    ("g++", "sudo apt install g++"),
    ("erl", "sudo apt install erlang-base"),
    ("elixir", "sudo apt install elixir"),
    ("wrk", "sudo apt install wrk"),
    ("ab", "sudo apt install apache2-utils"),
    ("h2load", "sudo apt install nghttp2-client"),
    ("autocannon", "npm install --global autocannon"),
    ("perf", "sudo apt install linux-perf"),
];

/// One check per program; all are asked at the same time, because some take most of a second to
/// say their version. A missing one is no problem by itself: only who needs it will install it.
pub(super) fn checks(tree: &Tree, search: &OsStr) -> Vec<Check> {
    let has_apt = find(tree, search, "apt").is_some();
    thread::scope(|scope| {
        let asked: Vec<_> = KNOWN
            .iter()
            .map(|(name, install)| {
                let install = if has_apt || !install.contains(" apt ") {
                    (*install).to_owned()
                } else {
                    format!("install {name} with the package manager of your system")
                };
                scope.spawn(move || toolchain(tree, search, name, install))
            })
            .collect();
        asked
            .into_iter()
            .filter_map(|check| check.join().ok())
            .collect()
    })
}

fn toolchain(tree: &Tree, search: &OsStr, program: &str, install: String) -> Check {
    let name = format!("toolchain {program}");
    let Some(path) = find(tree, search, program) else {
        let missing = Check::new(name, State::Unknown, "not found in PATH");
        return Check {
            remedy: Some(install),
            ..missing
        };
    };
    match program_version(&path).text {
        Some(version) => {
            let engine = format!("{version} ({})", path.display());
            Check::new(name, State::Good, engine)
        }
        None => {
            let found = format!("'{}' does not say its version", path.display());
            Check::new(name, State::Warning, found).remedy(format!("{} --version", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake::{Machine, machine};
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    fn with_programs(files: &[(&str, &str)]) -> Machine {
        let machine = machine(files);
        for (path, _) in files {
            set_permissions(machine.path(path), Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn check_of(machine: &Machine, program: &str) -> Check {
        let name = format!("toolchain {program}");
        let all = checks(machine, OsStr::new("/usr/local/bin:/usr/bin"));
        assert_eq!(all.len(), KNOWN.len());
        all.into_iter().find(|check| check.name == name).unwrap()
    }

    #[test]
    fn a_toolchain_is_found_where_path_says_and_tells_its_version() {
        let machine = with_programs(&[
            ("/usr/bin/gcc", "#!/bin/sh\necho 'gcc (Debian) 12.2.0'\n"),
            ("/usr/local/bin/python3", "#!/bin/sh\nexit 127\n"),
        ]);
        let gcc = check_of(&machine, "gcc");
        assert_eq!(gcc.state, State::Good);
        assert!(
            gcc.found.starts_with("gcc (Debian) 12.2.0 (/"),
            "{}",
            gcc.found
        );
        let broken = check_of(&machine, "python3");
        assert_eq!(broken.state, State::Warning);
        assert!(broken.remedy.unwrap().ends_with("python3 --version"));
    }

    #[test]
    fn what_is_missing_can_be_installed() {
        let debian = with_programs(&[("/usr/bin/apt", "#!/bin/sh\n")]);
        let missing = check_of(&debian, "erl");
        assert_eq!(missing.state, State::Unknown);
        assert_eq!(
            missing.remedy.as_deref(),
            Some("sudo apt install erlang-base")
        );
        let other = check_of(&with_programs(&[]), "erl");
        assert!(other.remedy.unwrap().contains("package manager"));
    }
}

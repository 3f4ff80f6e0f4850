//! Installed packages, used from a folder outside this repository. `scripts/check-packages` does
//! the same with the release build, maturin and `cargo publish`, which take minutes.

use super::harness_driver::find_tool;
use super::project::{TempProject, repository};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn execute(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// The platform in npm's terms; `None` without a package for it.
fn platform() -> Option<&'static str> {
    let known = match std::env::consts::ARCH {
        "x86_64" => Some("linux-x64"),
        "aarch64" => Some("linux-arm64"),
        _ => None,
    };
    if known.is_none() {
        eprintln!("skipped: no npm package is declared for this processor");
    }
    known
}

/// Lays out `node_modules` like `npm install`: the packed library, and the program's package beside
/// it.
fn install_npm_packages(folder: &Path, platform: &str) {
    execute(
        Command::new("npm")
            .args(["pack", "--silent", "--offline", "--pack-destination"])
            .arg(folder)
            .arg(repository().join("crates/adapters/languages/node")),
    );
    let library = folder.join("node_modules/speedwell");
    std::fs::create_dir_all(&library).unwrap();
    let packed = folder.join(format!("speedwell-{VERSION}.tgz"));
    execute(
        Command::new("tar")
            .args(["--strip-components=1", "-xzf"])
            .arg(&packed)
            .arg("-C")
            .arg(&library),
    );
    let package = folder.join("node_modules/@speedwell-bench").join(platform);
    std::fs::create_dir_all(package.join("bin")).unwrap();
    let declared = repository().join("packages/npm").join(platform).join("package.json");
    std::fs::copy(declared, package.join("package.json")).unwrap();
    let program = package.join("bin/speedwell");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_speedwell"), program).unwrap();
}

#[test]
fn the_npm_packages_start_the_program_and_pass_its_exit_status_on() {
    let (Some(_), Some(_), Some(platform)) =
        (find_tool(&["npm"]), find_tool(&["node"]), platform())
    else {
        return;
    };
    let text = "const { createBenchmark } = require('speedwell');\n\
                createBenchmark(() => {}, { n: [1, 2] });\n";
    let project = TempProject::new().with("group/file.js", text);
    install_npm_packages(&project.path("."), platform);
    let start = |words: &[&str]| {
        let mut command = Command::new("node");
        command
            .arg("node_modules/speedwell/bin/speedwell.cjs")
            .args(words)
            .current_dir(project.path("."))
            .env("XDG_CACHE_HOME", project.path("cache"));
        command.output().unwrap()
    };
    let listed = start(&["run", "--list", "group/file.js"]);
    let stdout = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(stdout.contains("group/file.js n=2"), "{listed:?}");
    assert_eq!(start(&["run", "absent.js"]).status.code(), Some(2));
}

#[test]
fn an_npm_package_without_its_program_says_what_is_missing() {
    let Some(_) = find_tool(&["node"]) else {
        return;
    };
    let launcher = repository().join("crates/adapters/languages/node/bin/speedwell.cjs");
    let output = Command::new("node").arg(launcher).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("hint: npm skips it"), "{stderr}");
}

/// A Python interpreter with hatchling, which builds Python packages; installed by
/// scripts/install-test-tools.
fn python_with_hatchling() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let python = cache.join("speedwell/test-tools/python/bin/python");
    if !python.with_file_name("hatchling").is_file() {
        eprintln!("skipped: hatchling is not installed");
        return None;
    }
    Some(python)
}

#[test]
fn a_python_file_works_by_hand_once_the_package_is_installed() {
    let Some(python) = python_with_hatchling() else {
        return;
    };
    let text = "import speedwell\n\n@speedwell.benchmark(size=[10, 20])\ndef build(size):\n    \
                return list(range(size))\n\nspeedwell.main()\n";
    let project = TempProject::new().with("lists.py", text);
    execute(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"])
            .args(["--no-build-isolation", "--disable-pip-version-check"])
            .args(["--target", "site"])
            .arg(repository().join("crates/adapters/languages/python"))
            .current_dir(project.path(".")),
    );
    let listed = execute(
        Command::new("python3")
            .args(["lists.py", "--list"])
            .current_dir(project.path("."))
            .env("PYTHONPATH", "site"),
    );
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "build size=10\nbuild size=20\n");
    for typed in ["py.typed", "__init__.pyi"] {
        assert!(project.path("site/speedwell").join(typed).is_file());
    }
}

#[test]
fn every_package_has_the_version_of_the_program() {
    let pinned = |file: &str, line: String| {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.contains(&line), "{file} lacks {line}");
    };
    let json = format!(r#""version": "{VERSION}""#);
    for platform in ["linux-arm64", "linux-x64"] {
        pinned(
            "crates/adapters/languages/node/package.json",
            format!(r#""@speedwell-bench/{platform}": "{VERSION}""#),
        );
        pinned(&format!("packages/npm/{platform}/package.json"), json.clone());
    }
    pinned("crates/adapters/languages/node/package.json", json);
    for folder in ["crates/adapters/languages", "packages"] {
        let file = format!("{folder}/python/pyproject.toml");
        pinned(&file, format!(r#"version = "{VERSION}""#));
    }
    pinned("packages/python/pyproject.toml", format!(r#""speedwell-benchmark=={VERSION}""#));
}

/// The files of a crate as published.
fn published_files(package: &str) -> String {
    let listed = execute(
        Command::new("cargo")
            .args(["package", "--list", "--allow-dirty", "--package", package])
            .current_dir(repository()),
    );
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

#[test]
fn the_crates_that_are_published_carry_every_harness_and_no_tests() {
    let Some(_) = find_tool(&["cargo"]) else {
        return;
    };
    let listed = published_files("speedwell-adapters");
    for needed in [
        "languages/node/harness.cjs",
        "languages/python/harness.py",
        "languages/cpp/speedwell.hpp",
        "languages/erlang/src/erlperf.erl",
    ] {
        assert!(listed.lines().any(|line| line == needed), "no {needed} in {listed}");
    }
    let listed = published_files("speedwell");
    assert!(listed.lines().any(|line| line == "src/main.rs"), "{listed}");
    assert!(!listed.contains("tests/it/"), "tests are published");
}

#[test]
fn the_dockerfile_copies_only_existing_folders_in_the_build_context() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap();
    let sent = read(".dockerignore");
    let file = read("Dockerfile");
    let copied = file
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|line| !line.starts_with("--from"))
        .flat_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[..words.len() - 1].to_vec()
        });
    let mut count = 0;
    for source in copied {
        count += 1;
        assert!(repository().join(source).exists(), "{source}");
        let line = format!("!{source}");
        assert!(sent.lines().any(|known| known == line), "{source}");
    }
    assert!(count >= 3, "the Dockerfile copies {count} things");
}

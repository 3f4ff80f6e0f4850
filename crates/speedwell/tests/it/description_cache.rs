//! Cached cases of unchanged files; dependencies count as part of the file.

use super::project::{TempProject, node};

/// A file that records each of its executions; its values come from a module and a variable.
fn project(more: &str) -> TempProject {
    let text = format!(
        "const {{ createBenchmark }} = require('speedwell');\n\
         const fs = require('fs');\n\
         const values = require('./values.js');\n\
         {more}\n\
         const bench = createBenchmark(main, {{ len: [...values, Number(process.env.LEN || 1)] }});\n\
         process.on('exit', () => fs.appendFileSync(`${{__dirname}}/asked`, 'x'));\n\
         function main() {{ bench.start(); bench.end(1); }}\n"
    );
    TempProject::new().with("g/file.js", &text).with("g/values.js", "module.exports = [10];")
}

/// The cases listed, and the number of executions of the file so far.
fn list_cases(project: &TempProject, len: Option<&str>) -> (String, usize) {
    let mut command = project.command(&["run", "g/file.js", "--list"]);
    command.env("XDG_CACHE_HOME", project.path("cache"));
    if let Some(len) = len {
        command.env("LEN", len);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let asked = std::fs::read_to_string(project.path("g/asked")).unwrap();
    (String::from_utf8(output.stdout).unwrap(), asked.len())
}

#[test]
fn a_file_is_described_again_only_when_a_dependency_has_changed() {
    if node().is_none() {
        return;
    }
    let project = project("");
    let (first, asked) = list_cases(&project, None);
    assert!(first.contains("len=10") && asked == 1, "{first}");
    assert_eq!(list_cases(&project, None), (first, 1));
    let (other, asked) = list_cases(&project, Some("77"));
    assert!(other.contains("len=77") && asked == 2, "{other}");
    std::fs::write(project.path("g/values.js"), "module.exports = [20];").unwrap();
    let (third, asked) = list_cases(&project, Some("77"));
    assert!(third.contains("len=20") && asked == 3, "{third}");
}

#[test]
fn a_file_that_reads_folders_is_described_each_time() {
    if node().is_none() {
        return;
    }
    let project = project("values.push(fs.readdirSync(__dirname).length);");
    let (first, _) = list_cases(&project, None);
    std::fs::write(project.path("g/one-more"), "").unwrap();
    let (second, asked) = list_cases(&project, None);
    assert!(first != second && asked == 2, "{first}{second}");
}

/// Compiled code that Node.js processes have cached of our own scripts.
fn cached_code(project: &TempProject) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let caches = std::fs::read_dir(project.path("cache/speedwell")).unwrap();
    let folders = caches.flatten().map(|entry| entry.path());
    let unpacked = folders.filter(|path| path.to_string_lossy().contains("/harness-node-"));
    unpacked
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/compiled-"))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn compiled_scripts_are_kept_once_and_replaced_if_they_are_broken() {
    if node().is_none() {
        return;
    }
    let project = project("");
    let measured = || {
        let mut command = project.command(&["run", "g/file.js", "--runs", "1", "--no-save"]);
        command.env("XDG_CACHE_HOME", project.path("cache"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        cached_code(&project)
    };
    let first = measured();
    let [(path, content)] = first.as_slice() else {
        panic!("{} compiled files", first.len());
    };
    // Both the process that described the file and those that measured it have cached their
    // functions.
    assert_eq!(content.last(), Some(&3));
    assert_eq!(measured(), first);
    std::fs::write(path, "broken").unwrap();
    let [(again, content)] = measured().try_into().unwrap();
    assert!(again == *path && content.len() > 10_000 && content.last() == Some(&2));
}

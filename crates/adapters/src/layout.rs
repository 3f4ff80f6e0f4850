//! Randomizes memory layout: every build places code and data differently, and every run places the
//! stack differently.
//!
//! This module decides how to make a linker shuffle, and where builds are kept until the session
//! ends. Sources are compiled once; only linking is repeated. `.init_array` is never shuffled,
//! since shuffling it would change what a program does. Start at [`RunLayout`]. [`ObjectFiles`]
//! links C and C++; [`link_with_first`] is for compilers that run the linker themselves.

use crate::cache::{self, cache_folder, entries_by_age, hash_name, locate_program};
use crate::compile::{BuildRecipe, COMPILER_TIMEOUT, run_compiler};
use crate::failure::HarnessFailure;
use speedwell_machine::process::{ProcessSpec, shell_line};
use speedwell_model::{StepFailure, seed_of_step};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum total size of the builds of one process. The oldest builds are removed first; they are
/// linked again when needed.
const MAX_TOTAL_BYTES: u64 = 2 << 30;

/// Age at which the folder of a process that seems to have ended is removed. The process may still
/// run in a container, where it is not visible from outside.
const MAX_ORPHAN_AGE: Duration = Duration::from_secs(24 * 3600);

/// Largest gap between object files, in units of [`GAP_UNIT_BYTES`].
const MAX_GAP_UNITS: u64 = 256;
/// The usual alignment of functions.
const GAP_UNIT_BYTES: u64 = 16;

/// Memory layout of the program of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLayout {
    /// The build, if there are several.
    pub build: Option<LinkedBuild>,
    /// Whether the addresses of functions are multiples of 64.
    pub align: bool,
    /// Number of bytes that an additional variable adds to the environment.
    pub pad_bytes: Option<u32>,
    /// Number of bytes by which the path of the started program is lengthened.
    pub path_bytes: Option<u32>,
}

/// One build of a variant: the variant's objects, linked with a layout of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedBuild {
    /// Index, counting from 0.
    pub number: u32,
    /// Seed of the build's layout.
    pub seed: u32,
}

impl RunLayout {
    /// Returns the process of `spec` with a shifted stack.
    pub(crate) fn apply_to(&self, spec: &ProcessSpec) -> ProcessSpec {
        let mut shifted = spec.clone();
        if let Some(bytes) = self.pad_bytes {
            let pad = "x".repeat(bytes as usize);
            shifted.environment.push(("SPEEDWELL_PAD".to_owned(), pad));
        }
        if let Some(bytes) = self.path_bytes {
            shifted.program = with_longer_path(&locate_program(&spec.program), bytes);
        }
        shifted
    }

    /// Returns additional flags for compiling C and C++.
    pub(crate) fn compiler_flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.build.is_some() {
            flags.extend(["-ffunction-sections", "-fdata-sections"].map(str::to_owned));
        }
        if self.align {
            flags.push("-falign-functions=64".to_owned());
        }
        flags
    }
}

/// Lengthens a path with repeated slashes. The path leads to the same file, and a program that
/// inspects it finds the same folder and name.
fn with_longer_path(program: &Path, bytes: u32) -> PathBuf {
    match (program.is_absolute(), program.parent(), program.file_name()) {
        (true, Some(folder), Some(name)) => {
            let mut path = folder.as_os_str().to_owned();
            path.push("/".repeat(bytes as usize));
            path.push("/");
            path.push(name);
            path.into()
        }
        _ => program.to_owned(),
    }
}

/// How the program of a run was linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRecord {
    build: LinkedBuild,
    /// Shell line that links the program again.
    pub(crate) link_command: String,
    /// Number of object files, if only whole object files could be shuffled.
    coarse: Option<usize>,
}

impl LinkRecord {
    /// Describes a build made by the compiler call `call`. `coarse` is the number of object files
    /// if only whole object files were shuffled.
    pub(crate) fn by_compiler(
        build: LinkedBuild,
        call: &ProcessSpec,
        coarse: Option<usize>,
    ) -> LinkRecord {
        LinkRecord { build, link_command: shell_line(call), coarse }
    }

    /// Adds the build and its link command to a failure, because some layouts may reveal undefined
    /// behavior.
    pub fn explain_failure(&self, failure: &mut StepFailure) {
        let LinkedBuild { number, seed } = self.build;
        if !failure.stderr_tail.is_empty() && !failure.stderr_tail.ends_with('\n') {
            failure.stderr_tail.push('\n');
        }
        failure.stderr_tail +=
            &format!("build {number}, layout seed {seed}: {}", self.link_command);
    }

    /// Returns a note for readers of the results.
    pub(crate) fn coarse_note(&self) -> Option<String> {
        let objects = self.coarse?;
        let files = if objects == 1 { "object" } else { "objects" };
        Some(format!(
            "Builds differ only in the order of object files and the gaps between them (coarse \
             layout: {objects} {files}); the linkers lld and mold would move every function (apt \
             install lld)."
        ))
    }
}

/// A program, and how it was linked.
pub(crate) type LinkedProgram = (PathBuf, Option<LinkRecord>);

/// A way to make a linker shuffle code and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShuffleMethod {
    /// lld shuffles sections by name. Since version 20, it can also add gaps between sections.
    Lld { gaps: bool },
    /// mold shuffles all sections.
    Mold,
    /// Any linker: the order of object files varies, and so do the gaps between them.
    Coarse,
}

impl ShuffleMethod {
    const ALL: [ShuffleMethod; 4] = [
        ShuffleMethod::Lld { gaps: true },
        ShuffleMethod::Lld { gaps: false },
        ShuffleMethod::Mold,
        ShuffleMethod::Coarse,
    ];

    /// Returns the arguments that the compiler passes to its linker. `has_linker` is true if the
    /// user has named a linker.
    pub fn linker_arguments(self, build: LinkedBuild, has_linker: bool) -> Vec<String> {
        let seed = build.seed;
        let (linker, mut arguments) = match self {
            ShuffleMethod::Coarse => return Vec::new(),
            ShuffleMethod::Mold => ("mold", vec![format!("-Wl,--shuffle-sections={seed}")]),
            ShuffleMethod::Lld { gaps } => {
                let sections = [".text*", ".data*", ".bss*"].iter();
                let mut flags: Vec<String> = sections
                    .map(|section| format!("-Wl,--shuffle-sections={section}={seed}"))
                    .collect();
                flags.extend(gaps.then(|| format!("-Wl,--randomize-section-padding={seed}")));
                ("lld", flags)
            }
        };
        if !has_linker {
            arguments.insert(0, format!("-fuse-ld={linker}"));
        }
        arguments
    }
}

/// Whether the user has named a linker.
pub(crate) fn names_linker(flags: &[String]) -> bool {
    flags.iter().any(|flag| flag.contains("-fuse-ld="))
}

/// Links with the first method that works. All builds with this compiler and these flags use the
/// same method, because one linker must shuffle all compared programs.
pub(crate) fn link_with_first<T>(
    compiler: &Path,
    flags: &[String],
    link: impl Fn(ShuffleMethod) -> Result<T, HarnessFailure>,
) -> Result<(ShuffleMethod, T), HarnessFailure> {
    type MethodsByCompiler = HashMap<(PathBuf, Vec<String>), ShuffleMethod>;
    static METHODS: Mutex<Option<MethodsByCompiler>> = Mutex::new(None);
    let key = (compiler.to_owned(), flags.to_vec());
    let mut guard = METHODS.lock().unwrap_or_else(PoisonError::into_inner);
    let methods = guard.get_or_insert_default();
    if let Some(&method) = methods.get(&key) {
        drop(guard);
        return link(method).map(|linked| (method, linked));
    }
    for method in ShuffleMethod::ALL {
        match link(method) {
            Ok(linked) => {
                methods.insert(key, method);
                return Ok((method, linked));
            }
            Err(error) if method == ShuffleMethod::Coarse || error.interrupted => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    Err(HarnessFailure::start_failed("no linker was tried".to_owned()))
}

/// Object files of a program, and the compiler that links them.
pub(crate) struct ObjectFiles<'a> {
    /// Determines the compiler, its folder and its environment.
    pub recipe: &'a BuildRecipe,
    /// The program that needs no linking if the run has no build, and further object files.
    pub files: Vec<PathBuf>,
    pub flags: &'a [String],
}

impl ObjectFiles<'_> {
    /// Returns the program of the build, or the first file if the run has no build.
    ///
    /// # Errors
    /// Fails if the linker rejects the files.
    pub fn program_of(&self, build: Option<LinkedBuild>) -> Result<LinkedProgram, HarnessFailure> {
        let Some(build) = build else { return Ok((self.files[0].clone(), None)) };
        let compiler = &self.recipe.compiler;
        let (method, (program, link_command)) =
            link_with_first(compiler, self.flags, |method| self.link_with(method, build))?;
        let linking = LinkRecord {
            build,
            link_command,
            coarse: (method == ShuffleMethod::Coarse).then_some(self.files.len()),
        };
        Ok((program, Some(linking)))
    }

    fn link_with(
        &self,
        method: ShuffleMethod,
        build: LinkedBuild,
    ) -> Result<(PathBuf, String), HarnessFailure> {
        let mut arguments = match method {
            ShuffleMethod::Coarse => self.shuffled_with_gaps(build)?,
            _ => path_strings(&self.files),
        };
        // Flags follow the files, because a linker searches a library only for symbols that the
        // preceding files need.
        arguments.extend(self.flags.iter().cloned());
        arguments.extend(method.linker_arguments(build, names_linker(self.flags)));
        let BuildRecipe { compiler, environment, directory, .. } = self.recipe;
        let mut spec = ProcessSpec::new(compiler).args(arguments);
        spec.environment = environment.clone();
        spec.directory = Some(directory.clone());
        spec.limit = COMPILER_TIMEOUT;
        let folder = build_folder()?;
        let hash = hash_name(&(compiler, &spec.arguments, environment, directory));
        let program = folder.join(format!("program-{hash}"));
        let output_option = |file: &Path| ["-o".to_owned(), file.to_string_lossy().into_owned()];
        let replay = spec.clone().args(output_option(&program));
        if !program.is_file() {
            let draft = program.with_extension("draft");
            time_build(|| run_compiler(&spec.args(output_option(&draft)), &replay))?;
            fs::rename(&draft, &program).map_err(|error| write_failure(&program, &error))?;
        }
        Ok((program, shell_line(&replay)))
    }

    /// Orders the object files by the seed, with a gap before each.
    fn shuffled_with_gaps(&self, build: LinkedBuild) -> Result<Vec<String>, HarnessFailure> {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by_key(|&index| seed_of_step(!u64::from(build.seed), index as u32));
        let mut arguments = Vec::new();
        for (index, file) in order.into_iter().zip(0..) {
            arguments.push(write_gap(gap_bytes(build, file))?);
            arguments.extend(path_strings(&self.files[index..=index]));
        }
        Ok(arguments)
    }
}

/// Size of the gap before the object file at `index`.
pub(crate) fn gap_bytes(build: LinkedBuild, index: u32) -> u64 {
    let units = seed_of_step(build.seed.into(), index) % MAX_GAP_UNITS;
    (1 + units) * GAP_UNIT_BYTES
}

/// Writes an assembler source that occupies this many bytes of code and data. The file is kept, so
/// that a copied command line works later.
fn write_gap(bytes: u64) -> Result<String, HarnessFailure> {
    let file = cache_folder().join("cpp").join(format!("gap-{bytes}.s"));
    let text = format!(
        ".text\n.skip {bytes}\n.data\n.skip {bytes}\n.bss\n.skip {bytes}\n.section .note.GNU-stack,\"\",%progbits\n"
    );
    let written = cache::write_file(&file, text, false);
    written.map_err(|error| write_failure(&file, &error))?;
    Ok(file.to_string_lossy().into_owned())
}

fn path_strings(files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| file.to_string_lossy().into_owned()).collect()
}

pub(crate) fn write_failure(file: &Path, error: &std::io::Error) -> HarnessFailure {
    HarnessFailure::start_failed(format!("cannot write '{}': {error}", file.display()))
}

/// Number of programs linked in this session, and the time spent on linking.
static BUILD_COST: Mutex<(u32, Duration)> = Mutex::new((0, Duration::ZERO));

/// Runs a link and records its cost.
pub(crate) fn time_build<T>(
    make: impl FnOnce() -> Result<T, HarnessFailure>,
) -> Result<T, HarnessFailure> {
    let begin = Instant::now();
    let built = make()?;
    let mut cost = BUILD_COST.lock().unwrap_or_else(PoisonError::into_inner);
    cost.0 += 1;
    cost.1 += begin.elapsed();
    Ok(built)
}

/// Returns the average time per build; `None` if nothing was built.
pub fn build_cost() -> Option<Duration> {
    let (builds, spent) = *BUILD_COST.lock().unwrap_or_else(PoisonError::into_inner);
    (builds > 0).then(|| spent / builds)
}

/// Returns the folder for builds of this process, after making room for more.
///
/// # Errors
/// Fails if the folder cannot be written.
pub(crate) fn build_folder() -> Result<PathBuf, HarnessFailure> {
    let builds = cache_folder().join("builds");
    let folder = builds.join(std::process::id().to_string());
    if !folder.is_dir() {
        fs::create_dir_all(&folder).map_err(|error| write_failure(&folder, &error))?;
        // The builds of processes that ended without removing them.
        let is_orphan = |process: &str| !Path::new("/proc").join(process).exists();
        cache::remove_old(&builds, MAX_ORPHAN_AGE, is_orphan);
    }
    make_room(&folder, MAX_TOTAL_BYTES);
    Ok(folder)
}

/// Removes the builds of this process.
pub fn remove_builds() {
    let folder = cache_folder().join("builds").join(std::process::id().to_string());
    cache::remove_entry(&folder);
}

/// Removes the oldest entries of a folder until their total size is at most `max_bytes`.
fn make_room(folder: &Path, max_bytes: u64) {
    let sized = |path: PathBuf| {
        let program = if path.is_dir() { path.join("program") } else { path.clone() };
        (program.metadata().map_or(0, |data| data.len()), path)
    };
    let entries: Vec<(u64, PathBuf)> = entries_by_age(folder).into_iter().map(sized).collect();
    let mut bytes: u64 = entries.iter().map(|(bytes, _)| bytes).sum();
    for (size, path) in entries {
        if bytes <= max_bytes {
            return;
        }
        cache::remove_entry(&path);
        bytes -= size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_longer_path_is_the_same_file_with_the_same_folder_and_name() {
        let program = Path::new("/bin/sh");
        let longer = with_longer_path(program, 200);
        assert_eq!(longer.as_os_str().len(), program.as_os_str().len() + 200);
        assert_eq!((longer.parent(), longer.file_name()), (program.parent(), program.file_name()));
        assert!(longer.is_file());
        assert_eq!(with_longer_path(Path::new("sh"), 9), Path::new("sh"));
    }

    #[test]
    fn a_layout_pads_environment_and_path_and_the_default_changes_nothing() {
        let spec = ProcessSpec::new("/bin/true").args(["x"]);
        let layout = RunLayout { pad_bytes: Some(7), path_bytes: Some(3), ..RunLayout::default() };
        let changed = layout.apply_to(&spec);
        assert_eq!(changed.environment, [("SPEEDWELL_PAD".to_owned(), "xxxxxxx".to_owned())]);
        assert_eq!(changed.program.as_os_str(), "/bin////true");
        assert_eq!(RunLayout::default().apply_to(&spec).program, spec.program);
    }

    #[test]
    fn the_oldest_builds_go_when_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for (name, age) in [("a", 3), ("b", 9), ("c", 6)] {
            let path = folder.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let file = fs::File::open(&path).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        make_room(folder.path(), 200);
        let exists = |name: &str| folder.path().join(name).exists();
        assert!(exists("a") && !exists("b") && exists("c"));
    }

    #[test]
    fn a_failing_linker_is_replaced_by_the_next_and_not_retried() {
        let build = LinkedBuild { number: 0, seed: 5 };
        let tried = Mutex::new(Vec::new());
        let link = |method: ShuffleMethod| {
            tried.lock().unwrap().push(method);
            match method {
                ShuffleMethod::Mold => Ok(method.linker_arguments(build, false)),
                _ => Err(HarnessFailure::start_failed("no".into())),
            }
        };
        let flags = ["of this test alone".to_owned()];
        for _ in 0..2 {
            let (method, arguments) = link_with_first(Path::new("cc"), &flags, link).unwrap();
            assert_eq!(method, ShuffleMethod::Mold);
            assert_eq!(arguments, ["-fuse-ld=mold", "-Wl,--shuffle-sections=5"]);
        }
        assert_eq!(
            *tried.lock().unwrap(),
            [
                ShuffleMethod::ALL[0],
                ShuffleMethod::ALL[1],
                ShuffleMethod::Mold,
                ShuffleMethod::Mold
            ]
        );
    }

    #[test]
    fn a_linker_that_the_user_named_stays() {
        let build = LinkedBuild { number: 1, seed: 77 };
        let arguments = ShuffleMethod::Lld { gaps: false }.linker_arguments(build, true);
        assert_eq!(arguments[0], "-Wl,--shuffle-sections=.text*=77");
        assert!(names_linker(&["-O2".into(), "-Clink-arg=-fuse-ld=gold".into()]));
        assert!(!names_linker(&["-O2".into()]));
    }
}

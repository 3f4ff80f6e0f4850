//! Programs whose code and data lie elsewhere in every build, and processes whose stack begins elsewhere in every run.
//!
//! Decides how a linker is made to shuffle, and where builds lie until the session ends. Sources are compiled once, only the
//! link is repeated. `.init_array` is never shuffled: it would change what a program does. Start at [`RunLayout`]; at
//! [`Objects`] for C and C++, at [`first_that_links`] for compilers that link themselves.

use crate::cache::{self, cache_folder};
use crate::compile::{Failed, LIMIT, call, which};
use crate::plan::{Plan, Shuffle, Slot};
use speedwell_model::{Failure, seed_of_step};
use speedwell_process::{Spec, replay};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Builds are removed when they are larger together, the oldest first; they are linked again when they are needed.
const MOST_BYTES: u64 = 2 << 30;

/// Folders of builds whose process is gone are removed after so long. Processes of a container are not seen from outside.
const ORPHANS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The largest variable and the longest path that are added to what a process finds above its stack.
const MOST_PAD_BYTES: u64 = 4096;
const MOST_PATH_BYTES: u64 = 255;

/// The largest gap between object files, and its unit: the usual alignment of functions.
const MOST_GAP_UNITS: u64 = 256;
const GAP_UNIT_BYTES: u64 = 16;

/// How the program of one run is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLayout {
    /// Which build it is, where there are several.
    pub build: Option<Build>,
    /// Whether functions begin at multiples of 64 bytes.
    pub align: bool,
    /// Bytes that are added to the environment.
    pub pad_bytes: Option<u32>,
    /// Bytes by which the path is longer under which the program is started.
    pub path_bytes: Option<u32>,
}

/// One linking of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Its number, from 0.
    pub number: u32,
    /// What its layout follows from.
    pub seed: u32,
}

impl RunLayout {
    /// The layout of a slot: it follows from the session's seed alone.
    pub fn new(plan: &Plan, slot: &Slot) -> RunLayout {
        let (seed, asked) = (plan.design.seed, plan.design.layout);
        let build = |number: u32| Build {
            number,
            // Linkers take 0 for "by chance" or "not at all".
            seed: seed_of_step(seed ^ seed_of_step(!seed, slot.variant as u32), number).max(1)
                as u32,
        };
        let drawn = |of: u64, most: u64| {
            let step = seed_of_step(seed.rotate_left(32) ^ of, slot.index);
            (1 + step % most) as u32
        };
        RunLayout {
            build: slot.build.map(build),
            align: asked.align,
            pad_bytes: asked.env.then(|| drawn(1, MOST_PAD_BYTES)),
            path_bytes: asked.stack.then(|| drawn(2, MOST_PATH_BYTES)),
        }
    }

    /// The process of `spec` with another stack.
    pub(crate) fn apply(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        if let Some(bytes) = self.pad_bytes {
            let pad = "x".repeat(bytes as usize);
            spec.environment.push(("SPEEDWELL_PAD".to_owned(), pad));
        }
        if let Some(bytes) = self.path_bytes {
            spec.program = with_longer_path(&which(&spec.program), bytes);
        }
        spec
    }

    /// What C and C++ are compiled with.
    pub(crate) fn flags(&self) -> Vec<String> {
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

/// The same file under a longer path: more slashes say the same as one, and leave folder and name as they are for programs
/// that look at them.
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
pub struct Linking {
    build: Build,
    /// The shell line that links it again.
    line: String,
    /// Object files, where nothing finer could be shuffled.
    coarse: Option<usize>,
}

impl Linking {
    /// A build by a compiler that links by itself; `coarse` are the objects between which there are gaps, if that is all.
    pub(crate) fn by_compiler(build: Build, call: &Spec, coarse: Option<usize>) -> Linking {
        Linking {
            build,
            line: replay(call),
            coarse,
        }
    }

    /// Adds to a failure what its program was: another layout may bring to light what a program never promised.
    pub fn explain(&self, failure: &mut Failure) {
        let Build { number, seed } = self.build;
        if !failure.stderr_tail.is_empty() && !failure.stderr_tail.ends_with('\n') {
            failure.stderr_tail.push('\n');
        }
        failure.stderr_tail += &format!("build {number}, layout seed {seed}: {}", self.line);
    }

    /// The line that links the program and then executes `line`.
    pub(crate) fn before(&self, line: &str) -> String {
        format!("{} && {line}", self.line)
    }

    /// What a reader of the figures should know.
    pub(crate) fn note(&self) -> Option<String> {
        let objects = self.coarse?;
        let files = if objects == 1 { "object" } else { "objects" };
        Some(format!(
            "Builds differ in the order of object files and the gaps between them only (coarse layout: {objects} {files}); \
             with the linker lld or mold every function would move (apt install lld)."
        ))
    }
}

/// A way of making a linker shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// lld, by the names of sections; with gaps between them since version 20.
    Lld { gaps: bool },
    /// mold, all sections.
    Mold,
    /// Any linker: gaps between object files, and their order.
    Coarse,
}

impl Way {
    const ALL: [Way; 4] = [
        Way::Lld { gaps: true },
        Way::Lld { gaps: false },
        Way::Mold,
        Way::Coarse,
    ];

    /// What the compiler hands to its linker; `chosen` says that the user has named one.
    pub fn arguments(self, build: Build, chosen: bool) -> Vec<String> {
        let seed = build.seed;
        let (linker, mut arguments) = match self {
            Way::Coarse => return Vec::new(),
            Way::Mold => ("mold", vec![format!("-Wl,--shuffle-sections={seed}")]),
            Way::Lld { gaps } => {
                let sections = [".text*", ".data*", ".bss*"].iter();
                let mut all: Vec<String> = sections
                    .map(|section| format!("-Wl,--shuffle-sections={section}={seed}"))
                    .collect();
                all.extend(gaps.then(|| format!("-Wl,--randomize-section-padding={seed}")));
                ("lld", all)
            }
        };
        if !chosen {
            arguments.insert(0, format!("-fuse-ld={linker}"));
        }
        arguments
    }
}

/// Whether the user has named a linker.
pub(crate) fn names_linker(flags: &[String]) -> bool {
    flags.iter().any(|flag| flag.contains("-fuse-ld="))
}

/// Links in the first way that works, which is then the one of all builds by this compiler with these flags: a program
/// compared with another must not be shuffled by another linker.
pub(crate) fn first_that_links<T>(
    compiler: &Path,
    flags: &[String],
    link: impl Fn(Way) -> Result<T, Failed>,
) -> Result<(Way, T), Failed> {
    type Known = HashMap<(PathBuf, Vec<String>), Way>;
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let key = (compiler.to_owned(), flags.to_vec());
    let mut guard = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = guard.get_or_insert_default();
    if let Some(&way) = known.get(&key) {
        drop(guard);
        return link(way).map(|made| (way, made));
    }
    for way in Way::ALL {
        match link(way) {
            Ok(made) => {
                known.insert(key, way);
                return Ok((way, made));
            }
            Err(failed) if way == Way::Coarse || failed.interrupted => return Err(failed),
            Err(_) => {}
        }
    }
    Err(Failed::start("no linker was tried".to_owned()))
}

/// Object files that make a program, and the compiler that links them.
pub(crate) struct Objects<'a> {
    pub compiler: &'a Path,
    pub files: Vec<PathBuf>,
    pub flags: &'a [String],
    pub directory: &'a Path,
    pub environment: &'a [(String, String)],
}

impl Objects<'_> {
    /// The program of that build; without any, `usual`.
    ///
    /// # Errors
    /// As for [`Objects::link`].
    pub fn program_of(
        &self,
        build: Option<Build>,
        usual: PathBuf,
    ) -> Result<(PathBuf, Option<Linking>), Failed> {
        let Some(build) = build else {
            return Ok((usual, None));
        };
        let (program, linking) = self.link(build)?;
        Ok((program, Some(linking)))
    }

    /// The program of that build.
    ///
    /// # Errors
    /// The linker refuses the files.
    fn link(&self, build: Build) -> Result<(PathBuf, Linking), Failed> {
        let (way, (program, line)) =
            first_that_links(self.compiler, self.flags, |way| self.link_by(way, build))?;
        let linking = Linking {
            build,
            line,
            coarse: (way == Way::Coarse).then_some(self.files.len()),
        };
        Ok((program, linking))
    }

    fn link_by(&self, way: Way, build: Build) -> Result<(PathBuf, String), Failed> {
        let mut arguments = match way {
            Way::Coarse => self.shuffled_with_gaps(build)?,
            _ => text_of(&self.files),
        };
        // Libraries are taken for what stands before them.
        arguments.extend(self.flags.iter().cloned());
        arguments.extend(way.arguments(build, names_linker(self.flags)));
        let mut spec = Spec::new(self.compiler).args(arguments);
        spec.environment = self.environment.to_vec();
        spec.directory = Some(self.directory.to_owned());
        spec.limit = LIMIT;
        let shelf = shelf()?;
        let mut hash = DefaultHasher::new();
        (
            self.compiler,
            &spec.arguments,
            self.environment,
            self.directory,
        )
            .hash(&mut hash);
        let program = shelf.join(format!("program-{:016x}", hash.finish()));
        let to = |file: &Path| ["-o".to_owned(), file.to_string_lossy().into_owned()];
        let shown = spec.clone().args(to(&program));
        if !program.is_file() {
            let draft = program.with_extension("draft");
            timed(|| call(&spec.args(to(&draft)), &shown))?;
            fs::rename(&draft, &program).map_err(|error| cannot(&program, &error))?;
        }
        Ok((program, replay(&shown)))
    }

    /// The object files in an order that follows from the seed, with gaps before each.
    fn shuffled_with_gaps(&self, build: Build) -> Result<Vec<String>, Failed> {
        let order = Shuffle::new(build.seed.into()).block(self.files.len(), 1);
        let mut arguments = Vec::new();
        for (place, file) in order.into_iter().zip(0..) {
            arguments.push(gap(gap_bytes(build, file))?);
            arguments.extend(text_of(&self.files[place..=place]));
        }
        Ok(arguments)
    }
}

/// The bytes before an object file, or before everything.
pub(crate) fn gap_bytes(build: Build, place: u32) -> u64 {
    let drawn = seed_of_step(build.seed.into(), place) % MOST_GAP_UNITS;
    (1 + drawn) * GAP_UNIT_BYTES
}

/// A source in assembler that takes up so many bytes of code and data. It remains, so that a line that somebody copies
/// works later.
fn gap(bytes: u64) -> Result<String, Failed> {
    let folder = cache_folder().join("cpp");
    let file = folder.join(format!("gap-{bytes}.s"));
    let text = format!(
        ".text\n.skip {bytes}\n.data\n.skip {bytes}\n.bss\n.skip {bytes}\n.section .note.GNU-stack,\"\",%progbits\n"
    );
    let write = || fs::create_dir_all(&folder).and_then(|()| fs::write(&file, text));
    write().map_err(|error| cannot(&file, &error))?;
    Ok(file.to_string_lossy().into_owned())
}

fn text_of(files: &[PathBuf]) -> Vec<String> {
    let files = files.iter();
    files
        .map(|file| file.to_string_lossy().into_owned())
        .collect()
}

fn cannot(file: &Path, error: &std::io::Error) -> Failed {
    Failed::start(format!("cannot write '{}': {error}", file.display()))
}

/// Programs that were linked for one session, and the time that it took.
#[derive(Default)]
struct Cost {
    builds: u32,
    spent: Duration,
}

static COST: Mutex<Cost> = Mutex::new(Cost {
    builds: 0,
    spent: Duration::ZERO,
});

/// Makes a build, and takes note of its cost.
pub(crate) fn timed<T>(make: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    let begin = Instant::now();
    let made = make()?;
    let mut cost = COST.lock().unwrap_or_else(PoisonError::into_inner);
    cost.builds += 1;
    cost.spent += begin.elapsed();
    Ok(made)
}

/// The time that a build took on average; `None` if none was made.
pub fn build_cost() -> Option<Duration> {
    let cost = COST.lock().unwrap_or_else(PoisonError::into_inner);
    (cost.builds > 0).then(|| cost.spent / cost.builds)
}

/// The folder for builds of this process, with room for more.
///
/// # Errors
/// It cannot be written.
pub(crate) fn shelf() -> Result<PathBuf, Failed> {
    let all = cache_folder().join("builds");
    let own = all.join(std::process::id().to_string());
    if !own.is_dir() {
        fs::create_dir_all(&own).map_err(|error| cannot(&own, &error))?;
        remove_orphans(&all);
    }
    make_room(&own, MOST_BYTES);
    Ok(own)
}

/// Removes the builds of this process.
pub fn remove_builds() {
    let own = cache_folder()
        .join("builds")
        .join(std::process::id().to_string());
    cache::remove(&own);
}

/// Removes the builds of processes that were killed.
fn remove_orphans(all: &Path) {
    for folder in fs::read_dir(all).into_iter().flatten().flatten() {
        let lives = Path::new("/proc").join(folder.file_name()).exists();
        let changed = folder.metadata().and_then(|data| data.modified());
        if !lives && changed.is_ok_and(|time| cache::is_older(time, ORPHANS_KEPT)) {
            cache::remove(&folder.path());
        }
    }
}

/// Removes the oldest entries of a folder until they have at most so many bytes together.
fn make_room(folder: &Path, most_bytes: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let program = if path.is_dir() {
                path.join("program")
            } else {
                path.clone()
            };
            let bytes = program.metadata().map_or(0, |data| data.len());
            Some((entry.metadata().ok()?.modified().ok()?, bytes, path))
        })
        .collect();
    let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    entries.sort();
    for (_, own, path) in entries {
        if bytes <= most_bytes {
            return;
        }
        cache::remove(&path);
        bytes -= own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_path_is_the_same_file_with_the_same_folder_and_name() {
        let program = Path::new("/bin/sh");
        let longer = with_longer_path(program, 200);
        assert_eq!(longer.as_os_str().len(), program.as_os_str().len() + 200);
        assert_eq!(
            (longer.parent(), longer.file_name()),
            (program.parent(), program.file_name())
        );
        assert!(longer.is_file());
        assert_eq!(with_longer_path(Path::new("sh"), 9), Path::new("sh"));
    }

    #[test]
    fn without_anything_to_vary_a_process_is_as_it_was() {
        let spec = Spec::new("/bin/true").args(["x"]);
        let layout = RunLayout {
            pad_bytes: Some(7),
            path_bytes: Some(3),
            ..RunLayout::default()
        };
        let changed = layout.apply(&spec);
        assert_eq!(
            changed.environment,
            [("SPEEDWELL_PAD".to_owned(), "xxxxxxx".to_owned())]
        );
        assert_eq!(changed.program.as_os_str(), "/bin////true");
        assert_eq!(RunLayout::default().apply(&spec).program, spec.program);
    }

    #[test]
    fn the_oldest_builds_go_when_there_is_no_room() {
        let shelf = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for (name, age) in [("a", 3), ("b", 9), ("c", 6)] {
            let path = shelf.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let file = fs::File::open(&path).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        make_room(shelf.path(), 200);
        let left = |name: &str| shelf.path().join(name).exists();
        assert!(left("a") && !left("b") && left("c"));
    }

    #[test]
    fn a_linker_that_refuses_gives_way_to_the_next_and_is_not_asked_again() {
        let build = Build { number: 0, seed: 5 };
        let asked = Mutex::new(Vec::new());
        let link = |way: Way| {
            asked.lock().unwrap().push(way);
            match way {
                Way::Mold => Ok(way.arguments(build, false)),
                _ => Err(Failed::start("no".into())),
            }
        };
        let flags = ["of this test alone".to_owned()];
        for _ in 0..2 {
            let (way, arguments) = first_that_links(Path::new("cc"), &flags, link).unwrap();
            assert_eq!(way, Way::Mold);
            assert_eq!(arguments, ["-fuse-ld=mold", "-Wl,--shuffle-sections=5"]);
        }
        assert_eq!(
            *asked.lock().unwrap(),
            [Way::ALL[0], Way::ALL[1], Way::Mold, Way::Mold]
        );
    }

    #[test]
    fn a_linker_that_the_user_named_stays() {
        let build = Build {
            number: 1,
            seed: 77,
        };
        let arguments = Way::Lld { gaps: false }.arguments(build, true);
        assert_eq!(arguments[0], "-Wl,--shuffle-sections=.text*=77");
        assert!(names_linker(&[
            "-O2".into(),
            "-Clink-arg=-fuse-ld=gold".into()
        ]));
        assert!(!names_linker(&["-O2".into()]));
    }
}

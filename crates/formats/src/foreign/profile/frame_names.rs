//! Shortens the names of frames and threads, so that the same code has the same name in every
//! recording. Start at [`FrameNames::shorten_function`].

use regex::Regex;
use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

/// Replacements in names, applied in this order.
const NAME_REPLACEMENTS: [(&str, &str); 9] = [
    // V8 marks each function with the compiler that produced its code: `~` stands for the
    // interpreter, `^` and `+` for the fast compilers, `*` for the optimizing compiler. The mark is
    // removed because it changes while the program runs. Code passed to `eval` runs once and keeps
    // its mark. Node 14 and older write LazyCompile where newer versions write JS.
    (r"^(?:JS|LazyCompile|Function|InterpretedFunction):[~^+*]*", "JS:"),
    (r"\bnode:internal/", "node:"),
    (r"\bfile://", ""),
    // An offset may follow the name of a function; an address replaces an unknown name.
    (r"\+0x[0-9a-f]+$", ""),
    (r"^0x[0-9a-f]+$", "[unknown]"),
    // The names of files with JIT-compiled code contain the id of the process.
    (r"^\[(?:perf-\d+\.map|jit-\d+\.dump|jitted-\d+-\d+\.so)\]$", "[jit]"),
    // GCC and LLVM append these suffixes to the names of the copies that they make of a function.
    (r"(?:\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*)+$| \[clone [^\]]*\]", ""),
    // The hash that rustc appends, and symbol versions of the C library.
    (r"::h[0-9a-f]{16}$|@@?[A-Z][A-Za-z]*_[\w.]+$", ""),
    // The `$` that Erlang's JIT puts before the names of functions (OTP 25: `$lists:map/2`).
    (r"^\$(.+:.+/\d+)$", "$1"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = NAME_REPLACEMENTS.iter().map(|(pattern, instead)| {
        #[expect(
            clippy::expect_used,
            reason = "the patterns are constants, and every test compiles them"
        )]
        let pattern = Regex::new(pattern).expect("the pattern is well formed");
        (pattern, *instead)
    });
    compiled.collect()
});

/// Rules for shortening names.
#[derive(Debug, Clone, Default)]
pub struct FrameNames {
    /// Folder of the program, with a trailing slash. Paths are shown relative to this folder.
    home: Option<String>,
}

impl FrameNames {
    /// Creates rules that show paths relative to this folder.
    pub fn from_home(home: &Path) -> FrameNames {
        let path = home.to_string_lossy();
        let folder = path.trim_end_matches('/');
        FrameNames { home: (!folder.is_empty()).then(|| format!("{folder}/")) }
    }

    /// Returns these rules. If the folder of the program is unknown, the returned rules use the
    /// deepest folder that contains all `files`.
    pub fn or_infer_home<'a>(&self, files: impl Iterator<Item = &'a str>) -> FrameNames {
        if self.home.is_some() {
            return self.clone();
        }
        let folders = files.filter_map(|file| Some(Path::new(file).parent()?.to_path_buf()));
        let common = folders.reduce(|first, second| {
            let pairs = first.components().zip(second.components());
            pairs.take_while(|(first, second)| first == second).map(|(part, _)| part).collect()
        });
        match common {
            // If only the root is common to all files, show their full paths.
            Some(folder) if folder.components().count() > 1 => FrameNames::from_home(&folder),
            _ => FrameNames::default(),
        }
    }

    /// Shortens the name of a function. A name that is already short stays the same.
    pub fn shorten_function<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let mut shortened = Cow::Borrowed(name.trim());
        for (pattern, instead) in PATTERNS.iter() {
            if let Cow::Owned(changed) = pattern.replace_all(&shortened, *instead) {
                shortened = Cow::Owned(changed);
            }
        }
        match &self.home {
            Some(home) if shortened.contains(home.as_str()) => {
                Cow::Owned(shortened.replacen(home.as_str(), "", 1))
            }
            _ => shortened,
        }
    }

    /// Shortens the name of a thread by removing its number among similar threads: `worker-12`
    /// becomes `worker`. The result is the outermost frame of the thread's stacks.
    pub fn shorten_thread(&self, name: &str) -> String {
        let name = name.trim();
        let is_digit = |character: char| character.is_ascii_digit();
        let rest = name.trim_start_matches(is_digit).strip_prefix('_');
        let front = rest.filter(|_| name.starts_with(is_digit)).unwrap_or(name);
        let shortened = front.trim_end_matches(is_digit);
        let shortened = match shortened.strip_suffix(['-', '_', '#', '/', ':', ' ']) {
            Some(shortened) if shortened.len() < front.len() - 1 && front.ends_with(is_digit) => {
                shortened
            }
            _ => front,
        };
        if shortened.is_empty() { name.to_owned() } else { shortened.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_differ_between_recordings_are_removed() {
        let names = FrameNames::from_home(Path::new("/home/me/app/"));
        for (raw, short) in [
            ("JS:*fib /home/me/app/lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("JS:~fib /home/me/app/lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("JS:^ file:///home/me/app/m.mjs:1:1", "JS: m.mjs:1:1"),
            ("LazyCompile:*fib /other/w.js:1:13", "JS:fib /other/w.js:1:13"),
            ("JS:~require node:internal/modules/x:1:2", "JS:require node:modules/x:1:2"),
            ("Eval:~ node:internal/net:1:1", "Eval:~ node:net:1:1"),
            ("main+0x1f", "main"),
            ("0x7f0183d98ca4", "[unknown]"),
            ("[perf-4711.map]", "[jit]"),
            ("inner_fetch.constprop.0", "inner_fetch"),
            ("copy.isra.0.cold", "copy"),
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("pthread_rwlock_rdlock@GLIBC_2.2.5", "pthread_rwlock_rdlock"),
            ("$lists:map/2", "lists:map/2"),
            ("v8::OldSpace::~OldSpace", "v8::OldSpace::~OldSpace"),
            ("operator+", "operator+"),
        ] {
            assert_eq!(names.shorten_function(raw), short);
            assert_eq!(names.shorten_function(short), short, "shortened twice");
        }
    }

    #[test]
    fn the_home_folder_defaults_to_the_common_folder_of_all_files() {
        let names = FrameNames::from_home(Path::new("/home/me"));
        let of =
            |names: &FrameNames, files: &[&str]| names.or_infer_home(files.iter().copied()).home;
        let none = FrameNames::default();
        assert_eq!(of(&none, &["/p/a/x.js"]).as_deref(), Some("/p/a/"));
        assert_eq!(of(&none, &["/p/a/x.js", "/p/ab/y.js"]).as_deref(), Some("/p/"));
        assert_eq!(of(&none, &["/p/x.js", "/q/y.js"]), None);
        assert_eq!(of(&none, &[]), None);
        assert_eq!(of(&names, &["/p/a/x.js"]).as_deref(), Some("/home/me/"));
    }

    #[test]
    fn threads_lose_their_numbers_and_programs_do_not() {
        let names = FrameNames::default();
        for (raw, short) in [
            ("2_scheduler", "scheduler"),
            ("10_dirty_io_sch", "dirty_io_sch"),
            ("worker-12", "worker"),
            ("tokio-runtime-w", "tokio-runtime-w"),
            ("node", "node"),
            ("python3", "python3"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(names.shorten_thread(raw), short);
        }
    }
}

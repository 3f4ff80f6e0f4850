//! The folder for things that can be made anew.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME/speedwell`, else `~/.cache/speedwell`, else a folder among temporary files.
pub fn cache_folder() -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("speedwell")
}

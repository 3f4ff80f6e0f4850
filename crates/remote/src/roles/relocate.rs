//! Rewrites the paths of the programs (target and services) that an experiment starts on other
//! machines. The folder of the definition file lies elsewhere on those machines.

use speedwell_model::assignment::{BackingService, ProofSource, RunAssignment, TargetProgram};
use std::path::{Path, PathBuf};

/// A local folder and its counterpart on the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct FolderMapping<'a> {
    pub from: &'a Path,
    pub to: &'a Path,
}

impl FolderMapping<'_> {
    /// Rewrites the paths of a target. Also rewrites the paths of files that prove that the variant
    /// took effect.
    pub fn map_assignment(self, mut assignment: RunAssignment) -> RunAssignment {
        self.map_target(&mut assignment.target);
        for proof in &mut assignment.proofs {
            if let ProofSource::File(file) = &mut proof.place {
                *file = self.map_path(file);
            }
        }
        assignment
    }

    pub fn map_service(self, mut service: BackingService) -> BackingService {
        self.map_target(&mut service.program);
        for argument in service.ready.iter_mut().flatten() {
            *argument = self.map_text(argument);
        }
        service
    }

    fn map_target(self, target: &mut TargetProgram) {
        target.directory = self.map_path(&target.directory);
        for string in target.strings_mut() {
            *string = self.map_text(string);
        }
    }

    fn map_path(self, path: &Path) -> PathBuf {
        match path.strip_prefix(self.from) {
            // Joining an empty path would append a slash.
            Ok(inside) if inside.as_os_str().is_empty() => self.to.to_owned(),
            Ok(inside) => self.to.join(inside),
            Err(_) => path.to_owned(),
        }
    }

    /// Rewrites the folder wherever it occurs in a string, as in `--data=/here/x`.
    fn map_text(self, text: &str) -> String {
        let (from, to) = (self.from.to_string_lossy(), self.to.to_string_lossy());
        let is_name_character = |c: char| c.is_alphanumeric() || "._-".contains(c);
        let (mut result, mut unprocessed) = (String::new(), text);
        while let Some(position) = unprocessed.find(&*from) {
            let (before, after) = (&unprocessed[..position], &unprocessed[position + from.len()..]);
            let follows_name = before.chars().next_back().is_some_and(is_name_character);
            let is_folder = !follows_name && !after.starts_with(is_name_character);
            result.push_str(before);
            result.push_str(if is_folder { &to } else { &from });
            unprocessed = after;
        }
        result + unprocessed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_within_the_folder_are_mapped() {
        let moved = FolderMapping { from: Path::new("/home/a/web"), to: Path::new("/var/b") };
        for (here, there) in [
            ("/home/a/web/server.js", "/var/b/server.js"),
            ("--data=/home/a/web", "--data=/var/b"),
            ("/home/a/web:/home/a/web/lib", "/var/b:/var/b/lib"),
            ("/home/a/web2/x", "/home/a/web2/x"),
            ("/mnt/home/a/web", "/mnt/home/a/web"),
            ("node", "node"),
        ] {
            let found = moved.map_text(here);
            assert_eq!(found, there);
        }
        assert_eq!(moved.map_path(Path::new("/home/a/web")), Path::new("/var/b"));
        assert_eq!(moved.map_path(Path::new("/home/a/web/x")), Path::new("/var/b/x"));
        assert_eq!(moved.map_path(Path::new("/usr/bin")), Path::new("/usr/bin"));
    }
}

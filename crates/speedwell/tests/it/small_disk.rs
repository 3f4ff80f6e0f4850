//! A disk that is full on demand: a small file system in memory. Mounting it takes privileges;
//! without them, tests report that they are skipped.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty disk, unmounted when the test ends.
pub struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Creates one of this many megabytes.
    pub fn new(megabytes: u32) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={megabytes}m,mode=0755"))
            .arg("tmpfs")
            .arg(folder.path());
        let mounted = mount.output();
        if !mounted.is_ok_and(|done| done.status.success()) {
            eprintln!("skipped: a file system in memory cannot be mounted here");
            return None;
        }
        Some(SmallDisk { folder })
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    /// Uses it up to the last byte.
    pub fn fill(&self) {
        let ballast = File::options().create(true).append(true).open(self.ballast()).unwrap();
        // fallocate reserves space without writing it, so this is fast.
        let mut taken = 0;
        for size in [1 << 20, 4 << 10] {
            while fallocate(&ballast, FallocateFlags::empty(), taken, size).is_ok() {
                taken += size;
            }
        }
    }

    /// Frees the space again.
    pub fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.path("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(self.folder.path());
    }
}

/// Unmounts it, even while a file on it is open.
fn unmount(folder: &Path) {
    let mut umount = Command::new("umount");
    let _ = umount.arg("--lazy").arg(folder).status();
}

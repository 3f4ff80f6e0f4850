//! A disk that is full when the test says so: a small file system in memory. It takes the right to mount one; where that is
//! missing, tests say that they are skipped.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty disk, unmounted when the test ends.
pub struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// One of so many megabytes.
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

    /// A path on it.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    /// A new folder on it.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    /// Uses it up to the last byte.
    pub fn fill(&self) {
        let ballast = File::options()
            .create(true)
            .append(true)
            .open(self.ballast())
            .unwrap();
        // Room that is set aside costs nothing to write, so that it is gone at once.
        let mut taken = 0;
        for size in [1 << 20, 4 << 10] {
            while fallocate(&ballast, FallocateFlags::empty(), taken, size).is_ok() {
                taken += size;
            }
        }
    }

    /// Makes room again.
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

/// Also while somebody has a file of it open.
fn unmount(folder: &Path) {
    let mut umount = Command::new("umount");
    let _ = umount.arg("--lazy").arg(folder).status();
}

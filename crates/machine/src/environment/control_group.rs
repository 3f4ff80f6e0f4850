//! Reads the limits of CPU time and memory that a container or a service manager has set for this
//! process.
//!
//! Supports both versions of control groups, because hosts with version 1 are still common (kernel
//! documentation, `admin-guide/cgroup-v2.rst` and `cgroup-v1/`). Our control group and each group
//! above it may have a limit. The lowest limit applies.

use super::file_tree::FileTree;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CpuLimit {
    /// Limit in processors.
    pub cpus: f64,
    /// Command that removes the limit.
    pub lift_command: String,
    /// Number of throttled periods since the group was created.
    pub throttled_periods: Option<u64>,
}

/// Returns the lowest CPU time limit, if any.
pub(super) fn cpu_limit(tree: &FileTree) -> Option<CpuLimit> {
    let modern = group_folders(tree, None).filter_map(|group| {
        let file = group.join("cpu.max");
        let text = tree.read_text(&file)?;
        let (quota, period) = text.split_once(' ')?;
        Some(parse_limit(
            tree,
            &group,
            quota,
            period,
            format!("echo max | sudo tee {}", file.display()),
        ))
    });
    let old = group_folders(tree, Some("cpu")).filter_map(|group| {
        let file = group.join("cpu.cfs_quota_us");
        let (quota, period) =
            (tree.read_text(&file)?, tree.read_text(group.join("cpu.cfs_period_us"))?);
        let command = format!("echo -1 | sudo tee {}", file.display());
        Some(parse_limit(tree, &group, &quota, &period, command))
    });
    modern.chain(old).flatten().min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

/// Parses a limit; `None` if there is no limit, i.e. the quota is `max` or negative.
fn parse_limit(
    tree: &FileTree,
    group: &Path,
    quota: &str,
    period: &str,
    lift_command: String,
) -> Option<CpuLimit> {
    let quota: f64 = quota.parse().ok().filter(|&quota| quota > 0.0)?;
    let period: f64 = period.parse().ok().filter(|&period| period > 0.0)?;
    let counters = tree.read_text(group.join("cpu.stat")).unwrap_or_default();
    let throttled = super::file_tree::find_field(&counters, "nr_throttled", ' ');
    Some(CpuLimit {
        cpus: quota / period,
        lift_command,
        throttled_periods: throttled.and_then(|count| count.parse().ok()),
    })
}

/// Returns the lowest memory limit in bytes, if any.
///
/// If there is no limit, version 1 reports a number close to 2^63.
pub(super) fn memory_limit_bytes(tree: &FileTree) -> Option<u64> {
    let modern =
        group_folders(tree, None).filter_map(|group| tree.read_value(group.join("memory.max")));
    let old = group_folders(tree, Some("memory"))
        .filter_map(|group| tree.read_value(group.join("memory.limit_in_bytes")));
    modern.chain(old).filter(|&bytes: &u64| bytes < 1 << 62).min()
}

/// Returns the longest path that our group has in any hierarchy. The path reveals what manages
/// this process, such as Docker.
pub(super) fn group_path(tree: &FileTree) -> Option<String> {
    let text = tree.read_text("/proc/self/cgroup")?;
    text.lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .max_by_key(|path| path.len())
        .map(str::to_owned)
}

/// Iterates over the folders of our group and of all groups above it. The folders are in the
/// version 1 hierarchy of `controller` or, without a controller, in the single hierarchy of version
/// 2.
fn group_folders(tree: &FileTree, controller: Option<&str>) -> impl Iterator<Item = PathBuf> {
    let folders = find_mount(tree, controller).map(|mount| {
        let group = find_own_group(tree, controller).unwrap_or_else(|| "/".to_owned());
        // In a container, the mount may show only a part of the hierarchy. Our path may be outside
        // of this part.
        let below_mount = Path::new(&group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        below_mount
            .strip_prefix("/")
            .unwrap_or(below_mount)
            .ancestors()
            .filter(|part| !part.starts_with(".."))
            .map(|part| {
                if part.as_os_str().is_empty() {
                    mount.folder.clone()
                } else {
                    mount.folder.join(part)
                }
            })
            .collect::<Vec<PathBuf>>()
    });
    folders.into_iter().flatten()
}

/// A mount of a hierarchy.
struct CgroupMount {
    /// The group at the top of the mount. Only this group and the groups below it are visible.
    root: PathBuf,
    /// The folder where this group is mounted.
    folder: PathBuf,
}

/// Finds the mount of a hierarchy. A line of `mountinfo` reads `31 23 0:28 ROOT FOLDER OPTIONS ...
/// - TYPE SOURCE OPTIONS`.
fn find_mount(tree: &FileTree, controller: Option<&str>) -> Option<CgroupMount> {
    let mounts = tree.read_text("/proc/self/mountinfo")?;
    mounts.lines().find_map(|line| {
        let (mount_part, type_part) = line.split_once(" - ")?;
        let mut type_fields = type_part.split(' ');
        let is_match = match (type_fields.next()?, controller) {
            ("cgroup2", None) => true,
            ("cgroup", Some(controller)) => {
                type_fields.nth(1)?.split(',').any(|option| option == controller)
            }
            _ => false,
        };
        let mut mount_fields = mount_part.split(' ').skip(3);
        let (root, folder) = (mount_fields.next()?, mount_fields.next()?);
        is_match.then(|| CgroupMount { root: root.into(), folder: folder.into() })
    })
}

/// Finds the path of our group. A line of `/proc/self/cgroup` reads `NUMBER:CONTROLLERS:PATH`;
/// version 2 has number 0.
fn find_own_group(tree: &FileTree, controller: Option<&str>) -> Option<String> {
    let groups = tree.read_text("/proc/self/cgroup")?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_match = match controller {
            None => number == "0" && controllers.is_empty(),
            Some(controller) => controllers.split(',').any(|name| name == controller),
        };
        is_match.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::super::file_tree::fake::machine;
    use super::*;

    const NEW: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw";
    const OLD: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                       33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let machine = machine(&[
            ("/proc/self/mountinfo", NEW),
            ("/proc/self/cgroup", "0::/user.slice/job.service\n"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 5\nnr_throttled 12\n"),
            ("/sys/fs/cgroup/user.slice/job.service/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/user.slice/job.service/memory.max", "536870912\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ]);
        let limit = cpu_limit(&machine).unwrap();
        assert_eq!((limit.cpus, limit.throttled_periods), (1.5, Some(12)));
        let command = "echo max | sudo tee /sys/fs/cgroup/user.slice/cpu.max";
        assert_eq!(limit.lift_command, command);
        assert_eq!(memory_limit_bytes(&machine), Some(512 << 20));
    }

    #[test]
    fn limits_of_version_1_groups_are_read() {
        let machine = machine(&[
            ("/proc/self/mountinfo", OLD),
            ("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "200000"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712"),
        ]);
        assert_eq!(cpu_limit(&machine).unwrap().cpus, 2.0);
        assert_eq!(memory_limit_bytes(&machine), None);
        assert_eq!(group_path(&machine).as_deref(), Some("/docker/abc"));
    }

    #[test]
    fn a_container_that_sees_only_its_own_part_finds_its_limit() {
        let own_part = "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for own_group in ["0::/docker/abc", "0::/", "0::/../outside"] {
            let machine = machine(&[
                ("/proc/self/mountinfo", own_part),
                ("/proc/self/cgroup", own_group),
                ("/sys/fs/cgroup/cpu.max", "50000 100000"),
            ]);
            assert_eq!(cpu_limit(&machine).unwrap().cpus, 0.5, "{own_group}");
        }
    }

    #[test]
    fn without_control_groups_there_is_no_limit() {
        assert_eq!(cpu_limit(&machine(&[])), None);
        assert_eq!(memory_limit_bytes(&machine(&[])), None);
    }
}

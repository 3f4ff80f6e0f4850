//! Measures how much of its network bandwidth a machine used while it sent a load.

use std::fs;
use std::path::Path;
use std::time::Instant;

/// Network devices in sysfs (sysfs-class-net(5)).
const NET_DEVICES: &str = "/sys/class/net";

#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkDevice {
    name: String,
    bits_per_s: u64,
    received: u64,
    sent: u64,
}

/// The counters of all devices at one moment.
#[derive(Debug)]
pub struct LinkWatch {
    devices: Vec<NetworkDevice>,
    started: Instant,
}

impl LinkWatch {
    /// Reads the counters now.
    pub fn start() -> LinkWatch {
        LinkWatch { devices: list_devices(Path::new(NET_DEVICES)), started: Instant::now() }
    }

    /// Returns the device with the highest utilization since the start, and this utilization.
    pub fn most_used(&self) -> Option<(String, f64)> {
        let seconds = self.started.elapsed().as_secs_f64();
        most_used(&self.devices, &list_devices(Path::new(NET_DEVICES)), seconds)
    }
}

/// Lists the devices with a known speed. The loopback device has none.
fn list_devices(folder: &Path) -> Vec<NetworkDevice> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let device = |entry: fs::DirEntry| {
        let read_number = |file: &str| {
            let text = fs::read_to_string(entry.path().join(file)).ok()?;
            text.trim().parse::<u64>().ok().filter(|number| *number > 0)
        };
        Some(NetworkDevice {
            name: entry.file_name().into_string().ok()?,
            // The file contains Mbit/s, or -1 if the speed is unknown.
            bits_per_s: read_number("speed")? * 1_000_000,
            received: read_number("statistics/rx_bytes").unwrap_or(0),
            sent: read_number("statistics/tx_bytes").unwrap_or(0),
        })
    };
    entries.filter_map(device).collect()
}

/// Returns the device with the highest utilization, and this utilization. Links are full duplex:
/// each direction has the full speed, so only the busier direction counts.
fn most_used(
    before: &[NetworkDevice],
    after: &[NetworkDevice],
    seconds: f64,
) -> Option<(String, f64)> {
    let utilization = |device: &NetworkDevice| {
        let earlier = before.iter().find(|candidate| candidate.name == device.name)?;
        let received = device.received.saturating_sub(earlier.received);
        let sent = device.sent.saturating_sub(earlier.sent);
        let bits = 8.0 * received.max(sent) as f64;
        let utilization = bits / seconds / device.bits_per_s as f64;
        utilization.is_finite().then(|| (device.name.clone(), utilization.min(1.0)))
    };
    after.iter().filter_map(utilization).max_by(|left, right| left.1.total_cmp(&right.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds this device to a folder that imitates sysfs.
    fn with_device(folder: &Path, name: &str, speed: &str, received: u64, sent: u64) {
        let place = folder.join(name);
        fs::create_dir_all(place.join("statistics")).unwrap();
        fs::write(place.join("speed"), speed).unwrap();
        fs::write(place.join("statistics/rx_bytes"), format!("{received}\n")).unwrap();
        fs::write(place.join("statistics/tx_bytes"), format!("{sent}\n")).unwrap();
    }

    #[test]
    fn the_busier_direction_of_the_busiest_device_counts() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        with_device(folder, "eth0", "1000\n", 1_000, 1_000);
        with_device(folder, "eth1", "10000\n", 0, 0);
        with_device(folder, "lo", "-1\n", 0, 0);
        let before = list_devices(folder);
        assert_eq!(before.len(), 2, "{before:?}");
        // 112.5 MB in a second are 90 % of 1 Gbit/s; twice as much is 18 % of 10 Gbit/s.
        with_device(folder, "eth0", "1000\n", 2_000, 112_501_000);
        with_device(folder, "eth1", "10000\n", 225_000_000, 0);
        with_device(folder, "lo", "-1\n", 1 << 40, 0);
        let (name, share) = most_used(&before, &list_devices(folder), 1.0).unwrap();
        assert_eq!(name, "eth0");
        assert!((share - 0.9).abs() < 1e-9, "{share}");
        assert_eq!(most_used(&before, &[], 1.0), None);
    }
}

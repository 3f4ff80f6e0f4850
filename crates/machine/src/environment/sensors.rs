//! Reads the state of the machine during a run: steal time, pressure, frequency, temperature.
//!
//! Each file is opened once per session. Optional files that are slow to read are not used.
//! Recording thus costs a few microseconds before and after a run, and nothing during the run.
//! Start at [`RunSensors::open`].

use crate::environment::activity::{
    PressureResource, parse_load, parse_pressure_total, parse_steal_ticks, stolen_share,
    waited_share,
};
use crate::environment::file_tree::FileTree;
use speedwell_model::KernelStats;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// An optional file is not used if reading it takes longer than this. Some kernels sleep for 10 ms
/// to determine a frequency.
const MAX_READ_TIME: Duration = Duration::from_micros(20);

/// The files of this machine that reveal disturbances of a run.
#[derive(Debug)]
pub struct RunSensors {
    stat: SensorFile,
    pressure: SensorFile,
    load: SensorFile,
    frequency: SensorFile,
    throttled: [SensorFile; 2],
    temperature: SensorFile,
}

/// Readings at the start of a run.
#[derive(Debug, Clone, Copy)]
pub struct SensorReadings {
    taken_at: Instant,
    stolen: Option<(u64, u64)>,
    waited_us: Option<u64>,
    frequency_mhz: Option<f64>,
    throttled: [Option<u64>; 2],
}

impl RunSensors {
    /// Opens the sensors of this machine.
    pub fn open() -> RunSensors {
        RunSensors::open_below(&FileTree::with_root(Path::new("/")))
    }

    fn open_below(tree: &FileTree) -> RunSensors {
        let cpu = |file: &str| {
            SensorFile::open_if_fast(tree, &format!("/sys/devices/system/cpu/cpu0/{file}"))
        };
        RunSensors {
            stat: SensorFile::open(tree, "/proc/stat"),
            pressure: SensorFile::open(
                tree,
                &format!("/proc/pressure/{}", PressureResource::Cpu.name()),
            ),
            load: SensorFile::open(tree, "/proc/loadavg"),
            frequency: cpu("cpufreq/scaling_cur_freq"),
            throttled: [
                cpu("thermal_throttle/core_throttle_count"),
                cpu("thermal_throttle/package_throttle_count"),
            ],
            temperature: SensorFile::open_if_fast(tree, "/sys/class/thermal/thermal_zone0/temp"),
        }
    }

    /// Reads the sensors just before a run.
    pub fn read_start(&self) -> SensorReadings {
        SensorReadings {
            stolen: self.stat.read(parse_steal_ticks),
            waited_us: self.pressure.read(parse_pressure_total),
            frequency_mhz: self.frequency_mhz(),
            throttled: self.throttle_counts(),
            taken_at: Instant::now(),
        }
    }

    /// Reads the sensors just after a run, and returns the kernel's statistics about the run.
    pub fn read_end(&self, start: &SensorReadings) -> KernelStats {
        let elapsed = start.taken_at.elapsed();
        let waited = start.waited_us.zip(self.pressure.read(parse_pressure_total));
        let stolen = start.stolen.zip(self.stat.read(parse_steal_ticks));
        let frequency = start.frequency_mhz.zip(self.frequency_mhz());
        let [core, package] = self.throttle_counts();
        let increase = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
        let throttled =
            increase(start.throttled[0], core).zip(increase(start.throttled[1], package));
        KernelStats {
            steal: stolen.and_then(|(from, to)| stolen_share(from, to)),
            pressure: waited.map(|(from, to)| waited_share(from, to, elapsed)),
            frequency_mhz: frequency.map(|(from, to)| [from, to]),
            throttled: throttled.map(|(core, package)| [core, package]),
            load: self.load.read(parse_load).map(|[minute, ..]| minute),
            temperature_c: self
                .temperature
                .read_number()
                .map(|thousandths| thousandths as f64 / 1e3),
        }
    }

    fn frequency_mhz(&self) -> Option<f64> {
        self.frequency.read_number().map(|khz| khz as f64 / 1e3)
    }

    fn throttle_counts(&self) -> [Option<u64>; 2] {
        [self.throttled[0].read_number(), self.throttled[1].read_number()]
    }
}

/// A kernel file that is read repeatedly; `None` if it is missing, or optional and slow to read.
#[derive(Debug)]
struct SensorFile(Option<(File, RefCell<Vec<u8>>)>);

impl SensorFile {
    fn open(tree: &FileTree, path: &str) -> SensorFile {
        let file = File::open(tree.resolve(path)).ok();
        SensorFile(file.map(|file| (file, RefCell::new(vec![0; 4096]))))
    }

    /// Opens a file that contains a number. Closes it again if the number cannot be read, or if
    /// reading is slow.
    fn open_if_fast(tree: &FileTree, path: &str) -> SensorFile {
        let source = SensorFile::open(tree, path);
        source.read_number();
        let begin = Instant::now();
        let value = source.read_number();
        match value {
            Some(_) if begin.elapsed() <= MAX_READ_TIME => source,
            _ => SensorFile(None),
        }
    }

    /// Parses the beginning of the file.
    fn read<T>(&self, parse: fn(&str) -> Option<T>) -> Option<T> {
        let (file, buffer) = self.0.as_ref()?;
        let mut bytes = buffer.borrow_mut();
        let length = file.read_at(&mut bytes, 0).ok()?;
        parse(str::from_utf8(&bytes[..length]).ok()?)
    }

    fn read_number(&self) -> Option<u64> {
        self.read(|text| text.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;
    use std::fs;

    const CPU: &str = "/sys/devices/system/cpu/cpu0";

    fn write(tree: &FileTree, path: &str, text: &str) {
        fs::write(tree.resolve(path), text).unwrap();
    }

    #[test]
    fn counters_are_recorded_as_their_increase_during_a_run() {
        let throttle = |which: &str| format!("{CPU}/thermal_throttle/{which}_throttle_count");
        let frequency = format!("{CPU}/cpufreq/scaling_cur_freq");
        let tree = machine(&[
            ("/proc/stat", "cpu  600 0 200 150 0 0 0 50 0 0\ncpu0 1\n"),
            ("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"),
            ("/proc/loadavg", "0.50 1.00 1.00 1/2 3\n"),
            (&frequency, "3000000\n"),
            (&throttle("core"), "4\n"),
            (&throttle("package"), "7\n"),
            ("/sys/class/thermal/thermal_zone0/temp", "61500\n"),
        ]);
        // Reading may be slow on a busy machine, so the speed of the optional files is ignored
        // here.
        let mut sensors = RunSensors::open_below(&tree);
        let open = |path: &str| SensorFile::open(&tree, path);
        sensors.frequency = open(&frequency);
        sensors.throttled = [open(&throttle("core")), open(&throttle("package"))];
        sensors.temperature = open("/sys/class/thermal/thermal_zone0/temp");
        let start = sensors.read_start();
        write(&tree, "/proc/stat", "cpu  690 0 200 150 0 0 0 60 0 0\ncpu0 1\n");
        write(&tree, "/proc/pressure/cpu", "some avg10=0.00 total=999999999999\n");
        write(&tree, &frequency, "2400000\n");
        write(&tree, &throttle("package"), "9\n");
        assert_eq!(
            sensors.read_end(&start),
            KernelStats {
                steal: Some(0.1),
                pressure: Some(1.0),
                frequency_mhz: Some([3000.0, 2400.0]),
                throttled: Some([0, 2]),
                load: Some(0.5),
                temperature_c: Some(61.5),
            }
        );
    }

    #[test]
    fn values_that_the_kernel_does_not_provide_are_absent() {
        let sensors = RunSensors::open_below(&machine(&[("/proc/stat", "cpu 1 2\n")]));
        assert_eq!(sensors.read_end(&sensors.read_start()), KernelStats::default());
    }
}

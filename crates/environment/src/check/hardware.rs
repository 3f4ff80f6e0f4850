//! Checks of power and heat, on machines that show them: servers and guests mostly do not.

use super::{Check, State};
use crate::processors::is_processor;
use crate::tree::Tree;

pub(super) fn checks(tree: &Tree) -> Vec<Check> {
    [battery(tree), temperature(tree), throttling(tree)]
        .into_iter()
        .flatten()
        .collect()
}

/// On battery the firmware lowers frequencies as it sees fit.
fn battery(tree: &Tree) -> Option<Check> {
    const SUPPLIES: &str = "/sys/class/power_supply";
    let state_of = |name: &String| {
        let kind = tree.text(format!("{SUPPLIES}/{name}/type"))?;
        // A battery of scope "Device" is that of a mouse or a keyboard.
        let scope = tree.text(format!("{SUPPLIES}/{name}/scope"));
        let is_ours = kind == "Battery" && scope.as_deref() != Some("Device");
        is_ours.then(|| tree.text(format!("{SUPPLIES}/{name}/status")))?
    };
    let states: Vec<String> = tree.names(SUPPLIES).iter().filter_map(state_of).collect();
    let state = match states.iter().any(|state| state == "Discharging") {
        _ if states.is_empty() => return None,
        true => State::Bad,
        false => State::Good,
    };
    let found = states.join(", ").to_lowercase();
    Some(Check::new("battery", state, found).remedy("connect the machine to its power supply"))
}

/// A place where the temperature is read, and the lowest at which it makes the machine slower.
struct Zone {
    name: String,
    now_c: f64,
    limit_c: Option<f64>,
}

impl Zone {
    fn left_c(&self) -> f64 {
        self.limit_c
            .map_or(f64::INFINITY, |limit| limit - self.now_c)
    }
}

/// Degrees below the limit from which throttling is near.
const MARGIN_C: f64 = 5.0;

/// The zone that is nearest to its limit; among those without one the hottest.
fn temperature(tree: &Tree) -> Option<Check> {
    let zone = zones(tree).into_iter().min_by(|a, b| {
        a.left_c()
            .total_cmp(&b.left_c())
            .then(b.now_c.total_cmp(&a.now_c))
    })?;
    let state = match zone.left_c() {
        left if left <= 0.0 => State::Bad,
        left if left < MARGIN_C => State::Warning,
        _ => State::Good,
    };
    let limit = zone
        .limit_c
        .map(|limit| format!(", slowed down at {limit:.0}"));
    let found = format!(
        "{} at {:.0} degrees Celsius{}",
        zone.name,
        zone.now_c,
        limit.unwrap_or_default()
    );
    Some(
        Check::new("temperature", state, found)
            .remedy("let the machine cool down, and see to its fans"),
    )
}

fn zones(tree: &Tree) -> Vec<Zone> {
    const ZONES: &str = "/sys/class/thermal";
    let celsius = |path: String| {
        tree.value::<f64>(path)
            .map(|millidegrees| millidegrees / 1000.0)
    };
    let zone = |zone: String| {
        let folder = format!("{ZONES}/{zone}");
        let limits = (0..16).filter_map(|n| {
            let kind = tree.text(format!("{folder}/trip_point_{n}_type"))?;
            let counts = matches!(kind.as_str(), "passive" | "hot" | "critical");
            counts.then(|| celsius(format!("{folder}/trip_point_{n}_temp")))?
        });
        Some(Zone {
            now_c: celsius(format!("{folder}/temp"))?,
            // Firmware without a limit writes 0 or less.
            limit_c: limits.filter(|&limit| limit > 0.0).reduce(f64::min),
            name: tree.text(format!("{folder}/type")).unwrap_or(zone),
        })
    };
    let names = tree
        .names(ZONES)
        .into_iter()
        .filter(|name| name.starts_with("thermal_zone"));
    names.filter_map(zone).collect()
}

/// How often the processors have slowed themselves down, on hardware that counts it.
fn throttling(tree: &Tree) -> Option<Check> {
    const CPU: &str = "/sys/devices/system/cpu";
    let names = tree.names(CPU);
    let counts = names
        .iter()
        .filter(|name| is_processor(name))
        .filter_map(|name| {
            tree.value::<u64>(format!("{CPU}/{name}/thermal_throttle/core_throttle_count"))
        });
    let most = counts.max()?;
    let state = if most == 0 {
        State::Good
    } else {
        State::Warning
    };
    let found = format!("a core was slowed down {most} times since the machine was started");
    Some(
        Check::new("thermal throttling", state, found)
            .remedy("let the machine cool down between sessions, or switch turbo off"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake::machine;

    #[test]
    fn machines_without_sensors_get_no_checks() {
        assert_eq!(checks(&machine(&[])), []);
    }

    #[test]
    fn running_on_battery_is_bad_but_a_mouse_does_not_matter() {
        let check_of = |status| {
            battery(&machine(&[
                ("/sys/class/power_supply/AC/type", "Mains"),
                ("/sys/class/power_supply/BAT0/type", "Battery"),
                ("/sys/class/power_supply/BAT0/status", status),
                ("/sys/class/power_supply/hid-1/type", "Battery"),
                ("/sys/class/power_supply/hid-1/scope", "Device"),
                ("/sys/class/power_supply/hid-1/status", "Discharging"),
            ]))
            .unwrap()
        };
        assert_eq!(check_of("Discharging").state, State::Bad);
        let charged = check_of("Full");
        assert_eq!(
            (charged.state, charged.found.as_str()),
            (State::Good, "full")
        );
    }

    #[test]
    fn the_zone_nearest_to_its_limit_is_shown() {
        let check_of = |package| {
            temperature(&machine(&[
                ("/sys/class/thermal/thermal_zone0/type", "acpitz"),
                ("/sys/class/thermal/thermal_zone0/temp", "60000"),
                ("/sys/class/thermal/thermal_zone1/type", "x86_pkg_temp"),
                ("/sys/class/thermal/thermal_zone1/temp", package),
                (
                    "/sys/class/thermal/thermal_zone1/trip_point_0_type",
                    "passive",
                ),
                (
                    "/sys/class/thermal/thermal_zone1/trip_point_0_temp",
                    "90000",
                ),
                (
                    "/sys/class/thermal/thermal_zone1/trip_point_1_type",
                    "critical",
                ),
                (
                    "/sys/class/thermal/thermal_zone1/trip_point_1_temp",
                    "105000",
                ),
            ]))
            .unwrap()
        };
        let cool = check_of("55000");
        assert_eq!(
            cool.found,
            "x86_pkg_temp at 55 degrees Celsius, slowed down at 90"
        );
        assert_eq!(cool.state, State::Good);
        assert_eq!(check_of("87000").state, State::Warning);
        assert_eq!(check_of("91000").state, State::Bad);
    }

    #[test]
    fn throttling_since_the_start_is_counted() {
        let machine = machine(&[
            (
                "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
                "0",
            ),
            (
                "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
                "7",
            ),
        ]);
        let check = throttling(&machine).unwrap();
        assert_eq!(check.state, State::Warning);
        assert!(check.found.contains("7 times") && check.remedy.is_some());
    }
}

//! Provides the load clock, and waits by it. The load clock counts the time since the start of the
//! load.
//!
//! The operating system ends waits by its own clock, so it does not notice when a test moves the
//! load clock. With a movable clock, each wait is limited to a short interval, after which the
//! event loop reads the load clock again.
//!
//! Start at [`SocketPoll`], which waits for many sockets until a deadline. [`ReadBatcher`] decides
//! whether a thread pauses before it waits.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use speedwell_model::load::measurement::ThreadReport;
use std::io;
use std::time::{Duration, Instant};

/// Sentinel for a time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// Interval at which threads hand over their counts, adapt how long they delay reading, and check
/// whether to stop.
pub(super) const TICK_NS: u64 = 100_000_000;

const NS_PER_S: u64 = 1_000_000_000;

/// Counts nanoseconds since the start of the load. All threads have the same start.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadClock {
    time: speedwell_model::clock::WaitClock,
    start: Instant,
    /// The start time on the operating system's monotonic clock.
    system_start_ns: u64,
}

impl LoadClock {
    pub fn start(time: speedwell_model::clock::WaitClock) -> LoadClock {
        LoadClock { time, start: time.now(), system_start_ns: read_ns(ClockId::Monotonic) }
    }

    /// Current time. Reading the monotonic clock takes no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        self.time.elapsed_since(self.start).as_nanos() as u64
    }

    /// Converts an instant to load time. With a movable clock, returns the current load time
    /// instead.
    #[cfg(feature = "http3")]
    pub fn to_load_ns(self, moment: Instant) -> u64 {
        if self.time.is_movable() {
            return self.now_ns();
        }
        moment.duration_since(self.start).as_nanos() as u64
    }

    /// Limits a wait to the interval at which a movable clock must be checked. Other clocks need no
    /// limit.
    pub fn max_wait_ns(&self, longest_ns: u64) -> u64 {
        if !self.time.is_movable() {
            return longest_ns;
        }
        self.max_wait(Duration::from_nanos(longest_ns)).as_nanos() as u64
    }

    pub fn max_wait(&self, longest: Duration) -> Duration {
        self.time.max_wait(longest)
    }
}

fn to_timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 }
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// A resettable operating system timer with nanosecond resolution (timerfd_create(2)).
#[derive(Debug)]
pub(super) struct LoadTimer {
    timer: OwnedFd,
    clock: LoadClock,
    /// When the timer fires; [`NEVER`] if it is unarmed or has fired.
    pub fires_at_ns: u64,
}

impl LoadTimer {
    /// Creates an unarmed timer.
    pub fn new(clock: LoadClock) -> io::Result<LoadTimer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(LoadTimer { timer, clock, fires_at_ns: NEVER })
    }

    /// Arms the timer to fire once at this load time, or immediately if the time has passed. This
    /// replaces any earlier setting. With a movable clock, the timer fires periodically instead.
    pub fn arm(&mut self, at_ns: u64) -> io::Result<()> {
        self.fires_at_ns = NEVER;
        let (flags, first, interval) = if self.clock.time.is_movable() {
            let poll_interval = to_timespec(self.clock.max_wait_ns(NEVER));
            (TimerfdTimerFlags::empty(), poll_interval, poll_interval)
        } else {
            let deadline = to_timespec(self.clock.system_start_ns.saturating_add(at_ns));
            (TimerfdTimerFlags::ABSTIME, deadline, to_timespec(0))
        };
        let time = Itimerspec { it_interval: interval, it_value: first };
        timerfd_settime(&self.timer, flags, &time)?;
        self.fires_at_ns = at_ns;
        Ok(())
    }
}

impl AsFd for LoadTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

// The code below waits for many sockets until a deadline.
//
// A deadline is either the timeout of one wait, or a timer that is watched like a socket. Each
// wait sets its timeout anew, but a timer is set only once for all waits with the same deadline.
// Open loads therefore use a timer: their deadline is the time of the next request, however many
// responses arrive before it. Closed loads use timeouts. On a virtual machine, a timer set to a
// distant time made a client that waits for each response a fifth slower.

pub(super) const MAX_EVENTS: usize = 1024;

/// Token of the timer, not used by any socket.
const TIMER_TOKEN: u64 = u64::MAX;

/// The sockets of a thread, each with a token.
pub(super) struct SocketPoll {
    epoll: OwnedFd,
    events: Vec<Event>,
    /// Whether `epoll_pwait2` is available. Kernels before 5.11 do not have it, and some sandboxes
    /// forbid it.
    waits_exactly: bool,
    clock: LoadClock,
    /// Timer that ends waits, if timeouts are not used. It is watched like a socket.
    alarm: Option<LoadTimer>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SocketEvent {
    pub token: u64,
    /// Data, the end of the stream or an error can be read.
    pub readable: bool,
    /// The socket is writable, or the peer has closed, or there is an error.
    pub writable: bool,
    /// The peer has closed or there is an error: read until the end.
    pub ended: bool,
}

impl SocketPoll {
    /// Creates a poller that uses a timer or timeouts.
    pub fn new(clock: LoadClock, uses_timer: bool) -> io::Result<SocketPoll> {
        let mut poll = SocketPoll {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(MAX_EVENTS),
            waits_exactly: true,
            clock,
            alarm: None,
        };
        if uses_timer {
            let timer = LoadTimer::new(clock)?;
            // With edge-triggered polling, each expiration is one event, so the timer need not be
            // read.
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&poll.epoll, &timer, EventData::new_u64(TIMER_TOKEN), flags)?;
            poll.alarm = Some(timer);
        }
        Ok(poll)
    }

    /// Watches a socket until it is closed. Polling is edge-triggered, so readers must drain the
    /// socket. In return, watching whether the socket is writable takes no further system calls.
    pub fn watch_socket(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Waits for socket events until a deadline. If the deadline is [`NEVER`], waits without limit;
    /// if it is at or before `now_ns`, does not wait. Returns the numbers of events and of system
    /// calls. Without `epoll_pwait2`, a wait may make two calls, but only one is reported.
    pub fn wait(&mut self, now_ns: u64, until_ns: u64) -> io::Result<(usize, u64)> {
        let Some(alarm) = &mut self.alarm else {
            let timeout_ns = if until_ns == NEVER {
                NEVER
            } else {
                self.clock.max_wait_ns(until_ns.saturating_sub(now_ns))
            };
            return Ok((self.wait_at_most(timeout_ns)?, 1));
        };
        if until_ns <= now_ns {
            self.wait_at_most(0)?;
            return Ok((self.remove_timer_event(), 1));
        }
        let is_new = until_ns != alarm.fires_at_ns && until_ns != NEVER;
        if is_new {
            alarm.arm(until_ns)?;
        }
        self.wait_at_most(NEVER)?;
        Ok((self.remove_timer_event(), 1 + u64::from(is_new)))
    }

    /// Removes the timer's event and returns the number of socket events.
    fn remove_timer_event(&mut self) -> usize {
        let timer_event = self.events.iter().position(|event| {
            let data = event.data;
            data.u64() == TIMER_TOKEN
        });
        if let (Some(index), Some(alarm)) = (timer_event, &mut self.alarm) {
            self.events.swap_remove(index);
            alarm.fires_at_ns = NEVER;
        }
        self.events.len()
    }

    /// Waits for events for at most `timeout_ns`; [`NEVER`] means no limit. Returns the number of
    /// events.
    fn wait_at_most(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let timeout = (timeout_ns != NEVER).then(|| to_timespec(timeout_ns));
        self.events.clear();
        let waited = if self.waits_exactly {
            epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref())
        } else {
            self.wait_in_two_steps(timeout.as_ref())
        };
        match waited {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            Err(Errno::NOSYS | Errno::PERM) if self.waits_exactly => {
                self.waits_exactly = false;
                self.wait_at_most(timeout_ns)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits as precisely as `epoll_pwait2`, but in two system calls. `ppoll` takes nanoseconds on
    /// every kernel, but reports only that there are events. `epoll_wait` then fetches the events
    /// without waiting.
    fn wait_in_two_steps(&mut self, timeout: Option<&Timespec>) -> Result<usize, Errno> {
        let mut watched = [PollFd::new(&self.epoll, PollFlags::IN)];
        if poll(&mut watched, timeout)? == 0 {
            return Ok(0);
        }
        let room = self.events.spare_capacity_mut();
        // SAFETY: the kernel writes at most `room.len()` events into memory that has room for them.
        // `Event` has the layout of the kernel's `epoll_event`, as does `libc::epoll_event`.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), room.as_mut_ptr().cast(), room.len() as i32, 0)
        };
        let count = usize::try_from(count).map_err(|_| {
            Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
        })?;
        // SAFETY: `count` events were written from the start of the buffer, which was empty.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }

    /// Returns an event of the last wait by its index.
    pub fn socket_event(&self, index: usize) -> SocketEvent {
        let Event { flags, data } = self.events[index];
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        SocketEvent {
            token: data.u64(),
            readable: ended || flags.contains(EventFlags::IN),
            writable: ended || flags.contains(EventFlags::OUT),
            ended,
        }
    }
}

// The code below decides whether a thread pauses to read several responses at once, and measures
// how busy the thread itself is.
//
// A generator that is faster than its server reads each response as it arrives, and both sides
// then pay for a sleep and a wake-up per request. A short pause lets responses accumulate. A pause
// pays off only if many requests are in flight and several responses arrive during the pause.

/// There are no pauses if this many requests or fewer are in flight.
const MIN_IN_FLIGHT: u64 = 16;

/// There is no pause if at least 1 / `ENDED_DIVISOR` of the requests in flight ended in the last
/// iteration of the event loop.
const ENDED_DIVISOR: u64 = 4;

/// A pause lasts at most the median service time divided by this number.
const MEDIAN_DIVISOR: u64 = 8;

/// Pausing starts when at least this many responses are expected per pause. It stops when fewer
/// than [`STOP_THRESHOLD`] are expected.
const START_THRESHOLD: f64 = 2.0;
const STOP_THRESHOLD: f64 = 1.0;

/// Decides when and how long to pause.
#[derive(Debug, Clone)]
pub(super) struct ReadBatcher {
    max_pause_ns: u64,
    pause_ns: u64,
    is_pausing: bool,
}

impl ReadBatcher {
    pub fn new(max_delay_ns: Option<u64>, may_pause: bool) -> ReadBatcher {
        let max_pause_ns = max_delay_ns.filter(|_| may_pause).unwrap_or(0);
        ReadBatcher { max_pause_ns, pause_ns: 0, is_pausing: false }
    }

    /// Decides anew whether to pause, based on the number of responses in the last `elapsed_ns` and
    /// the median service time.
    pub fn adapt(&mut self, responses: u64, elapsed_ns: u64, median_ns: Option<u64>) {
        self.pause_ns =
            median_ns.map_or(0, |median| (median / MEDIAN_DIVISOR).min(self.max_pause_ns));
        let expected = responses as f64 * self.pause_ns as f64 / elapsed_ns.max(1) as f64;
        self.is_pausing =
            if self.is_pausing { expected >= STOP_THRESHOLD } else { expected >= START_THRESHOLD };
    }

    /// Returns how long to pause before the next wait for events; `None` for no pause. `ended` is
    /// the number of requests that ended in the last iteration of the event loop.
    pub fn next_pause(&self, in_flight: u64, ended: u64) -> Option<Duration> {
        let pays_off =
            self.is_pausing && in_flight > MIN_IN_FLIGHT && ended < in_flight / ENDED_DIVISOR;
        pays_off.then(|| Duration::from_nanos(self.pause_ns))
    }
}

// The code below lets a thread monitor its own CPU time and context switches.

pub(super) struct ThreadMonitor {
    pub report: ThreadReport,
    start_cpu_ns: u64,
    start_switches: u64,
}

impl ThreadMonitor {
    /// Must be called on the thread itself.
    pub fn start() -> ThreadMonitor {
        ThreadMonitor {
            report: ThreadReport::default(),
            start_cpu_ns: read_ns(ClockId::ThreadCPUTime),
            start_switches: involuntary_switches(),
        }
    }

    /// Sleeps, records the actual duration, and returns the current time.
    pub fn sleep_for(&mut self, pause: Duration, clock: &LoadClock) -> u64 {
        let began_ns = clock.now_ns();
        std::thread::sleep(pause);
        let now_ns = clock.now_ns();
        let slept_ns = now_ns - began_ns;
        self.report.batched_ns += slept_ns;
        self.report.longest_batch_ns = self.report.longest_batch_ns.max(slept_ns);
        now_ns
    }

    pub fn into_report(mut self, end_ns: u64) -> ThreadReport {
        self.report.elapsed_ns = end_ns;
        self.report.cpu_ns = read_ns(ClockId::ThreadCPUTime) - self.start_cpu_ns;
        self.report.involuntary_switches =
            involuntary_switches().saturating_sub(self.start_switches);
        self.report
    }
}

/// Involuntary context switches of the current thread (proc(5)); 0 if unknown.
fn involuntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Option<u64> = Some(100_000);

    #[test]
    fn pauses_occur_only_while_enough_responses_would_accumulate() {
        let mut batcher = ReadBatcher::new(MOST, true);
        assert_eq!(batcher.next_pause(100, 1), None);
        // At 50,000 responses per second and a median of 2 ms, five responses accumulate in 100 us.
        batcher.adapt(5_000, TICK_NS, Some(2_000_000));
        assert_eq!(batcher.next_pause(100, 1), Some(Duration::from_micros(100)));
        assert_eq!(batcher.next_pause(100, 25), None, "enough have ended");
        assert_eq!(batcher.next_pause(16, 1), None, "few are under way");
        batcher.adapt(1_500, TICK_NS, Some(2_000_000));
        assert!(batcher.next_pause(100, 1).is_some(), "pauses continue above the stop threshold");
        batcher.adapt(500, TICK_NS, Some(2_000_000));
        assert_eq!(batcher.next_pause(100, 1), None);
    }

    #[test]
    fn a_pause_is_short_compared_with_the_median_latency() {
        let mut batcher = ReadBatcher::new(MOST, true);
        batcher.adapt(10_000, TICK_NS, Some(240_000));
        assert_eq!(batcher.next_pause(50, 1), Some(Duration::from_micros(30)));
    }

    #[test]
    fn open_loads_and_loads_without_batching_never_pause() {
        for (max_delay_ns, is_closed) in [(MOST, false), (None, true)] {
            let mut batcher = ReadBatcher::new(max_delay_ns, is_closed);
            batcher.adapt(100_000, TICK_NS, Some(2_000_000));
            assert_eq!(batcher.next_pause(1000, 1), None);
        }
    }
}

package speedwell

import (
	"os"
	"runtime"
	"runtime/metrics"
	"time"
)

// How long code may take to return after the end of the commands before it is
// abandoned.
const patience = time.Second

type kind int

const (
	said     kind = iota // a command
	ended                // the end of the commands
	started              // a worker has its state, or failed
	left                 // a worker has ended
	point                // a worker has reached a point of a streamed run
	finished             // a worker has finished its part of a run, possibly with a fault
	late                 // a stopped run has not ended in time
)

// An event for the control goroutine.
type news struct {
	kind  kind
	line  string
	fault *fault
	run   *run
}

// The control goroutine: reads commands, sends events, and does periodic work while
// workers run.
type control struct {
	events  *os.File
	news    chan news
	code    func(*Job)
	waiting []*command
	endedAt time.Time
	stopped time.Time
	job     *Job
	gauge   *command
	ticker  *time.Ticker
	run     *run
	sent    int64
}

func (c *control) send(made *event) { made.send(c.events) }

// Answers commands until the input ends, or, with a job, until it is unloaded.
func (c *control) converse(job *Job) {
	c.job = job
	for {
		for len(c.waiting) == 0 {
			if !c.endedAt.IsZero() {
				return
			}
			c.attend()
		}
		next := c.waiting[0]
		switch next.verb {
		case "quit":
			// Not consumed, so that it ends the outer conversation as well.
			return
		case "unload":
			if job != nil && next.text("job") == job.name {
				c.waiting = c.waiting[1:]
				job.unload = next
				return
			}
		}
		c.waiting = c.waiting[1:]
		if !c.answer(next) {
			os.Exit(0)
		}
	}
}

func (c *control) answer(command *command) bool {
	switch command.verb {
	case "hello":
		return c.hello(command)
	case "load":
		c.load(command)
	case "run":
		c.perform(command)
	case "monitor":
		c.monitor(command)
	case "stop":
		c.stop(command)
	case "workers", "calibrate", "unload":
		if c.job == nil || command.text("job") != c.job.name {
			c.refuse(command, "UnknownJob", "'job' must name the loaded job")
		} else if command.verb == "workers" {
			c.setWorkers(command)
		} else {
			c.calibrate(command)
		}
	default:
		c.refuse(command, "UnknownVerb", "unknown verb '"+command.verb+"'")
	}
	return true
}

func (c *control) refuse(command *command, class, message string) {
	c.send(answer("error", command).with("stage", "protocol").with("class", class).with("msg", message).with("fatal", 0))
}

func (c *control) fail(command *command, job *Job, stage string, fault *fault) {
	made := answer("error", command).with("job", job.name).with("stage", stage).
		with("class", fault.class).with("msg", fault.message)
	if fault.line > 0 {
		made.with("line", fault.line)
	}
	c.send(made.with("fatal", 0))
}

func (c *control) hello(command *command) bool {
	if command.text("proto") != "1" {
		c.send(answer("error", command).with("stage", "protocol").with("class", "Version").
			with("msg", "only protocol version 1 is supported").with("fatal", 1))
		return false
	}
	build := "opt"
	if isDebug() {
		build = "debug"
	}
	made := answer("ready", command).with("proto", 1).with("lang", "go").with("version", runtime.Version()).
		with("flavor", "native").with("build", build).with("cpus", runtime.NumCPU()).with("clock", "time.Now").
		with("clock_res_ns", clockStepNs()).with("caps", "continuous,timed,series,workers,monitor").
		with("gauges", "gc_cycles:count,heap_objects:bytes,goroutines:count")
	if build == "debug" {
		made.with("warn0", "the code was compiled without optimisation")
	}
	c.send(made)
	return true
}

func (c *control) load(command *command) {
	job := &Job{control: c, command: command, name: command.text("job")}
	switch {
	case job.name == "":
		c.refuse(command, "MissingKey", "load needs 'job'")
	case command.text("form") != "built":
		c.refuse(command, "Form", "'form' must be 'built': the code is compiled in")
	case c.job != nil:
		c.refuse(command, "Form", "the code of this program is already loaded")
	default:
		if fault := guarded(func() { c.code(job) }); fault != nil {
			c.fail(command, job, "init", fault)
		}
		c.job = nil
	}
}

func (c *control) setWorkers(command *command) {
	begun := time.Now()
	wanted := command.number("n", 1)
	if wanted < 0 || wanted > 100_000 {
		c.refuse(command, "BadArgument", "'n' must be a number of workers")
	} else if fault := c.job.setWorkers(int(wanted)); fault != nil {
		c.fail(command, c.job, "init_runner", fault)
	} else {
		c.send(answer("workers", command).with("job", c.job.name).with("n", len(c.job.team)).
			with("ms", time.Since(begun).Milliseconds()))
	}
}

func (c *control) calibrate(command *command) {
	targetNs := command.number("target_ns", 50_000_000)
	iterations, leastPs := uint64(1), 0.0
	firstNs := nowNs()
	for beforeNs := firstNs; beforeNs-firstNs < targetNs; {
		empty(iterations)
		now := nowNs()
		ps := float64(now-beforeNs) * 1000 / float64(iterations)
		if leastPs == 0 || ps < leastPs {
			leastPs = ps
		}
		if now-beforeNs < shortBatchNs {
			iterations *= 2
		}
		beforeNs = now
	}
	c.send(answer("calibrated", command).with("job", c.job.name).with("empty_ps", int64(leastPs+.5)))
}

// The loop of the generated code around an empty runner.
//
//go:noinline
func empty(left uint64) {
	last := 0
	for left--; left > 0; left-- {
		last = 0
	}
	Keep(last)
}

func (c *control) monitor(command *command) {
	if c.ticker != nil {
		c.ticker.Stop()
		c.ticker = nil
	}
	c.gauge = command
	if interval := command.number("interval_ns", 0); interval > 0 {
		c.ticker = time.NewTicker(time.Duration(interval))
		c.sendGauge()
	}
}

func (c *control) sendGauge() {
	read := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(read)
	made := answer("gauge", c.gauge).with("t_ns", nowNs()).with("gc_cycles", read[0].Value.Uint64()).
		with("heap_objects", read[1].Value.Uint64()).with("goroutines", read[2].Value.Uint64())
	if c.job != nil {
		var total int64
		for _, worker := range c.job.team {
			total += worker.total.Load()
		}
		made.with("job."+c.job.name, total)
	}
	c.send(made)
}

func (c *control) stop(command *command) {
	c.send(answer("stopped", command).with("job", command.text("job")))
	if c.run != nil {
		c.run.stop.Store(true)
		if c.stopped.IsZero() {
			c.stopped = time.Now()
		}
	}
}

func clockStepNs() int64 {
	smallest, before := int64(1<<62), nowNs()
	for read := 0; read < 32; read++ {
		now := nowNs()
		if now > before {
			smallest = min(smallest, now-before)
		}
		before = now
	}
	return smallest
}

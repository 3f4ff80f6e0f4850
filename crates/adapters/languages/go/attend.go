package speedwell

import (
	"os"
	"time"
)

// Waits for the next event of this kind and handles all others.
func (c *control) await(wanted kind) news {
	for {
		if update := c.attend(); update.kind == wanted {
			return update
		}
	}
}

// Waits for an event and handles it.
func (c *control) attend() news {
	var ticks <-chan time.Time
	if c.ticker != nil {
		ticks = c.ticker.C
	}
	var over <-chan time.Time
	since := c.endedAt
	if since.IsZero() {
		since = c.stopped
	}
	if !since.IsZero() {
		over = time.After(time.Until(since.Add(patience)))
	}
	select {
	case update := <-c.news:
		c.hear(update)
		return update
	case <-ticks:
		c.sendGauge()
	case <-over:
		if c.endedAt.IsZero() {
			return news{kind: late}
		}
		// The workers cannot be awaited, because their code does not return.
		if c.job != nil {
			guarded(c.job.done)
		}
		os.Exit(0)
	}
	return news{kind: -1}
}

func (c *control) hear(update news) {
	switch update.kind {
	case said:
		command := parse(update.line)
		if command.verb == "stop" && c.job != nil {
			c.stop(command)
		} else {
			c.waiting = append(c.waiting, command)
		}
	case ended:
		c.endedAt = time.Now()
		if c.run != nil {
			c.run.stop.Store(true)
		}
	case point:
		c.sendSamples()
	}
}

func (c *control) sendSamples() {
	if c.run == nil || !c.run.stream {
		return
	}
	taken := c.run.team[0].taken.Load()
	for _, worker := range c.run.team {
		taken = min(taken, worker.taken.Load())
	}
	for ; c.sent < taken; c.sent++ {
		c.send(c.run.sample(c.job.name, c.sent))
	}
}

// One run: starts the workers together, handles events while it lasts, and
// reports it.
func (c *control) perform(command *command) {
	job := c.job
	if job == nil || command.text("jobs") != job.name {
		c.refuse(command, "UnknownJob", "'jobs' must name the loaded job")
		return
	}
	if len(job.team) == 0 {
		if fault := job.setWorkers(1); fault != nil {
			c.fail(command, job, "init_runner", fault)
			return
		}
	}
	begun := time.Now()
	run, wrong := runOf(command, job.team)
	if run == nil {
		c.refuse(command, "BadArgument", wrong)
		return
	}
	run.stop.Store(!c.endedAt.IsZero())
	c.run, c.sent = run, 0
	for _, worker := range job.team {
		worker.taken.Store(0)
		worker.times = histogram{}
		worker.lateNs = 0
		worker.tNs = make([]int64, 0, run.samples+1)
		worker.count = make([]int64, 0, run.samples+1)
	}
	c.stopped = time.Time{}
	for _, worker := range job.team {
		worker.busy.Store(true)
		worker.runs <- run
	}
	var fault *fault
	isLate := false
	for missing := len(job.team); missing > 0 && !isLate; {
		update := c.attend()
		isLate = update.kind == late
		if update.kind == finished && update.run == run {
			missing--
			if update.fault != nil {
				fault = update.fault
			}
		}
	}
	c.sendSamples()
	c.run, c.stopped = nil, time.Time{}
	c.report(run, fault, isLate, begun)
}

func (c *control) report(run *run, fault *fault, isLate bool, begun time.Time) {
	job := c.job
	var lateNs int64
	for _, worker := range run.team {
		lateNs = max(lateNs, worker.lateNs)
	}
	switch {
	case isLate:
		c.send(answer("error", run.command).with("job", job.name).with("stage", "timeout").with("class", "Timeout").
			with("msg", "the code did not return within a second of 'stop'").with("fatal", 0))
		job.abandon()
	case fault != nil:
		c.fail(run.command, job, "run", fault)
		job.abandon()
	case run.timed:
		for _, made := range run.samplesTaken(job.name) {
			c.send(made)
		}
	default:
		for number := range run.team {
			for _, made := range run.worker(job.name, number) {
				c.send(made)
			}
		}
	}
	c.send(answer("end", run.command).with("jobs", job.name).with("elapsed_ns", time.Since(begun).Nanoseconds()).
		with("max_late_ns", lateNs))
}

package speedwell

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A line may be at most 1 MiB long; a point has at most two numbers of 20 digits.
const pointsOfALine = 20_000

// Shared by all workers of a run.
type run struct {
	command       *command
	timed, stream bool
	// Samples between runs of the reference loop; 0: never.
	reference, turns     int64
	referenceNs          []int64
	intervalNs, warmupNs int64
	samples, loop        int64
	epochNs              int64
	team                 []*Worker
	stop, failed         atomic.Bool
	// Workers that have all their points, and workers that have ended.
	complete, finished atomic.Int64
	// For a timed run: whether the warm-up is over, and whether the run is.
	warm, over            atomic.Bool
	sampleNs, sampleCpuNs []int64
	arrived, round        atomic.Int64
}

// Parses the run that a command requests, or returns what is wrong with the command.
func runOf(command *command, team []*Worker) (*run, string) {
	mode := command.text("mode")
	made := &run{
		command:    command,
		timed:      mode == "timed" || mode == "series",
		stream:     command.text("stream") == "1",
		intervalNs: command.number("interval_ns", 1_000_000_000),
		warmupNs:   command.number("warmup_ns", 0),
		samples:    command.number("samples", 3),
		loop:       command.number("loop", 1),
		epochNs:    nowNs(),
		team:       team,
	}
	if mode != "continuous" && !made.timed {
		return nil, "unsupported mode: expected 'continuous', 'timed' or 'series'"
	}
	if mode == "series" {
		made.reference = max(command.number("reference", 0), 0)
	}
	if made.reference > 0 {
		made.turns = referenceTurns()
	}
	if made.samples < 1 || made.samples > 100_000_000 || made.intervalNs < 1 || made.loop < 1 || made.warmupNs < 0 {
		return nil, "a number in 'run' is out of range"
	}
	if len(team) > 1 {
		// Several workers start together, so they are given some time to wake up.
		made.epochNs += int64(200 * time.Microsecond)
	}
	made.warm.Store(made.warmupNs == 0)
	return made, ""
}

// The reference loop: constant work, so that changes of its time are due to the machine.
func referenceLoopNs(turns int64) int64 {
	begin := nowNs()
	state := uint64(88172645463325252)
	for turn := int64(0); turn < turns; turn++ {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
	}
	kept.Store(state)
	return nowNs() - begin
}

// The result of the reference loop; storing it keeps the compiler from removing the loop.
var kept atomic.Uint64

// Returns how many turns of the reference loop take about 200 µs. A preempted measurement takes too long
// as well, but hardly three times in a row.
func referenceTurns() int64 {
	turns := int64(1000)
	for min(referenceLoopNs(turns), referenceLoopNs(turns), referenceLoopNs(turns)) < 200_000 {
		turns *= 2
	}
	return turns
}

func (r *run) ends() bool { return r.stop.Load() || r.failed.Load() }

// Barrier: releases all workers at once, or none of them after a failure.
func (r *run) gate() {
	round := r.round.Load()
	if r.arrived.Add(1) == int64(len(r.team)) {
		r.arrived.Store(0)
		r.round.Add(1)
		return
	}
	for r.round.Load() == round && !r.failed.Load() {
		runtime.Gosched()
	}
}

// Done by the first worker while the others wait: records the sample that has ended and decides whether
// it was the last.
func (r *run) endSample(counts bool) {
	beginNs, endNs := r.team[0].beginNs, r.team[0].endNs
	beginCpuNs, endCpuNs := r.team[0].beginCpuNs, r.team[0].endCpuNs
	for _, worker := range r.team {
		beginCpuNs, endCpuNs = min(beginCpuNs, worker.beginCpuNs), max(endCpuNs, worker.endCpuNs)
		beginNs, endNs = min(beginNs, worker.beginNs), max(endNs, worker.endNs)
	}
	if r.ends() {
		r.over.Store(true)
	} else if counts {
		r.sampleNs = append(r.sampleNs, endNs-beginNs)
		r.sampleCpuNs = append(r.sampleCpuNs, endCpuNs-beginCpuNs)
		if r.reference > 0 && int64(len(r.sampleNs))%r.reference == 0 {
			r.referenceNs = append(r.referenceNs, referenceLoopNs(r.turns))
		}
	}
	if int64(len(r.sampleNs)) == r.samples {
		r.over.Store(true)
	}
	if endNs-r.epochNs >= r.warmupNs {
		r.warm.Store(true)
	}
}

// Returns the `sample` event of point k.
func (r *run) sample(job string, k int64) *event {
	var tNs, count int64
	for _, worker := range r.team {
		tNs = max(tNs, worker.tNs[k])
		count += worker.count[k]
	}
	late := max(tNs-r.warmupNs-k*r.intervalNs, 0)
	return answer("sample", r.command).with("job", job).with("k", k).with("t_ns", tNs).
		with("count", count).with("workers", len(r.team)).with("late_ns", late)
}

func (r *run) worker(job string, number int) []*event {
	worker := r.team[number]
	var events []*event
	taken := worker.taken.Load()
	for begin := int64(0); begin == 0 || begin < taken; begin += pointsOfALine {
		end := min(begin+pointsOfALine, taken)
		made := answer("worker", r.command).with("job", job).with("w", number).
			with("epoch_ns", r.epochNs).with("batch", worker.batch)
		if begin == 0 {
			made.with("batches", worker.times.total).list("q_ps", worker.times.summary())
			// With several workers, the process's time cannot be attributed to one.
			if len(r.team) == 1 && taken > 1 {
				made.with("cpu_ns", worker.endCpuNs-worker.beginCpuNs)
			}
		}
		made.list("t_ns", worker.tNs[begin:end]).list("count", worker.count[begin:end])
		if end < taken {
			made.with("more", 1)
		}
		events = append(events, made)
	}
	return events
}

func (r *run) samplesTaken(job string) []*event {
	all := &histogram{}
	for _, worker := range r.team {
		all.join(&worker.times)
	}
	var events []*event
	taken := int64(len(r.sampleNs))
	for begin := int64(0); begin == 0 || begin < taken; begin += pointsOfALine {
		end := min(begin+pointsOfALine, taken)
		made := answer("timed", r.command).with("job", job).with("workers", len(r.team)).with("loop", r.loop)
		if begin == 0 {
			made.with("batches", all.total).list("q_ps", all.summary())
			if len(r.referenceNs) > 0 {
				made.list("reference_ns", r.referenceNs)
			}
		}
		made.list("ns", r.sampleNs[begin:end]).list("cpu_ns", r.sampleCpuNs[begin:end])
		if end < taken {
			made.with("more", 1)
		}
		events = append(events, made)
	}
	return events
}

package speedwell

import (
	"runtime"
	"sync/atomic"
	"time"
)

// No line may be longer than 1 MiB; a point has at most two numbers of 20 letters.
const pointsOfALine = 20_000

// What all workers of a run share.
type run struct {
	command              *command
	timed, stream        bool
	// After so many samples the reference loop is performed; 0: never.
	reference, turns int64
	referenceNs      []int64
	intervalNs, warmupNs int64
	samples, loop        int64
	epochNs              int64
	team                 []*Worker
	stop, failed         atomic.Bool
	// Workers that have all their points, and workers that have ended.
	complete, finished atomic.Int64
	// Of a timed run: whether the warm-up is over, and everything.
	warm, over            atomic.Bool
	sampleNs, sampleCpuNs []int64
	arrived, round        atomic.Int64
}

// The run that a command asks for; or what is wrong with the command.
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
		return nil, "only the modes 'continuous', 'timed' and 'series' are offered"
	}
	if mode == "series" {
		made.reference = max(command.number("reference", 0), 0)
	}
	if made.reference > 0 {
		made.turns = referenceTurns()
	}
	if made.samples < 1 || made.samples > 100_000_000 || made.intervalNs < 1 || made.loop < 1 || made.warmupNs < 0 {
		return nil, "a number of 'run' is out of its range"
	}
	if len(team) > 1 {
		// Several workers take some time to wake, and begin together.
		made.epochNs += int64(200 * time.Microsecond)
	}
	made.warm.Store(made.warmupNs == 0)
	return made, ""
}

// The reference loop: the same work whenever it is performed, so what changes its time is the machine.
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

// The result of the reference loop, which must be computed.
var kept atomic.Uint64

// Turns of the reference loop that take about 200 µs. Whoever loses the processor meanwhile has taken long as well, but not
// three times.
func referenceTurns() int64 {
	turns := int64(1000)
	for min(referenceLoopNs(turns), referenceLoopNs(turns), referenceLoopNs(turns)) < 200_000 {
		turns *= 2
	}
	return turns
}

func (r *run) ends() bool { return r.stop.Load() || r.failed.Load() }

// Lets all workers go on at the same time, or none of them after a failure.
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

// The first worker's part while the others wait: the sample that has ended, and whether it was the last.
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

// `sample` of point k.
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
			// Of several workers nobody could say whose time it was.
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

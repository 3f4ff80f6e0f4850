package speedwell

import (
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// A shorter batch is doubled, because the clock would dominate; a longer one is halved, because it would overshoot the
// end of its window.
const (
	shortBatchNs = int64(50 * time.Microsecond)
	longBatchNs  = int64(2 * time.Millisecond)
)

var begin = time.Now()

func nowNs() int64 { return int64(time.Since(begin)) }

// The processor time of the process: a goroutine has no thread of its own. Reading it is a system call, done outside
// the wall-clock measurement or once per window.
func cpuNowNs() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// Worker is a goroutine that performs iterations. The generated code has the loop; it asks Next how many iterations to
// execute.
type Worker struct {
	// Left is the number of iterations of the batch that Next has begun, at least 1.
	Left uint64

	control *control
	runs    chan *run
	begun   bool
	dead    bool
	busy    atomic.Bool
	run     *run
	part    func() bool
	batch   uint64
	nowNs   int64
	total   atomic.Int64
	taken   atomic.Int64
	times   histogram
	tNs     []int64
	count   []int64
	lateNs  int64
	beginNs int64
	endNs   int64
	// The process's processor time at the start of a sample or at the first point, and at its end or at the last point.
	beginCpuNs int64
	endCpuNs   int64
	before     int64
	dueNs      int64
	left       int64
	counts     bool
}

// Next ends a batch and begins the next one; false when the worker has to end. It blocks between runs. The first call
// reports that the worker has its state.
func (w *Worker) Next() bool {
	if !w.begun {
		w.begun = true
		w.control.news <- news{kind: started}
	}
	for {
		if w.run == nil {
			run, open := <-w.runs
			if !open {
				return false
			}
			w.beginRun(run)
		} else {
			w.endBatch()
		}
		if w.part() {
			return true
		}
		w.endRun()
	}
}

func (w *Worker) beginRun(run *run) {
	w.run = run
	w.left = 0
	w.dueNs = run.epochNs + run.warmupNs
	w.before = w.total.Load()
	w.nowNs = nowNs()
	if run.timed {
		w.part = w.nextOfSample
		return
	}
	w.part = w.nextOfWindow
	for len(run.team) > 1 && w.nowNs < run.epochNs {
		runtime.Gosched()
		w.nowNs = nowNs()
	}
	if run.warmupNs == 0 {
		w.takePoint(run.epochNs, run.epochNs)
		w.dueNs += run.intervalNs
	}
}

func (w *Worker) endRun() {
	run := w.run
	w.run = nil
	w.busy.Store(false)
	run.finished.Add(1)
	w.control.news <- news{kind: finished, run: run}
}

// Records the time of the batch that has ended in the histogram.
func (w *Worker) endBatch() {
	now := nowNs()
	tookNs := now - w.nowNs
	w.nowNs = now
	w.total.Store(w.total.Load() + int64(w.Left))
	if w.counts {
		w.times.add(uint64(math.Round(float64(tookNs) * 1000 / float64(w.Left))))
	}
	if w.Left != w.batch {
		return
	}
	if tookNs < shortBatchNs {
		w.batch *= 2
	} else if tookNs > longBatchNs && w.batch > 1 {
		w.batch /= 2
	}
}

func (w *Worker) takePoint(nowNs, dueNs int64) {
	w.tNs = append(w.tNs, nowNs-w.run.epochNs)
	w.count = append(w.count, w.total.Load()-w.before)
	w.lateNs = max(w.lateNs, nowNs-dueNs)
	w.endCpuNs = cpuNowNs()
	if w.taken.Load() == 0 {
		w.beginCpuNs = w.endCpuNs
	}
	if w.taken.Add(1) == w.run.samples+1 {
		w.run.complete.Add(1)
	}
	if w.run.stream {
		w.control.news <- news{kind: point}
	}
}

// Whether a continuous run needs another batch.
func (w *Worker) nextOfWindow() bool {
	run := w.run
	if w.nowNs >= w.dueNs && w.taken.Load() <= run.samples {
		w.takePoint(w.nowNs, w.dueNs)
		firstNs := run.epochNs + run.warmupNs
		w.dueNs = firstNs + ((w.nowNs-firstNs)/run.intervalNs+1)*run.intervalNs
	}
	taken := w.taken.Load()
	w.counts = taken > 0 && taken <= run.samples
	w.Left = w.batch
	return !run.ends() && run.complete.Load() < int64(len(run.team))
}

// Whether a timed run needs another batch: of the current sample, or of the next one.
func (w *Worker) nextOfSample() bool {
	run := w.run
	if w.left > 0 {
		w.left -= int64(w.Left)
		if w.left == 0 || run.ends() {
			w.endNs = w.nowNs
			w.endCpuNs = cpuNowNs()
			w.left = 0
			run.gate()
			if w == run.team[0] {
				run.endSample(run.warm.Load())
			}
			run.gate()
		}
	}
	if w.left == 0 {
		if run.over.Load() || run.ends() {
			return false
		}
		run.gate()
		w.left = run.loop
		w.beginCpuNs = cpuNowNs()
		w.nowNs = nowNs()
		w.beginNs = w.nowNs
	}
	w.Left = min(w.batch, uint64(w.left))
	// A short final batch measures the clock more than the code.
	w.counts = run.warm.Load() && (w.Left == w.batch || w.left == run.loop)
	return true
}

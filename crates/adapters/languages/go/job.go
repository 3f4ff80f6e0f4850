package speedwell

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
)

// Job is the loaded piece of code.
type Job struct {
	control *control
	command *command
	unload  *command
	name    string
	team    []*Worker
	work    func(*Worker) Finished
	done    func()
	// Workers that have their state, and the fault of one that failed to create it.
	begun int
	fault *fault
}

// A panic, and the line of the user's text that it came from.
type fault struct {
	class, message string
	line           int
}

// Serve reports that the job is loaded, and answers commands until it is unloaded. The code calls it after its
// first hook; work is the main function of a worker.
func (j *Job) Serve(work func(*Worker) Finished, done func()) {
	j.work, j.done = work, done
	j.control.send(answer("loaded", j.command).with("job", j.name).with("form", "built").with("arity", 0))
	j.control.converse(j)
	j.setWorkers(0)
	if fault := guarded(done); fault != nil {
		j.control.fail(j.unload, j, "done", fault)
	}
	j.control.job = nil
	if j.unload != nil {
		j.control.send(answer("unloaded", j.unload).with("job", j.name))
	}
}

// Ends all workers: after a panic of one, whose state is lost, or if one's code does not return. That one is
// abandoned, because a goroutine cannot be ended from outside.
func (j *Job) abandon() {
	for _, worker := range j.team {
		if worker.dead {
			continue
		}
		close(worker.runs)
		if !worker.busy.Load() {
			j.control.await(left)
		}
	}
	j.team = nil
}

// Starts a worker. A panic in its loop ends it, and the run.
func (j *Job) start() *Worker {
	worker := &Worker{control: j.control, runs: make(chan *run), batch: 1}
	go func() {
		fault := guarded(func() { j.work(worker) })
		switch {
		case fault == nil:
			j.control.news <- news{kind: left}
		case worker.run == nil:
			j.control.news <- news{kind: started, fault: fault}
		default:
			worker.dead = true
			worker.run.failed.Store(true)
			worker.run.finished.Add(1)
			j.control.news <- news{kind: finished, fault: fault, run: worker.run}
		}
	}()
	return worker
}

// Changes the number of workers: starts some, or ends the newest. Returns the fault of one that failed to
// start.
func (j *Job) setWorkers(wanted int) *fault {
	before := len(j.team)
	for len(j.team) > wanted {
		last := len(j.team) - 1
		close(j.team[last].runs)
		j.control.await(left)
		j.team = j.team[:last]
	}
	for len(j.team) < wanted {
		j.team = append(j.team, j.start())
	}
	var fault *fault
	begun := 0
	for range j.team[min(before, len(j.team)):] {
		if update := j.control.await(started); update.fault != nil {
			fault = update.fault
		} else {
			begun++
		}
	}
	if fault != nil {
		for _, worker := range j.team[before:] {
			close(worker.runs)
		}
		for ; begun > 0; begun-- {
			j.control.await(left)
		}
		j.team = j.team[:before]
	}
	return fault
}

// Executes code; returns a panic as a fault.
func guarded(code func()) (found *fault) {
	defer func() {
		if value := recover(); value != nil {
			found = &fault{class: reflect.TypeOf(value).String(), message: fmt.Sprint(value), line: lineOfPanic()}
		}
	}()
	code()
	return nil
}

// Returns the innermost line of the user's text that the panic went through. Generated code refers to the text
// by line directives.
func lineOfPanic() int {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		switch path.Base(frame.File) {
		case "runner", "init", "init-worker", "done":
			return frame.Line
		}
		if !more {
			return 0
		}
	}
}

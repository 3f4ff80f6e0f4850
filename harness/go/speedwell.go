// Package speedwell measures one piece of Go code that is compiled into the same program: the other end of
// docs/reference/protocol.md, "Measuring code".
//
// What is generated around the code calls Main, and in it, when the job is loaded, Serve. The values of the
// hooks are local variables there, so that the compiler finds their types; the loop stands there as well.
package speedwell

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// Finished is what the function that holds the loop gives back: a type of its own, so that the compiler
// refuses a return of the code that would leave the loop.
type Finished struct{}

// Keep makes the last result of a batch one that is needed.
//
//go:noinline
func Keep[T any](T) {}

// Main speaks with Speedwell until it has nothing more to say. It calls code for every job that is loaded.
func Main(code func(*Job)) {
	var commands, events int
	if _, err := fmt.Sscanf(os.Getenv("SPEEDWELL_FDS"), "%d,%d", &commands, &events); err != nil {
		fmt.Fprintln(os.Stderr, "SPEEDWELL_FDS must name two descriptors, such as '3,4'")
		os.Exit(2)
	}
	// Processes that the code starts must not believe that the descriptors are theirs.
	os.Unsetenv("SPEEDWELL_FDS")
	syscall.CloseOnExec(commands)
	syscall.CloseOnExec(events)
	control := &control{
		events: os.NewFile(uintptr(events), "events"),
		news:   make(chan news, 1024),
		code:   code,
	}
	go func() {
		lines := bufio.NewReaderSize(os.NewFile(uintptr(commands), "commands"), 1<<16)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				control.news <- news{kind: ended}
				return
			}
			control.news <- news{kind: said, line: strings.TrimSuffix(line, "\n")}
		}
	}()
	control.converse(nil)
	os.Exit(0)
}

// Whether the compiler was told not to optimise.
func isDebug() bool {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return false
	}
	for _, setting := range info.Settings {
		if setting.Key == "-gcflags" && strings.Contains(setting.Value, "-N") {
			return true
		}
	}
	return false
}

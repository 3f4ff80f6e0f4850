// Package speedwell measures one piece of Go code that is compiled into the same program: the harness side
// of docs/reference/protocol.md, "Measuring code".
//
// The code generated around it calls Main, and Serve once the job is loaded. In that code, the values of the
// hooks are local variables, so that the compiler infers their types; the loop is part of it, too.
package speedwell

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// Finished is what the function that holds the loop returns: a separate type, so that the compiler rejects
// a return in the code that would leave the loop.
type Finished struct{}

// Keep makes the compiler treat the last result of a batch as used.
//
//go:noinline
func Keep[T any](T) {}

// Main serves Speedwell until the end of the commands. It calls code for every job that is loaded.
func Main(code func(*Job)) {
	var commands, events int
	if _, err := fmt.Sscanf(os.Getenv("SPEEDWELL_FDS"), "%d,%d", &commands, &events); err != nil {
		fmt.Fprintln(os.Stderr, "SPEEDWELL_FDS must name two descriptors, such as '3,4'")
		os.Exit(2)
	}
	// Child processes of the code must not inherit the variable and use the descriptors.
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

// Whether the program was compiled without optimisation.
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

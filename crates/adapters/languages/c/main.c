/* Measures one piece of C or C++ code that is compiled into this program: the harness side of
 * docs/reference/protocol.md, "Measuring code". Written in the common subset of C11 and C++17, because a
 * machine may have a compiler for only one of them. Compiled once per compiler and set of flags; the code
 * itself, with its loop, is a separate object (code.h).
 *
 * One program, in parts to be read in this order. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "code.h"

#include "requests.h"

#include "wire.c"
#include "histogram.c"
#include "worker.c"
#include "control.c"
#include "session.c"
#include "run.c"

static void answer(struct control *control, char *line) {
  const int needs_job = verb_is(line, "workers") || verb_is(line, "calibrate") || verb_is(line, "unload");
  if (needs_job && (!control->job || !field_is(line, "job", control->job))) {
    send_error(control, line, "protocol", "UnknownJob", "'job' must name the loaded job");
  } else if (verb_is(line, "load")) {
    load(control, line);
  } else if (verb_is(line, "workers")) {
    const int64_t begin_ns = now_ns(), wanted = field_number(line, "n", 1);
    if (wanted < 0 || wanted > 100000) {
      send_error(control, line, "protocol", "BadArgument", "'n' must be a number of workers");
    } else if (set_workers(control, line, (int)wanted)) {
      struct text event = event_for("workers", line);
      put_text(&event, "job", control->job);
      put_number(&event, "n", team_size);
      put_number(&event, "ms", (now_ns() - begin_ns) / 1000000);
      send_event(control, &event);
    }
  } else if (verb_is(line, "run")) {
    run_job(control, line);
  } else if (verb_is(line, "calibrate")) {
    calibrate(control, line);
  } else if (verb_is(line, "monitor")) {
    monitor(control, line);
  } else if (verb_is(line, "stop")) {
    struct text copy = {NULL, 0, 0};
    text_say(&copy, line);
    answer_stop(control, copy.bytes);
  } else if (verb_is(line, "unload")) {
    char *job = field(line, "job");
    end_job(control, line);
    struct text event = event_for("unloaded", line);
    put_text(&event, "job", job);
    send_event(control, &event);
    free(job);
  } else {
    send_error(control, line, "protocol", "UnknownVerb", "unknown verb");
  }
}

int main(void) {
  struct control control;
  const char *named = getenv("SPEEDWELL_FDS");
  memset(&control, 0, sizeof control);
  if (!named || sscanf(named, "%d,%d", &control.commands, &control.events) != 2 ||
      pipe2(bell, O_CLOEXEC | O_NONBLOCK)) {
    fputs("SPEEDWELL_FDS must name two descriptors, such as '3,4'\n", stderr);
    return 2;
  }
  fcntl(control.commands, F_SETFD, FD_CLOEXEC);
  fcntl(control.events, F_SETFD, FD_CLOEXEC);
  /* Child processes of the code must not inherit the variable and use the descriptors. */
  unsetenv("SPEEDWELL_FDS");
  for (int leaving = 0; !leaving;) {
    char *line = take_line(&control, NULL);
    if (!line && control.ended) break;
    if (!line) {
      attend(&control);
      continue;
    }
    if (verb_is(line, "quit")) leaving = 1;
    else if (verb_is(line, "hello")) leaving = !hello(&control, line);
    else answer(&control, line);
    free(line);
  }
  end_job(&control, "");
  /* Do not destroy globals while an abandoned worker still uses them. */
  if (control.lost) {
    fflush(NULL);
    _exit(0);
  }
  return 0;
}

/* Implements the commands of docs/reference/protocol.md, "Measuring code". */

static int64_t clock_step_ns(void) {
  int64_t smallest = INT64_MAX, before = now_ns();
  for (int read = 0; read < 32; ++read) {
    const int64_t now = now_ns();
    if (now > before && now - before < smallest) smallest = now - before;
    before = now;
  }
  return smallest == INT64_MAX ? 0 : smallest;
}

static int hello(struct control *control, const char *line) {
  if (!field_is(line, "proto", "1")) {
    struct text event = event_for("error", line);
    put_text(&event, "stage", "protocol");
    put_text(&event, "class", "Version");
    put_text(&event, "msg", "only protocol version 1 is supported");
    put_number(&event, "fatal", 1);
    send_event(control, &event);
    return 0;
  }
  struct text event = event_for("ready", line);
  put_number(&event, "proto", 1);
  put_text(&event, "lang", speedwell_code.language);
  put_text(&event, "version", speedwell_code.compiler);
  put_text(&event, "flavor", "native");
  put_text(&event, "build", speedwell_code.optimised ? "opt" : "debug");
  put_number(&event, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
  put_text(&event, "clock", "CLOCK_MONOTONIC");
  put_number(&event, "clock_res_ns", clock_step_ns());
  put_text(&event, "caps", "continuous,timed,series,workers,monitor");
  put_text(&event, "gauges", "threads:count,rss:bytes");
  if (!speedwell_code.optimised) put_text(&event, "warn0", "the code was compiled without optimisation");
  send_event(control, &event);
  return 1;
}

static void forget_worker(struct worker *worker) {
  pthread_join(worker->thread, NULL);
  free(worker->points);
  free(worker);
}

/* Ends the newest workers until `wanted` are left. */
static void end_workers(int wanted) {
  pthread_mutex_lock(&door);
  for (int i = wanted; i < team_size; ++i) team[i]->leave = 1;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&door);
  while (team_size > wanted) forget_worker(team[--team_size]);
}

static void start_workers(int wanted) {
  team = (struct worker **)room_for(team, (size_t)wanted * sizeof *team);
  while (team_size < wanted) {
    struct worker *worker = (struct worker *)room_for(NULL, sizeof *worker);
    memset(worker, 0, sizeof *worker);
    worker->batch = 1;
    if (pthread_create(&worker->thread, NULL, work, worker)) {
      free(worker);
      return;
    }
    team[team_size++] = worker;
  }
}

/* Changes the number of workers to `wanted`; 0 after an error, which has
 * been reported. */
static int set_workers(struct control *control, const char *line, int wanted) {
  const int before = team_size;
  if (wanted <= before) {
    end_workers(wanted);
    return 1;
  }
  start_workers(wanted);
  if (team_size < wanted) {
    end_workers(before);
    send_error(control, line, "init_runner", "Threads", "cannot start another thread");
    return 0;
  }
  for (int i = before; i < team_size; ++i) {
    while (seen(&team[i]->condition) == STARTING) {
      attend(control);
      if (abandoned(control)) leave_now();
    }
  }
  for (int i = before; i < team_size; ++i) {
    if (seen(&team[i]->condition) != BROKEN) continue;
    send_failure(control, line, "init_runner", &team[i]->failure);
    end_workers(before);
    return 0;
  }
  return 1;
}

static void load(struct control *control, const char *line) {
  char *job = field(line, "job");
  if (!job || !*job) send_error(control, line, "protocol", "MissingKey", "load needs 'job'");
  else if (!field_is(line, "form", "built"))
    send_error(control, line, "protocol", "Form", "'form' must be 'built': the code is compiled in");
  else if (control->job)
    send_error(control, line, "protocol", "Form", "the code of this program is already loaded");
  else {
    control->job = job;
    job = NULL;
    if (speedwell_code.init()) {
      send_failure(control, line, "init", &failure);
      free(control->job);
      control->job = NULL;
    } else {
      struct text event = event_for("loaded", line);
      put_text(&event, "job", control->job);
      put_text(&event, "form", "built");
      put_number(&event, "arity", 0);
      send_event(control, &event);
    }
  }
  free(job);
}

static void end_job(struct control *control, const char *line) {
  if (!control->job) return;
  end_workers(0);
  if (speedwell_code.done()) send_failure(control, line, "done", &failure);
  free(control->job);
  control->job = NULL;
}

static void calibrate(struct control *control, const char *line) {
  const int64_t begin_ns = now_ns(), target_ns = field_number(line, "target_ns", 50000000);
  uint64_t iterations = 1;
  double least_ps = 0;
  for (int64_t before = begin_ns, now; before - begin_ns < target_ns; before = now) {
    speedwell_code.empty(iterations);
    now = now_ns();
    const double ps = (double)(now - before) * 1000 / (double)iterations;
    if (least_ps == 0 || ps < least_ps) least_ps = ps;
    if (now - before < SHORT_BATCH_NS) iterations *= 2;
  }
  struct text event = event_for("calibrated", line);
  put_text(&event, "job", control->job);
  put_number(&event, "empty_ps", (int64_t)(least_ps + .5));
  send_event(control, &event);
}

static void monitor(struct control *control, const char *line) {
  free(control->gauge_line);
  struct text copy = {NULL, 0, 0};
  text_say(&copy, line);
  control->gauge_line = copy.bytes;
  control->gauge_ns = field_number(line, "interval_ns", 0);
  if (control->gauge_ns <= 0) {
    control->gauge_ns = 0;
    return;
  }
  control->next_gauge_ns = now_ns() + control->gauge_ns;
  send_gauge(control);
}

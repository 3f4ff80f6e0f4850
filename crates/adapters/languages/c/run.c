/* One run: starts the workers together, handles events while it lasts, and reports it. */

/* A line may be at most 1 MiB long; a point has at most two numbers of 20 digits. */
enum { POINTS_OF_A_LINE = 20000 };

static void put_list(struct text *event, const char *key, const int64_t *numbers, int64_t begin, int64_t end) {
  text_say(event, "\t");
  text_say(event, key);
  text_say(event, "=");
  for (int64_t i = begin; i < end; ++i) {
    if (i > begin) text_say(event, ",");
    text_number(event, numbers[i]);
  }
}

static void send_worker(struct control *control, const char *line, int number) {
  const struct worker *worker = team[number];
  for (int64_t begin = 0; begin == 0 || begin < worker->taken; begin += POINTS_OF_A_LINE) {
    int64_t end = begin + POINTS_OF_A_LINE;
    if (end > worker->taken) end = worker->taken;
    struct text event = event_for("worker", line);
    put_text(&event, "job", control->job);
    put_number(&event, "w", number);
    put_number(&event, "epoch_ns", control->run->epoch_ns);
    put_number(&event, "batch", (int64_t)worker->batch);
    if (begin == 0) put_histogram(&event, &worker->times);
    if (begin == 0 && worker->taken > 1) put_number(&event, "cpu_ns", worker->cpu_ns);
    text_say(&event, "\tt_ns=");
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) text_say(&event, ",");
      text_number(&event, worker->points[i].t_ns);
    }
    text_say(&event, "\tcount=");
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) text_say(&event, ",");
      text_number(&event, worker->points[i].count);
    }
    if (end < worker->taken) put_number(&event, "more", 1);
    send_event(control, &event);
  }
}

static void send_timed(struct control *control, const char *line) {
  const struct run *run = control->run;
  struct histogram *all = (struct histogram *)room_for(NULL, sizeof *all);
  histogram_clear(all);
  for (int i = 0; i < team_size; ++i) histogram_join(all, &team[i]->times);
  for (int64_t begin = 0; begin == 0 || begin < run->sampled; begin += POINTS_OF_A_LINE) {
    int64_t end = begin + POINTS_OF_A_LINE;
    if (end > run->sampled) end = run->sampled;
    struct text event = event_for("timed", line);
    put_text(&event, "job", control->job);
    put_number(&event, "workers", team_size);
    put_number(&event, "loop", run->loop);
    if (begin == 0) put_histogram(&event, all);
    put_list(&event, "ns", run->sample_ns, begin, end);
    put_list(&event, "cpu_ns", run->sample_cpu_ns, begin, end);
    if (begin == 0 && run->referred) put_list(&event, "reference_ns", run->reference_ns, 0, run->referred);
    if (end < run->sampled) put_number(&event, "more", 1);
    send_event(control, &event);
  }
  free(all);
}

static int read_order(struct control *control, const char *line, struct run *run) {
  const int series = field_is(line, "mode", "series");
  const int timed = series || field_is(line, "mode", "timed");
  memset(run, 0, sizeof *run);
  run->mode = timed ? TIMED : CONTINUOUS;
  run->samples = field_number(line, "samples", 3);
  run->warmup_ns = field_number(line, "warmup_ns", 0);
  run->interval_ns = field_number(line, "interval_ns", 1000000000);
  run->loop = field_number(line, "loop", 1);
  run->reference = series ? field_number(line, "reference", 0) : 0;
  run->stream = field_number(line, "stream", 0) != 0;
  if (!timed && !field_is(line, "mode", "continuous"))
    send_error(control, line, "protocol", "Mode", "unsupported mode: expected 'continuous', 'timed' or 'series'");
  else if (!control->job || !field_is(line, "jobs", control->job))
    send_error(control, line, "protocol", "UnknownJob", "'jobs' must name the loaded job");
  else if (run->samples < 1 || run->samples > 100000000 || run->interval_ns < 1 || run->loop < 1 ||
           run->warmup_ns < 0 || run->reference < 0)
    send_error(control, line, "protocol", "BadArgument", "a number in 'run' is out of range");
  else
    return 1;
  return 0;
}

static void prepare(struct run *run) {
  const size_t count = (size_t)run->samples + 1;
  for (int i = 0; i < team_size; ++i) {
    struct worker *worker = team[i];
    histogram_clear(&worker->times);
    worker->taken = worker->late_ns = worker->cpu_ns = 0;
    if (run->mode == CONTINUOUS)
      worker->points = (struct point *)room_for(worker->points, count * sizeof(struct point));
  }
  if (run->mode == TIMED) {
    run->sample_ns = (int64_t *)room_for(NULL, count * sizeof(int64_t));
    run->sample_cpu_ns = (int64_t *)room_for(NULL, count * sizeof(int64_t));
  }
  if (run->reference) {
    run->reference_ns = (int64_t *)room_for(NULL, (count / (size_t)run->reference + 1) * sizeof(int64_t));
    run->reference_turns = reference_turns();
  }
  run->workers = team_size;
  /* Several threads start together, so they are given some time to wake up. */
  run->epoch_ns = now_ns() + (team_size > 1 ? 200000 : 0);
}

static void report_run(struct control *control, const char *line) {
  const struct run *run = control->run;
  if (run->failed) {
    int i = 0;
    while (i < team_size - 1 && !team[i]->failure.type[0]) ++i;
    send_failure(control, line, "run", &team[i]->failure);
    for (i = 0; i < team_size; ++i) team[i]->failure.type[0] = 0;
  } else if (run->mode == TIMED) {
    send_timed(control, line);
  } else {
    for (int i = 0; i < team_size; ++i) send_worker(control, line, i);
  }
}

/* The maximum lateness of a point. */
static int64_t greatest_late_ns(void) {
  int64_t late_ns = 0;
  for (int i = 0; i < team_size; ++i) {
    if (team[i]->late_ns > late_ns) late_ns = team[i]->late_ns;
  }
  return late_ns;
}

/* Abandons workers whose code does not return, and ends the others. A thread cannot be ended from
 * outside; it exits if its code returns later. */
static void give_up(struct control *control, const char *line) {
  send_error(control, line, "timeout", "Timeout", "the code did not return within a second of 'stop'");
  pthread_mutex_lock(&door);
  for (int i = 0; i < team_size; ++i) team[i]->leave = 1;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&door);
  while (team_size > 0) {
    struct worker *worker = team[--team_size];
    pthread_mutex_lock(&door);
    const int busy = worker->run != NULL;
    pthread_mutex_unlock(&door);
    if (!busy) {
      forget_worker(worker);
    } else {
      pthread_detach(worker->thread);
      ++control->lost;
    }
  }
}

static void run_job(struct control *control, const char *line) {
  struct run *run = (struct run *)room_for(NULL, sizeof *run);
  if (!read_order(control, line, run) || (team_size == 0 && !set_workers(control, line, 1))) {
    free(run);
    return;
  }
  const int64_t begin_ns = now_ns();
  prepare(run);
  control->run_line = line;
  control->streamed = 0;
  control->stopped_ns = 0;
  control->run = run;
  if (control->ended) run->stop = 1;
  pthread_mutex_lock(&door);
  current = run;
  ++generation;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&door);
  while (seen(&run->finished) < team_size && !given_up(control)) {
    attend(control);
    if (abandoned(control)) leave_now();
  }
  const int came_back = seen(&run->finished) == team_size;
  send_samples(control);
  if (came_back) report_run(control, line);
  else give_up(control, line);
  struct text event = event_for("end", line);
  put_text(&event, "jobs", control->job);
  put_number(&event, "elapsed_ns", now_ns() - begin_ns);
  put_number(&event, "max_late_ns", greatest_late_ns());
  send_event(control, &event);
  control->run = NULL;
  control->stopped_ns = 0;
  if (!came_back) return; /* Abandoned workers still use it. */
  free(run->sample_ns);
  free(run->sample_cpu_ns);
  free(run->reference_ns);
  free(run);
}

/* The control thread: reads commands, sends events, and does periodic work while workers run. */

struct control {
  int commands, events;
  char *waiting; /* read but not yet processed */
  size_t length, room;
  int ended;
  int64_t ended_ns, stopped_ns;
  int lost; /* workers that did not return */
  char *job; /* the name of the loaded piece of code, or NULL */
  int64_t gauge_ns, next_gauge_ns;
  char *gauge_line;
  struct run *run;
  const char *run_line;
  int64_t streamed;
};

static void send_event(struct control *control, struct text *event) {
  text_say(event, "\n");
  for (size_t sent = 0; sent < event->length;) {
    const ssize_t count = write(control->events, event->bytes + sent, event->length - sent);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) sent += (size_t)count;
  }
  free(event->bytes);
}

static void send_error(struct control *control, const char *line, const char *stage, const char *type,
                       const char *message) {
  struct text event = event_for("error", line);
  const int of_job = strcmp(stage, "protocol") && control->job;
  if (of_job) put_text(&event, "job", control->job);
  put_text(&event, "stage", stage);
  put_text(&event, "class", type);
  put_text(&event, "msg", message);
  put_number(&event, "fatal", 0);
  send_event(control, &event);
}

static void send_failure(struct control *control, const char *line, const char *stage,
                         const struct speedwell_failure *why) {
  struct text event = event_for("error", line);
  if (control->job) put_text(&event, "job", control->job);
  put_text(&event, "stage", stage);
  put_text(&event, "class", why->type);
  put_text(&event, "msg", why->message);
  if (why->line) put_number(&event, "line", why->line);
  put_number(&event, "fatal", 0);
  send_event(control, &event);
}

static void send_gauge(struct control *control) {
  struct text event = event_for("gauge", control->gauge_line);
  long pages = 0, threads = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file) {
    if (fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    fclose(file);
  }
  file = fopen("/proc/self/stat", "r");
  if (file) {
    /* The second field, the program's name, may contain any character. */
    char text[1024];
    const size_t count = fread(text, 1, sizeof text - 1, file);
    text[count] = 0;
    const char *after = strrchr(text, ')');
    if (!after || sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
                         &threads) != 1)
      threads = 0;
    fclose(file);
  }
  put_number(&event, "t_ns", now_ns());
  put_number(&event, "threads", threads);
  put_number(&event, "rss", pages * sysconf(_SC_PAGESIZE));
  if (control->job) {
    int64_t total = 0;
    struct text key = {NULL, 0, 0};
    for (int i = 0; i < team_size; ++i) total += __atomic_load_n(&team[i]->total, __ATOMIC_RELAXED);
    text_say(&key, "job.");
    text_say(&key, control->job);
    put_number(&event, key.bytes, total);
    free(key.bytes);
  }
  send_event(control, &event);
}

/* Sends `sample` for every point that all workers have reached. */
static void send_samples(struct control *control) {
  const struct run *run = control->run;
  if (!run || !run->stream) return;
  int64_t taken = INT64_MAX;
  for (int i = 0; i < team_size; ++i) {
    const int64_t worker_taken = __atomic_load_n(&team[i]->taken, __ATOMIC_ACQUIRE);
    if (worker_taken < taken) taken = worker_taken;
  }
  for (; control->streamed < taken; ++control->streamed) {
    int64_t t_ns = 0, count = 0;
    const int64_t k = control->streamed, due_ns = run->warmup_ns + k * run->interval_ns;
    for (int i = 0; i < team_size; ++i) {
      const struct point point = team[i]->points[k];
      if (point.t_ns > t_ns) t_ns = point.t_ns;
      count += point.count;
    }
    struct text event = event_for("sample", control->run_line);
    put_text(&event, "job", control->job);
    put_number(&event, "k", k);
    put_number(&event, "t_ns", t_ns);
    put_number(&event, "count", count);
    put_number(&event, "workers", team_size);
    put_number(&event, "late_ns", t_ns > due_ns ? t_ns - due_ns : 0);
    send_event(control, &event);
  }
}

static void read_commands(struct control *control) {
  if (control->length + 65536 + 1 > control->room) {
    control->room = (control->length + 65536 + 1) * 2;
    control->waiting = (char *)room_for(control->waiting, control->room);
  }
  const ssize_t count = read(control->commands, control->waiting + control->length, 65536);
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    control->ended = 1;
    control->ended_ns = now_ns();
    if (control->run) set(&control->run->stop, 1);
    return;
  }
  control->length += (size_t)count;
  control->waiting[control->length] = 0;
}

/* Removes a complete line from the input; NULL if there is none. The caller frees it. */
static char *take_line(struct control *control, const char *only_verb) {
  char *end;
  for (char *line_start = control->waiting; line_start && (end = (char *)memchr(
           line_start, '\n', control->length - (size_t)(line_start - control->waiting)));
       line_start = end + 1) {
    struct text line = {NULL, 0, 0};
    text_add(&line, line_start, (size_t)(end - line_start));
    if (only_verb && !verb_is(line.bytes, only_verb)) {
      free(line.bytes);
      continue;
    }
    const size_t after = control->length - (size_t)(end + 1 - control->waiting);
    memmove(line_start, end + 1, after);
    control->length = (size_t)(line_start - control->waiting) + after;
    control->waiting[control->length] = 0;
    return line.bytes;
  }
  return NULL;
}

static void answer_stop(struct control *control, char *line) {
  struct text event = event_for("stopped", line);
  char *job = field(line, "job");
  put_text(&event, "job", job ? job : "");
  send_event(control, &event);
  if (control->run) {
    set(&control->run->stop, 1);
    if (!control->stopped_ns) control->stopped_ns = now_ns();
  }
  free(job);
  free(line);
}

/* Exits at once: for code that does not return and cannot be awaited. */
static void leave_now(void) {
  speedwell_code.done();
  fflush(NULL);
  _exit(0);
}

/* Waits for an event and handles it. Code that has not returned a second after the end of the
 * commands is abandoned. */
static void attend(struct control *control) {
  struct pollfd doors[2] = {{bell[0], POLLIN, 0}, {control->commands, POLLIN, 0}};
  int patience_ms = -1;
  if (control->gauge_ns) {
    const int64_t left_ns = control->next_gauge_ns - now_ns();
    patience_ms = left_ns < 0 ? 0 : (int)(left_ns / 1000000 + 1);
  }
  const int leaving = control->ended || control->stopped_ns;
  if (leaving && (patience_ms < 0 || patience_ms > 100)) patience_ms = 100;
  poll(doors, control->ended ? 1 : 2, patience_ms);
  if (doors[0].revents & POLLIN) {
    char bytes[256];
    if (read(bell[0], bytes, sizeof bytes) < 0) return;
  }
  if (doors[1].revents) read_commands(control);
  send_samples(control);
  if (control->run || control->job) {
    for (char *line; (line = take_line(control, "stop"));) answer_stop(control, line);
  }
  if (control->gauge_ns && now_ns() >= control->next_gauge_ns) {
    send_gauge(control);
    /* Missed intervals are not made up for. */
    control->next_gauge_ns = now_ns() + control->gauge_ns;
  }
}

enum { PATIENCE_NS = 1000000000 };

static int abandoned(const struct control *control) {
  return control->ended && now_ns() - control->ended_ns > PATIENCE_NS;
}

/* Whether the run was stopped but its workers have not returned. */
static int given_up(const struct control *control) {
  return control->stopped_ns && now_ns() - control->stopped_ns > PATIENCE_NS;
}

package speedwell;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The control thread: reads commands, sends events, and does periodic work while workers run. */
final class Control<S, T> {
  /** Posted when a worker has reached a point of a streamed run; a Run is posted when a worker's part of it is over. */
  static final Object POINT = new Object();

  private static final Object END = new Object();

  /** A worker has its state, or failed. */
  static final class Begun {
    final Throwable fault;

    Begun(Throwable fault) {
      this.fault = fault;
    }
  }

  /** How long code may take to return after the end of the commands before it is abandoned. */
  private static final long PATIENCE_NS = 1_000_000_000;

  private final Code.Complete<S, T> code;
  private final int[] places;
  private final FileOutputStream events;
  private final LinkedBlockingQueue<Object> news = new LinkedBlockingQueue<>();
  private final ArrayDeque<Command> waiting = new ArrayDeque<>();
  private final List<Worker<S, T>> team = new ArrayList<>();
  private final List<Begun> begun = new ArrayList<>();
  private boolean ended;
  private long endedNs;
  private long stoppedNs;
  private String job;
  private S shared;
  private Command gauge;
  private long gaugeNs;
  private long nextGaugeNs;
  private Run run;
  private int finished;
  private int streamed;

  private Control(Code.Complete<S, T> code, int[] places, FileOutputStream events) {
    this.code = code;
    this.places = places;
    this.events = events;
  }

  static <S, T> void serve(Code.Complete<S, T> code, int[] places) throws Exception {
    String[] named = String.valueOf(System.getenv("SPEEDWELL_FDS")).split(",");
    if (named.length != 2) {
      System.err.println("SPEEDWELL_FDS must name two descriptors, such as '3,4'");
      System.exit(2);
    }
    // Java cannot adopt a descriptor; but a pipe can be opened again by its name.
    FileInputStream commands = new FileInputStream("/dev/fd/" + named[0]);
    FileOutputStream events = new FileOutputStream("/dev/fd/" + named[1]);
    Control<S, T> control = new Control<>(code, places, events);
    // Not a lambda: initializing the machinery of the first one takes as long as all other startup.
    Thread reader =
        new Thread() {
          @Override
          public void run() {
            control.read(commands);
          }
        };
    reader.setDaemon(true);
    reader.start();
    control.converse();
    control.endJob(null);
    System.exit(0);
  }

  void post(Object what) {
    news.add(what);
  }

  private void read(FileInputStream from) {
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(from, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        post(new Command(line));
      }
    } catch (IOException error) {
      // Same as the end of the commands.
    }
    post(END);
  }

  private void converse() throws InterruptedException {
    while (true) {
      Command command = waiting.poll();
      if (command == null) {
        if (ended) {
          return;
        }
        attend();
      } else if (command.verb.equals("quit") || !answer(command)) {
        return;
      }
    }
  }

  private boolean answer(Command command) throws InterruptedException {
    switch (command.verb) {
      case "hello":
        return hello(command);
      case "load":
        load(command);
        break;
      case "run":
        perform(command);
        break;
      case "monitor":
        monitor(command);
        break;
      case "stop":
        stop(command);
        break;
      case "workers":
      case "calibrate":
      case "unload":
        if (job == null || !command.text("job").equals(job)) {
          refuse(command, "UnknownJob", "'job' must name the loaded job");
        } else {
          answerOfJob(command);
        }
        break;
      default:
        refuse(command, "UnknownVerb", "unknown verb '" + command.verb + "'");
    }
    return true;
  }

  private void answerOfJob(Command command) throws InterruptedException {
    if (command.verb.equals("calibrate")) {
      long emptyPs = Empty.calibrate(command.number("target_ns", 50_000_000));
      new Event("calibrated", command).with("job", job).with("empty_ps", emptyPs).send(events);
    } else if (command.verb.equals("unload")) {
      String name = job;
      endJob(command);
      new Event("unloaded", command).with("job", name).send(events);
    } else {
      long beginNs = System.nanoTime();
      long wanted = command.number("n", 1);
      if (wanted < 0 || wanted > 100_000) {
        refuse(command, "BadArgument", "'n' must be a number of workers");
      } else if (setWorkers(command, (int) wanted)) {
        long tookMs = (System.nanoTime() - beginNs) / 1_000_000;
        Event event = new Event("workers", command).with("job", job);
        event.with("n", team.size()).with("ms", tookMs).send(events);
      }
    }
  }

  private void refuse(Command command, String type, String message) {
    Event event = new Event("error", command).with("stage", "protocol").with("class", type);
    event.with("msg", message).with("fatal", 0).send(events);
  }

  private void fail(Command command, String stage, Throwable fault) {
    Event event = new Event("error", command).with("job", job).with("stage", stage);
    String message = fault.getMessage();
    event.with("class", fault.getClass().getName());
    event.with("msg", message == null ? fault.toString() : message);
    for (StackTraceElement frame : fault.getStackTrace()) {
      int line = "Main.java".equals(frame.getFileName()) ? lineOf(frame.getLineNumber()) : 0;
      if (line > 0) {
        event.with("line", line);
        break;
      }
    }
    event.with("fatal", 0).send(events);
  }

  /**
   * Maps a line of the generated file to the user's text; 0 if it is outside of it. The lines around a text
   * belong to it as well: they are the call that uses its value.
   */
  private int lineOf(int line) {
    for (int margin = 0; margin <= 1; margin++) {
      for (int i = 0; i + 2 < places.length; i += 3) {
        if (line >= places[i] - margin && line <= places[i + 1] + margin) {
          return Math.min(Math.max(line, places[i]), places[i + 1]) - places[i] + places[i + 2];
        }
      }
    }
    return 0;
  }

  private boolean hello(Command command) {
    if (!command.text("proto").equals("1")) {
      Event event = new Event("error", command).with("stage", "protocol").with("class", "Version");
      event.with("msg", "only protocol version 1 is supported").with("fatal", 1).send(events);
      return false;
    }
    boolean interprets = System.getProperty("java.vm.info", "").contains("interpreted");
    Event event = new Event("ready", command).with("proto", 1).with("lang", "java");
    event
        .with("version", System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version"))
        .with("flavor", interprets ? "interp" : "jit")
        .with("build", "opt")
        .with("cpus", Runtime.getRuntime().availableProcessors())
        .with("clock", "System.nanoTime")
        .with("clock_res_ns", Empty.clockStepNs())
        .with("caps", "continuous,timed,series,workers,monitor")
        .with("gauges", Gauges.NAMES);
    if (Runtime.version().feature() < 17) {
      event.with("warn0", "before Java 17, an unused result may be optimised away");
    }
    event.send(events);
    return true;
  }

  private void load(Command command) {
    if (command.text("job").isEmpty()) {
      refuse(command, "MissingKey", "load needs 'job'");
    } else if (!command.text("form").equals("built")) {
      refuse(command, "Form", "'form' must be 'built': the code is compiled in");
    } else if (job != null) {
      refuse(command, "Form", "the code of this program is already loaded");
    } else {
      job = command.text("job");
      try {
        shared = code.init.init();
        Event event = new Event("loaded", command).with("job", job);
        event.with("form", "built").with("arity", 0).send(events);
      } catch (Throwable fault) {
        fail(command, "init", fault);
        job = null;
      }
    }
  }

  private void endWorkers(int wanted) throws InterruptedException {
    while (team.size() > wanted) {
      team.remove(team.size() - 1).end();
    }
  }

  private boolean setWorkers(Command command, int wanted) throws InterruptedException {
    int before = team.size();
    endWorkers(wanted);
    begun.clear();
    List<Worker<S, T>> fresh = new ArrayList<>();
    for (int i = before; i < wanted; i++) {
      Worker<S, T> worker = new Worker<>(code, shared, this);
      fresh.add(worker);
      worker.start();
    }
    while (begun.size() < fresh.size()) {
      attend();
    }
    for (Begun one : begun) {
      if (one.fault != null) {
        fail(command, "init_runner", one.fault);
        for (Worker<S, T> worker : fresh) {
          worker.interrupt();
        }
        return false;
      }
    }
    team.addAll(fresh);
    return true;
  }

  private void endJob(Command command) throws InterruptedException {
    if (job == null) {
      return;
    }
    endWorkers(0);
    try {
      code.done.done(shared);
    } catch (Throwable fault) {
      fail(command, "done", fault);
    }
    job = null;
  }

  private void monitor(Command command) {
    gauge = command;
    gaugeNs = command.number("interval_ns", 0);
    if (gaugeNs > 0) {
      sendGauge();
    }
  }

  private void sendGauge() {
    Event event = new Event("gauge", gauge).with("t_ns", System.nanoTime());
    Gauges.add(event);
    if (job != null) {
      event.with("job." + job, team.stream().mapToLong(worker -> worker.total).sum());
    }
    event.send(events);
    // Missed intervals are not made up for.
    nextGaugeNs = System.nanoTime() + gaugeNs;
  }

  private void stop(Command command) {
    new Event("stopped", command).with("job", command.text("job")).send(events);
    if (run != null) {
      run.stop = true;
      stoppedNs = stoppedNs == 0 ? System.nanoTime() : stoppedNs;
    }
  }

  /** Waits for an event and handles it. */
  private void attend() throws InterruptedException {
    long now = System.nanoTime();
    long patienceNs = gaugeNs > 0 ? nextGaugeNs - now : Long.MAX_VALUE;
    if (ended || stoppedNs != 0) {
      patienceNs = Math.min(patienceNs, (ended ? endedNs : stoppedNs) + PATIENCE_NS - now);
    }
    Object message = news.poll(Math.max(patienceNs, 0), TimeUnit.NANOSECONDS);
    if (message instanceof Command) {
      Command command = (Command) message;
      if (command.verb.equals("stop") && job != null) {
        stop(command);
      } else {
        waiting.add(command);
      }
    } else if (message instanceof Begun) {
      begun.add((Begun) message);
    } else if (message instanceof Run) {
      finished += message == run ? 1 : 0;
    } else if (message == END) {
      ended = true;
      endedNs = System.nanoTime();
      if (run != null) {
        run.stop = true;
      }
    }
    sendSamples();
    if (ended && System.nanoTime() - endedNs >= PATIENCE_NS) {
      leave();
    }
    if (gaugeNs > 0 && System.nanoTime() >= nextGaugeNs) {
      sendGauge();
    }
  }

  /** Exits although workers have not ended, because their code does not return. */
  private void leave() {
    try {
      if (job != null) {
        code.done.done(shared);
      }
    } catch (Throwable fault) {
      fail(null, "done", fault);
    }
    System.exit(0);
  }

  private void sendSamples() {
    if (run == null || !run.stream) {
      return;
    }
    int taken = team.stream().mapToInt(worker -> worker.taken).min().orElse(0);
    for (; streamed < taken; streamed++) {
      run.sample(job, streamed).send(events);
    }
  }

  /** One run: starts the workers together, handles events while it lasts, and reports it. */
  private void perform(Command command) throws InterruptedException {
    if (job == null || !command.text("jobs").equals(job)) {
      refuse(command, "UnknownJob", "'jobs' must name the loaded job");
      return;
    }
    if (team.isEmpty() && !setWorkers(command, 1)) {
      return;
    }
    long beginNs = System.nanoTime();
    Run next;
    try {
      next = new Run(command, team);
    } catch (IllegalArgumentException wrong) {
      refuse(command, "BadArgument", wrong.getMessage());
      return;
    }
    next.stop = ended;
    finished = 0;
    streamed = 0;
    run = next;
    for (Worker<S, T> worker : team) {
      worker.perform(next);
    }
    while (finished < team.size() && !isLate()) {
      attend();
    }
    sendSamples();
    report(next, isLate() && finished < team.size());
    run = null;
    stoppedNs = 0;
    Event event = new Event("end", command).with("jobs", job);
    event.with("elapsed_ns", System.nanoTime() - beginNs).with("max_late_ns", next.lateNs());
    event.send(events);
  }

  /** Whether the run was stopped but its workers have not returned. */
  private boolean isLate() {
    return stoppedNs != 0 && System.nanoTime() - stoppedNs >= PATIENCE_NS;
  }

  private void report(Run next, boolean isLate) throws InterruptedException {
    Throwable fault = null;
    for (Worker<S, T> worker : team) {
      fault = fault == null ? worker.fault : fault;
    }
    if (isLate) {
      Event event = new Event("error", next.command).with("job", job).with("stage", "timeout");
      event.with("class", "Timeout").with("msg", "the code did not return within a second of 'stop'");
      event.with("fatal", 0).send(events);
      endWorkers(0);
    } else if (fault != null) {
      fail(next.command, "run", fault);
    } else {
      for (Event event : next.report(job)) {
        event.send(events);
      }
    }
  }
}

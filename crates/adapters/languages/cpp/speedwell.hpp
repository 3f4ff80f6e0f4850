// speedwell.hpp: benchmarks in C++17, in one header.
//
//     #include <speedwell.hpp>
//
//     SPEEDWELL_BENCHMARK(copy, speedwell::param("bytes", {8, 64, 512})) {
//       std::vector<char> from(bench.get<int>("bytes"), 'x'), to(from.size());
//       for (auto _ : bench) {
//         std::memcpy(to.data(), from.data(), from.size());
//         speedwell::keep(to.data());
//       }
//       bench.bytes(bench.iterations() * from.size());
//     }
//
// `speedwell run FILE.cpp` compiles and measures it. Started by hand, the program measures every case once
// and prints a table. docs/guide/cpp.md explains every name; docs/reference/protocol.md describes the
// messages over the descriptors in SPEEDWELL_FDS. Sections: the user's interface, how a pass is measured,
// the protocol, the table, main.

#ifndef SPEEDWELL_HPP
#define SPEEDWELL_HPP

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__GXX_RTTI)
#include <cxxabi.h>

#include <typeinfo>
#endif

namespace speedwell {

// ---- The user's interface ----

/// Whether higher or lower values of a metric are better.
enum Better { higher, lower };

// Operand constraints for `keep`. Floating-point numbers have registers of their own, and would have to be moved
// to others. Given the choice, clang always uses memory, which costs a store and a load, so it may not choose.
// gcc uses what fits if memory comes first: it cannot put a known constant into a register that is written.
#if defined(__x86_64__)
#define SPEEDWELL_FLOATS "x"
#elif defined(__aarch64__)
#define SPEEDWELL_FLOATS "w"
#else
#define SPEEDWELL_FLOATS "m"
#endif
#if defined(__clang__)
#define SPEEDWELL_PLACE(registers) registers
#else
#define SPEEDWELL_PLACE(registers) "m," registers
#endif

/// Makes the compiler assume that `value` is read here and, unless it is const, that it may have changed;
/// so neither the value nor its computation is optimised away. Memory counts as read and written, too.
/// Costs no instruction if the value is in a register anyway.
template <class T>
inline __attribute__((always_inline)) void keep(T&& value) {
  using Plain = std::remove_reference_t<T>;
  constexpr bool may_change = std::is_lvalue_reference_v<T> && !std::is_const_v<Plain>;
  if constexpr (!std::is_scalar_v<Plain> || sizeof(Plain) > sizeof(void*)) {
    if constexpr (may_change) asm volatile("" : "+m"(value) : : "memory");
    else asm volatile("" : : "m"(value) : "memory");
  } else if constexpr (std::is_floating_point_v<Plain>) {
    if constexpr (may_change) asm volatile("" : "+" SPEEDWELL_PLACE(SPEEDWELL_FLOATS)(value) : : "memory");
    else asm volatile("" : : SPEEDWELL_FLOATS(value) : "memory");
  } else {
    if constexpr (may_change) asm volatile("" : "+" SPEEDWELL_PLACE("r")(value) : : "memory");
    else asm volatile("" : : "r"(value) : "memory");
  }
}

/// Makes the compiler assume that all memory is read and written here, which forces pending stores.
inline __attribute__((always_inline)) void clobber() { asm volatile("" : : : "memory"); }

namespace detail {

// Not inlined: expanded at every use, text formatting makes a benchmark take a quarter longer to compile.
#define SPEEDWELL_APART __attribute__((noinline))

SPEEDWELL_APART inline std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view& part : parts) all.append(part);
  return all;
}

struct Error {
  std::string stage, type, message;
};

/// Exception that leaves a benchmark on purpose.
struct Leave {
  Error error;
};

/// Returns the shortest decimal text that parses to the same number.
SPEEDWELL_APART inline std::string text_of_number(double value) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return text_of_number(static_cast<double>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(value);
  } else {
    return std::string(value);
  }
}

template <class T>
constexpr const char* type_of() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_floating_point_v<T>) return "float";
  else if constexpr (std::is_arithmetic_v<T>) return "int";
  else return "text";
}

/// Sends or prints an error and ends the process, if exceptions are disabled.
inline std::function<void(const Error&)> give_up;

[[noreturn]] SPEEDWELL_APART inline void leave(const Error& error) {
#if defined(__cpp_exceptions)
  throw Leave{error};
#else
  if (give_up) give_up(error);
  std::_Exit(2);
#endif
}

[[noreturn]] SPEEDWELL_APART inline void leave(std::string_view stage, std::string_view type,
                                               std::string_view message) {
  leave(Error{std::string(stage), std::string(type), std::string(message)});
}

struct Definition;

}  // namespace detail

/// A named input of a benchmark and the values it takes.
struct Parameter {
  std::string name;
  const char* type;
  std::vector<std::string> values;
};

/// A parameter with these values: integers, floating-point numbers, texts or Booleans.
template <class T>
Parameter param(std::string name, std::initializer_list<T> values) {
  Parameter made{std::move(name), detail::type_of<T>(), {}};
  for (const T& value : values) made.values.push_back(detail::text_of(value));
  return made;
}

/// The same, for computed values.
template <class T>
Parameter param(std::string name, const std::vector<T>& values) {
  Parameter made{std::move(name), detail::type_of<T>(), {}};
  for (const T& value : values) made.values.push_back(detail::text_of(value));
  return made;
}

/// A parameter that grows by a factor: range("n", 8, 512) is 8, 64, 512. `last` is always included.
inline Parameter range(std::string name, std::int64_t first, std::int64_t last, std::int64_t factor = 8) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = first; value < last && factor > 1 && value > 0; value *= factor) {
    values.push_back(value);
    if (value > last / factor) break;
  }
  values.push_back(last);
  return param(std::move(name), values);
}

/// A parameter that grows by a step: steps("n", 0, 4, 2) is 0, 2, 4.
inline Parameter steps(std::string name, std::int64_t first, std::int64_t last, std::int64_t step = 1) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = first; value <= last && step > 0; value += step) values.push_back(value);
  return param(std::move(name), values);
}

/// How many threads execute the benchmark concurrently, each with its own iterations.
inline Parameter concurrency(std::initializer_list<int> workers) { return param("concurrency", workers); }

/// A benchmark with one value for each parameter.
class Case {
 public:
  /// The value of a parameter.
  template <class T>
  T get(const std::string& name) const;

  const detail::Definition* definition = nullptr;
  std::vector<std::string> values;
};

/// Called once per process: before the first iteration, or after the last one.
struct Setup {
  std::function<void(const Case&)> call;
};
struct Teardown {
  std::function<void(const Case&)> call;
};
/// Called before or after every pass over the loop, outside the measurement.
struct BeforeSample {
  std::function<void(const Case&)> call;
};
struct AfterSample {
  std::function<void(const Case&)> call;
};
/// Decides whether a combination of values is a case.
struct Only {
  std::function<bool(const Case&)> call;
};

template <class F>
Setup setup(F call) {
  return {call};
}
template <class F>
Teardown teardown(F call) {
  return {call};
}
template <class F>
BeforeSample before_sample(F call) {
  return {call};
}
template <class F>
AfterSample after_sample(F call) {
  return {call};
}
template <class F>
Only only(F call) {
  return {call};
}

namespace detail {

using Clock = std::chrono::steady_clock;

/// Controls callgrind while it counts instructions (`--metric instructions`): valgrind client requests,
/// which are no-ops outside valgrind.
inline std::uint64_t valgrind_request(std::uint64_t request) {
  volatile std::uint64_t words[6] = {request, 0, 0, 0, 0, 0};
  std::uint64_t answer = 0;
#if defined(__x86_64__)
  asm volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
               : "+d"(answer) : "a"(words) : "cc", "memory");
#elif defined(__aarch64__)
  asm volatile(
      "mov x3, %1\n\tmov x4, %2\n\tror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
      "orr x10, x10, x10\n\tmov %0, x3"
      : "=r"(answer)
      : "r"(answer), "r"(words)
      : "cc", "memory", "x3", "x4");
#endif
  return answer;
}

constexpr std::uint64_t on_valgrind = 0x1001, dump_counts = 0x43540000, toggle = 0x43540002;

/// Whether the program runs under valgrind.
inline bool is_counted() {
  static const bool under_valgrind = valgrind_request(on_valgrind) != 0;
  return under_valgrind;
}

/// Not inlined, so that the code between two calls is always the same.
SPEEDWELL_APART inline void toggle_counting() { valgrind_request(toggle); }

/// Two sections are counted: an empty one, and the one up to `end_counting`.
inline void begin_counting() {
  toggle_counting();
  toggle_counting();
  valgrind_request(dump_counts);
  toggle_counting();
}

inline void end_counting() {
  toggle_counting();
  valgrind_request(dump_counts);
}

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// The processor time of this thread. Reading it is a system call of about 1 µs, so it is read outside the
/// wall-clock measurement.
inline std::int64_t cpu_now_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// Barrier for the workers of a pass. A worker that fails breaks it, so that the others do not wait.
class Gate {
 public:
  explicit Gate(int workers) : workers_(workers) {}
  void pass() {
    if (workers_ == 1) return;
    const int round = round_.load();
    if (arrived_.fetch_add(1) + 1 == workers_) {
      arrived_.store(0);
      round_.fetch_add(1);
      return;
    }
    while (round_.load() == round && !broken_.load()) std::this_thread::yield();
    if (broken_.load()) leave("run", "Abandoned", "another worker failed");
  }
  void fail() { broken_.store(true); }

 private:
  const int workers_;
  std::atomic<int> arrived_{0}, round_{0};
  std::atomic<bool> broken_{false};
};

/// A further metric: an amount that is divided by the measured time, or a plain value.
struct Reading {
  std::string name, unit;
  Better better;
  bool per_second;
  double amount;
};

}  // namespace detail

/// The argument of a benchmark's function. One per worker and pass.
class Bench {
 public:
  Bench(const Case& benchmark_case, std::int64_t iterations, int worker, int workers, detail::Gate& gate)
      : case_(benchmark_case), iterations_(iterations), worker_(worker), workers_(workers), gate_(gate) {}

  /// The value of a parameter: get<int>("bytes"), get<std::string>("kind").
  template <class T>
  T get(const std::string& name) const {
    return case_.get<T>(name);
  }

  /// The number of iterations of this pass and worker.
  std::int64_t iterations() const { return iterations_; }
  /// The index of this worker, from 0, and the number of workers.
  int worker() const { return worker_; }
  int workers() const { return workers_; }

  /// Excludes what follows, up to resume(), from the measured time. Each call reads the clock, which takes
  /// some 50 ns: suitable for iterations of microseconds.
  void pause() {
    paused_at_ns_ = detail::now_ns();
    if (detail::is_counted()) detail::toggle_counting();
  }
  void resume() {
    if (detail::is_counted()) detail::toggle_counting();
    paused_ns_ += detail::now_ns() - paused_at_ns_;
  }

  /// Adds to a time that replaces the measured time of the loop: for work that is timed elsewhere.
  template <class Rep, class Period>
  void took(std::chrono::duration<Rep, Period> time) {
    is_manual_ = true;
    manual_ns_ += std::chrono::duration<double, std::nano>(time).count();
  }

  /// How much the loop processed in this pass, shown per second. Call it after the loop.
  template <class N>
  void bytes(N amount) {
    rate("bytes", static_cast<double>(amount), "B/s");
  }
  template <class N>
  void items(N amount) {
    rate("items", static_cast<double>(amount), "1/s");
  }
  void rate(std::string name, double amount, std::string unit = "1/s") {
    readings.push_back({std::move(name), std::move(unit), higher, true, amount});
  }
  /// Any other metric, as a plain value. The result is the mean over the workers.
  void metric(std::string name, double value, std::string unit, Better better) {
    readings.push_back({std::move(name), std::move(unit), better, false, value});
  }

  /// The computed answer. Speedwell compares it between variants, so it must not depend on the number of
  /// iterations.
  template <class T>
  void check(const T& answer) {
    answer_ = detail::text_of(answer);
    has_answer = true;
  }

  /// Ends the benchmark because it cannot run here, which is not a failure; fail() reports one.
  [[noreturn]] void skip(const std::string& reason) const { detail::leave("run", "Skipped", reason); }
  [[noreturn]] void fail(const std::string& reason) const { detail::leave("run", "Failed", reason); }

  // The loop: `for (auto _ : bench)`. A counter in a register, decremented and compared.
  struct __attribute__((unused)) Turn {};
  struct End {};
  class Turns {
   public:
    explicit Turns(Bench* bench) : left_(bench->iterations_), bench_(bench) {}
    inline __attribute__((always_inline)) Turn operator*() const { return Turn(); }
    inline __attribute__((always_inline)) Turns& operator++() {
      --left_;
      return *this;
    }
    inline __attribute__((always_inline)) bool operator!=(End) {
      // Emits nothing; without it an empty loop would be removed together with its time.
      asm volatile("");
      if (__builtin_expect(left_ != 0, 1)) return true;
      bench_->stop();
      return false;
    }

   private:
    std::int64_t left_;
    Bench* const bench_;
  };
  // Reads the clock last, after all other setup.
  inline __attribute__((always_inline)) Turns begin() {
    Turns turns(this);
    start();
    return turns;
  }
  End end() const { return End(); }

  // For the measuring code.
  std::int64_t begun_ns = 0, ended_ns = 0;
  int loops = 0;
  bool has_answer = false;
  std::vector<detail::Reading> readings;
  const std::string& answer() const { return answer_; }
  bool is_manual() const { return is_manual_; }
  double manual_ns() const { return manual_ns_; }
  std::int64_t paused_ns() const { return paused_ns_; }
  /// The processor time of the loop; -1 if the loop was paused or timed manually.
  std::int64_t cpu_ns() const { return is_manual_ || paused_ns_ ? -1 : ended_cpu_ns_ - begun_cpu_ns_; }

 private:
  __attribute__((noinline)) void start() {
    if (++loops > 1) detail::leave("run", "SecondLoop", "the benchmark looped over bench twice");
    gate_.pass();
    paused_ns_ = 0;
    begun_cpu_ns_ = detail::cpu_now_ns();
    begun_ns = detail::now_ns();
    if (detail::is_counted()) detail::begin_counting();
  }
  __attribute__((noinline)) void stop() {
    if (detail::is_counted()) detail::end_counting();
    ended_ns = detail::now_ns();
    ended_cpu_ns_ = detail::cpu_now_ns();
    gate_.pass();
  }

  const Case& case_;
  const std::int64_t iterations_;
  const int worker_, workers_;
  detail::Gate& gate_;
  std::int64_t paused_at_ns_ = 0, paused_ns_ = 0;
  std::int64_t begun_cpu_ns_ = 0, ended_cpu_ns_ = 0;
  double manual_ns_ = 0;
  bool is_manual_ = false;
  std::string answer_;
};

namespace detail {

/// A declared benchmark.
struct Definition {
  std::string name;
  std::function<void(Bench&)> body;
  std::vector<Parameter> parameters;
  std::function<void(const Case&)> setup, teardown, before_sample, after_sample;
  std::function<bool(const Case&)> only;

  void apply(Parameter made) { parameters.push_back(std::move(made)); }
  void apply(Setup made) { setup = std::move(made.call); }
  void apply(Teardown made) { teardown = std::move(made.call); }
  void apply(BeforeSample made) { before_sample = std::move(made.call); }
  void apply(AfterSample made) { after_sample = std::move(made.call); }
  void apply(Only made) { only = std::move(made.call); }
};

inline std::deque<Definition>& definitions() {
  static std::deque<Definition> all;
  return all;
}

}  // namespace detail

/// Declares a benchmark whose function has no name: a lambda, or an instance of a template.
template <class F, class... Options>
bool add(std::string name, F body, Options... options) {
  // The macro passes all its arguments as text; the first one is the name, and becomes one word of a case's id.
  name = name.substr(0, name.find(','));
  for (char& letter : name) {
    if (letter == ' ' || letter == '/') letter = '_';
  }
  detail::Definition made;
  made.name = std::move(name);
  made.body = body;
  (made.apply(std::move(options)), ...);
  detail::definitions().push_back(std::move(made));
  return true;
}

#define SPEEDWELL_FIRST_OF(first, ...) first
#define SPEEDWELL_JOIN_NAMES(a, b) a##b
#define SPEEDWELL_JOIN(a, b) SPEEDWELL_JOIN_NAMES(a, b)

/// SPEEDWELL_BENCHMARK(name, options...) { body }: declares the function `name(speedwell::Bench& bench)`.
#define SPEEDWELL_BENCHMARK(...)                                                                         \
  static void SPEEDWELL_FIRST_OF(__VA_ARGS__, )(::speedwell::Bench & bench);                             \
  [[maybe_unused]] static const bool SPEEDWELL_JOIN(speedwell_has_, SPEEDWELL_FIRST_OF(__VA_ARGS__, )) = \
      ::speedwell::add(#__VA_ARGS__, __VA_ARGS__);                                                       \
  static void SPEEDWELL_FIRST_OF(__VA_ARGS__, )([[maybe_unused]] ::speedwell::Bench & bench)

template <class T>
T Case::get(const std::string& name) const {
  const auto& parameters = definition->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name != name) continue;
    const std::string& text = values[i];
    if constexpr (std::is_same_v<T, bool>) return text == "true";
    else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(std::strtod(text.c_str(), nullptr));
    else if constexpr (std::is_unsigned_v<T>) return static_cast<T>(std::strtoull(text.c_str(), nullptr, 10));
    else if constexpr (std::is_arithmetic_v<T>)
      return static_cast<T>(std::strtoll(text.c_str(), nullptr, 10));
    else return T(text);
  }
  detail::leave("run", "UnknownParameter", detail::joined({"the benchmark has no parameter '", name, "'"}));
}

// ---- How a pass is measured ----

namespace detail {

/// Executes `code`; an exception becomes an error of `stage`.
template <class F>
std::unique_ptr<Error> guarded(const char* stage, F&& code) {
#if defined(__cpp_exceptions)
  try {
    code();
  } catch (const Leave& left) {
    return std::make_unique<Error>(left.error);
  } catch (const std::exception& thrown) {
    std::string type = "std::exception";
#if defined(__GXX_RTTI)
    int status = 0;
    char* name = abi::__cxa_demangle(typeid(thrown).name(), nullptr, nullptr, &status);
    if (name) type = name;
    std::free(name);
#endif
    return std::make_unique<Error>(Error{stage, type, thrown.what()});
  } catch (...) {
    return std::make_unique<Error>(Error{stage, "unknown", "the thrown value is not a std::exception"});
  }
#else
  (void)stage;
  code();
#endif
  return nullptr;
}

/// One call of the function by every worker.
struct Pass {
  std::int64_t elapsed_ns = 0, cpu_ns = 0;
  std::vector<Reading> readings;
  std::string answer;
  bool has_answer = false;
};

/// The time from the common start to the last worker's end, without its pauses; or the manual time.
inline std::int64_t elapsed_ns(const std::deque<Bench>& workers) {
  std::int64_t begun_ns = workers[0].begun_ns, longest_ns = 0;
  for (const Bench& bench : workers) begun_ns = std::min(begun_ns, bench.begun_ns);
  for (const Bench& bench : workers) {
    const auto own_ns = bench.is_manual() ? static_cast<std::int64_t>(bench.manual_ns() + .5)
                                          : bench.ended_ns - begun_ns - bench.paused_ns();
    longest_ns = std::max(longest_ns, own_ns);
  }
  return longest_ns;
}

/// The total processor time of all workers; -1 if that of one is unknown.
inline std::int64_t cpu_ns(const std::deque<Bench>& workers) {
  std::int64_t sum_ns = 0;
  for (const Bench& bench : workers) {
    if (bench.cpu_ns() < 0) return -1;
    sum_ns += bench.cpu_ns();
  }
  return sum_ns;
}

inline Pass combine(std::deque<Bench>& workers) {
  Pass pass;
  for (Bench& bench : workers) {
    if (bench.loops == 0) leave("run", "NoLoop", "the benchmark did not loop over bench");
    if (bench.ended_ns == 0) leave("run", "LeftLoop", "the benchmark left its loop before the end");
    for (Reading& reading : bench.readings) {
      const double share = reading.per_second ? 1.0 : 1.0 / static_cast<double>(workers.size());
      auto combined = std::find_if(pass.readings.begin(), pass.readings.end(),
                                   [&](const Reading& one) { return one.name == reading.name; });
      if (combined == pass.readings.end()) {
        combined = pass.readings.insert(combined, reading);
        combined->amount = 0;
      }
      combined->amount += reading.amount * share;
    }
    if (bench.has_answer && !pass.has_answer) {
      pass.has_answer = true;
      pass.answer = bench.answer();
    }
  }
  pass.elapsed_ns = elapsed_ns(workers);
  pass.cpu_ns = cpu_ns(workers);
  for (Reading& reading : pass.readings) {
    if (reading.per_second)
      reading.amount /= static_cast<double>(std::max<std::int64_t>(pass.elapsed_ns, 1)) / 1e9;
  }
  return pass;
}

inline int workers_of(const Case& benchmark_case) {
  for (std::size_t i = 0; i < benchmark_case.values.size(); ++i) {
    if (benchmark_case.definition->parameters[i].name == "concurrency")
      return std::max(1, benchmark_case.get<int>("concurrency"));
  }
  return 1;
}

/// Calls the function once in every worker, each with this many iterations.
inline Pass one_pass(const Case& benchmark_case, std::int64_t iterations) {
  const Definition& definition = *benchmark_case.definition;
  const int count = workers_of(benchmark_case);
  if (definition.before_sample) definition.before_sample(benchmark_case);
  Gate gate(count);
  std::deque<Bench> workers;
  for (int worker = 0; worker < count; ++worker)
    workers.emplace_back(benchmark_case, iterations, worker, count, gate);
  if (count == 1) {
    // Without a thread: a process that has started one uses more synchronization ever after.
    definition.body(workers[0]);
  } else {
    std::vector<std::unique_ptr<Error>> errors(workers.size());
    std::vector<std::thread> threads;
    for (int worker = 0; worker < count; ++worker) {
      threads.emplace_back([&, worker] {
        errors[worker] = guarded("run", [&] { definition.body(workers[worker]); });
        if (errors[worker]) gate.fail();
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Report the first worker that failed by itself, not one that was abandoned.
    for (bool abandoned : {false, true}) {
      for (const auto& error : errors) {
        if (error && (error->type == "Abandoned") == abandoned) leave(*error);
      }
    }
  }
  Pass pass = combine(workers);
  if (definition.after_sample) definition.after_sample(benchmark_case);
  return pass;
}

/// Parameters of a run. If `iterations` is 0, it is chosen so that a sample takes `sample_ns`.
struct Order {
  int samples = 5;
  std::int64_t sample_ns = 50'000'000, warmup_ns = 100'000'000, iterations = 0;
  /// Samples between runs of the reference loop; 0: never.
  std::int64_t reference = 0;
};

/// The reference loop: constant work, so that changes of its time are due to the machine.
inline std::int64_t reference_loop_ns(std::int64_t turns) {
  const std::int64_t begin_ns = cpu_now_ns();
  std::uint64_t state = 88172645463325252u;
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  keep(state);
  return cpu_now_ns() - begin_ns;
}

/// Returns how many turns of the reference loop take about 200 microseconds.
inline std::int64_t reference_turns() {
  std::int64_t turns = 1000;
  while (reference_loop_ns(turns) < 200'000) turns *= 2;
  return turns;
}

struct Figures {
  std::vector<std::int64_t> elapsed_ns, iterations, cpu_ns, reference_ns;
  std::map<std::string, std::pair<Reading, std::vector<double>>> metrics;
  std::string answer;
  bool has_answer = false;
};

/// Takes the samples of one case. Calls `enough` between passes to see whether to end early.
class Sampler {
 public:
  Sampler(const Case& benchmark_case, Order order, std::function<bool()> enough)
      : case_(benchmark_case), order_(order), enough_(std::move(enough)) {}

  void take(Figures& figures) {
    std::int64_t count = warm_up();
    const std::int64_t turns = order_.reference ? reference_turns() : 0;
    for (int sample = 0; sample < order_.samples && !enough_(); ++sample) {
      Pass pass = one_pass(case_, count);
      keep_figures(figures, pass, count);
      if (turns && (sample + 1) % order_.reference == 0) figures.reference_ns.push_back(reference_loop_ns(turns));
      // Code may become slower or faster after the warm-up.
      const double share = aim(count, pass.elapsed_ns);
      if (order_.iterations == 0 && (share > 2 || share < .5)) count = scaled(count, share);
    }
  }

 private:
  static constexpr std::int64_t most = 1'000'000'000'000;

  static std::int64_t scaled(std::int64_t count, double factor) {
    const double wanted = static_cast<double>(count) * factor;
    return wanted >= static_cast<double>(most) ? most
                                               : std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
  }

  /// By which factor a sample's iterations should exceed those of a pass that had `count`. Uses the
  /// fastest of the last three passes, because a busy machine only makes passes longer.
  double aim(std::int64_t count, std::int64_t elapsed_ns) {
    recent_[pass_++ % 3] =
        static_cast<double>(std::max<std::int64_t>(elapsed_ns, 1)) / static_cast<double>(count);
    const double least = *std::min_element(recent_, recent_ + std::min(pass_, 3));
    return static_cast<double>(order_.sample_ns) / (least * static_cast<double>(count));
  }

  /// Finds the number of iterations during the warm-up: grows it tenfold while far from the target time, then
  /// estimates. A pass may take long although little of it is measured.
  std::int64_t warm_up() {
    const std::int64_t begin_ns = now_ns();
    const auto spent_ns = [&] { return now_ns() - begin_ns; };
    std::int64_t count = order_.iterations ? order_.iterations : 1;
    bool found = order_.iterations != 0;
    while (!enough_() && (!found || spent_ns() < order_.warmup_ns)) {
      const std::int64_t pass_ns = now_ns();
      const double share = aim(count, one_pass(case_, count).elapsed_ns);
      if (order_.iterations) continue;
      found = found || share <= 1.25 || count == most || now_ns() - pass_ns > 5 * order_.sample_ns;
      if (!found) count = std::max(count + 1, scaled(count, std::min(10.0, 1.1 * share)));
      else count = scaled(count, std::min(10.0, share));
    }
    return count;
  }

  void keep_figures(Figures& figures, const Pass& pass, std::int64_t count) {
    figures.elapsed_ns.push_back(pass.elapsed_ns);
    figures.iterations.push_back(count);
    if (pass.cpu_ns >= 0) figures.cpu_ns.push_back(pass.cpu_ns);
    for (const Reading& reading : pass.readings) {
      auto& place = figures.metrics.try_emplace(reading.name, reading, std::vector<double>()).first->second;
      place.second.push_back(reading.amount);
    }
    if (!pass.has_answer) return;
    if (figures.has_answer && figures.answer != pass.answer) {
      leave("run", "AnswerChanged",
            joined({"the answer was '", figures.answer, "', then '", pass.answer,
                    "': it must not depend on the number of iterations"}));
    }
    figures.has_answer = true;
    figures.answer = pass.answer;
  }

  const Case& case_;
  const Order order_;
  const std::function<bool()> enough_;
  double recent_[3] = {};
  int pass_ = 0;
};

/// All allowed combinations; the last parameter varies fastest.
inline std::vector<Case> cases_of(const Definition& definition, const std::vector<Parameter>& parameters) {
  std::vector<Case> made(1);
  made[0].definition = &definition;
  for (const Parameter& parameter : parameters) {
    std::vector<Case> longer;
    for (const Case& begun : made) {
      for (const std::string& value : parameter.values) {
        longer.push_back(begun);
        longer.back().values.push_back(value);
      }
    }
    made = std::move(longer);
  }
  if (definition.only) {
    made.erase(
        std::remove_if(made.begin(), made.end(), [&](const Case& one) { return !definition.only(one); }),
        made.end());
  }
  return made;
}

/// Normalizes `text` as a value of this type; false if it is invalid.
inline bool canonical(const char* type, std::string& text) {
  if (!std::strcmp(type, "text")) return true;
  if (!std::strcmp(type, "bool")) return text == "true" || text == "false";
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(number - number == 0)) return false;
  if (!std::strcmp(type, "int")) {
    const std::int64_t integer = std::strtoll(text.c_str(), &end, 10);
    if (*end == 0) return true;
    if (number != static_cast<double>(static_cast<std::int64_t>(number))) return false;
    text = std::to_string(static_cast<std::int64_t>(number));
    (void)integer;
  }
  return true;
}

/// Replaces declared values by `name=value` arguments. Ignores arguments with other names.
inline std::vector<Parameter> with_words(std::vector<Parameter> parameters,
                                         const std::vector<std::string>& words) {
  for (Parameter& parameter : parameters) {
    std::vector<std::string> given;
    for (const std::string& word : words) {
      if (word.compare(0, parameter.name.size() + 1, joined({parameter.name, "="})) != 0) continue;
      std::string text = word.substr(parameter.name.size() + 1);
      if (!canonical(parameter.type, text))
        leave("protocol", "BadArgument", joined({"bad argument: ", word}));
      given.push_back(text);
    }
    if (!given.empty()) parameter.values = given;
  }
  return parameters;
}

// ---- The protocol ----

SPEEDWELL_APART inline std::string escaped(std::string_view text, bool in_list) {
  std::string made;
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f || letter == '%' || (in_list && letter == ',')) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%%%02X", code);
      made += hex;
    } else {
      made += letter;
    }
  }
  return made;
}

SPEEDWELL_APART inline std::string unescaped(const std::string& text) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_hex = [&](std::size_t place) {
      return place < text.size() && std::isxdigit(static_cast<unsigned char>(text[place]));
    };
    if (text[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      made += static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      made += text[i];
    }
  }
  return made;
}

SPEEDWELL_APART inline std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(by, begin)) != std::string::npos; begin = end + 1) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// A command; its values are still escaped.
struct Command {
  std::string verb;
  std::vector<std::pair<std::string, std::string>> fields;

  explicit Command(const std::string& line) {
    for (const std::string& word : split(line, '\t')) {
      const std::size_t equals = word.find('=');
      if (verb.empty()) verb = word;
      else if (equals != std::string::npos)
        fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  SPEEDWELL_APART const std::string* raw(std::string_view key) const {
    for (const auto& field : fields) {
      if (field.first == key) return &field.second;
    }
    return nullptr;
  }
  SPEEDWELL_APART std::string text(std::string_view key) const {
    const std::string* value = raw(key);
    return value ? unescaped(*value) : std::string();
  }
  SPEEDWELL_APART std::int64_t number(std::string_view key, std::int64_t otherwise) const {
    const std::string* value = raw(key);
    return value ? std::strtoll(value->c_str(), nullptr, 10) : otherwise;
  }
  SPEEDWELL_APART std::vector<std::string> list(std::string_view key) const {
    const std::string value = raw(key) ? *raw(key) : std::string();
    if (value.empty()) return {};
    std::vector<std::string> items = split(value, ',');
    for (std::string& item : items) item = unescaped(item);
    return items;
  }
};

/// An event under construction. Lists that would exceed the line limit are split over several lines.
class Event {
 public:
  explicit Event(const std::string& verb, const Command& cause) : head_(verb) {
    if (const std::string* id = cause.raw("id")) head_ += "\tid=" + *id;
  }
  SPEEDWELL_APART Event& with(std::string_view key, std::string_view value) {
    head_ += joined({"\t", key, "=", escaped(value, false)});
    return *this;
  }
  SPEEDWELL_APART Event& with(std::string_view key, std::int64_t value) {
    return with(key, std::to_string(value));
  }
  template <class T>
  SPEEDWELL_APART Event& list(std::string_view key, const std::vector<T>& items) {
    lists_.push_back({std::string(key), {}});
    for (const T& item : items) lists_.back().second.push_back(escaped(text_of(item), true));
    return *this;
  }
  std::string lines() const {
    // Far below the line limit of 1 MiB.
    constexpr std::size_t budget = 200'000;
    std::vector<std::size_t> next(lists_.size(), 0);
    std::string all;
    for (bool more = true, first = true; more; first = false) {
      std::string line = head_;
      std::size_t used = 0;
      more = false;
      for (std::size_t i = 0; i < lists_.size(); ++i) {
        const auto& items = lists_[i].second;
        std::string text;
        const std::size_t begin = next[i];
        while (next[i] < items.size() && (used < budget)) {
          used += items[next[i]].size() + 1;
          text += (next[i] > begin ? "," : "") + items[next[i]];
          ++next[i];
        }
        if (next[i] > begin || (first && items.empty())) line += joined({"\t", lists_[i].first, "=", text});
        more = more || next[i] < items.size();
      }
      all += joined({line, more ? "\tmore=1\n" : "\n"});
    }
    return all;
  }

 private:
  std::string head_;
  std::vector<std::pair<std::string, std::vector<std::string>>> lists_;
};

/// The two descriptors. Polls for a stop or the end between passes. While user code runs, a signal
/// announces the end; no thread listens, because it would change what is measured.
class Channel {
 public:
  Channel(int commands, int events) : commands_(commands), events_(events) {
    for (int fd : {commands, events}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }

  void send(const Event& event) const {
    const std::string text = event.lines();
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::write(events_, text.data() + sent, text.size() - sent);
      if (count < 0 && errno != EINTR) return;
      if (count > 0) sent += static_cast<std::size_t>(count);
    }
  }

  /// Reads the next command; false at the end.
  bool next(std::string& line) {
    while (lines_.empty() && !ended_) read_more();
    if (lines_.empty()) return false;
    line = lines_.front();
    lines_.pop_front();
    return true;
  }

  /// Removes a pending `stop` from the input, if there is one.
  bool overtaking_stop(std::string& line) {
    while (ready(0) & POLLIN && !ended_) read_more();
    const auto found = std::find_if(lines_.begin(), lines_.end(),
                                    [](const std::string& one) { return Command(one).verb == "stop"; });
    if (found == lines_.end()) return false;
    line = *found;
    lines_.erase(found);
    return true;
  }

  /// Whether the other side has closed.
  bool closed() const { return ended_ || ready(0) & POLLHUP; }

  /// From now on, the end of the commands ends the process within a second even if user code hangs.
  void watch() const {
    watched() = commands_;
    struct sigaction action = {};
    action.sa_handler = [](int) {
      struct pollfd one = {watched(), 0, 0};
      if (poll(&one, 1, 0) < 1 || !(one.revents & POLLHUP)) return;
      struct sigaction leave = {};
      leave.sa_handler = [](int) { _exit(0); };
      sigaction(SIGALRM, &leave, nullptr);
      alarm(1);
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGIO, &action, nullptr);
    fcntl(commands_, F_SETOWN, getpid());
    fcntl(commands_, F_SETFL, fcntl(commands_, F_GETFL) | O_ASYNC);
  }

 private:
  static int& watched() {
    static int fd = -1;
    return fd;
  }

  int ready(int patience_ms) const {
    struct pollfd one = {commands_, POLLIN, 0};
    return poll(&one, 1, patience_ms) > 0 ? one.revents : 0;
  }

  void read_more() {
    char bytes[65536];
    const ssize_t count = ::read(commands_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) {
      ended_ = true;
      return;
    }
    partial_.append(bytes, static_cast<std::size_t>(count));
    std::vector<std::string> parts = split(partial_, '\n');
    partial_ = parts.back();
    lines_.insert(lines_.end(), parts.begin(), parts.end() - 1);
  }

  const int commands_, events_;
  std::deque<std::string> lines_;
  std::string partial_;
  bool ended_ = false;
};

inline std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

/// Returns warnings about compiler settings that distort results.
inline std::vector<std::string> warnings() {
  std::vector<std::string> all;
#if !defined(__OPTIMIZE__)
  all.push_back("the program was compiled without optimisation");
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  all.push_back("the program was compiled with a sanitizer");
#endif
  return all;
}

inline std::int64_t clock_step_ns() {
  std::int64_t smallest = INT64_MAX, before = now_ns();
  for (int read = 0; read < 32; ++read) {
    const std::int64_t now = now_ns();
    if (now > before) smallest = std::min(smallest, now - before);
    before = now;
  }
  return smallest == INT64_MAX ? 0 : smallest;
}

/// Returns the file without its folder and extension: benchmarks of `root/memory/copy.cpp` are
/// `memory/copy/NAME`.
inline std::string group_of(const std::string& path, std::string root) {
  if (!root.empty() && root.back() != '/') root += '/';
  std::string group =
      path.compare(0, root.size(), root) == 0 ? path.substr(root.size()) : path.substr(path.rfind('/') + 1);
  for (const char* ending : {".cpp", ".cc", ".cxx", ".C"}) {
    const std::size_t length = std::strlen(ending);
    if (group.size() > length && group.compare(group.size() - length, length, ending) == 0) {
      return group.substr(0, group.size() - length);
    }
  }
  return group;
}

/// One conversation with Speedwell.
class Session {
 public:
  Session(int commands, int events) : channel_(commands, events) {}

  void serve() {
    for (std::string line; !leaving_ && channel_.next(line);) {
      const Command command(line);
      if (command.verb == "quit") break;
      give_up = [&](const Error& error) {
        fail(command, command.text("job"), error);
        std::_Exit(0);
      };
      if (auto error = guarded("run", [&] { answer(command); })) fail(command, command.text("job"), *error);
    }
  }

 private:
  void answer(const Command& command) {
    if (command.verb == "hello") hello(command);
    else if (command.verb == "describe") describe(command);
    else if (command.verb == "load") load(command);
    else if (command.verb == "run") run(command);
    else if (command.verb == "stop")
      channel_.send(Event("stopped", command).with("job", command.text("job")));
    else if (command.verb == "unload") unload(command);
    else leave("protocol", "UnknownVerb", joined({"unknown verb '", command.verb, "'"}));
  }

  void fail(const Command& command, const std::string& job, const Error& error, bool fatal = false) {
    Event event("error", command);
    if (!job.empty()) event.with("job", job);
    channel_.send(event.with("stage", error.stage)
                      .with("class", error.type)
                      .with("msg", error.message)
                      .with("fatal", fatal ? 1 : 0));
  }

  void hello(const Command& command) {
    if (command.text("proto") != "1") {
      fail(command, "", {"protocol", "Version", "only protocol version 1 is supported"}, true);
      leaving_ = true;
      return;
    }
    Event ready("ready", command);
#if defined(__OPTIMIZE__)
    const char* build = "opt";
#else
    const char* build = "debug";
#endif
    ready.with("proto", 1)
        .with("lang", "cpp")
        .with("version", compiler())
        .with("flavor", "native")
        .with("build", build)
        .with("cpus", static_cast<std::int64_t>(std::thread::hardware_concurrency()))
        .with("clock", "steady_clock")
        .with("clock_res_ns", clock_step_ns())
        .with("caps", "once,timed,series,workers")
        .with("gauges", "");
    const std::vector<std::string> all = warnings();
    for (std::size_t i = 0; i < all.size(); ++i) ready.with(joined({"warn", std::to_string(i)}), all[i]);
    channel_.send(ready);
  }

  void describe(const Command& command) {
    const std::string path = command.text("path");
    if (path.empty()) leave("protocol", "MissingKey", "describe needs 'path'");
    const std::string group = group_of(path, command.text("root"));
    std::int64_t count = 0;
    for (const Definition& definition : definitions()) {
      const std::vector<Parameter> parameters = with_words(definition.parameters, command.list("args"));
      const std::string name = joined({group, "/", definition.name});
      Event benchmark("benchmark", command);
      benchmark.with("name", name).list("modes", std::vector<std::string>{"timed", "once"}).with("flags", "");
      for (const Parameter& one : parameters)
        benchmark.with(joined({"type.", one.name}), one.type).list(joined({"param.", one.name}), one.values);
      channel_.send(benchmark);
      for (const Case& one : cases_of(definition, parameters)) {
        std::vector<std::string> words;
        for (std::size_t i = 0; i < parameters.size(); ++i)
          words.push_back(joined({parameters[i].name, "=", one.values[i]}));
        channel_.send(Event("case", command).with("benchmark", name).list("args", words));
        ++count;
      }
    }
    channel_.send(Event("described", command)
                      .with("count", static_cast<std::int64_t>(definitions().size()))
                      .with("cases", count));
  }

  void load(const Command& command) {
    const std::string job = command.text("job"), form = command.text("form");
    if (job.empty()) leave("protocol", "MissingKey", "load needs 'job'");
    if (form != "case") leave("protocol", "Form", joined({"unsupported form '", form, "': expected 'case'"}));
    Case made;
    made.definition = &wanted(command);
    for (const Parameter& parameter : made.definition->parameters) {
      const std::string key = joined({"value.", parameter.name});
      std::string text = command.text(key);
      if (!command.raw(key))
        leave("protocol", "MissingValue", joined({"no value for '", parameter.name, "'"}));
      if (!canonical(parameter.type, text))
        leave("protocol", "BadArgument", joined({"bad argument: ", parameter.name, "=", text}));
      made.values.push_back(text);
    }
    if (made.definition->only && !made.definition->only(made))
      leave("compile", "NoCase", "the file's own filter rejects this case");
    jobs_[job] = made;
    channel_.send(Event("loaded", command)
                      .with("job", job)
                      .with("form", form)
                      .with("source", command.text("path"))
                      .with("arity", 1));
  }

  const Definition& wanted(const Command& command) const {
    const std::string name = command.text("benchmark"),
                      group = group_of(command.text("path"), command.text("root"));
    if (!command.raw("benchmark") && definitions().size() == 1) return definitions()[0];
    for (const Definition& definition : definitions()) {
      if (name == joined({group, "/", definition.name}) || name == definition.name) return definition;
    }
    leave("protocol", "UnknownBenchmark", joined({"the file has no benchmark '", name, "'"}));
  }

  void unload(const Command& command) {
    const std::string job = command.text("job");
    if (!jobs_.erase(job)) leave("protocol", "UnknownJob", joined({"no job '", job, "'"}));
    channel_.send(Event("unloaded", command).with("job", job));
  }

  void run(const Command& command) {
    const std::string mode = command.text("mode");
    if (mode != "once" && mode != "timed" && mode != "series")
      leave("protocol", "Mode", joined({"unsupported mode '", mode, "': expected 'timed', 'series' or 'once'"}));
    Order order;
    order.samples = static_cast<int>(command.number("samples", order.samples));
    order.sample_ns = command.number("sample_ns", order.sample_ns);
    order.warmup_ns = command.number("warmup_ns", order.warmup_ns);
    order.iterations = command.number("loop", 0);
    if (mode == "series") {
      order.warmup_ns = 0;
      order.reference = std::max<std::int64_t>(0, command.number("reference", 0));
    }
    if (mode == "once") order = {1, 0, 0, 1, 0};
    const std::vector<std::string> jobs = command.list("jobs");
    for (const std::string& job : jobs) {
      if (!jobs_.count(job)) leave("protocol", "UnknownJob", joined({"no job '", job, "'"}));
    }
    const std::int64_t begin_ns = now_ns();
    channel_.watch();
    for (const std::string& job : jobs) {
      run_job(command, job, order, mode == "once");
      if (leaving_) return;
    }
    channel_.send(Event("end", command)
                      .list("jobs", jobs)
                      .with("elapsed_ns", now_ns() - begin_ns)
                      .with("max_late_ns", 0));
  }

  /// Runs one case; reports its error as an event, so that the other jobs continue.
  void run_job(const Command& command, const std::string& job, Order order, bool once) {
    const Case& benchmark_case = jobs_[job];
    const Definition& definition = *benchmark_case.definition;
    give_up = [&](const Error& error) {
      fail(command, job, error);
      channel_.send(Event("end", command).with("jobs", job).with("elapsed_ns", 0).with("max_late_ns", 0));
      std::_Exit(0);
    };
    if (auto error = guarded("init", [&] {
          if (definition.setup) definition.setup(benchmark_case);
        }))
      return fail(command, job, *error);
    bool stopping = false;
    const auto enough = [&] {
      std::string line;
      leaving_ = leaving_ || channel_.closed();
      if (!leaving_ && channel_.overtaking_stop(line)) {
        stopping = true;
        channel_.send(Event("stopped", Command(line)).with("job", job));
      }
      return stopping || leaving_;
    };
    Figures figures;
    const auto failed = guarded("run", [&] { Sampler(benchmark_case, order, enough).take(figures); });
    if (!leaving_) {
      if (!figures.elapsed_ns.empty()) report(command, job, figures, once, workers_of(benchmark_case));
      if (failed) fail(command, job, *failed);
    }
    auto error = guarded("done", [&] {
      if (definition.teardown) definition.teardown(benchmark_case);
    });
    if (error && !leaving_) fail(command, job, *error);
  }

  void report(const Command& command, const std::string& job, const Figures& figures, bool once,
              int workers) {
    // Processor times that only some samples have cannot be matched to them.
    const bool has_cpu_ns = figures.cpu_ns.size() == figures.elapsed_ns.size();
    if (once) {
      const double iterations = static_cast<double>(figures.iterations[0]) * workers;
      const auto elapsed_ns = std::max<std::int64_t>(figures.elapsed_ns[0], 1);
      Event event = Event("once", command)
                        .with("job", job)
                        .with("iterations", static_cast<std::int64_t>(iterations))
                        .with("elapsed_ns", elapsed_ns)
                        .with("rate", text_of_number(iterations / (static_cast<double>(elapsed_ns) / 1e9)));
      if (has_cpu_ns) event.with("cpu_ns", figures.cpu_ns[0]);
      channel_.send(event);
    } else {
      std::vector<std::int64_t> loop = figures.iterations;
      if (std::equal(loop.begin() + 1, loop.end(), loop.begin())) loop.resize(1);
      Event event = Event("timed", command)
                        .with("job", job)
                        .list("loop", loop)
                        .with("workers", workers)
                        .list("ns", figures.elapsed_ns);
      if (has_cpu_ns) event.list("cpu_ns", figures.cpu_ns);
      if (!figures.reference_ns.empty()) event.list("reference_ns", figures.reference_ns);
      channel_.send(event);
    }
    for (const auto& entry : figures.metrics) {
      const Reading& reading = entry.second.first;
      channel_.send(Event("metric", command)
                        .with("job", job)
                        .with("name", reading.name)
                        .with("unit", reading.unit)
                        .with("better", reading.better == higher ? "higher" : "lower")
                        .list("value", entry.second.second));
    }
    if (figures.has_answer)
      channel_.send(Event("check", command).with("job", job).with("text", figures.answer));
  }

  Channel channel_;
  std::map<std::string, Case> jobs_;
  bool leaving_ = false;
};

// ---- The table of a program started by hand ----

/// Four digits and a suitable unit.
inline std::string shown(double value, const std::string& unit) {
  static const std::vector<std::pair<double, const char*>> times = {
      {1e9, " s"}, {1e6, " ms"}, {1e3, " us"}, {0, " ns"}};
  static const std::vector<std::pair<double, const char*>> rates = {
      {1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {0, " "}};
  const bool is_time = unit == "ns";
  char text[64];
  for (const auto& step : is_time ? times : rates) {
    if (value < step.first) continue;
    std::snprintf(text, sizeof text, "%.4g%s%s", step.first > 0 ? value / step.first : value, step.second,
                  is_time ? "" : unit.c_str());
    return text;
  }
  return joined({text_of_number(value), " ", unit});
}

inline std::string name_of(const Case& one) {
  std::string name = one.definition->name;
  for (std::size_t i = 0; i < one.values.size(); ++i)
    name += joined({" ", one.definition->parameters[i].name, "=", one.values[i]});
  return name;
}

/// Prints one line of the table; false if the case failed.
inline bool print_case(const Case& one, const Order& order) {
  Figures figures;
  std::printf("%-44s", name_of(one).c_str());
  std::fflush(stdout);
  give_up = [](const Error& error) {
    std::printf("  %s: %s\n", error.type.c_str(), error.message.c_str());
    std::fflush(stdout);
    std::_Exit(2);
  };
  auto failed = guarded("init", [&] {
    if (one.definition->setup) one.definition->setup(one);
  });
  if (!failed) failed = guarded("run", [&] { Sampler(one, order, [] { return false; }).take(figures); });
  auto undone = guarded("done", [&] {
    if (one.definition->teardown) one.definition->teardown(one);
  });
  if (!failed) failed = std::move(undone);
  if (failed) {
    std::printf("  %s: %s\n", failed->type.c_str(), failed->message.c_str());
    return failed->type == "Skipped";
  }
  std::vector<double> times;
  for (std::size_t i = 0; i < figures.elapsed_ns.size(); ++i) {
    times.push_back(static_cast<double>(figures.elapsed_ns[i]) /
                    static_cast<double>(figures.iterations[i]));
  }
  std::sort(times.begin(), times.end());
  std::printf("  %12s  %10s ... %-10s", shown(times[times.size() / 2], "ns").c_str(),
              shown(times.front(), "ns").c_str(), shown(times.back(), "ns").c_str());
  for (auto& entry : figures.metrics) {
    std::vector<double>& values = entry.second.second;
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    std::printf(
        "  %s %s", entry.first.c_str(),
        shown(values[values.size() / 2], entry.second.first.unit == "1/s" ? "/s" : entry.second.first.unit)
            .c_str());
  }
  std::printf("\n");
  return true;
}

constexpr const char* usage =
    "usage: [--list] [--samples=N] [--iterations=N] [--time=SECONDS] [--warmup=SECONDS] [BENCHMARK...] "
    "[NAME=VALUE...]\n";

/// Parses `--NAME=NUMBER`; false if the argument is something else.
inline bool option(const std::string& word, std::string_view name, double& number) {
  const std::string begin = joined({"--", name, "="});
  if (word.compare(0, begin.size(), begin) != 0) return false;
  char* end = nullptr;
  number = std::strtod(word.c_str() + begin.size(), &end);
  return *end == 0 && number >= 0;
}

/// `PROGRAM [OPTION...] [BENCHMARK...] [NAME=VALUE...]`.
inline int by_hand(const std::vector<std::string>& words) {
  std::vector<std::string> names, values;
  Order order;
  bool list = false;
  double number = 0;
  for (const std::string& word : words) {
    if (word == "--version")
      return std::printf("speedwell.hpp, protocol 1, compiled by %s\n", compiler().c_str()) < 0;
    if (word == "--list") list = true;
    else if (option(word, "samples", number) && number >= 1) order.samples = static_cast<int>(number);
    else if (option(word, "iterations", number) && number >= 1)
      order.iterations = static_cast<std::int64_t>(number);
    else if (option(word, "time", number)) order.sample_ns = static_cast<std::int64_t>(number * 1e9);
    else if (option(word, "warmup", number)) order.warmup_ns = static_cast<std::int64_t>(number * 1e9);
    else if (word.compare(0, 1, "-") == 0) return std::fprintf(stderr, "%s", usage), 2;
    else (word.find('=') == std::string::npos ? names : values).push_back(word);
  }
  bool good = true;
  if (!list) {
    for (const std::string& warning : warnings()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
    std::printf("%-44s  %12s  %s\n", "case", "time", "fastest ... slowest sample");
  }
  for (const Definition& definition : definitions()) {
    if (!names.empty() && std::find(names.begin(), names.end(), definition.name) == names.end()) continue;
    std::vector<Case> cases;
    if (auto wrong = guarded(
            "protocol", [&] { cases = cases_of(definition, with_words(definition.parameters, values)); })) {
      return std::fprintf(stderr, "%s\n", wrong->message.c_str()), 2;
    }
    for (const Case& one : cases) {
      if (list) std::printf("%s\n", name_of(one).c_str());
      else good = print_case(one, order) && good;
    }
  }
  if (!list)
    std::fprintf(stderr,
                 "hint: one process is one observation; 'speedwell run' starts many and estimates the "
                 "uncertainty\n");
  return good ? 0 : 2;
}

/// Lets tools detect, without starting the program, that it supports the protocol: an ELF note (System V
/// ABI, chapter 5) of the owner "Speedwell", whose content is the protocol's version.
struct Note {
  std::uint32_t name_bytes, content_bytes, type;
  char name[12];
  std::uint32_t version;
};
__attribute__((used, section(".note.speedwell"), aligned(4))) static const Note note = {10, 4, 1, "Speedwell",
                                                                                        1};

}  // namespace detail

/// Serves Speedwell if it started the program, otherwise measures and prints a table.
inline int main(int argc, char** argv) {
  const char* named = std::getenv("SPEEDWELL_FDS");
  int commands = -1, events = -1;
  if (!named) return detail::by_hand(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  if (std::sscanf(named, "%d,%d", &commands, &events) != 2) {
    std::fprintf(stderr, "SPEEDWELL_FDS must name two descriptors, such as '3,4'\n");
    return 2;
  }
  // Child processes of a benchmark must not inherit the variable and use the descriptors.
  unsetenv("SPEEDWELL_FDS");
  detail::Session(commands, events).serve();
  return 0;
}

}  // namespace speedwell

// A program with its own main defines SPEEDWELL_NO_MAIN and calls speedwell::main in it. The function is
// weak, so that several files of one program may include this header.
#ifndef SPEEDWELL_NO_MAIN
__attribute__((weak)) int main(int argc, char** argv) { return speedwell::main(argc, argv); }
#endif

#endif

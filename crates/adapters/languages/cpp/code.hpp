// code.hpp: one piece of C++ code in its own loop. The code generated around it includes this header and
// defines four functions; crates/adapters/languages/c/main.c, compiled once, does everything else.

#ifndef SPEEDWELL_CODE_HPP
#define SPEEDWELL_CODE_HPP

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>
#if defined(__GXX_RTTI)
#include <cxxabi.h>

#include <typeinfo>
#endif

#include "code.h"

namespace speedwell {

// Operand constraints for a scalar passed to an empty asm statement. gcc accepts a constant as it is;
// clang, given the choice, would use memory, which costs a store. Floating-point numbers have registers of
// their own.
#if defined(__clang__)
#define SPEEDWELL_WHOLE "r"
#else
#define SPEEDWELL_WHOLE "g"
#endif
#if defined(__x86_64__)
#define SPEEDWELL_FRACTION "x"
#elif defined(__aarch64__)
#define SPEEDWELL_FRACTION "w"
#else
#define SPEEDWELL_FRACTION "m"
#endif
#define SPEEDWELL_INLINE inline __attribute__((always_inline))

/// The value of a hook that is absent or returns nothing.
struct None {};
template <class T>
using Value = std::conditional_t<std::is_void_v<T>, None, std::decay_t<T>>;

template <class T>
constexpr bool in_register = std::is_scalar_v<T> && sizeof(T) <= sizeof(void*);
template <class T>
constexpr bool is_fraction = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// Forces the value to be computed, even if it is unused.
template <class T>
SPEEDWELL_INLINE void keep(const T& value) {
  if constexpr (is_fraction<T>) asm volatile("" : : SPEEDWELL_FRACTION(value));
  else if constexpr (in_register<T>) asm volatile("" : : SPEEDWELL_WHOLE(value));
  else asm volatile("" : : "r"(&value) : "memory");
}

/// Marks the value as possibly changed, so that everything computed from it is computed again.
template <class T>
SPEEDWELL_INLINE void change(T& value) {
  if constexpr (is_fraction<T>) asm volatile("" : "+" SPEEDWELL_FRACTION(value));
  else if constexpr (in_register<T>) asm volatile("" : "+r"(value));
  else if constexpr (!std::is_same_v<T, None>) asm volatile("" : : "r"(&value) : "memory");
}

/// Executes `code`; returns 1 if it threw.
template <class F>
int guarded(F&& code) {
#if defined(__cpp_exceptions)
  try {
    code();
  } catch (const std::exception& thrown) {
    const char* type = "std::exception";
#if defined(__GXX_RTTI)
    int status = 0;
    char* name = abi::__cxa_demangle(typeid(thrown).name(), nullptr, nullptr, &status);
    if (name) type = name;
#endif
    speedwell_fail(type, thrown.what(), 0);
#if defined(__GXX_RTTI)
    std::free(name);
#endif
    return 1;
  } catch (const char* thrown) {
    speedwell_fail("const char *", thrown, 0);
    return 1;
  } catch (...) {
    speedwell_fail("unknown", "the thrown value is not a std::exception", 0);
    return 1;
  }
#else
  code();
#endif
  return 0;
}

inline const char* compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

/// The four functions of the generated code in their loop. `Parts` has the types `Shared` and `State` and
/// the functions init, begin, run and done.
template <class Parts>
struct Built {
  using Shared = typename Parts::Shared;
  using State = typename Parts::State;

  static Shared*& shared() {
    static Shared* value = nullptr;
    return value;
  }

  static std::atomic<int>& workers() {
    static std::atomic<int> count{0};
    return count;
  }

  static int init() {
    return guarded([] {
      if constexpr (std::is_same_v<Shared, None>) {
        shared() = new None();
        Parts::init();
      } else {
        shared() = new Shared(Parts::init());
      }
    });
  }

  static int done() {
    if (!shared()) return 0;
    return guarded([] {
      Parts::done(*shared());
      // A worker whose code does not return still uses it.
      if (workers().load() == 0) delete std::exchange(shared(), nullptr);
    });
  }

  static int begin(void** state) {
    return guarded([state] {
      if constexpr (std::is_same_v<State, None>) {
        Parts::begin(*shared());
        *state = new None();
      } else {
        *state = new State(Parts::begin(*shared()));
      }
      ++workers();
    });
  }

  static void end(void* state) {
    guarded([state] { delete static_cast<State*>(state); });
    --workers();
  }

  static SPEEDWELL_INLINE void loop(Shared& shared, State& state, std::uint64_t left) {
    for (; left > 0; --left) {
      change(state);
      if constexpr (std::is_void_v<decltype(Parts::run(shared, state))>) {
        Parts::run(shared, state);
      } else {
        auto&& value = Parts::run(shared, state);
        keep(value);
      }
      // Force pending stores, and make the compiler read memory again.
      asm volatile("" : : "r"(&shared) : "memory");
    }
  }

  static int batch(void* place, std::uint64_t iterations) {
    Shared& value = *shared();
    State& held = *static_cast<State*>(place);
    return guarded([&] {
      if constexpr (in_register<State>) {
        State state = held;
        loop(value, state, iterations);
        held = state;
      } else {
        loop(value, held, iterations);
      }
    });
  }

  static void empty(std::uint64_t left) {
    for (; left > 0; --left) asm volatile("" : : : "memory");
  }
};

}  // namespace speedwell

#if defined(__OPTIMIZE__)
#define SPEEDWELL_OPTIMISED 1
#else
#define SPEEDWELL_OPTIMISED 0
#endif

#define SPEEDWELL_CODE_OF(Parts)                                                                          \
  extern const struct speedwell_code speedwell_code = {                                                   \
      "cpp",                            speedwell::compiler(),          SPEEDWELL_OPTIMISED,               \
      &speedwell::Built<Parts>::init,   &speedwell::Built<Parts>::done, &speedwell::Built<Parts>::begin,   \
      &speedwell::Built<Parts>::end,    &speedwell::Built<Parts>::batch, &speedwell::Built<Parts>::empty};

#endif

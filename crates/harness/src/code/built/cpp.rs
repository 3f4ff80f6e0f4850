//! C++: the code in four functions whose types the compiler finds (`code.hpp`).

use super::parts::{Part, Parts};
use super::sheet::{Marks, Sheet};

/// Every header that code may want without naming it.
const HEADERS: [(&str, &str); 44] = [
    (
        "algorithm",
        "sort stable_sort find find_if count count_if copy fill max min clamp reverse transform shuffle rotate unique remove lower_bound upper_bound binary_search equal_range nth_element partial_sort max_element min_element minmax all_of any_of none_of for_each swap_ranges generate make_heap push_heap pop_heap sort_heap equal search merge is_sorted next_permutation replace partition",
    ),
    ("any", "any any_cast"),
    ("array", "array to_array"),
    (
        "atomic",
        "atomic atomic_flag atomic_int atomic_bool memory_order_relaxed memory_order_acquire memory_order_release atomic_thread_fence",
    ),
    ("bitset", "bitset"),
    ("charconv", "to_chars from_chars"),
    (
        "chrono",
        "chrono steady_clock system_clock high_resolution_clock",
    ),
    (
        "cctype",
        "isalpha isdigit isspace isalnum toupper tolower isupper islower ispunct isxdigit",
    ),
    (
        "cmath",
        "sqrt cbrt sin cos tan asin acos atan atan2 exp exp2 log log2 log10 pow floor ceil round trunc fabs fmod hypot lround isnan isinf fma erf tgamma lgamma",
    ),
    ("complex", "complex"),
    ("condition_variable", "condition_variable"),
    ("cstdint", ""),
    ("cstdio", ""),
    ("cstdlib", ""),
    ("cstring", ""),
    ("ctime", "time clock localtime gmtime strftime mktime"),
    ("deque", "deque"),
    ("filesystem", "filesystem"),
    ("forward_list", "forward_list"),
    ("fstream", "ifstream ofstream fstream"),
    (
        "functional",
        "function bind hash plus minus greater less reference_wrapper ref cref invoke",
    ),
    ("future", "async future promise packaged_task"),
    (
        "iomanip",
        "setw setprecision setfill hex put_time get_time quoted",
    ),
    ("iostream", "cout cerr cin endl clog"),
    (
        "iterator",
        "back_inserter inserter ostream_iterator istream_iterator advance distance",
    ),
    ("limits", "numeric_limits"),
    ("list", "list"),
    ("map", "map multimap"),
    (
        "memory",
        "unique_ptr shared_ptr weak_ptr make_unique make_shared allocator addressof",
    ),
    (
        "mutex",
        "mutex lock_guard unique_lock scoped_lock recursive_mutex call_once once_flag",
    ),
    (
        "numeric",
        "accumulate iota reduce inner_product partial_sum gcd lcm",
    ),
    ("optional", "optional nullopt make_optional"),
    ("queue", "queue priority_queue"),
    (
        "random",
        "mt19937 mt19937_64 random_device uniform_int_distribution uniform_real_distribution normal_distribution minstd_rand default_random_engine",
    ),
    (
        "regex",
        "regex smatch cmatch regex_match regex_search regex_replace",
    ),
    ("set", "set multiset"),
    ("shared_mutex", "shared_mutex shared_lock"),
    ("sstream", "stringstream ostringstream istringstream"),
    ("stack", "stack"),
    (
        "stdexcept",
        "runtime_error logic_error invalid_argument out_of_range domain_error length_error range_error overflow_error",
    ),
    (
        "string",
        "string to_string stoi stol stoll stod stof getline wstring u32string",
    ),
    ("thread", "thread this_thread"),
    ("tuple", "tuple make_tuple tie apply"),
    ("vector", "vector"),
];

/// Further headers, for the words that are in no list above.
const MORE: [&str; 9] = [
    "string_view",
    "typeindex",
    "type_traits",
    "unordered_map",
    "unordered_set",
    "utility",
    "valarray",
    "variant",
    "unistd.h",
];

/// The source that holds the code. Headers take far longer to compile than most code, so those that it seems to
/// need are taken first, and `all` of them only when that was not enough.
pub fn source(parts: &Parts, all: bool) -> String {
    let mut sheet = Sheet::new("code.cpp", Marks::Hash);
    sheet.own("#include \"code.hpp\"\n#include <unistd.h>");
    for (header, words) in HEADERS {
        let named = |part: &&Part| {
            let mut words = words.split(' ');
            words.any(|word| !word.is_empty() && part.text.names(word))
        };
        if all || words.is_empty() || parts.all().iter().any(named) {
            sheet.own(&format!("#include <{header}>"));
        }
    }
    for header in MORE {
        let is_named = |part: &&Part| part.text.names(header);
        if all || parts.all().iter().any(is_named) {
            sheet.own(&format!("#include <{header}>"));
        }
    }
    for part in parts.all() {
        for (line, number) in &part.text.top {
            sheet.user(part.name, line, *number, "");
        }
    }
    sheet.own("using namespace std;\nstatic inline auto speedwell_init() {");
    hook(&mut sheet, &parts.init);
    sheet.own("using speedwell_shared = speedwell::Value<decltype(speedwell_init())>;");
    sheet.own("static inline auto speedwell_begin([[maybe_unused]] speedwell_shared& shared) {");
    hook(&mut sheet, &parts.init_worker);
    sheet.own("using speedwell_state = speedwell::Value<decltype(speedwell_begin(declval<speedwell_shared&>()))>;");
    // An expression may be a reference to something that would be dear to copy.
    let is_expression = parts.runner.text.before().trim().is_empty() && parts.runner.has_value();
    let result = if is_expression {
        "decltype(auto)"
    } else {
        "auto"
    };
    sheet.own(&format!(
        "SPEEDWELL_INLINE {result} speedwell_run([[maybe_unused]] speedwell_shared& shared, \
         [[maybe_unused]] speedwell_state& state) {{"
    ));
    hook(&mut sheet, &parts.runner);
    sheet.own("static inline auto speedwell_done([[maybe_unused]] speedwell_shared& shared) {");
    hook(&mut sheet, &parts.done);
    sheet.own(TABLE);
    sheet.text
}

const TABLE: &str = "
struct speedwell_parts {
  using Shared = speedwell_shared;
  using State = speedwell_state;
  static auto init() { return speedwell_init(); }
  static auto begin(Shared& shared) { return speedwell_begin(shared); }
  static SPEEDWELL_INLINE decltype(auto) run(Shared& shared, State& state) {
    return speedwell_run(shared, state);
  }
  static void done(Shared& shared) { speedwell_done(shared); }
};
SPEEDWELL_CODE_OF(speedwell_parts)
";

/// A function's body. A text that says `return` somewhere is taken as it is.
fn hook(sheet: &mut Sheet, part: &Part) {
    let text = &part.text;
    let is_single = text.before().trim().is_empty();
    if !part.has_value() || (text.returns() && !is_single) {
        sheet.user(part.name, &text.body, 1, ";\n}");
        return;
    }
    let (value, line) = text.value();
    if !is_single {
        sheet.user(part.name, text.before(), 1, "");
    }
    sheet.own("return (");
    sheet.user(part.name, value, line, ");\n}");
}

//! C: the code in one function, because only inside of functions gcc and clang tell the type of statements.

use super::parts::{Part, Parts};
use super::sheet::{Marks, Sheet};

/// The source that holds the code. Every text stands in it several times: to ask for its type, and to be
/// executed with or without a value.
pub fn source(parts: &Parts) -> String {
    let mut sheet = Sheet::new("code.c", Marks::Hash);
    sheet.own("#include \"prelude.h\"");
    for part in parts.all() {
        for (line, number) in &part.text.top {
            sheet.user(part.name, line, *number, "");
        }
    }
    sheet.own(
        "static __attribute__((noinline)) struct speedwell_finished speedwell_perform(enum speedwell_task speedwell_task, \
         void **speedwell_place, uint64_t speedwell_left) {",
    );
    is_void(&mut sheet, "speedwell_no_shared", &parts.init);
    sheet.own("static __typeof__(__builtin_choose_expr(speedwell_no_shared, 0, ");
    statements(&mut sheet, &parts.init, ")) shared;");
    is_void(&mut sheet, "speedwell_no_state", &parts.init_worker);
    sheet.own("typedef __typeof__(__builtin_choose_expr(speedwell_no_state, 0, ");
    statements(&mut sheet, &parts.init_worker, ")) speedwell_state;");
    sheet.own("switch (speedwell_task) {\ncase SPEEDWELL_INIT:");
    give(&mut sheet, "speedwell_no_shared", &parts.init, "shared");
    sheet.own("break;\ncase SPEEDWELL_BEGIN: {\nspeedwell_state *speedwell_own = malloc(sizeof *speedwell_own);");
    sheet.own("*speedwell_place = speedwell_own;");
    give(
        &mut sheet,
        "speedwell_no_state",
        &parts.init_worker,
        "*speedwell_own",
    );
    sheet.own("break;\n}\ncase SPEEDWELL_BATCH: {");
    batch(&mut sheet, parts);
    sheet.own("break;\n}\ncase SPEEDWELL_DONE:");
    sheet.user(parts.done.name, &block(&parts.done), 1, ";");
    sheet.own("break;\n}\nreturn (struct speedwell_finished){0};\n}");
    sheet.own(TABLE);
    sheet.text
}

/// The functions that the rest of the program knows. `setjmp` stands in none that has the code in it, because a
/// function that may return twice keeps little in registers.
const TABLE: &str = "
static __attribute__((noinline)) int speedwell_try(enum speedwell_task task, void **place, uint64_t left) {
  if (setjmp(speedwell_way_out)) return 1;
  speedwell_perform(task, place, left);
  return 0;
}
static int speedwell_init(void) { return speedwell_try(SPEEDWELL_INIT, 0, 0); }
static int speedwell_done(void) { return speedwell_try(SPEEDWELL_DONE, 0, 0); }
static int speedwell_begin(void **state) { return speedwell_try(SPEEDWELL_BEGIN, state, 0); }
static void speedwell_end(void *state) { free(state); }
static int speedwell_batch(void *state, uint64_t left) { return speedwell_try(SPEEDWELL_BATCH, &state, left); }
static void speedwell_empty(uint64_t left) {
  for (; left > 0; --left) SPEEDWELL_CLOBBER();
}
const struct speedwell_code speedwell_code = {
  \"c\", SPEEDWELL_COMPILER, SPEEDWELL_OPTIMISED, speedwell_init, speedwell_done,
  speedwell_begin, speedwell_end, speedwell_batch, speedwell_empty,
};
";

fn batch(sheet: &mut Sheet, parts: &Parts) {
    sheet.own("speedwell_state state = *(speedwell_state *)*speedwell_place;");
    is_void(sheet, "speedwell_no_value", &parts.runner);
    sheet.own("for (; speedwell_left > 0; --speedwell_left) {");
    if parts.init_worker.has_text() {
        sheet.own("state = SPEEDWELL_CHANGED(state);");
    }
    sheet.own("if (speedwell_no_value) {");
    sheet.user(parts.runner.name, &block(&parts.runner), 1, ";\n} else {");
    sheet.own("__auto_type speedwell_value = __builtin_choose_expr(speedwell_no_value, 0, ");
    statements(sheet, &parts.runner, ");");
    sheet.own("SPEEDWELL_KEEP(speedwell_value);\n}");
    sheet.own("__asm__ volatile(\"\" : \"+m\"(shared) : : \"memory\");\n}");
    sheet.own("*(speedwell_state *)*speedwell_place = state;");
}

/// Declares the constant `name`: whether a text has no value.
fn is_void(sheet: &mut Sheet, name: &str, part: &Part) {
    sheet.own(&format!(
        "enum {{ {name} = __builtin_types_compatible_p(__typeof__("
    ));
    statements(sheet, part, "), void) };");
}

/// Executes a text and puts its value, if it has one, into `place`.
fn give(sheet: &mut Sheet, is_void: &str, part: &Part, place: &str) {
    sheet.own(&format!("if ({is_void}) {{"));
    sheet.user(part.name, &block(part), 1, &format!(";\n}} else {place} ="));
    sheet.own(&format!("__builtin_choose_expr({is_void}, 0, "));
    statements(sheet, part, ");");
}

/// A text as an expression of GNU C, whose value is that of its last statement.
fn statements(sheet: &mut Sheet, part: &Part, end: &str) {
    sheet.own("({");
    sheet.user(part.name, &block(part), 1, &format!(";}}){end}"));
}

/// A text whose last `return` is left out, so that the value is that of the last expression.
fn block(part: &Part) -> String {
    format!("{}{}", part.text.before(), part.text.value().0)
}

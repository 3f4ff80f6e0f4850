/* Messages of docs/reference/protocol.md: growing buffers, lines in and out, fields, lists. */

struct text {
  char *bytes;
  size_t length, room;
};

static void *room_for(void *old, size_t bytes) {
  void *made = realloc(old, bytes ? bytes : 1);
  if (!made) {
    fputs("out of memory\n", stderr);
    _exit(70);
  }
  return made;
}

static void text_add(struct text *text, const char *bytes, size_t count) {
  if (text->length + count + 1 > text->room) {
    text->room = (text->length + count + 1) * 2;
    text->bytes = (char *)room_for(text->bytes, text->room);
  }
  memcpy(text->bytes + text->length, bytes, count);
  text->length += count;
  text->bytes[text->length] = 0;
}

static void text_say(struct text *text, const char *words) { text_add(text, words, strlen(words)); }

static void text_number(struct text *text, int64_t number) {
  char digits[32];
  snprintf(digits, sizeof digits, "%lld", (long long)number);
  text_say(text, digits);
}

static int hex_digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

/* Decodes in place; decoding never makes text longer. */
static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from; ++from) {
    const int high = *from == '%' ? hex_digit(from[1]) : -1;
    const int low = high >= 0 ? hex_digit(from[2]) : -1;
    if (low >= 0) {
      *to++ = (char)(high * 16 + low);
      from += 2;
    } else {
      *to++ = *from;
    }
  }
  *to = 0;
}

/* Returns the decoded value of a field of a line; NULL if absent. The caller frees it. */
static char *field(const char *line, const char *key) {
  const size_t length = strlen(key);
  for (const char *tab = strchr(line, '\t'); tab; tab = strchr(tab, '\t')) {
    ++tab;
    if (strncmp(tab, key, length) || tab[length] != '=') continue;
    const char *value = tab + length + 1;
    struct text copy = {NULL, 0, 0};
    text_add(&copy, value, strcspn(value, "\t"));
    unescape(copy.bytes);
    return copy.bytes;
  }
  return NULL;
}

static int64_t field_number(const char *line, const char *key, int64_t otherwise) {
  char *value = field(line, key);
  const int64_t number = value && *value ? strtoll(value, NULL, 10) : otherwise;
  free(value);
  return number;
}

static int field_is(const char *line, const char *key, const char *expected) {
  char *value = field(line, key);
  const int same = value && !strcmp(value, expected);
  free(value);
  return same;
}

static int verb_is(const char *line, const char *verb) {
  const size_t length = strlen(verb);
  return !strncmp(line, verb, length) && (line[length] == '\t' || line[length] == 0);
}

/* Appends `key=value` and escapes reserved characters of the value. */
static void put_text(struct text *event, const char *key, const char *value) {
  text_say(event, "\t");
  text_say(event, key);
  text_say(event, "=");
  for (; *value; ++value) {
    const unsigned char code = (unsigned char)*value;
    char hex[4];
    if (code < 0x20 || code == 0x7f || code == '%') {
      snprintf(hex, sizeof hex, "%%%02X", code);
      text_say(event, hex);
    } else {
      text_add(event, value, 1);
    }
  }
}

static void put_number(struct text *event, const char *key, int64_t value) {
  text_say(event, "\t");
  text_say(event, key);
  text_say(event, "=");
  text_number(event, value);
}

/* Starts the event that answers `line`. */
static struct text event_for(const char *verb, const char *line) {
  struct text event = {NULL, 0, 0};
  char *id = field(line, "id");
  text_say(&event, verb);
  if (id) put_text(&event, "id", id);
  free(id);
  return event;
}

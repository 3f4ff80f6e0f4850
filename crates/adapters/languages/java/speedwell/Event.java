package speedwell;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** An event under construction. */
final class Event {
  private static final char[] HEX = "0123456789ABCDEF".toCharArray();
  private final StringBuilder text = new StringBuilder();

  Event(String verb, Command cause) {
    text.append(verb);
    if (cause != null && cause.has("id")) {
      with("id", cause.text("id"));
    }
  }

  Event with(String key, Object value) {
    text.append('\t').append(key).append('=');
    String shown = String.valueOf(value);
    for (int i = 0; i < shown.length(); i++) {
      char letter = shown.charAt(i);
      if (letter < 0x20 || letter == 0x7f || letter == '%') {
        text.append('%').append(HEX[letter >> 4]).append(HEX[letter & 15]);
      } else {
        text.append(letter);
      }
    }
    return this;
  }

  Event list(String key, long[] numbers, int begin, int end) {
    text.append('\t').append(key).append('=');
    for (int i = begin; i < end; i++) {
      if (i > begin) {
        text.append(',');
      }
      text.append(numbers[i]);
    }
    return this;
  }

  Event list(String key, long[] numbers) {
    return list(key, numbers, 0, numbers.length);
  }

  /** Errors are ignored: the other side may have gone. */
  void send(FileOutputStream to) {
    try {
      to.write(text.append('\n').toString().getBytes(StandardCharsets.UTF_8));
    } catch (IOException error) {
      return;
    }
  }
}

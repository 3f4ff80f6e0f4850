package speedwell;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** A command; its values are still escaped. */
final class Command {
  final String verb;
  private final Map<String, String> fields = new HashMap<>();

  Command(String line) {
    String[] words = line.split("\t");
    verb = words[0];
    for (String word : words) {
      int equals = word.indexOf('=');
      if (equals >= 0) {
        fields.put(word.substring(0, equals), word.substring(equals + 1));
      }
    }
  }

  String text(String key) {
    return unescaped(fields.getOrDefault(key, ""));
  }

  boolean has(String key) {
    return fields.containsKey(key);
  }

  long number(String key, long otherwise) {
    try {
      return Long.parseLong(text(key));
    } catch (NumberFormatException error) {
      return otherwise;
    }
  }

  private static String unescaped(String text) {
    if (text.indexOf('%') < 0) {
      return text;
    }
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream made = new ByteArrayOutputStream();
    for (int i = 0; i < bytes.length; i++) {
      int high = bytes[i] == '%' && i + 2 < bytes.length ? Character.digit(bytes[i + 1], 16) : -1;
      int low = high >= 0 ? Character.digit(bytes[i + 2], 16) : -1;
      made.write(low >= 0 ? high * 16 + low : bytes[i]);
      i += low >= 0 ? 2 : 0;
    }
    return new String(made.toByteArray(), StandardCharsets.UTF_8);
  }
}
